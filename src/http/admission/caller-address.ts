// From which address a request came (for the audit log).
// It is that of the connection, unless this is a proxy of the operator's own (GATEHOUSE_TRUSTED_PROXIES): then
// X-Forwarded-For is read from its right end, where our own proxies write, up to the first address that is not one of
// them. Entries further left come from the caller, who may write anything.
// Invariant: never an address that neither the kernel nor a trusted proxy vouches for.
// Failure: an entry that is no address ends the walk; the last address that was vouched for stands.
import { BlockList, isIP, SocketAddress } from 'node:net';

/** Addresses a proxy may write; no chain of proxies is longer. */
const HOPS_MAX = 32;

export class CallerAddresses {
  readonly #trusted: BlockList | undefined;

  /**
   * `trusted`: addresses and networks, separated by commas, as addresses.ts finds them sound. undefined: no proxy is
   * trusted.
   */
  constructor(trusted: string | undefined) {
    if (trusted === undefined) return;
    this.#trusted = new BlockList();
    for (const network of trusted.split(',')) add(this.#trusted, network.trim());
  }

  /** `peer`: of the connection, as text; `forwardedFor`: '' where the header is absent. '' where nothing is known. */
  callerOf(peer: string, forwardedFor: string): string {
    let caller = plainAddress(peer);
    if (this.#trusted === undefined || forwardedFor === '') return caller;
    const hops = forwardedFor.split(',', HOPS_MAX + 1);
    if (hops.length > HOPS_MAX) return caller;
    for (let i = hops.length - 1; i >= 0 && this.#isTrusted(caller); i--) {
      const hop = plainAddress(withoutPort(hops[i]!.trim()));
      if (hop === '') break;
      caller = hop;
    }
    return caller;
  }

  /** Is the connection one of our own proxies? `peer`: as text. */
  trusts(peer: string): boolean {
    return this.#trusted !== undefined && this.#isTrusted(plainAddress(peer));
  }

  #isTrusted(address: string): boolean {
    const version = isIP(address);
    return version !== 0 && this.#trusted!.check(address, version === 4 ? 'ipv4' : 'ipv6');
  }
}

function add(list: BlockList, network: string): void {
  const [address, bits] = network.split('/');
  const family = isIP(address!) === 4 ? 'ipv4' : 'ipv6';
  if (bits === undefined) list.addAddress(address!, family);
  else list.addSubnet(address!, Number(bits), family);
}

/** `1.2.3.4:80` and `[::1]:80`, as some proxies write them. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]+)\](?::[0-9]+)?$/.exec(text);
  if (bracketed) return bracketed[1]!;
  return /^[0-9.]+:[0-9]+$/.test(text) ? text.slice(0, text.indexOf(':')) : text;
}

/** In its usual spelling; IPv4 inside IPv6 as IPv4. '' where it is none. */
function plainAddress(text: string): string {
  const version = isIP(text);
  if (version === 4) return text;
  if (version === 0) return '';
  const { address } = new SocketAddress({ address: text.replace(/%.*$/, ''), family: 'ipv6' });
  return /^::ffff:([0-9.]+)$/.exec(address)?.[1] ?? address;
}
