// Which submissions the fronts have in hand: judged, or about to be, and not yet appended. Who makes something known by
// what is stored waits until those have ended that may not know of it (memories of sequences, counters of budgets).
// A front says four times a second since when at least it has its own in hand, by Redis's clock: each answer of Redis
// begins a generation of submissions, and what is said is when the oldest generation began that has any left.
// Invariant: what was taken in hand before `oldest` has been answered. None is appended later than APPENDED_MS_MAX
// after it was taken in hand, so a front that says nothing, dead, stopped or cut off, is waited for so long and no
// longer: where it cannot say anything it appends nothing either.
// Failure: Redis away: nothing is said, and who waits gets its error.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Periodic } from '../common/async.ts';
import { notRecorded } from '../common/errors.ts';
import { APPENDED_MS_MAX, IN_HAND_EVERY_MS, IN_HAND_SILENT_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Script } from '../redis/script.ts';

const say = new Script<[now: string, oldest: string]>(
  'submissions-in-hand',
  readAsset('src/redis/submissions-in-hand.lua'),
);
const POLL_MS = 50;
/** More are not begun while the oldest has some left. */
const GENERATIONS_MAX = 1_000;

type Stores = { redis: Commands; keys: Keys };

/** Submissions that were taken in hand between two answers of Redis. */
export class Generation {
  /** By Redis's clock, epoch ms; 0: not known. */
  readonly sinceMs: number;
  readonly #begunMs = performance.now();
  count = 0;

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs;
  }

  /** Throws ServiceError unavailable where what was taken in hand then must not be appended any more. */
  refuseLate(): void {
    if (performance.now() - this.#begunMs <= APPENDED_MS_MAX) return;
    throw notRecorded('It took too long until it could be recorded');
  }
}

export class SubmissionsInHand implements Part {
  readonly name = 'submissions in hand';
  readonly #stores: Stores;
  readonly #front = randomBytes(9).toString('base64url');
  readonly #says = new Periodic(IN_HAND_EVERY_MS, () => this.say().catch(() => undefined));
  /** The last is that of today. */
  #generations = [new Generation(0)];

  constructor(stores: Stores) {
    this.#stores = stores;
  }

  async start(): Promise<void> {
    this.#says.start();
    await this.#says.run();
  }

  async stop(): Promise<void> {
    await this.#says.stop();
    await this.#run('').catch(() => undefined);
  }

  begin(): Generation {
    const generation = this.#generations.at(-1)!;
    generation.count++;
    return generation;
  }

  end(generation: Generation): void {
    generation.count--;
  }

  async say(): Promise<void> {
    const { length } = this.#generations;
    const oldest = this.#generations.findIndex(({ count }, i) => count > 0 || i === length - 1);
    this.#generations.splice(0, oldest);
    const [nowMs] = await this.#run(String(this.#generations[0]!.sinceMs));
    if (this.#generations.length < GENERATIONS_MAX) this.#generations.push(new Generation(Number(nowMs)));
  }

  #run(sinceMs: string): Promise<[string, string]> {
    const { redis, keys } = this.#stores;
    return say.run(redis, [keys.submissionsInHand()], [this.#front, sinceMs, IN_HAND_SILENT_MS]);
  }
}

/**
 * Resolves when no front has a submission in hand that it had at this moment of Redis's clock, or `waitMs` from now.
 * Throws RedisUnavailable, and what `signal` is aborted with.
 */
export async function untilAnswered(
  { redis, keys }: Stores,
  { waitMs = 0, fromMs, signal }: { waitMs?: number; fromMs?: number; signal?: AbortSignal | undefined } = {},
): Promise<void> {
  let sinceMs = fromMs;
  for (;;) {
    const [nowMs, oldestMs] = await say.run(redis, [keys.submissionsInHand()], ['', '', IN_HAND_SILENT_MS]);
    sinceMs ??= Number(nowMs) + waitMs;
    if (Number(oldestMs) > sinceMs) return;
    await sleep(POLL_MS, undefined, { signal });
  }
}
