// What becomes of a body the plain way: the answer, and what is stored and passed to the pipelines, as one value that
// can be compared (`decoded` makes the same of what the service appended). The reference of
// test/ingest/reference.test.ts.
import type { JsonObject } from '../../schemas/common.ts';
import { decodeSummaries } from '../../schemas/entry.ts';
import type { Policy } from '../../schemas/policy.ts';
import { type Node, readBytes, readText, writtenValue } from './json.ts';
import { Judge, type Meaning, type Verdict } from './judge.ts';
import { hasBrokenFinding } from './patterns.ts';
import { redacted, redactedTrace } from './redact.ts';

export type World = {
  account: string;
  agentId: string;
  requestId: string;
  /** Epoch ms: of the front, and of the counters. */
  now: number;
  countedAt: number;
  policies: readonly Policy[];
  meanings: ReadonlyMap<string, Meaning>;
  /** Epoch ms, with a fraction, of the timestamps that tests send; null for those that are to be refused. */
  times: ReadonlyMap<string, number | null>;
  /** Says whether the body was damaged: something was put into it somewhere. */
  isDamaged: boolean;
};

type Stored = { row: Record<string, unknown>; summary: Record<string, unknown> };
/** `answers`: the text of each event, or null for one that was refused; a word if the body was refused whole. */
export type Taken = { answers: string | (string | null)[]; stored: Stored[] };

/** A flaw made what the reference does not know the meaning of: a timestamp, or a finding without its frame. */
export class Unknown extends Error {}

const TYPES = ['prompt', 'completion', 'tool_call', 'error', 'custom'];

export function takePlainly(body: Buffer, shape: 'one' | 'many', world: World): Taken {
  let read: { text: string; root: Node };
  try {
    read = readBytes(body);
  } catch {
    return { answers: 'malformed_json', stored: [] };
  }
  const { text, root } = read;
  if (world.isDamaged && textsOf(root).some(hasBrokenFinding)) throw new Unknown();
  const elements = shape === 'one' ? [root] : elementsOf(root);
  if (elements === null || !elements.some((element) => isSound(element, world)))
    return { answers: 'validation_failed', stored: [] };
  const judge = new Judge(world.policies, world.meanings);
  const counters = new Map<string, number>();
  const stored: Stored[] = [];
  let last = 0;
  const answers = elements.map((element) => {
    if (!isSound(element, world)) return null;
    const one = new Accepted(element, text, world);
    one.verdict = judge.judge({ ...one, agent_id: world.agentId }, counters);
    // None before the one in front of it: an event keeps its place in the request.
    last = one.receivedAt = Math.max(last, one.verdict.counted ? world.countedAt : world.now);
    stored.push(one.stored());
    return one.answer();
  });
  return { answers, stored };
}

function textsOf(node: Node): string[] {
  if (node.kind === 'string') return [node.text];
  if (node.kind === 'array') return node.items.flatMap(textsOf);
  return node.kind === 'object' ? node.members.flatMap(({ key, value }) => [key.text, ...textsOf(value)]) : [];
}

function elementsOf(root: Node): Node[] | null {
  let list = root;
  if (root.kind === 'object') {
    const [only, ...more] = root.members;
    if (only?.key.text !== 'events' || more.length > 0) return null;
    list = only.value;
  }
  return list.kind === 'array' && list.items.length >= 1 && list.items.length <= 100 ? list.items : null;
}

type ObjectNode = Node & { kind: 'object' };

function member(node: ObjectNode, name: string): Node | undefined {
  return node.members.find(({ key }) => key.text === name)?.value;
}

/** undefined: it is null or left out. */
function given(node: ObjectNode, name: string): Node | undefined {
  const found = member(node, name);
  return found?.isNull === true ? undefined : found;
}

function isSound(node: Node, { times }: World): node is ObjectNode {
  if (node.kind !== 'object') return false;
  if (node.members.some(({ key }) => !['type', 'payload', 'trace_id', 'timestamp'].includes(key.text))) return false;
  const [type, payload] = ['type', 'payload'].map((name) => member(node, name));
  const [trace, time] = ['trace_id', 'timestamp'].map((name) => given(node, name));
  if (type?.kind !== 'string' || !TYPES.includes(type.text) || payload?.kind !== 'object') return false;
  if (trace !== undefined) {
    if (trace.kind !== 'string' || !trace.text.isWellFormed()) return false;
    if (/^\.{1,2}$/.test(trace.text)) return false;
    const length = [...trace.text].length;
    if (length < 1 || length > 200) return false;
  }
  if (time === undefined) return true;
  if (time.kind !== 'string') return false;
  if (!times.has(time.text)) throw new Unknown();
  return times.get(time.text) !== null;
}

class Accepted {
  readonly type: string;
  readonly payload: JsonObject;
  readonly written: unknown;
  readonly trace_id: string | undefined;
  verdict!: Verdict;
  receivedAt!: number;
  readonly #world: World;
  readonly #text: string;
  readonly #node: Node;
  readonly #occurredAt: number;

  constructor(node: ObjectNode, text: string, world: World) {
    this.#world = world;
    this.#text = text;
    this.#node = member(node, 'payload')!;
    this.type = (member(node, 'type') as { text: string }).text;
    this.payload = JSON.parse(this.#payloadText) as JsonObject;
    this.written = writtenValue(this.#node, text);
    this.trace_id = (given(node, 'trace_id') as { text: string } | undefined)?.text;
    const time = given(node, 'timestamp') as { text: string } | undefined;
    this.#occurredAt = time === undefined ? world.now : world.times.get(time.text)!;
  }

  get #payloadText(): string {
    return this.#text.slice(this.#node.start, this.#node.end);
  }

  get #kept(): string {
    const { redacting } = this.verdict;
    return redacting.length === 0 ? this.#payloadText : redacted(this.#text, this.#node, redacting);
  }

  get #keptTrace(): string | undefined {
    return this.trace_id === undefined ? undefined : redactedTrace(this.trace_id, this.verdict.redacting);
  }

  get #result(): object {
    const { outcome, deciding, matches } = this.verdict;
    const reason = deciding === null ? null : 'policy';
    const result = { outcome, reason, policy_id: deciding?.id ?? null, matches };
    return outcome === 'pending' ? { ...result, approval_id: blotted('apr', this.#world.now) } : result;
  }

  answer(): string {
    const trace = this.trace_id === undefined ? '' : `,"trace_id":${JSON.stringify(this.trace_id)}`;
    const [at, received] = [this.#occurredAt, this.receivedAt].map(written);
    return (
      `{"id":"${blotted('evt', this.receivedAt)}","agent_id":"${this.#world.agentId}","type":"${this.type}",` +
      `"payload":${this.#payloadText}${trace},"timestamp":"${at}","received_at":"${received}",` +
      `"policy_result":${JSON.stringify(this.#result)}${this.verdict.redacting.length === 0 ? '' : `,"redacted_payload":${this.#kept}`}}`
    );
  }

  stored(): Stored {
    const { account, agentId, requestId, now } = this.#world;
    const { outcome, deciding, matches } = this.verdict;
    const kept = this.#kept;
    readText(kept); // the copy is sound, too: no key twice
    const values = JSON.parse(kept) as JsonObject;
    const ids = { id: blotted('evt', this.receivedAt), approval: outcome === 'pending' ? blotted('apr', now) : '' };
    const row = {
      account_id: account,
      agent_id: agentId,
      id: ids.id,
      type: this.type,
      trace_id: this.#keptTrace ?? '',
      timestamp: Math.floor(Math.round(this.#occurredAt * 1000) / 1000),
      received_at: this.receivedAt,
      payload: kept,
      outcome: { allowed: 1, blocked: 2, pending: 3 }[outcome],
      reason: deciding === null ? '' : 'policy',
      policy_id: deciding?.id ?? '',
      approval_id: ids.approval,
      policy_result: matches.length === 0 ? '' : JSON.stringify(this.#result),
      model: typeof values['model'] === 'string' && values['model'].length <= 200 ? values['model'].toWellFormed() : '',
      token_count: count(values['token_count']),
      tokens_used: used(values),
      request_id: requestId,
      timestamp_micros: Math.round(this.#occurredAt * 1000) % 1000,
    };
    return { row, summary: this.#digest(row) };
  }

  #digest(row: { id: string; tokens_used: number | null; approval_id: string }): Record<string, unknown> {
    const { outcome, deciding, matches } = this.verdict;
    const { timeout, on_timeout: onTimeout = 'deny' } = deciding?.conditions ?? {};
    return {
      account: this.#world.account,
      agent: this.#world.agentId,
      id: row.id,
      type: this.type,
      occurredAt: this.#occurredAt,
      receivedAt: this.receivedAt,
      outcome,
      ...(deciding === null ? {} : { reason: 'policy', policyId: deciding.id }),
      ...(outcome === 'pending'
        ? { approvalId: row.approval_id, approval: { timeoutSeconds: timeout === '5m' ? 300 : 3600, onTimeout } }
        : {}),
      ...(this.#keptTrace === undefined ? {} : { traceId: this.#keptTrace }),
      ...(row.tokens_used === null ? {} : { tokensUsed: row.tokens_used }),
      ...(matches.length === 0
        ? {}
        : {
            matches: matches.map(({ detail, ...match }) => {
              const windowMs = (detail as Record<string, unknown>)['window_seconds'];
              return windowMs === undefined ? match : { ...match, limit: { windowMs: 1000 * (windowMs as number) } };
            }),
          }),
    };
  }
}

/** Epoch ms with a fraction, as three digits or six. */
function written(at: number): string {
  const micros = Math.round(at * 1000);
  const [ms, rest] = [new Date(Math.floor(micros / 1000)).toISOString(), micros % 1000];
  return rest === 0 ? ms : ms.replace('Z', `${String(rest).padStart(3, '0')}Z`);
}

function count(value: unknown): number | null {
  const whole = typeof value === 'number' && value >= 0 ? Math.floor(value + 0.5) : -1;
  return whole >= 0 && whole <= Number.MAX_SAFE_INTEGER ? whole : null;
}

/** The tokens that the event says itself, else those that an answer of a provider in it says. */
function used(values: JsonObject): number | null {
  const said = values['tokens_used'] ?? null;
  if (said !== null) return count(said);
  const inside = ['response', 'message', 'result', 'output', 'completion', 'metadata'].map((name) => values[name]);
  for (const place of [values, ...inside]) {
    if (Object.prototype.toString.call(place) !== '[object Object]') continue;
    for (const key of ['totalUsage', 'usage', 'usageMetadata', 'usage_metadata']) {
      const total = usedBy((place as JsonObject)[key]);
      if (total !== null) return total;
    }
  }
  return null;
}

function usedBy(usage: unknown): number | null {
  if (Object.prototype.toString.call(usage) !== '[object Object]') return null;
  const part = (name: string) => {
    const value = (usage as JsonObject)[name] ?? undefined;
    const isObject = Object.prototype.toString.call(value) === '[object Object]';
    return isObject ? ((value as JsonObject)['total'] ?? 'none') : value;
  };
  const sum = (...names: string[]) => {
    const parts = names.map(part).filter((one) => one !== undefined);
    if (parts.length === 0 || parts.some((one) => count(one) === null)) return null;
    return count(parts.map((one) => count(one)!).reduce((a, b) => a + b, 0));
  };
  const totals = ['total_tokens', 'totalTokens', 'totalTokenCount', 'total_token_count'];
  const snake = (camel: string) => camel.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const counted = ['prompt', 'candidates', 'response', 'thoughts', 'toolUsePrompt'];
  const gemini = counted.map((what) => `${what}TokenCount`);
  const anthropic = ['input', 'output', 'cache_creation_input', 'cache_read_input'].map((what) => `${what}_tokens`);
  return (
    totals.map((name) => sum(name)).find((total) => total !== null) ??
    sum(...anthropic) ??
    sum('prompt_tokens', 'completion_tokens') ??
    sum('inputTokens', 'outputTokens', 'cacheReadInputTokens', 'cacheWriteInputTokens') ??
    sum('promptTokens', 'completionTokens') ??
    sum(...gemini) ??
    sum(...gemini.filter((name) => !name.startsWith('response')).map(snake))
  );
}

const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz';

/** An id's prefix and time; what is random in it is blotted out. */
function blotted(prefix: string, ms: number): string {
  let time = '';
  for (let i = 0, rest = ms; i < 10; i++, rest = Math.floor(rest / 32)) time = DIGITS[rest % 32] + time;
  return `${prefix}_${time}…`;
}

// -- what the service did, in the same form

const NUMBERS = new Set(['timestamp', 'received_at']);
const COUNTS = new Set(['token_count', 'tokens_used']);

/** Rows and summaries of an entry; ids have been blotted out nowhere yet. */
export function decoded(rows: Buffer, summaries: string, columns: readonly string[]): Stored[] {
  let at = 0;
  const stored = decodeSummaries(`[${summaries}]`).map(({ rowBytes, ...summary }) => {
    for (const { limit } of summary.matches ?? []) delete (limit as { counter?: string } | undefined)?.counter;
    const row = decodedRow(rows.subarray(at, at + rowBytes), columns);
    at += rowBytes;
    return { row, summary };
  });
  if (at !== rows.length) throw new Error(`${rows.length} bytes of rows, the summaries say ${at}`);
  return stored;
}

function decodedRow(bytes: Buffer, columns: readonly string[]): Record<string, unknown> {
  let at = 0;
  const row: Record<string, unknown> = {};
  for (const column of columns) {
    if (COUNTS.has(column) && bytes[at++] === 1) row[column] = null;
    else if (COUNTS.has(column) || NUMBERS.has(column)) {
      row[column] = Number(bytes.readBigInt64LE(at));
      at += 8;
    } else if (column === 'outcome') row[column] = bytes[at++];
    else if (column === 'timestamp_micros') row[column] = bytes[at++]! + 256 * bytes[at++]!;
    else {
      let length = 0;
      for (let shift = 0; ; shift += 7) {
        const byte = bytes[at++]!;
        length += (byte & 127) * 2 ** shift;
        if (byte < 128) break;
      }
      row[column] = bytes.toString('utf8', at, at + length);
      at += length;
    }
  }
  if (at !== bytes.length) throw new Error(`a row of ${bytes.length} bytes holds ${at}`);
  return row;
}
