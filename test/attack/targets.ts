// What fuzzing throws inputs at, in this process: bodies read by both codecs, requests of spans, and policies from
// their text to a stored event. An input may be refused; what else happens is a finding: an unexpected error, two
// readers that differ, or work that takes too long.
import type { JsonObject } from '../../schemas/common.ts';
import { BufferPool } from '../../src/common/buffer-pool.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { ObjectText } from '../../src/common/object-text.ts';
import { readPolicyFiles } from '../../src/common/policy-files.ts';
import { claudeCode } from '../../src/hooks/claude-code-hooks.ts';
import { denied, readHook } from '../../src/hooks/read-hook.ts';
import { BodyInflater, type InflatedBody } from '../../src/http/reading/inflate-body.ts';
import { BodyBudget } from '../../src/http/reading/read-body.ts';
import { encodeEvents } from '../../src/ingest/encode.ts';
import { readBatch, readSubmission } from '../../src/ingest/submission.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import { Undecodable } from '../../src/otlp/span.ts';
import { groupsOf, partsOf, readSpans } from '../../src/otlp/span-groups.ts';
import { checkPolicy, type PolicyInput } from '../../src/policy/compile.ts';
import { decide } from '../../src/policy/decide.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { EventView } from '../../src/policy/judgement.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { assetPath } from '../../src/process/assets.ts';
import { account, agent, NOW, policiesOf, requestId } from '../ingest/support.ts';
import { isMoreByJavaScript } from '../policy/json-spellings.ts';

/**
 * One input takes so long at most: twice what the worst ordinary one takes, and ten times what another's event may
 * wait.
 */
export const STALL_MS = 100;

export class Finding extends Error {
  override name = 'Finding';
}

const EVENT_BYTES_MAX = 1024 * 1024;
const AT = new Date(NOW).toISOString();
const NO_RULES = new RuleSet([]);
const wasm = new WasmCodec();

/** Both readers take the same bodies. */
export function json(input: string): void {
  const bytes = Buffer.from(input, 'latin1');
  for (const shape of ['one', 'many'] as const) {
    const read = refused(() => (shape === 'one' ? readSubmission(bytes, NOW) : readBatch(bytes, NOW, EVENT_BYTES_MAX)));
    const request = { account, agentId: agent.id, shape, body: bytes, requestId, idempotencyKey: undefined };
    const decoded = wasm.decode(request, { rules: NO_RULES, nowMs: NOW, eventBytesMax: EVENT_BYTES_MAX });
    if (decoded === undefined) continue;
    decoded.release();
    if (read === undefined) throw new Finding(`${shape}: wasm-codec.ts takes what json-codec.ts refuses`);
  }
}

const budget = new BodyBudget();
const inflater = new BodyInflater(budget, new BufferPool());
const INFLATION = { account, bytesMax: EVENT_BYTES_MAX, isGone: () => false };

/** Inflates the input and reads it as JSON. An input that is too large to be inflated at once is read later. */
export function gzip(input: string): void {
  const held = budget.held;
  const read = ({ bytes, release }: InflatedBody) => {
    json(bytes.toString('latin1'));
    release();
  };
  const inflated = refused(() => inflater.inflate(Buffer.from(input, 'latin1'), INFLATION));
  if (inflated instanceof Promise)
    inflated.then(read).catch((error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
    });
  else {
    if (inflated !== undefined) read(inflated);
    if (budget.held !== held) throw new Finding('bytes are held that were given back');
  }
}

export function expression(input: string): void {
  policy({ type: 'block_action', conditions: { expression: input }, actions: ['block'] }, EVENTS);
}

/** It is in the payload three times: 60 KB, since what is bounded is work for each byte. */
const TEXT_CHARACTERS_MAX = 20_000;

/** A pattern, a line of dashes, and the text that it is tried on. */
export function pattern(input: string): void {
  const [source = '', given = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaa!'] = input.split('\n---\n');
  const text = given.slice(0, TEXT_CHARACTERS_MAX);
  const payload = { text, list: [text, { [text.slice(0, 100)]: text }] };
  policy({ type: 'data_filter', conditions: { patterns: [source], redact: true }, actions: ['alert'] }, [payload]);
  policy({ type: 'block_action', conditions: { text: { matches: source } }, actions: ['block'] }, [payload]);
}

/** `{"schema": …, "payload": {…}}`. */
export function schema(input: string): void {
  let parsed: { schema?: unknown; payload?: unknown } | null;
  try {
    parsed = JSON.parse(input) as typeof parsed;
  } catch {
    return;
  }
  const payload = typeof parsed?.payload === 'object' && parsed.payload !== null ? (parsed.payload as JsonObject) : {};
  if (Array.isArray(payload)) return;
  policy({ type: 'block_action', conditions: { payload_schema: parsed?.schema }, actions: ['block'] }, [
    payload,
    ...EVENTS,
  ]);
}

const LARGE_AMOUNTS = new RuleSet(
  policiesOf([{ type: 'block_action', conditions: { 'payload.arguments.amount': { gt: 1000 } }, actions: ['block'] }]),
);

/** Text inside text: what JavaScript reads as a large amount is blocked. */
export function inner(input: string): void {
  const { outcome } = decide(judge(LARGE_AMOUNTS, callOf(JSON.stringify({ arguments: input }))), [], () => '');
  if (outcome !== 'blocked' && isMoreByJavaScript(input)) throw new Finding('a large amount is not blocked');
  if (outcome === 'blocked' && !/[{["'`]/.test(input)) throw new Finding('plain text is blocked');
}

const EVENTS: JsonObject[] = [
  { a: 1, text: 'hello', list: [1, 'two', null, { three: 3 }], nested: { deep: { er: true } } },
  { c: Array.from({ length: 300 }, (_, i) => `item ${i}`), text: 'x'.repeat(5_000), amount: 1e21 },
  {},
];

/** From its text to events that were judged by it and are ready to be stored. */
function policy(input: PolicyInput, payloads: readonly JsonObject[]): void {
  const isSound = refused(() => {
    checkPolicy(input);
    return true;
  });
  if (isSound === undefined) return;
  const rules = new RuleSet(
    policiesOf([{ ...input, conditions: input.conditions as object, actions: [input.actions].flat() }]),
  );
  for (const made of payloads) {
    const payloadText = JSON.stringify(made);
    // As a body is read: what was cut out of another text is slow to read by character.
    const payload = JSON.parse(payloadText) as JsonObject;
    const event = {
      type: 'prompt' as const,
      trace_id: undefined,
      agent_id: agent.id,
      timestamp: AT,
    };
    const decision = decide(judge(rules, { ...event, payload, payloadText, agent }), [], () => '');
    if (decision.matches.some(({ detail }) => detail.reason === 'error'))
      throw new Finding('a rule failed as none should');
    const submission = { type: 'prompt' as const, payload, payloadText, traceId: undefined, occurredAt: NOW };
    encodeEvents([
      { account, agent, id: 'evt_01jd5x0f6w3q8z5n7r2k9v4t1m', submission, receivedAt: NOW, decision, requestId: 'r' },
    ]);
  }
}

/** undefined: it was refused as it should. */
function refused<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ServiceError || error instanceof PolicyError) return undefined;
    throw error;
  }
}

/** Each form is tried on all bytes. */
export function spans(input: string): void {
  const body = Buffer.from(input, 'latin1');
  for (const form of ['protobuf', 'json'] as const) {
    try {
      const groups = groupsOf(readSpans({ body, form }, SPANS_OPTIONS), new Map());
      const parts = groups.flatMap(({ spans }) => [...partsOf(spans, EVENT_BYTES_MAX)]).flat();
      for (const { payloadText } of parts.flatMap(({ events }) => events)) JSON.parse(payloadText);
    } catch (error) {
      if (!(error instanceof Undecodable)) throw error;
    }
  }
}

const SPANS_OPTIONS = { boundTo: undefined, isTimely: () => true };

const [SHELL, SQL] = readPolicyFiles([assetPath('policies/destructive-commands.yaml')]).map(
  ({ policy }) => new RuleSet(policiesOf([policy as never])),
) as [RuleSet, RuleSet];

/** It is in the payload four times, and two policies may take 10 ms on an event of this size. */
const COMMAND_CHARACTERS_MAX = 5_000;

/** A text that may be a command line or a query: read whatever is in it, by the policies on both. */
export function commands(input: string): void {
  const text = input.slice(0, COMMAND_CHARACTERS_MAX);
  const payloadText = JSON.stringify({
    arguments: { text, list: [text, { [text.slice(0, 100)]: text }], args: text.split(' '), command: 'sh' },
  });
  for (const rules of [SHELL, SQL]) {
    const { matches } = decide(judge(rules, callOf(payloadText)), [], () => '');
    if (matches.some(({ detail }) => detail.reason === 'error')) throw new Finding('a rule failed as none should');
  }
}

function callOf(payloadText: string): EventView {
  const event = { type: 'tool_call' as const, trace_id: undefined, agent_id: agent.id, agent };
  return {
    ...event,
    timestamp: AT,
    payload: JSON.parse(payloadText) as JsonObject,
    payloadText,
  };
}

function mustBeBlocked(rules: RuleSet, payload: object): string {
  const { outcome } = decide(judge(rules, callOf(JSON.stringify(payload))), [], () => '');
  if (outcome !== 'blocked') throw new Finding('it passes');
  return outcome;
}

/** A spelling of what the policy on shell commands names. */
export function shell(input: string): void {
  mustBeBlocked(SHELL, { tool: 'Bash', arguments: { command: input } });
}

export function sql(input: string): void {
  mustBeBlocked(SQL, { tool: 'query', arguments: { query: input } });
}

/** Such a spelling in the form in which `gatehouse hook` is given it, to the answer that the command prints. */
export function hook(input: string): void {
  const stdin = JSON.stringify({
    ...{ session_id: 's-1', hook_event_name: 'PreToolUse', tool_name: 'Bash' },
    tool_input: { command: input, description: 'x' },
  });
  const { judged, form } = readHook(claudeCode, ObjectText.of(stdin)!, EVENT_BYTES_MAX);
  if (judged === undefined) throw new Finding('the hook is not asked');
  const reason = mustBeBlocked(SHELL, JSON.parse(judged.payload.text) as object);
  if (!denied(claudeCode, form, reason).answer.includes('"deny"')) throw new Finding('it is not denied');
}

export const TARGETS = { json, gzip, expression, pattern, schema, spans, inner, commands, shell, sql, hook };
