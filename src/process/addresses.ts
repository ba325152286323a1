// Checks the settings that hold addresses, before anything starts: of stores and the mail server, with a password in
// them (GATEHOUSE_REDIS_URL, …_CLICKHOUSE_URL, …_SMTP_URL), of the service itself (…_PUBLIC_URL), of pages, proxies and
// hosts of an intranet (…_CORS_ORIGINS, …_TRUSTED_PROXIES, …_EGRESS_ALLOWED_HOSTS). The programs that use them read
// them late, each in its own way, and repeat them in their complaints. Used by config.ts. Answers what is wrong as the
// end of a sentence; never a value that may hold a password, nor a part of it.
// Invariant: what is found sound here can be taken apart by `new URL` and has a user name and a password that decode.
// Failure: a complaint. A `/`, `#`, `?` or `@` in a password that is not percent-encoded ends the address early: it
// shows as a host or port that is none, or as an `@` behind the host.
import { isIP } from 'node:net';
import { isSentinelAddress, sentinelAddressOf } from '../common/sentinel-address.ts';

const ENCODE =
  'write / ? # @ : , % and blanks in a user name or password percent-encoded (/ is %2F, ? is %3F, # is %23, @ is %40, : is %3A, comma is %2C, % is %25)';

export type AddressKind = 'redis' | 'clickhouse' | 'smtp' | 'public' | 'origins' | 'networks' | 'hosts';

/** Those of which a setting may hold several, separated by commas. */
const LISTS: ReadonlySet<AddressKind> = new Set<AddressKind>(['redis', 'origins', 'networks', 'hosts']);

/** undefined: sound. */
export function complaintOf(kind: AddressKind, text: string): string | undefined {
  if (kind === 'redis' && text.startsWith('unix:')) return undefined;
  if (kind === 'redis' && isSentinelAddress(text)) return complaintOfSentinels(text);
  if (kind === 'origins' && text.trim() === '*') return undefined;
  const each = LISTS.has(kind) ? text.split(',').map((one) => one.trim()) : [text];
  for (const one of each) {
    const complaint = complaintOfOne(kind, one);
    if (complaint !== undefined) return complaint;
  }
  return undefined;
}

/** The parts of an address that may not be seen: the whole, and its password, as written and decoded. */
export function secretsOf(text: string): string[] {
  const found = [text];
  const sentinels = sentinelAddressOf(text);
  if (sentinels !== undefined) return sentinels.password === '' ? found : [...found, sentinels.password];
  for (const one of text.split(',')) {
    const url = URL.canParse(one) ? new URL(one) : undefined;
    if (url === undefined || url.password === '') continue;
    found.push(url.password);
    try {
      found.push(decodeURIComponent(url.password));
    } catch {
      // As written it is masked.
    }
  }
  return found;
}

function complaintOfOne(kind: AddressKind, text: string): string | undefined {
  if (kind === 'origins') return complaintOfOrigin(text);
  if (kind === 'networks') return complaintOfNetwork(text);
  if (kind === 'hosts') return complaintOfHost(text);
  if (!URL.canParse(text)) return `cannot be read as an address; ${ENCODE}`;
  const url = new URL(text);
  if (url.hostname === '' || /^[a-z]+:\/{3}/.test(text)) return 'names no host';
  if (`${url.pathname}${url.search}${url.hash}`.includes('@')) return `has an @ behind its host; ${ENCODE}`;
  for (const part of [url.username, url.password]) {
    try {
      decodeURIComponent(part);
    } catch {
      return `holds a % that begins no percent code; ${ENCODE}`;
    }
  }
  if (kind === 'public') return complaintOfPublic(url);
  if (url.hash !== '') return `holds a #; ${ENCODE}`;
  if (kind === 'redis' && !/^\/?[0-9]{0,5}$/.test(url.pathname))
    return 'may name a database by its number behind the host, and nothing else';
  if (kind === 'smtp' && url.pathname !== '' && url.pathname !== '/') return `holds a / behind its host; ${ENCODE}`;
  return undefined;
}

function complaintOfSentinels(text: string): string | undefined {
  try {
    if (sentinelAddressOf(text) !== undefined) return undefined;
  } catch {
    return `holds a % that begins no percent code; ${ENCODE}`;
  }
  return `cannot be read as redis+sentinel://host:port,host:port/master-name; ${ENCODE}`;
}

function complaintOfPublic({ username, password, search, hash }: URL): string | undefined {
  if (username !== '' || password !== '') return 'must hold no user name and no password: it is shown to everybody';
  return search === '' && hash === ''
    ? undefined
    : 'must end with the host, or with the path that a proxy puts before ours';
}

function complaintOfOrigin(text: string): string | undefined {
  const isOrigin = /^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text;
  if (isOrigin) return undefined;
  return `holds ${JSON.stringify(text)}, which is no origin as browsers send it (https://app.example.com, with a port if it has one, and nothing behind)`;
}

/** `address` or `address/bits`. */
function complaintOfNetwork(text: string): string | undefined {
  const [address, bits, ...more] = text.split('/');
  const version = isIP(address!);
  if (version === 0 || more.length > 0)
    return `holds ${JSON.stringify(text)}, which is neither an address nor a network (10.0.0.0/8)`;
  const most = version === 4 ? 32 : 128;
  if (bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= most)) return undefined;
  return `holds ${JSON.stringify(text)}, where a number from 0 to ${most} belongs behind the /`;
}

/** `host`, `host:port` or an IPv6 address. An empty place between commas is passed over. */
function complaintOfHost(text: string): string | undefined {
  const [host, port = '1', ...more] = text.split(':');
  const isPort = /^[0-9]{1,5}$/.test(port) && Number(port) > 0 && Number(port) <= 65_535;
  const isHost = /^[A-Za-z0-9._-]+$/.test(host!) && isPort && more.length === 0;
  if (text === '' || isIP(text) === 6 || isHost) return undefined;
  return `holds ${JSON.stringify(text)}, which is no host (hooks.corp, hooks.corp:9000 or an address, with commas between them)`;
}
