// Checks where an alert may deliver to (before an alert is kept; spec 2.4, decisions 7).
// E-mail: one plain addr-spec and nothing else, since mail libraries have been led astray by every other form (reliability M12).
// Webhooks and chat: an https URL without user info, whose host is not a private, loopback or link-local address in any
// spelling: the URL parser turns decimal, octal and hexadecimal forms into one, and of IPv6 only global unicast passes.
// Names are looked up, and their addresses checked again, at each connection by whoever delivers: a name proves nothing here.
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import type { Channel } from '../../schemas/common.ts';
import { unreachable } from '../errors.ts';

const MAIL_CHARACTERS_MAX = 254;
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+";
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const ADDR_SPEC = new RegExp(
  `^(${ATOM}(?:\\.${ATOM})*)@(?:${LABEL}\\.)+(?:[A-Za-z]{2,63}|[xX][nN]--[A-Za-z0-9-]{1,59})$`,
);
const LOCAL_PART_MAX = 64;

// biome-ignore format: a block a line
const REFUSED_IPV4: readonly [string, number][] = [
  ['0.0.0.0', 8], ['10.0.0.0', 8], ['100.64.0.0', 10], ['127.0.0.0', 8], ['169.254.0.0', 16], ['172.16.0.0', 12],
  ['192.0.0.0', 24], ['192.0.2.0', 24], ['192.88.99.0', 24], ['192.168.0.0', 16], ['198.18.0.0', 15],
  ['198.51.100.0', 24], ['203.0.113.0', 24], ['224.0.0.0', 4], ['240.0.0.0', 4],
];
/** Inside 2000::/3: protocol assignments with Teredo, documentation, 6to4. */
const REFUSED_IPV6: readonly [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
];

const refused = new BlockList();
for (const [net, prefix] of REFUSED_IPV4) refused.addSubnet(net, prefix, 'ipv4');
for (const [net, prefix] of REFUSED_IPV6) refused.addSubnet(net, prefix, 'ipv6');
const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');

/** What is wrong with the target, for the caller; undefined: nothing. `allowedHosts`: names the operator lets through. */
export function targetProblem(channel: Channel, target: string, allowedHosts: ReadonlySet<string>): string | undefined {
  switch (channel) {
    case 'email':
      return isMailAddress(target) ? undefined : 'must be one plain e-mail address';
    case 'chat_app':
    case 'webhook':
      return urlProblem(target, allowedHosts);
    default:
      return unreachable(channel);
  }
}

/** For whoever connects: an address (not a name) that user-supplied targets may reach. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !refused.check(address, 'ipv4');
  return isIPv6(address) && globalUnicast.check(address, 'ipv6') && !refused.check(address, 'ipv6');
}

function isMailAddress(text: string): boolean {
  if (text.length > MAIL_CHARACTERS_MAX) return false;
  const local = ADDR_SPEC.exec(text)?.[1];
  return local !== undefined && local.length <= LOCAL_PART_MAX;
}

function urlProblem(text: string, allowedHosts: ReadonlySet<string>): string | undefined {
  // The parser drops line ends and reads backslashes as slashes: what it would mend is refused.
  if (/[^\x21-\x7e]|\\/.test(text) || !/^https:\/\/[^/]/i.test(text) || !URL.canParse(text))
    return 'must be an https URL';
  const url = new URL(text);
  if (url.username !== '' || url.password !== '' || /^https:\/\/[^/?#]*@/i.test(text))
    return 'must not hold a user name or password';
  const host = url.hostname.replace(/\.$/, '');
  if (host === '') return 'must be an https URL';
  if (allowedHosts.has(host)) return undefined;
  const address = host.startsWith('[') ? host.slice(1, -1) : host;
  if (isIPv4(address) || isIPv6(address))
    return isPublicAddress(address) ? undefined : 'must not name a private address';
  return isLocalName(host) ? 'must not name a private address' : undefined;
}

/** Names that are local by definition, and names without a dot, which only a local resolver can know. */
function isLocalName(host: string): boolean {
  return !host.includes('.') || /\.(localhost|local|internal|home\.arpa)$/.test(host);
}
