// How many answers in parts there may be at once in this process, and of one account (before a stream or an export
// begins). Each holds a connection, a buffer and a query at a time for as long as its client likes; streams and exports
// have places of their own.
// A third of the places is for accounts that have none yet, one for each; of the others an account may hold half as
// many as are free, and LASTING_OF_ACCOUNT_MAX. So an account alone has its full number, those that come later find
// room however many the first ones hold, and no place is taken away from who has it. Keys that are bound to an agent
// have half of their account's together, so that its people can look.
// Failure: one too many is 503 with Retry-After, before anything is read.
import { ServiceError } from '../../common/errors.ts';
import { EXPORTS_MAX, LASTING_OF_ACCOUNT_MAX, STREAMS_MAX } from '../../common/limits.ts';
import type { Principal } from '../../registry/accounts/principal.ts';

const RETRY_AFTER_SECONDS = 5;
/** The share of all places that an account gets first. */
const FIRST_SHARE = 1 / 3;
/** The share of the other free places that it gets on top. */
const MORE_SHARE = 1 / 2;

type AccountSlots = { all: number; bound: number };

export class BodySlots {
  readonly #what: string;
  readonly #max: number;
  readonly #byAccount = new Map<string, AccountSlots>();
  #taken = 0;

  /** `what`: in the plural, for errors. */
  constructor(what: string, max: number) {
    this.#what = what;
    this.#max = max;
  }

  get taken(): number {
    return this.#taken;
  }

  /** The slot's return, to be called once. Throws ServiceError unavailable. */
  take({ account, agentId }: Pick<Principal, 'account' | 'agentId'>): () => void {
    const held = this.#byAccount.get(account) ?? { all: 0, bound: 0 };
    const own = agentId === null ? 0 : 1;
    if (own === 1 && held.bound >= LASTING_OF_ACCOUNT_MAX / 2)
      throw this.#tooMany(`Keys of this account that are bound to an agent have ${held.bound}`);
    if (held.all >= LASTING_OF_ACCOUNT_MAX) throw this.#tooMany(`This account has ${held.all}`);
    const free = this.#max - this.#taken;
    const most = Math.max((free - this.#max * FIRST_SHARE) * MORE_SHARE, free > 0 ? 1 : 0);
    if (held.all >= most) throw this.#tooMany(`This process has ${this.#taken}, of them this account ${held.all}`);
    held.all++;
    held.bound += own;
    this.#taken++;
    this.#byAccount.set(account, held);
    return () => {
      held.all--;
      held.bound -= own;
      this.#taken--;
      if (held.all === 0) this.#byAccount.delete(account);
    };
  }

  #tooMany(who: string): ServiceError {
    const message = `${who} ${this.#what} open, which is the most for now; end one, or come again.`;
    return new ServiceError('unavailable', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }
}

/** Makes the body slots of a process. */
export function bodySlots(): { streams: BodySlots; exports: BodySlots } {
  return { streams: new BodySlots('streams', STREAMS_MAX), exports: new BodySlots('exports', EXPORTS_MAX) };
}
