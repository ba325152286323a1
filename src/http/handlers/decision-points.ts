// Decision points: tools that ask in a form of their own whether something may be done. Each form is two pure
// functions, from its request to an event and from what was decided to its answer; the event goes the path of every
// event.
// What waits for an approval is waited for here, for a bounded time, and then denied with the approval's id: handing it
// to the tool's own question would have the one who asks approve it.
// Under an Idempotency-Key a permission is given again for minutes, to the retries of one call; behind every wait or
// repetition it is looked at again: the caller, the agent, the policies in force now.
// Invariant: an answer that lets something be done is given when its event is recorded and allowed, and would be
// allowed now. Anything else is an error or a denial, so a tool that fails closed fails closed here, too.

import type Type from 'typebox';
import { Compile } from 'typebox/compile';
import type { EventType } from '../../../schemas/closed-sets.ts';
import type { JsonObject } from '../../../schemas/common.ts';
import {
  ClaudeHook,
  ClaudeHookAnswer,
  LiteLlmAnswer,
  LiteLlmCheck,
  OpaAnswer,
  OpaQuery,
} from '../../../schemas/decision-points.ts';
import type { Event, PolicyResult } from '../../../schemas/event.ts';
import { parseExactTime } from '../../../schemas/time.ts';
import { exactJson, parseExact } from '../../common/exact-json.ts';
import { given } from '../../common/given.ts';
import { isId } from '../../common/ids.ts';
import { APPROVAL_ANSWERED_SECONDS, DECISION_REPEATED_MS } from '../../common/limits.ts';
import { dropOptionalNulls } from '../../common/optional-nulls.ts';
import { errorDetails, validationFailed } from '../../common/validation.ts';
import type { Answer, Caller } from '../../ingest/ingest-parts.ts';
import { parseJson } from '../../ingest/json.ts';
import { isTraceId } from '../../ingest/submission.ts';
import { integer, type QueryOf, text } from '../query.ts';
import { notFound } from '../reply.ts';
import { type Call, eventBody, type Parts, type Route, route } from '../route.ts';
import { knownApproval } from './known-approval.ts';

type Asked = {
  event: { type: EventType; payload: JsonObject; trace_id?: string };
  /** Id or name; undefined: the query names it, or the key is bound to one. */
  agent?: string | undefined;
};
/** `reason`: why not; undefined: it may be done. */
type Verdict = { event: string; result: PolicyResult; reason: string | undefined; redacted: JsonObject | undefined };

type Form = {
  path: string;
  id: string;
  summary: string;
  description: string;
  request: Type.TSchema;
  answer: Type.TSchema;
  example: JsonObject;
  /** An agent that names itself with nothing else is registered by this name. */
  agent: string | undefined;
  /** undefined: there is nothing to ask about. */
  asked(body: JsonObject): Asked | undefined;
  answered(body: JsonObject, verdict: Verdict): object;
};

const TRACE_CHARACTERS_MAX = 200;

function traceOf(value: unknown): { trace_id?: string } {
  if (typeof value !== 'string' || value === '' || !isTraceId(value)) return {};
  return { trace_id: value.slice(0, TRACE_CHARACTERS_MAX) };
}

export const claude: Form = {
  path: '/v1/hooks/claude-code',
  id: 'decideClaudeHook',
  summary: 'Answer a hook of Claude Code',
  description:
    '`PreToolUse`: the call is judged before it is made, and denied where a policy blocks it. `PostToolUse`: its result is recorded and judged. `UserPromptSubmit`: what a person says is judged. What is allowed is answered with `{}`: the own rules of the tool still hold.',
  request: ClaudeHook,
  answer: ClaudeHookAnswer,
  example: { hook_event_name: 'PreToolUse', session_id: 's-1', tool_name: 'Bash', tool_input: { command: 'ls' } },
  agent: 'claude-code',
  asked(body) {
    const { tool_name: tool, tool_use_id: call_id, session_id, prompt } = body;
    const trace = traceOf(session_id);
    switch (body['hook_event_name']) {
      case 'PreToolUse':
        return {
          event: { type: 'tool_call', payload: given({ tool, arguments: body['tool_input'], call_id }), ...trace },
        };
      case 'PostToolUse': {
        const payload = given({ kind: 'tool_result', tool_name: tool, call_id, result: body['tool_response'] });
        return { event: { type: 'custom', payload, ...trace } };
      }
      case 'UserPromptSubmit':
        return { event: { type: 'prompt', payload: given({ prompt }), ...trace } };
      default:
        return undefined;
    }
  },
  answered(body, { reason }) {
    if (reason === undefined) return {};
    if (body['hook_event_name'] !== 'PreToolUse') return { decision: 'block', reason };
    const denial = { permissionDecision: 'deny', permissionDecisionReason: reason };
    return { hookSpecificOutput: { hookEventName: 'PreToolUse', ...denial } };
  },
};

const opa: Form = {
  path: '/v1/data/gatehouse/decision',
  id: 'decideOpaQuery',
  summary: 'Decide, in the form of the Open Policy Agent',
  description:
    'As the data API of OPA: `{"input": …}` is answered with `{"result": {"decision": "allow" | "deny", "reason", …}}`. The event is recorded like any other.',
  request: OpaQuery,
  answer: OpaAnswer,
  example: { input: { agent: 'support-bot', tool: { name: 'refund' }, args: { amount: 20 } } },
  agent: undefined,
  asked(body) {
    const input = body['input'] as JsonObject;
    const tool = isObject(input['tool']) ? input['tool']['name'] : input['tool'];
    const args = input['arguments'] ?? input['args'];
    const { type, payload, messages } = input;
    const agent = typeof input['agent'] === 'string' ? input['agent'] : undefined;
    const trace = traceOf(input['trace_id']);
    // What is no event by its own word is the call of a tool.
    if (typeof type === 'string')
      return { event: { type: type as EventType, payload: payload as JsonObject, ...trace }, agent };
    if (typeof tool !== 'string')
      throw validationFailed('The query does not fit.', [{ path: '/input/tool', message: 'must name a tool' }]);
    return { event: { type: 'tool_call', payload: given({ tool, arguments: args, messages }), ...trace }, agent };
  },
  answered(_body, { event, result, reason, redacted }) {
    const isAllowed = reason === undefined;
    return {
      result: given({
        ...{ decision: isAllowed ? 'allow' : 'deny', allow: isAllowed, reason, event_id: event, redacted },
        ...{ policy_id: result.policy_id ?? undefined, approval_id: result.approval_id },
      }),
    };
  },
};

const liteLlm: Form = {
  path: '/beta/litellm_basic_guardrail_api',
  id: 'decideLiteLlmCheck',
  summary: "Answer LiteLLM's generic guardrail",
  description:
    'What goes to a model is judged as a `prompt`, what comes back as a `completion`. Where a policy redacts, `texts` are what LiteLLM should use.',
  request: LiteLlmCheck,
  answer: LiteLlmAnswer,
  example: { texts: ['Where is my order?'], input_type: 'request', model: 'gpt-4o' },
  agent: 'litellm',
  asked(body) {
    const { texts, model, tool_calls, litellm_call_id: call_id } = body;
    const trace = traceOf(body['litellm_trace_id']);
    const last = Array.isArray(texts) ? texts.at(-1) : undefined;
    return body['input_type'] === 'response'
      ? {
          event: {
            type: 'completion',
            payload: given({ model, response: last, texts, tool_calls, call_id }),
            ...trace,
          },
        }
      : { event: { type: 'prompt', payload: given({ model, prompt: last, texts, tool_calls, call_id }), ...trace } };
  },
  answered(body, { reason, redacted }) {
    if (reason !== undefined) return { action: 'BLOCKED', blocked_reason: reason };
    const texts = redacted?.['texts'];
    return texts === undefined || exactJson(texts) === exactJson(body['texts'])
      ? { action: 'NONE' }
      : { action: 'GUARDRAIL_INTERVENED', texts };
  },
};

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const query = {
  agent: text('Id or name of the agent; a name that is new is registered. Left out: the one that the key is bound to'),
  wait: integer('Seconds to wait for the decision where an approval is needed', {
    minimum: 0,
    maximum: APPROVAL_ANSWERED_SECONDS,
    default: APPROVAL_ANSWERED_SECONDS,
  }),
};
type PointCall = Call<Buffer, QueryOf<typeof query>>;

export const decisionPointRoutes: Route[] = [claude, opa, liteLlm].map((form) => {
  const validator = Compile(form.request);
  return route({
    method: 'POST',
    path: form.path,
    needs: 'submit',
    bound: 'handler',
    query,
    body: eventBody('event', form.request),
    idempotency: 'heeded',
    operation: {
      id: form.id,
      tag: 'Decision points',
      summary: form.summary,
      description: form.description,
      answers: { 200: { description: 'What was decided', schema: form.answer } },
      errors: ['not_found', 'idempotency_conflict', 'idempotency_in_progress', 'unavailable'],
      bodyExample: form.example,
    },
    submit(call: PointCall, parts, caller) {
      const body = parseJson(call.body, parseExact) as JsonObject;
      if (!validator.Check(body)) dropOptionalNulls(form.request, body);
      if (!validator.Check(body))
        throw validationFailed('The question does not fit its schema.', errorDetails(validator, body));
      const asked = form.asked(body);
      if (asked === undefined) caller.accepted({ body: '{}' });
      else
        decide(call, parts, { form, asked }, caller).then(
          (verdict) => caller.accepted({ body: exactJson(form.answered(body, verdict) as JsonObject) }),
          (error: unknown) => caller.refused(error),
        );
    },
  });
});

type Question = { form: Form; asked: Asked };

async function decide(call: PointCall, parts: Parts, question: Question, caller: Caller): Promise<Verdict> {
  const agentId = await agentOf(call, parts, question);
  const { account, requestId, idempotencyKey } = call;
  const request = {
    ...{ account, agentId, requestId, idempotencyKey, shape: 'one' as const, purpose: question.form.path },
    body: Buffer.from(exactJson(question.asked.event)),
  };
  const { event, isRepeat } = await new Promise<{ event: Event; isRepeat: boolean }>((resolve, refused) => {
    parts.ingest.submit(request, {
      accepted: (answer) => resolve({ event: eventIn(answer), isRepeat: answer.isRepeat === true }),
      refused,
      setApart: () => caller.setApart(),
      get isGone() {
        return caller.isGone;
      },
      whenGone: (waiting) => caller.whenGone(waiting),
    });
  });
  const { id, policy_result: result, redacted_payload: redacted } = event;
  const isPending = result.outcome === 'pending';
  const word = isPending ? await undecided(call, parts, result, caller) : wordOf(event);
  const isOld = isPending || isRepeat;
  const reason = isOld ? (word.reason ?? (await notAnyMore(parts, account, { event, word, isRepeat }))) : word.reason;
  return { event: id, result, reason, redacted: redacted as JsonObject | undefined };
}

/** What was said of an event: why not, or when it was allowed (epoch ms). */
type Word = { reason: string; allowedMs?: undefined } | { reason?: undefined; allowedMs: number };

/** Why what was allowed is allowed no more; undefined: it is. Throws ServiceError not_found, unavailable. */
async function notAnyMore(
  { registry }: Parts,
  account: string,
  { event, word, isRepeat }: { event: Event; word: Word; isRepeat: boolean },
): Promise<string | undefined> {
  const { id, agent_id, type, payload, trace_id, timestamp, received_at: created_at, policy_result } = event;
  if (isRepeat && Date.now() - word.allowedMs! > DECISION_REPEATED_MS)
    return `This was allowed more than ${DECISION_REPEATED_MS / 60_000} minutes ago under the same Idempotency-Key: ask under a new one.`;
  const { verdict } = await registry.evaluations.review(
    account,
    { agent_id, event_id: id, created_at, matches: policy_result.matches },
    { type, traceId: trace_id ?? undefined, occurredMs: parseExactTime(timestamp)!, payloadText: exactJson(payload) },
  );
  if (verdict === 'agent_gone') throw notFound('agent');
  if (verdict === 'agent_inactive') return AGENT_OFF;
  return verdict === 'blocked' ? POLICY_SINCE : undefined;
}

const AGENT_OFF = 'Blocked: the agent is switched off.';
const POLICY_SINCE = 'Blocked by a policy that was made since it was asked for.';

function eventIn({ body, release }: Answer): Event {
  const event = parseExact(body.toString()) as unknown as Event;
  release?.();
  return event;
}

/** Throws ServiceError where there is none. */
async function agentOf(
  { account, actor, principal, query }: PointCall,
  parts: Parts,
  { form, asked }: Question,
): Promise<string> {
  const asking = query.agent ?? asked.agent;
  const named = asking ?? form.agent;
  if (principal.agentId !== null && asking === undefined) return principal.agentId;
  if (named === undefined)
    throw validationFailed('It is not said which agent asks.', [
      { path: 'agent', message: 'must be given: in the query, in the body, or by a key that is bound to an agent' },
    ]);
  const id = isId('agent', named) ? named : (await parts.registry.agents.byName(account, named))?.id;
  if (principal.agentId !== null && id !== principal.agentId) throw notFound('agent');
  if (id !== undefined) return id;
  const registered = { name: named, metadata: { registered_by: form.path } };
  return (await parts.registry.newAgents.ofRequest(account, actor).register(registered)).id;
}

function wordOf({ received_at, policy_result: { outcome, reason, matches, policy_id } }: Event): Word {
  if (outcome === 'allowed') return { allowedMs: Date.parse(received_at) };
  if (reason === 'agent_inactive') return { reason: AGENT_OFF };
  const name = matches.find((match) => match.policy_id === policy_id)?.name;
  return { reason: name === undefined ? 'Blocked.' : `Blocked by policy "${name}".` };
}

/** The decision, where there is one by then. */
async function undecided(call: PointCall, parts: Parts, result: PolicyResult, caller: Caller): Promise<Word> {
  caller.setApart();
  const { account, client, query } = call;
  const id = result.approval_id!;
  const waitMs = query.wait * 1000;
  client.longPollMs = waitMs;
  const { known } = await knownApproval(parts, account, id);
  const decided =
    known?.outcome === 'pending' ? await parts.approvalWaits.wait(account, known, waitMs, client.signal) : known;
  await call.keepAllowed();
  if (decided === null || decided.outcome === 'pending')
    return {
      reason: `Approval ${id} is pending: a person has not decided it yet. Do not try again before it is decided.`,
    };
  if (decided.outcome === 'allowed') return { allowedMs: Date.parse(decided.decided_at!) };
  if (decided.status === 'approved') return { reason: decided.reason === 'agent_inactive' ? AGENT_OFF : POLICY_SINCE };
  return { reason: `Approval ${id} was ${decided.status === 'denied' ? 'denied' : 'not decided in time'}.` };
}
