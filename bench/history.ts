// Makes a month of events for the line `query`, and writes them straight into ClickHouse by the store pipeline's own way: rows
// encoded by src/ingest/encode.ts, inserts of INSERT_ROWS_MAX rows of one month each, with a token.
// Five hundred conversations are open at any time, each a trace of one agent with twenty events; one agent in a thousand has a
// twentieth of everything. Words are drawn so that few are common and most are rare. The same seed gives the same month.
import type { ClickHouse } from '../clickhouse/client.ts';
import type { AgentRecord } from '../schemas/agent.ts';
import type { EventType, JsonObject } from '../schemas/common.ts';
import { mintId } from '../src/ids.ts';
import { type AcceptedEvent, encodeEvents } from '../src/ingest/encode.ts';
import { INSERT_ROWS_MAX } from '../src/limits.ts';
import { ALLOWED, type Decision } from '../src/policy/engine.ts';
import { progress } from './report.ts';

export const HISTORY_DAYS = 30;
export const TRACE_EVENTS = 20;
export const HEAVY_SHARE = 0.05;
const OPEN_TRACES = 500;
const VOCABULARY = 20_000;
const WORDS_AN_EVENT = 40;
const BLOCKED_SHARE = 0.01;
const INSERTS_AT_ONCE = 2;
const DAY_MS = 86_400_000;
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet', 'llama-3-70b'];
const TYPES: EventType[] = ['prompt', 'completion', 'tool_call', 'tool_call', 'completion', 'tool_call', 'custom'];

export type History = {
  events: number;
  fromMs: number;
  toMs: number;
  agents: string[];
  /** Some of those that are whole. */
  traces: string[];
  /** From common to rare. */
  words: string[];
};

type Conversation = { agent: AgentRecord; trace: string; left: number };

/** Numbers of 0 up to 1, the same for the same seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The account and its agents must be there; the first agent is the heavy one. */
export async function writeHistory(
  clickhouse: ClickHouse,
  given: { account: string; agents: readonly string[]; events: number },
): Promise<History> {
  const generator = new Generator(given.account, given.agents);
  const toMs = Date.now();
  const fromMs = toMs - HISTORY_DAYS * DAY_MS;
  const everyMs = (toMs - fromMs) / given.events;
  const running = new Set<Promise<void>>();
  const started = performance.now();
  for (let first = 0; first < given.events; first += INSERT_ROWS_MAX) {
    const count = Math.min(INSERT_ROWS_MAX, given.events - first);
    const events = Array.from({ length: count }, (_, i) => generator.next(Math.floor(fromMs + (first + i) * everyMs)));
    for (const month of byMonth(events)) {
      const { rows } = encodeEvents(month);
      const insert = clickhouse.insertEvents([rows], `bench-${month[0]!.id}`).finally(() => running.delete(insert));
      running.add(insert);
    }
    if (running.size >= INSERTS_AT_ONCE) await Promise.race(running);
    if ((first / INSERT_ROWS_MAX) % 25 === 24) {
      const perSecond = ((first + count) / (performance.now() - started)) * 1000;
      progress(`${first + count} of ${given.events} events written, ${Math.round(perSecond)} a second`);
    }
  }
  await Promise.all(running);
  const { traces, words } = generator;
  return { events: given.events, fromMs, toMs, agents: [...given.agents], traces, words };
}

/** An insert has rows of one month only (clickhouse/client.ts). */
function byMonth(events: AcceptedEvent[]): AcceptedEvent[][] {
  const months = new Map<string, AcceptedEvent[]>();
  for (const event of events) {
    const month = new Date(event.receivedAt).toISOString().slice(0, 7);
    const own = months.get(month);
    if (own === undefined) months.set(month, [event]);
    else own.push(event);
  }
  return [...months.values()];
}

class Generator {
  readonly traces: string[] = [];
  readonly words: string[];
  readonly #random = random(20261121);
  readonly #account: string;
  readonly #agents: AgentRecord[];
  readonly #open: Conversation[];
  #events = 0;
  #traces = 0;

  constructor(account: string, agents: readonly string[]) {
    this.#account = account;
    this.#agents = agents.map((id) => ({ id }) as AgentRecord);
    this.words = vocabulary(this.#random);
    this.#open = Array.from({ length: OPEN_TRACES }, () => this.#begin());
  }

  next(atMs: number): AcceptedEvent {
    const slot = this.#events++ % OPEN_TRACES;
    const open = this.#open[slot]!;
    const type = open.left === TRACE_EVENTS ? 'prompt' : TYPES[Math.floor(this.#random() * TYPES.length)]!;
    const payload = this.#payload(type);
    if (--open.left === 0) {
      if (this.traces.length < 10_000) this.traces.push(open.trace);
      this.#open[slot] = this.#begin();
    }
    const submission = { type, payload, payloadText: JSON.stringify(payload), traceId: open.trace, occurredAt: atMs };
    return {
      account: this.#account,
      agent: open.agent,
      id: mintId('event', atMs),
      submission,
      receivedAt: atMs,
      decision: this.#random() < BLOCKED_SHARE ? BLOCKED : ALLOWED,
      requestId: `bench-${this.#events}`,
    };
  }

  #begin(): Conversation {
    const heavy = this.#random() < HEAVY_SHARE;
    const agent = this.#agents[heavy ? 0 : Math.floor(this.#random() * this.#agents.length)]!;
    return { agent, trace: `trace-${String(++this.#traces).padStart(9, '0')}`, left: TRACE_EVENTS };
  }

  #payload(type: EventType): JsonObject {
    const words: string[] = new Array(WORDS_AN_EVENT);
    for (let i = 0; i < WORDS_AN_EVENT; i++) words[i] = this.words[Math.floor(this.#random() ** 3 * VOCABULARY)]!;
    const text = words.join(' ');
    const model = MODELS[Math.floor(this.#random() * MODELS.length)]!;
    const tokens = 100 + Math.floor(this.#random() * 4_000);
    if (type === 'prompt') return { model, prompt: text };
    if (type === 'completion') return { model, response: text, tokens_used: tokens };
    return { tool: `tool_${tokens % 40}`, arguments: { reference: tokens * 7 }, result: text, status: 'ok' };
  }
}

const BLOCKED: Decision = {
  outcome: 'blocked',
  reason: 'policy',
  policyId: 'pol_01jd5x0f6w3q8z5n7r2k9v4t1m',
  matches: [],
  resultJson:
    '{"outcome":"blocked","reason":"policy","policy_id":"pol_01jd5x0f6w3q8z5n7r2k9v4t1m","matches":[{"policy_id":"pol_01jd5x0f6w3q8z5n7r2k9v4t1m","name":"tools","type":"block_action","actions":["block"],"severity":null,"detail":{}}]}',
  redactions: [],
};

function vocabulary(next: () => number): string[] {
  const consonants = 'bcdfghjklmnprstvz';
  const vowels = 'aeiou';
  const syllable = () =>
    consonants[Math.floor(next() * consonants.length)]! + vowels[Math.floor(next() * vowels.length)]!;
  const words = new Set<string>();
  while (words.size < VOCABULARY) words.add(Array.from({ length: 2 + Math.floor(next() * 4) }, syllable).join(''));
  return [...words];
}
