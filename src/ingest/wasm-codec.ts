// The codec that reads the common forms of a body on their bytes, without making JavaScript values of what no rule
// inspects (codec.ts says what a codec does; ingest.ts calls it; wasm-instance.ts scans and writes).
// An event that some rule may match is judged, encoded and rendered as json-codec.ts does it, and goes in its place
// among the others.
// Invariant: a body that it does not read is left to json-codec.ts, which does the same with it, and reports what is
// wrong.
import type { AgentRecord } from '../../schemas/agent.ts';
import { EVENT_TYPES, type EventType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';
import { parseExactTime } from '../../schemas/time.ts';
import { BufferPool } from '../common/buffer-pool.ts';
import { parseExact } from '../common/exact-json.ts';
import type { Stepped } from '../common/steps.ts';
import type { Allowed } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import { ALLOWED, type Closer, type Decision, type Judgement, type ShadowJudgement } from '../policy/judgement.ts';
import { UNKNOWN } from '../policy/sought.ts';
import type { TextView } from '../policy/text-view.ts';
import { isWhatItShows } from '../policy/texts/text-forms.ts';
import type { Arrivals } from './arrival.ts';
import type { ByShadows, Codec, DecodedBody, DecodeOptions, Encoded, Spending } from './codec.ts';
import { encodeEvents } from './encode.ts';
import type { IngestRequest } from './ingest-parts.ts';
import type { Decided } from './resolve-quotas.ts';
import { isTimely, type ParsedSubmission } from './submission.ts';
import { renderEvent, verdictOf } from './submission-reply.ts';
import { View } from './view.ts';
import {
  FLAG,
  fitsDigits,
  type Inserted,
  RECORD_WORDS,
  type ScannedBody,
  WasmInstance,
  WORD,
} from './wasm-instance.ts';

export class WasmCodec implements Codec {
  readonly name = 'wasm';
  readonly #instance: WasmInstance;
  readonly #text = new ScannedText();

  constructor(buffers = new BufferPool()) {
    this.#instance = new WasmInstance(buffers);
  }

  /** undefined: json-codec.ts decodes it. Always with an Idempotency-Key, whose kept outcome names every event. */
  decode(request: IngestRequest, { rules, nowMs, eventBytesMax }: DecodeOptions): WasmBody | undefined {
    const { body: bytes, shape, idempotencyKey } = request;
    if (idempotencyKey !== undefined) return undefined;
    const scanned = this.#instance.read(bytes, shape, (rules.shadows ?? rules).sought);
    if (scanned === null) return undefined;
    const occurredAt =
      bytes.length > eventBytesMax && holdsLarger(scanned, eventBytesMax) ? null : times(scanned, nowMs);
    if (occurredAt === null) {
      this.#instance.release(scanned);
      return undefined;
    }
    return new WasmBody({ instance: this.#instance, text: this.#text, request, scanned, occurredAt });
  }
}

/** So long are the texts whose values are kept until a body is written, which waits for counters: some 2 MB. */
const KEPT_CHARACTERS_MAX = 256 * 1024;

type WasmBodyParts = {
  instance: WasmInstance;
  text: ScannedText;
  request: IngestRequest;
  scanned: ScannedBody;
  /** Epoch ms of each event, to the microsecond. */
  occurredAt: readonly number[];
};

class WasmBody implements DecodedBody {
  readonly #parts: WasmBodyParts;
  /** The event that was viewed last: shadows look at it again. */
  #viewed: { index: number; view: View } | undefined;
  /** The values that were read of events that were looked at closer: the event is written by the same values. */
  readonly #submissions = new Map<number, ParsedSubmission>();
  #characters = 0;

  constructor(parts: WasmBodyParts) {
    this.#parts = parts;
  }

  get elements(): number {
    return this.#parts.scanned.events;
  }

  judging(index: number, agent: AgentRecord, rules: RuleSet, allowance?: Allowed): Stepped<Judgement> {
    const looked = rules.look(this.#textOf(index, agent));
    return isCloser(looked) ? rules.judging(this.#view(index, agent), allowance, looked) : looked;
  }

  judgingShadows(index: number, agent: AgentRecord, { shadows, allowance }: ByShadows): Stepped<ShadowJudgement> {
    const text = this.#textOf(index, agent);
    const looked = shadows.look(text);
    if (!isCloser(looked)) return looked;
    return allowance.isSpent ? shadows.skip(text) : shadows.judging(this.#view(index, agent), allowance, looked);
  }

  #textOf(index: number, agent: AgentRecord): ScannedText {
    const { text, scanned } = this.#parts;
    return text.of(scanned, index, agent.id);
  }

  #view(index: number, agent: AgentRecord): View {
    if (this.#viewed?.index === index) return this.#viewed.view;
    const view = new View(this.#submission(index), agent);
    this.#viewed = { index, view };
    return view;
  }

  #submission(index: number): ParsedSubmission {
    let submission = this.#submissions.get(index);
    if (submission === undefined) {
      submission = submissionOf(this.#parts.scanned, index, this.#parts.occurredAt[index]!);
      this.#characters += submission.payloadText.length;
      if (this.#characters <= KEPT_CHARACTERS_MAX) this.#submissions.set(index, submission);
    }
    return submission;
  }

  spending(index: number): Spending | undefined {
    if (!mayUse(this.#parts.scanned, index)) return undefined;
    return { ...this.#submission(index), isObserved: false };
  }

  /** Everything of it happens at once: the memory of the instance is shared by all requests. */
  encode(agent: AgentRecord, judged: readonly (Decided | null)[], arrivals: Arrivals): Encoded {
    const { instance, request, scanned, occurredAt } = this.#parts;
    const { events } = scanned;
    const inserted: (Inserted | undefined)[] = [];
    for (let i = 0; i < events; i++) {
      const { decision } = judged[i]!;
      const receivedAt = arrivals.msOf(i);
      if (decision === ALLOWED && isSimple(scanned, i) && fitsDigits(occurredAt[i]!) && fitsDigits(receivedAt))
        continue;
      inserted[i] = made(request, agent, this.#submission(i), { decision, id: arrivals.idOf(i), receivedAt });
    }
    instance.begin(scanned, request, request.shape, inserted);
    for (let i = 0; i < events; i++) {
      const one = inserted[i];
      if (one === undefined)
        instance.allow(i, occurredAt[i]!, arrivals.msOf(i), arrivals.fixedId(i) ?? arrivals.slotOf(i));
      else instance.insert(one);
    }
    const { rows, summaries, reply, release } = instance.finish();
    return { rows, summaries: [summaries], events, answer: { body: reply, release }, outcome: undefined };
  }

  release(): void {
    this.#parts.instance.release(this.#parts.scanned);
  }
}

/** null: one of them is not a time that an event may have. */
function times(scanned: ScannedBody, nowMs: number): number[] | null {
  const occurredAt: number[] = [];
  for (let i = 0; i < scanned.events; i++) {
    const at = occurredAtOf(scanned, i, nowMs);
    if (at === null || !isTimely(at, nowMs)) return null;
    occurredAt.push(at);
  }
  return occurredAt;
}

/** One event, encoded and rendered from its values. */
function made(
  { account, requestId, agentId }: IngestRequest,
  agent: AgentRecord,
  submission: ParsedSubmission,
  { decision, id, receivedAt }: { decision: Decision; id: string; receivedAt: number },
): Inserted {
  const { rows, summaries } = encodeEvents([{ account, agent, id, submission, receivedAt, decision, requestId }]);
  const verdict = verdictOf(decision, { id, occurredAt: submission.occurredAt, receivedAt });
  return { row: rows, summary: summaries[0]!, reply: renderEvent(agentId, submission, verdict) };
}

function holdsLarger({ events, records }: ScannedBody, bytesMax: number): boolean {
  for (let at = 0; at < events * RECORD_WORDS; at += RECORD_WORDS)
    if (records[at + WORD.payloadEnd]! - records[at + WORD.payload]! > bytesMax) return true;
  return false;
}

/** Its row holds nothing that has to be decoded. */
function isSimple({ records }: ScannedBody, event: number): boolean {
  return (records[event * RECORD_WORDS + WORD.flags]! & FLAG.oddColumn) === 0;
}

/** May it say how many tokens it used? */
function mayUse({ records }: ScannedBody, event: number): boolean {
  return (records[event * RECORD_WORDS + WORD.flags]! & (FLAG.used | FLAG.oddColumn)) !== 0;
}

function occurredAtOf({ bytes, records }: ScannedBody, event: number, nowMs: number): number | null {
  const at = event * RECORD_WORDS;
  const start = records[at + WORD.time]!;
  return start === 0 ? nowMs : parseExactTime(bytes.toString('latin1', start, records[at + WORD.timeEnd]!));
}

/** The event's values, for what has to inspect them. */
function submissionOf({ bytes, records }: ScannedBody, event: number, occurredAt: number): ParsedSubmission {
  const at = event * RECORD_WORDS;
  const payloadText = bytes.toString('utf8', records[at + WORD.payload]!, records[at + WORD.payloadEnd]!);
  const trace = records[at + WORD.trace]!;
  return {
    type: EVENT_TYPES[records[at + WORD.type]!]!,
    payload: JSON.parse(payloadText) as JsonObject,
    payloadText,
    traceId: trace === 0 ? undefined : bytes.toString('latin1', trace, records[at + WORD.traceEnd]!),
    occurredAt,
  };
}

/** The event at hand as the rules' prefilters see it. */
class ScannedText implements TextView {
  agent_id = '';
  #event = 0;
  #body!: ScannedBody;
  /** The event whose texts that may hold JSON were read last, and what came of it. */
  #checked = -1;
  #checkedOdd = false;
  /** The path that was read last, and what stands there: the index asks for the tool, then rules do. */
  #path = -1;
  #value: unknown;
  readonly #texts = new KnownTexts();

  of(body: ScannedBody, event: number, agentId: string): this {
    this.#body = body;
    this.#event = event;
    this.#checked = -1;
    this.#path = -1;
    this.agent_id = agentId;
    return this;
  }

  get type(): EventType {
    return EVENT_TYPES[this.#word(WORD.type)]!;
  }

  get trace_id(): string | undefined {
    const start = this.#word(WORD.trace);
    return start === 0 ? undefined : this.#body.bytes.toString('latin1', start, this.#word(WORD.trace + 1));
  }

  get bytes(): number {
    return this.#word(WORD.payloadEnd) - this.#word(WORD.payload);
  }

  at(path: number): unknown {
    if (path !== this.#path) {
      this.#value = this.#valueAt(path);
      this.#path = path;
    }
    return this.#value;
  }

  #valueAt(path: number): unknown {
    const start = this.#word(WORD.watched + 2 * path);
    const end = this.#word(WORD.watched + 2 * path + 1);
    if (start === 0) return undefined;
    if (end - start > VALUE_BYTES_MAX) return UNKNOWN;
    const { bytes } = this.#body;
    return bytes[start] === QUOTE
      ? this.#texts.text(bytes, start, end)
      : parseExact(bytes.toString('utf8', start, end));
  }

  lengthAt(path: number): number {
    return this.#word(WORD.watched + 2 * path + 1) - this.#word(WORD.watched + 2 * path);
  }

  firstAt(path: number): number {
    const start = this.#word(WORD.watched + 2 * path);
    return start === 0 ? 0 : this.#body.bytes[start]!;
  }

  isElsewhere(path: number): boolean {
    return (this.#word(WORD.elsewhere) & (1 << path)) !== 0;
  }

  shown(word: number): number {
    return this.#word(WORD.bits + word);
  }

  hasAny(word: number, mask: number): boolean {
    return (this.#word(WORD.bits + word) & mask) !== 0 || this.isOdd;
  }

  get isOdd(): boolean {
    if ((this.#word(WORD.flags) & FLAG.odd) !== 0) return true;
    const count = this.#word(WORD.forms);
    if (count === 0) return false;
    if (this.#checked !== this.#event) {
      this.#checked = this.#event;
      this.#checkedOdd = false;
      for (let i = 0; i < count && !this.#checkedOdd; i++) {
        const at = WORD.forms + 1 + 2 * i;
        const json = this.#body.bytes.toString('utf8', this.#word(at), this.#word(at + 1));
        this.#checkedOdd = !isWhatItShows(JSON.parse(json) as string);
      }
    }
    return this.#checkedOdd;
  }

  #word(word: number): number {
    return this.#body.records[this.#event * RECORD_WORDS + word]!;
  }
}

function isCloser(looked: Judgement | Closer): looked is Closer {
  return 'entries' in looked;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** The bytes of the longest value that is decoded for a demand. */
const VALUE_BYTES_MAX = 256;
/** Positions of texts that are known, and how long they are at most: 32 KB. */
const KNOWN_TEXTS = 512;
const KNOWN_CHARACTERS_MAX = 64;

/**
 * Strings that come again and again, as names of tools do: to compare a text's bytes with a string that is there costs
 * a fraction of making one, and V8 keeps the hash of a string that it has looked up before.
 */
class KnownTexts {
  readonly #texts: string[] = Array.from({ length: KNOWN_TEXTS }, () => '');

  /** The text that a JSON string stands for, which lies there with its quotes. */
  text(bytes: Buffer, open: number, end: number): string {
    const start = open + 1;
    const length = end - start - 1;
    if (length === 0) return '';
    const place = (bytes[start]! + 5 * bytes[end - 2]! + 37 * length) % KNOWN_TEXTS;
    const known = this.#texts[place]!;
    if (known.length === length && isText(known, bytes, start)) return known;
    for (let i = start; i < end - 1; i++)
      if (bytes[i] === BACKSLASH || bytes[i]! > 0x7e) return JSON.parse(bytes.toString('utf8', open, end)) as string;
    const text = bytes.toString('latin1', start, end - 1);
    if (length <= KNOWN_CHARACTERS_MAX) this.#texts[place] = text;
    return text;
  }
}

function isText(text: string, bytes: Buffer, start: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}
