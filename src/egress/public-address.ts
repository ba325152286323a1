// Which addresses of the Internet a user's target may reach (for the check of a target, and again for each connection).
// Invariant: an address that is not certainly public is not: of IPv6 only global unicast passes, so that mapped,
// compatible and translated forms of IPv4 (`::ffff:127.0.0.1`, `::127.0.0.1`, NAT64) need no rule of their own; 6to4
// and Teredo, which carry an IPv4 address inside global unicast, are refused by range.
import { BlockList, isIPv4, isIPv6 } from 'node:net';

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

/** An address, not a name. One with a zone (`%eth0`) belongs to a link of ours and is not public. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !refused.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalUnicast.check(address, 'ipv6') && !refused.check(address, 'ipv6');
}
