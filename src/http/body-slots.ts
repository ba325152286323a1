// How many answers in parts there may be at once, in this process and of one account (before a stream or an export
// begins). Each holds a connection, a buffer and a query at a time for as long as its client likes.
// Failure: one too many is 503 with Retry-After, before anything is read.
import { ServiceError } from '../common/errors.ts';
import { BODIES_IN_PARTS_ACCOUNT_MAX, BODIES_IN_PARTS_MAX } from '../common/limits.ts';

const RETRY_AFTER_SECONDS = 5;

export class BodySlots {
  readonly #byAccount = new Map<string, number>();
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** The slot's return, to be called once. Throws ServiceError unavailable. */
  take(account: string): () => void {
    const own = this.#byAccount.get(account) ?? 0;
    if (own >= BODIES_IN_PARTS_ACCOUNT_MAX) throw tooMany(`This account has ${own} streams and exports open`);
    if (this.#taken >= BODIES_IN_PARTS_MAX) throw tooMany(`This process has ${this.#taken} streams and exports open`);
    this.#byAccount.set(account, own + 1);
    this.#taken++;
    return () => {
      this.#taken--;
      const left = this.#byAccount.get(account)! - 1;
      if (left === 0) this.#byAccount.delete(account);
      else this.#byAccount.set(account, left);
    };
  }
}

function tooMany(what: string): ServiceError {
  return new ServiceError('unavailable', `${what}, which is the most; end one, or come again.`, {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}
