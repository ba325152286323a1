// What the supervisor and its workers (fronts, pipelines) say to one another: that a worker is ready, counts for
// `/metrics`, how far storing is behind (adaptive-priority.ts), and whether the disk has room (disk-room.ts).
// Events never pass here: processes meet in streams and tables alone.
// Invariant: a worker that was forked leaves when its channel closes; a message of an unknown kind is ignored.
// Failure: counts that do not come in time are left out, and `gatehouse_up` of the process that owes them is 0.

import type { Room } from '../common/room.ts';
import { downSet, type MetricSet } from '../metrics/metrics.ts';

type FromWorker =
  | { kind: 'ready' }
  | { kind: 'behind'; ms: number }
  | { kind: 'gather'; id: number }
  | { kind: 'collected'; id: number; set: MetricSet };
type ToWorker =
  | { kind: 'collect'; id: number }
  | { kind: 'gathered'; id: number; sets: MetricSet[] }
  | { kind: 'room'; room: Room };

/** Pipelines say so often how far storing is behind. */
export const BEHIND_SAID_MS = 250;
/** A scrape must not hang because one process does. */
const COLLECT_MS_MAX = 500;
/** The worker waits for the supervisor, who waits for the others. */
const GATHER_MS_MAX = 2 * COLLECT_MS_MAX;

/** Questions that wait for an answer, each with its own time limit. */
class Pending<T> {
  readonly #waiting = new Map<number, (value: T) => void>();
  #lastId = 0;

  /** Resolves with `fallback` when no answer comes in time. */
  ask(send: (id: number) => boolean, fallback: T, ms: number): Promise<T> {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.answer(id, fallback), ms);
      this.#waiting.set(id, (value) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        resolve(value);
      });
      if (!send(id)) this.answer(id, fallback);
    });
  }

  answer(id: number, value: T): void {
    this.#waiting.get(id)?.(value);
  }
}

/** A worker's end of the channel; without a supervisor it does nothing and gathers nothing. */
export class SupervisorLink {
  readonly #gathering = new Pending<MetricSet[]>();
  readonly #isSupervised = process.connected;
  #room: Room | undefined;

  /** The room on the disk that the embedded Redis writes to; undefined: not known yet. */
  get room(): Room | undefined {
    return this.#room;
  }

  /** `collect` gives this process's own counts. */
  listen(collect: () => Promise<MetricSet>): void {
    if (!process.connected) return;
    process.on('message', (message: ToWorker) => {
      if (message.kind === 'gathered') this.#gathering.answer(message.id, message.sets);
      if (message.kind === 'room') this.#room = message.room;
      if (message.kind === 'collect') {
        collect().then(
          (set) => this.#send({ kind: 'collected', id: message.id, set }),
          () => undefined,
        );
      }
    });
  }

  sayReady(): void {
    this.#send({ kind: 'ready' });
  }

  /** Says how far the pipelines are behind: the age of the oldest event that is not stored yet, or 0. */
  sayBehind(ms: number): void {
    this.#send({ kind: 'behind', ms });
  }

  /** The counts of all other processes that answer in time. */
  gather(): Promise<MetricSet[]> {
    if (!this.#isSupervised) return Promise.resolve([]);
    return this.#gathering.ask((id) => this.#send({ kind: 'gather', id }), [downSet('supervisor')], GATHER_MS_MAX);
  }

  #send(message: FromWorker): boolean {
    if (!process.connected || !process.send) return false;
    process.send(message, () => undefined);
    return true;
  }
}

export type Peer = { readonly name: string; send(message: object): boolean };

/** The supervisor's end: passes counts between the workers, its own among them. */
export class WorkerHub {
  readonly #peers: () => readonly Peer[];
  readonly #own: () => Promise<MetricSet>;
  readonly #onBehind: (ms: number) => void;
  readonly #onReady: (peer: Peer) => void;
  readonly #collecting = new Pending<MetricSet>();

  constructor(options: {
    peers: () => readonly Peer[];
    own: () => Promise<MetricSet>;
    onBehind: (ms: number) => void;
    onReady?: (peer: Peer) => void;
  }) {
    this.#peers = options.peers;
    this.#own = options.own;
    this.#onBehind = options.onBehind;
    this.#onReady = options.onReady ?? (() => undefined);
  }

  /** To all workers, or to one that has become ready. */
  reportRoom(room: Room, peers: readonly Peer[] = this.#peers()): void {
    for (const peer of peers) peer.send({ kind: 'room', room } satisfies ToWorker);
  }

  /** Counts of all workers but the one that asks; a worker that asks wants ours as well. */
  async gather(requester?: string): Promise<MetricSet[]> {
    const others = this.#peers().filter((peer) => peer.name !== requester);
    const own = requester === undefined ? [] : [this.#own()];
    return Promise.all([...own, ...others.map((peer) => this.#collect(peer))]);
  }

  /** To be called with each message of a worker. */
  receive(from: Peer, message: unknown): void {
    const { kind, ...rest } = message as FromWorker;
    if (kind === 'collected') {
      const { id, set } = rest as { id: number; set: MetricSet };
      this.#collecting.answer(id, set);
    }
    if (kind === 'ready') this.#onReady(from);
    if (kind === 'behind') this.#onBehind((rest as { ms: number }).ms);
    if (kind === 'gather') {
      const { id } = rest as { id: number };
      void this.gather(from.name).then((sets) => from.send({ kind: 'gathered', id, sets } satisfies ToWorker));
    }
  }

  /** Who does not answer is down: it hangs, or is being started again. */
  #collect(peer: Peer): Promise<MetricSet> {
    const ask = (id: number) => peer.send({ kind: 'collect', id } satisfies ToWorker);
    return this.#collecting.ask(ask, downSet(peer.name), COLLECT_MS_MAX);
  }
}

function saysReady(message: unknown): boolean {
  return (message as FromWorker | undefined)?.kind === 'ready';
}

/** Settles a worker's `ready`. */
export function whenWorkerReady(process: {
  on(event: 'message', listener: (message: unknown) => void): unknown;
}): Promise<void> {
  return new Promise((resolve) => {
    process.on('message', (message) => {
      if (saysReady(message)) resolve();
    });
  });
}
