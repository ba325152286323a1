// What the events of one trace say, read by a worker as they come on screen, one after the other, and which of it was
// said before: a prompt carries all of the conversation so far.
// Invariant: bounded in what is kept and in time: CONVERSATIONS_MAX conversations, KEYS_MAX keys, and a payload that
// takes longer than READING_MS is given up, with the worker.
// Failure: of a payload that no form knows, or that was given up, null: it is shown as the payload that it is.
import { signal } from '@preact/signals';
import type { Conversation, ShownMessage } from './conversation-messages.ts';
import workerUrl from './conversation-worker.ts?worker&url';
import { startWorker } from './worker.ts';

/** As many as fit into a few screens: each holds its texts. What is gone is read again where it is scrolled to. */
const CONVERSATIONS_MAX = 120;
/** 100 bytes each. */
const KEYS_MAX = 100_000;
/** A payload of 1 MiB takes 0.3 s on a machine with nothing else to do. */
const READING_MS = 10_000;

/** `place`: of the event in the trace, from 0. */
type ReadRequest = { id: string; place: number; payload: string; type: string };

export class ConversationReader {
  /** Raised whenever something was read, for what shows it. */
  readonly version = signal(0);
  /** The parts that a person has unfolded: ids of events with the place of a part. */
  readonly unfolded = new Set<string>();
  readonly #read = new Map<string, Conversation | null>();
  /** The first place at which a message was said. */
  readonly #saidAt = new Map<string, number>();
  readonly #waiting: ReadRequest[] = [];
  #worker: Worker | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** undefined: not read yet. null: it is no conversation. */
  of(id: string): Conversation | null | undefined {
    return this.#read.get(id);
  }

  ask(asked: ReadRequest): void {
    if (this.#read.has(asked.id) || this.#waiting.some(({ id }) => id === asked.id)) return;
    this.#waiting.push(asked);
    if (this.#waiting.length === 1) this.#next();
  }

  /** Was it said by an earlier event? */
  isRepeated({ key }: ShownMessage, place: number): boolean {
    return (this.#saidAt.get(key) ?? place) < place;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#waiting.length = 0;
  }

  #next(): void {
    const [asked] = this.#waiting;
    if (asked === undefined) return;
    if (this.#worker === undefined) {
      this.#worker = startWorker(workerUrl);
      this.#worker.onmessage = ({ data }: MessageEvent<{ conversation?: Conversation }>) =>
        this.#done(data.conversation ?? null);
      this.#worker.onerror = () => this.#giveUp();
    }
    this.#timer = setTimeout(() => this.#giveUp(), READING_MS);
    this.#worker.postMessage({ payload: asked.payload, type: asked.type });
  }

  #giveUp(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#done(null);
  }

  #done(conversation: Conversation | null): void {
    clearTimeout(this.#timer);
    const asked = this.#waiting.shift();
    if (asked === undefined) return;
    this.#read.set(asked.id, conversation);
    const [oldest] = this.#read.keys();
    if (this.#read.size > CONVERSATIONS_MAX) this.#read.delete(oldest!);
    for (const { key } of conversation?.messages ?? []) {
      const first = this.#saidAt.get(key);
      if (first === undefined ? this.#saidAt.size < KEYS_MAX : asked.place < first) this.#saidAt.set(key, asked.place);
    }
    this.version.value++;
    this.#next();
  }
}
