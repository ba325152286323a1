// The counters behind budget policies (between the decision on an event and its encoding; and where stored events are
// settled). They live in Redis, which all processes share; src/redis/spend.lua says what is kept and guarantees what
// is promised. All operations of a tick are sent together and cost one round trip.
// Invariant: an operation is done whole or not at all, and is answered once a replica has it, where there are any: what
// is reserved goes with an acknowledgement, and what is settled leaves its stream. The keys of an account have one tag.
// Failure: rejects with RedisUnavailable, whatever Redis did; what was reserved then ends by itself.
import { readAsset } from '../../process/assets.ts';
import { acknowledging, type Commands, sendTogether } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { Script } from '../../redis/script.ts';

/** Whose counters: of one policy, as far as what it counts, and how, has not changed. */
export type SpendOf = { policyId: string; form: string };
/** A rolling window, or when calendar windows begin; both as budget-window.ts has them. */
export type WindowArgument = { ms: number } | { starts: readonly number[] };
/** `life`: ms for which what is counted is kept. `shown`: what people see for the scope. */
type Scoped = WindowArgument & { scope: string; shown: string; life: number };

/**
 * `output`: tokens that it allows, -1: it does not say. `counted`: what does not fit is held as well. `tried`: what
 * does not fit is called all the same, and nothing is charged for it. `waits`: perhaps for an approval.
 */
export type Reserve = Scoped & {
  op: 'reserve';
  id: string;
  agent: string;
  who: string;
  model: string;
  limit: number;
  fixed: number;
  rate: number;
  output: number;
  expected: boolean;
  guess: number;
  hold: number;
  counted: boolean;
  tried?: true;
  waits?: true;
};
/** `target`: the prompt's id, '': it does not say. `amount`, `output` -1: unknown. */
type Use = {
  op: 'use';
  id: string;
  agent: string;
  who: string;
  model: string;
  target: string;
  amount: number;
  output: number;
};
/** An error, or a prompt that is blocked or not recorded. As of Use. */
type Release = Pick<Use, 'id' | 'agent' | 'who' | 'target'> & { op: 'release' };
/** The completion `id`, which had used `target`, is not recorded. */
type Unuse = Omit<Release, 'op'> & { op: 'unuse' };
/** `at`: epoch ms of its arrival; `place`: of its entry in the stream, the first two, and in the entry. */
export type Settle = Scoped & {
  op: 'settle';
  amount: number;
  target: string;
  part: number;
  at: number;
  limit: number;
  warn: readonly number[];
  stream: string;
  place: readonly [number, number, number];
};
type ReadSpend = WindowArgument & { op: 'read'; scope?: string; most: number };
/** `parts`: number and amount in turn. `from`: what `begin` answered; nothing is done where it was forgotten since. */
type Fill = Scoped & { op: 'fill'; parts: readonly number[]; from?: number };
export type SpendOperation =
  | Reserve
  | Use
  | Release
  | Unuse
  | Settle
  | ReadSpend
  | Fill
  | { op: 'begin'; life: number }
  | { op: 'known'; from?: number }
  | { op: 'forget' };

export type SpendRequest = { of: SpendOf; operation: SpendOperation };
/** The texts that the script answers with. */
export type SpendAnswer = readonly string[];

/** An operation takes some 40 us of Redis; others wait for all of a call. */
const OPERATIONS_AT_ONCE = 25;

export class SpendStore {
  readonly #redis: Commands;
  readonly #keys: Keys;
  readonly #script = new Script<string[][]>('spend', readAsset('src/redis/spend.lua'), {
    acknowledges: true,
  });

  constructor(redis: Commands, keys: Keys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Sends the calls that `send` makes in one round trip. */
  together(send: () => void): void {
    sendTogether(acknowledging(this.#redis), send);
  }

  /** In their order. */
  async run(account: string, requests: readonly SpendRequest[]): Promise<SpendAnswer[]> {
    const calls: Promise<string[][]>[] = [];
    this.together(() => {
      for (let at = 0; at < requests.length; at += OPERATIONS_AT_ONCE) {
        const some = requests.slice(at, at + OPERATIONS_AT_ONCE);
        const bases = some.map(({ of }) => this.#keys.budget(account, of.policyId, of.form));
        const operations = some.map(({ operation }) => JSON.stringify(this.#sent(account, operation)));
        calls.push(this.#script.run(this.#redis, bases, operations));
      }
    });
    return (await Promise.all(calls)).flat();
  }

  #sent(account: string, operation: SpendOperation): object {
    if (operation.op !== 'reserve' || operation.waits === undefined) return operation;
    return { ...operation, waiting: this.#keys.budgetsWaiting(account, operation.id) };
  }
}
