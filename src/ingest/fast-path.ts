// The fast path of ingestion: the steps of ingest.ts without making JavaScript values of what no rule looks at.
// A body that the codec does not read (`undefined`) takes the general path. So does each event that some rule may match: it is judged, encoded and rendered
// there, and its result goes in its place among the others.
// Invariant: outcome, matches, reply and stored row are the same on both paths (test/ingest/fast-path.test.ts).

import type { AgentRecord } from '../../schemas/agent.ts';
import { EVENT_TYPES, type EventType } from '../../schemas/closed-sets.ts';
import type { JsonObject } from '../../schemas/common.ts';

import { parseTime } from '../../schemas/time.ts';
import { BufferPool } from '../common/buffer-pool.ts';
import { mintId } from '../common/ids.ts';
import type { Allowance } from '../policy/allowance.ts';
import { ALLOWED, judge, type RuleSet } from '../policy/engine.ts';
import type { Decision, Judgement, TextView } from '../policy/judgement.ts';
import { encodeEvents } from './encode.ts';
import { BITS_WORD, FastCodec, FLAG, fitsDigits, RECORD_WORDS, type ScannedBody, WORD } from './fast-codec.ts';
import type { Answer, IngestRequest } from './ingest-parts.ts';
import type { Shape } from './json.ts';
import type { Judged } from './resolve-quotas.ts';
import { isTimely, type ParsedSubmission } from './submission.ts';
import { renderEvent } from './submission-reply.ts';
import { View } from './view.ts';

/** A plain body, and when its events happened (epoch ms). */
export type FastRead = { body: ScannedBody; occurredAt: readonly number[] };
/** `rows` and `summaries` stand until the next body is read or written: whoever keeps them copies them at once. */
type FastWritten = { rows: Buffer; summaries: Buffer; answer: Answer };

export class FastPath {
  readonly #events: FastCodec;
  readonly #text = new PlainText();

  constructor(buffers = new BufferPool()) {
    this.#events = new FastCodec(buffers);
  }

  /** undefined: not plain, or it holds an event of more than `eventBytesMax`. */
  read(bytes: Buffer, shape: Shape, rules: RuleSet, nowMs: number, eventBytesMax = bytes.length): FastRead | undefined {
    const body = this.#events.read(bytes, shape, rules.literals);
    if (body === null) return undefined;
    if (bytes.length > eventBytesMax && holdsLarger(body, eventBytesMax)) {
      this.#events.release(body);
      return undefined;
    }
    const occurredAt: number[] = [];
    for (let i = 0; i < body.events; i++) {
      const at = occurredAtOf(body, i, nowMs);
      if (at === null || !isTimely(at, nowMs)) return undefined;
      occurredAt.push(at);
    }
    return { body, occurredAt };
  }

  /** Throws TooLong where there is an allowance and it is not enough. */
  judge({ body, occurredAt }: FastRead, agent: AgentRecord, rules: RuleSet, allowance?: Allowance): Judgement[] {
    const text = this.#text.of(body, agent.id);
    const judgements: Judgement[] = [];
    for (let i = 0; i < body.events; i++) {
      text.event = i;
      const judgement = rules.judgeByText(text);
      judgements.push(judgement ?? judge(rules, new View(submissionOf(body, i, occurredAt[i]!), agent), allowance));
    }
    return judgements;
  }

  /** Everything of it happens at once: the memory below is shared by all requests. `now`: when uncounted events arrived. */
  write(
    request: IngestRequest,
    shape: Shape,
    { agent, read, judged, now }: { agent: AgentRecord; read: FastRead; judged: readonly Judged[]; now: number },
  ): FastWritten {
    const { body, occurredAt } = read;
    const events = this.#events;
    events.begin(body, request, shape);
    for (let i = 0; i < body.events; i++) {
      const { decision, countedAt } = judged[i]!;
      const receivedAt = countedAt ?? now;
      const at = occurredAt[i]!;
      if (decision === ALLOWED && isSimple(body, i) && fitsDigits(at) && fitsDigits(receivedAt))
        events.allow(i, at, receivedAt);
      else events.insert(made(request, agent, submissionOf(body, i, at), { decision, receivedAt }));
    }
    const { rows, summaries, reply, release } = events.finish();
    return { rows, summaries, answer: { body: reply, release } };
  }

  /** Nobody asks about these events any more. */
  release({ body }: FastRead): void {
    this.#events.release(body);
  }
}

/** What the general path makes of one event. */
function made(
  { account, requestId, agentId }: IngestRequest,
  agent: AgentRecord,
  submission: ParsedSubmission,
  { decision, receivedAt }: { decision: Decision; receivedAt: number },
): { row: Buffer; summary: string; reply: string } {
  const id = mintId('event', receivedAt);
  const { rows, summaries } = encodeEvents([{ account, agent, id, submission, receivedAt, decision, requestId }]);
  const verdict = { id, occurredAt: submission.occurredAt, receivedAt, result: decision.resultJson };
  return { row: rows, summary: summaries[0]!, reply: renderEvent(agentId, submission, verdict) };
}

function holdsLarger({ events, records }: ScannedBody, bytesMax: number): boolean {
  for (let at = 0; at < events * RECORD_WORDS; at += RECORD_WORDS)
    if (records[at + WORD.payloadEnd]! - records[at + WORD.payload]! > bytesMax) return true;
  return false;
}

/** Its row holds nothing that has to be decoded. */
function isSimple({ records }: ScannedBody, event: number): boolean {
  return (records[event * RECORD_WORDS + WORD.flags]! & (FLAG.escapedUnicode | FLAG.oddColumn)) === 0;
}

function occurredAtOf({ bytes, records }: ScannedBody, event: number, nowMs: number): number | null {
  const at = event * RECORD_WORDS;
  const start = records[at + WORD.time]!;
  return start === 0 ? nowMs : parseTime(bytes.toString('latin1', start, records[at + WORD.timeEnd]!));
}

/** The event's values, for what has to look at them. */
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
class PlainText implements TextView {
  event = 0;
  agent_id = '';
  #body!: ScannedBody;
  readonly #tools = new KnownTexts();
  readonly #traces = new KnownTexts();

  of(body: ScannedBody, agentId: string): this {
    this.#body = body;
    this.agent_id = agentId;
    return this;
  }

  get type(): EventType {
    return EVENT_TYPES[this.#word(WORD.type)]!;
  }

  tool(): string | undefined | null {
    const flags = this.#word(WORD.flags);
    if ((flags & FLAG.oddTool) !== 0) return null;
    return (flags & FLAG.tool) === 0
      ? undefined
      : this.#tools.text(this.#body.bytes, this.#word(WORD.tool), this.#word(WORD.toolEnd));
  }

  traceId(): string | undefined {
    const start = this.#word(WORD.trace);
    return start === 0 ? undefined : this.#traces.text(this.#body.bytes, start, this.#word(WORD.traceEnd));
  }

  /** Where text is escaped as \u anything may stand: then everything does. */
  hasAny(word: number, mask: number): boolean {
    return (this.#word(BITS_WORD + word) & mask) !== 0 || (this.#word(WORD.flags) & FLAG.escapedUnicode) !== 0;
  }

  #word(word: number): number {
    return this.#body.records[this.event * RECORD_WORDS + word]!;
  }
}

/** Places of texts that are known, and how long they are at most: 8 KB. */
const KNOWN_TEXTS = 128;
const KNOWN_CHARACTERS_MAX = 64;

/**
 * ASCII texts that come again and again, as tools do: to compare a text's bytes with a string that is there costs a fraction of
 * making one, and V8 keeps the hash of a string that it has looked up before.
 */
class KnownTexts {
  readonly #texts: string[] = Array.from({ length: KNOWN_TEXTS }, () => '');

  text(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length === 0 || length > KNOWN_CHARACTERS_MAX) return bytes.toString('latin1', start, end);
    const place = (bytes[start]! + 5 * bytes[end - 1]! + 37 * length) % KNOWN_TEXTS;
    const known = this.#texts[place]!;
    if (known.length === length && isText(known, bytes, start)) return known;
    const text = bytes.toString('latin1', start, end);
    this.#texts[place] = text;
    return text;
  }
}

function isText(text: string, bytes: Buffer, start: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}
