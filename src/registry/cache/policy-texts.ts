// What a front has read of the texts of policies (inside RegistryCache, before they are compiled): of a thousand
// policies of which one was changed one text is read again, and others have their turn meanwhile.
// Invariant: equal texts give the same policy, so that what was compiled of it is known to be the same; what an account
// has no longer is forgotten with its next change. Bounded: an account that was read longest ago goes first.
// Failure: the error of a text that cannot be read.
import type { Policy } from '../../../schemas/policy.ts';
import { inSlices } from '../../common/async.ts';
import { readPolicy } from '../policies/policy-record.ts';

export class PolicyTexts {
  readonly #max: number;
  readonly #accounts = new Map<string, ReadonlyMap<string, Policy>>();
  #size = 0;

  /** `max`: texts of all accounts. Those of the last account are kept in any case. */
  constructor(max: number) {
    this.#max = max;
  }

  /** `texts`: all policies of the account. */
  async activeOf(account: string, texts: readonly string[]): Promise<Policy[]> {
    const before = this.#accounts.get(account);
    const read = new Map(
      await inSlices(texts, (text): [string, Policy] => [text, before?.get(text) ?? readPolicy(text)]),
    );
    this.#keep(account, read);
    return [...read.values()].filter(({ status }) => status === 'active');
  }

  #keep(account: string, read: ReadonlyMap<string, Policy>): void {
    this.#forget(account);
    for (const [oldest] of this.#accounts) {
      if (this.#size + read.size <= this.#max) break;
      this.#forget(oldest);
    }
    this.#accounts.set(account, read);
    this.#size += read.size;
  }

  #forget(account: string): void {
    this.#size -= this.#accounts.get(account)?.size ?? 0;
    this.#accounts.delete(account);
  }
}
