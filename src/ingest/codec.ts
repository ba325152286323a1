// What a codec of submissions does (types alone): it reads a body, judges its events and writes what became of them.
// There are two, tried in this order for each body: wasm-codec.ts reads the common forms on their bytes, json-codec.ts
// reads every body and says what is wrong with one. ingest.ts is the flow that calls them.
// Invariant: for a body that both read, judgements, rows, summaries and answer are the same
// (test/ingest/codecs.test.ts).
import type { AgentRecord } from '../../schemas/agent.ts';
import type { JsonObject } from '../../schemas/common.ts';
import type { Stepped } from '../common/steps.ts';
import type { Allowed } from '../policy/allowance.ts';
import type { RuleSet } from '../policy/engine.ts';
import type { Judgement, ShadowJudgement, Shadows } from '../policy/judgement.ts';
import type { Arrivals } from './arrival.ts';
import type { Answer, IngestRequest } from './ingest-parts.ts';
import type { Decided } from './resolve-quotas.ts';

export type DecodeOptions = {
  rules: RuleSet;
  /** Epoch ms: when an event without a timestamp occurred. */
  nowMs: number;
  /** Bytes of the payload of one event. */
  eventBytesMax: number;
};

export interface Codec {
  readonly name: 'wasm' | 'json';
  /** undefined: another codec must read this body. Throws ServiceError for a body that no event can be taken from. */
  decode(request: IngestRequest, options: DecodeOptions): DecodedBody | undefined;
}

/** `isObserved`: what stands under `usage` of it is the sum of other events (src/otlp/events-of.ts). */
export type Spending = { payload: JsonObject; occurredAt: number; isObserved: boolean };

export interface DecodedBody {
  /** Elements of the body, with those that are refused one by one. */
  readonly elements: number;
  /**
   * null: the element is refused. Throws TooLong where there is an allowance and it does not cover it. Steps that are
   * not done at once belong in a turn of `rules`, or of the shadows.
   */
  judging(element: number, agent: AgentRecord, rules: RuleSet, allowance?: Allowed): Stepped<Judgement | null>;
  /** null: the element is refused, or was judged before it was done. Throws nothing. */
  judgingShadows(element: number, agent: AgentRecord, by: ByShadows): Stepped<ShadowJudgement>;
  /** As the event was sent, where it may say how many tokens it used. undefined: it does not, or is refused. */
  spending(element: number): Spending | undefined;
  /** `judged` and `arrivals`: one for each element; null where the judgement was. */
  encode(agent: AgentRecord, judged: readonly (Decided | null)[], arrivals: Arrivals): Encoded;
  /** The answer that a request with this Idempotency-Key was given before. Of bodies that came with a key. */
  repeat?(outcome: string): Answer;
  /** To be called once, when the body is needed no more. */
  release(): void;
}

export type ByShadows = { shadows: Shadows; allowance: Allowed };

/** `rows` and `summaries` are valid until the next body is decoded or encoded: the append copies them at once. */
export type Encoded = {
  rows: Buffer;
  /** JSON of the summaries; one text may hold several, separated by commas. */
  summaries: readonly (string | Buffer)[];
  events: number;
  answer: Answer;
  /** The text that is kept under the Idempotency-Key, for `repeat`; undefined where the request has none. */
  outcome: string | undefined;
};
