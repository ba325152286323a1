// How often one address may sign in, or call with an operator's key, in this process (in admission, before a key is
// looked up; of an account's key its own request limit counts as everywhere). A token bucket for each address; of IPv6
// for each network of 64 bits, which is the least that anyone is given.
// Invariant: at most ADDRESSES_MAX are remembered; of more the one that asked longest ago is forgotten.
// Failure: an address that is not known ('') has one bucket with all such; 429 with Retry-After.
import { isIPv6 } from 'node:net';
import { ServiceError } from '../../common/errors.ts';

/** Some 150 bytes each. */
const ADDRESSES_MAX = 10_000;
/** A whole office behind one address in the morning; tries of keys are hopeless at any rate. */
const PER_SECOND = 20;
const BURST = 200;

/** `ms`: when it was `tokens`, monotonic. */
type Bucket = { tokens: number; ms: number };

export class AddressLimit {
  readonly #buckets = new Map<string, Bucket>();

  /** `address`: in its usual spelling. Throws ServiceError rate_limited. */
  take(address: string, nowMs: number): void {
    const name = networkOf(address);
    const { tokens, ms } = this.#buckets.get(name) ?? { tokens: BURST, ms: nowMs };
    const filled = Math.min(BURST, tokens + ((nowMs - ms) * PER_SECOND) / 1000);
    // The last one to ask stands last.
    this.#buckets.delete(name);
    this.#buckets.set(name, { tokens: filled < 1 ? filled : filled - 1, ms: nowMs });
    if (this.#buckets.size > ADDRESSES_MAX) this.#buckets.delete(this.#buckets.keys().next().value!);
    if (filled < 1) throw tooMany(Math.ceil((1 - filled) / PER_SECOND));
  }

  /** For tests. */
  get size(): number {
    return this.#buckets.size;
  }
}

function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [before = '', after] = address.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const [head, tail] = [groups(before), groups(after ?? '')];
  const zeros = after === undefined ? 0 : 8 - head.length - tail.length;
  return [...head, ...Array.from({ length: zeros }, () => '0'), ...tail].slice(0, 4).join(':');
}

function tooMany(retryAfterSeconds: number): ServiceError {
  const message = `Too many sign-ins, or calls with an operator's key, from this address: ${PER_SECOND} a second, ${BURST} at once.`;
  const rateLimit = { perSecond: PER_SECOND, burst: BURST };
  return new ServiceError('rate_limited', message, { retryAfterSeconds, rateLimit, recorded: false });
}
