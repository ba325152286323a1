// What every decision point does with its question: records and judges the event, waits for an approval, and says
// whether it may be done. One file beside it for each way in has its form: two pure functions, from its request to an
// event and from what was decided to its answer. The event goes the path of every event.
// What waits for an approval is waited for here, for a bounded time, and then denied with the approval's id: handing it
// to the tool's own question would have the one who asks approve it.
// Under an Idempotency-Key a permission is given again for minutes, to the retries of one call; behind every wait or
// repetition it is looked at again: the caller, the agent, the policies in force now.
// Invariant: an answer that lets something be done is given when its event is recorded and allowed, and would be
// allowed now. Anything else is an error or a denial, so a tool that fails closed fails closed here, too. What was sent
// is recorded, and what is redacted given back, as the text that came.

import type { EventType } from '../../../../schemas/closed-sets.ts';
import type { PolicyResult } from '../../../../schemas/event.ts';
import { parseExactTime } from '../../../../schemas/time.ts';
import { isId } from '../../../common/ids.ts';
import { jsonOf } from '../../../common/json-text.ts';
import { APPROVAL_ANSWERED_SECONDS, DECISION_REPEATED_MS } from '../../../common/limits.ts';
import { ObjectText } from '../../../common/object-text.ts';
import { validationFailed } from '../../../common/validation.ts';
import type { Answer, Caller } from '../../../ingest/ingest-parts.ts';
import { isTraceId } from '../../../ingest/submission.ts';
import { notFound } from '../../answers/reply.ts';
import { integer, type QueryOf, text } from '../../reading/query.ts';
import type { Call, Operation, Parts } from '../../route.ts';
import { knownApproval } from '../known-approval.ts';

export type PointQuestion = {
  /** The path that is asked. */
  purpose: string;
  /** Id or name of the agent, where the request says it itself. */
  agent?: string | undefined;
  /** An agent that names itself with nothing else is registered by this name. */
  otherwise?: string;
  /** `payload`: the text of an object. */
  event: { type: EventType; payload: string; trace: string | undefined };
};
/** `reason`: why not; undefined: it may be done. `redacted`: the payload as it may be used, where a policy redacts. */
export type PointVerdict = {
  event: string;
  result: PolicyResult;
  reason: string | undefined;
  redacted: ObjectText | undefined;
};
/** `waitSeconds`: where the caller says nothing. */
export const queryOf = (waitSeconds = APPROVAL_ANSWERED_SECONDS) => ({
  agent: text('Id or name of the agent; a name that is new is registered. Left out: the one that the key is bound to'),
  wait: integer('Seconds to wait for the decision where an approval is needed', {
    minimum: 0,
    maximum: APPROVAL_ANSWERED_SECONDS,
    default: waitSeconds,
  }),
});
export const pointQuery = queryOf();
export type PointCall = Call<Buffer, QueryOf<typeof pointQuery>>;

/** The properties that each point's route has. */
export const POINT_ROUTE = { method: 'POST', needs: 'submit', bound: 'handler', idempotency: 'heeded' } as const;
export const POINT_OPERATION: Pick<Operation, 'tag' | 'errors'> = {
  tag: 'Decision points',
  errors: ['not_found', 'idempotency_conflict', 'idempotency_in_progress', 'unavailable'],
};

const TRACE_CHARACTERS_MAX = 200;

/** undefined: what was sent can name no trace. */
export function traceOf(value: string | undefined): string | undefined {
  if (value === undefined || value === '' || !isTraceId(value)) return undefined;
  return value.slice(0, TRACE_CHARACTERS_MAX).toWellFormed();
}

/** Decides, and answers with the text that `answerOf` makes of it. */
export function answer(
  call: PointCall,
  parts: Parts,
  { question, answerOf }: { question: PointQuestion; answerOf: (verdict: PointVerdict) => string },
  caller: Caller,
): void {
  decide(call, parts, question, caller)
    .then(answerOf)
    .then(
      (body) => caller.accepted({ body, isOwnForm: true }),
      (error: unknown) => caller.refused(error),
    );
}

export async function decide(
  call: PointCall,
  parts: Parts,
  question: PointQuestion,
  caller: Caller,
): Promise<PointVerdict> {
  const agentId = await agentOf(call, parts, question);
  const { account, requestId, idempotencyKey } = call;
  const request = {
    ...{ account, agentId, requestId, idempotencyKey, shape: 'one' as const, purpose: question.purpose },
    body: Buffer.from(eventText(question.event)),
  };
  const { event, isRepeat } = await new Promise<{ event: Judged; isRepeat: boolean }>((resolve, refused) => {
    parts.ingest.submit(request, {
      accepted: (answer) => resolve({ event: eventIn(answer), isRepeat: answer.isRepeat === true }),
      refused,
      offloaded: () => caller.offloaded(),
      get isGone() {
        return caller.isGone;
      },
      whenGone: (waiting) => caller.whenGone(waiting),
    });
  });
  const { id, result, redacted, text } = event;
  caller.judged?.({ id, type: text.string('type') as EventType, policy_result: result });
  const isPending = result.outcome === 'pending';
  const word = isPending ? await undecided(call, parts, result, caller) : wordOf(event);
  const isOld = isPending || isRepeat;
  const reason = isOld ? (word.reason ?? (await notAnyMore(parts, account, { event, word, isRepeat }))) : word.reason;
  return { event: id, result, reason, redacted };
}

export function eventText({ type, payload, trace }: PointQuestion['event']): string {
  return `{"type":${jsonOf(type)},"payload":${payload}${trace === undefined ? '' : `,"trace_id":${jsonOf(trace)}`}}`;
}

/** An event in the answer of ingestion; `text` has its other members. */
type Judged = { id: string; result: PolicyResult; redacted: ObjectText | undefined; text: ObjectText };

/** The names of the policies that redacted it, for people. */
export function redactedBy({ matches }: PolicyResult): string {
  const names = matches
    .filter(({ type, detail }) => type === 'data_filter' || 'redacted' in detail)
    .map(({ name }) => jsonOf(name));
  return names.length === 1 ? `Policy ${names[0]}` : `One of the policies ${names.join(', ')}`;
}

/** The verdict on an event: why it is not allowed, or when it was allowed (epoch ms). */
type Word = { reason: string; allowedMs?: undefined } | { reason?: undefined; allowedMs: number };

/** Why what was allowed is allowed no more; undefined: it is. Throws ServiceError not_found, unavailable. */
async function notAnyMore(
  { registry }: Parts,
  account: string,
  { event, word, isRepeat }: { event: Judged; word: Word; isRepeat: boolean },
): Promise<string | undefined> {
  const { id, result, text } = event;
  const member = (key: string) => text.string(key)!;
  if (isRepeat && Date.now() - word.allowedMs! > DECISION_REPEATED_MS)
    return `This was allowed more than ${DECISION_REPEATED_MS / 60_000} minutes ago under the same Idempotency-Key: ask under a new one.`;
  const { verdict } = await registry.evaluations.review(
    account,
    { agent_id: member('agent_id'), event_id: id, created_at: member('received_at'), matches: result.matches },
    {
      type: member('type') as EventType,
      traceId: text.string('trace_id'),
      occurredMs: parseExactTime(member('timestamp'))!,
      payloadText: text.raw('payload')!,
    },
  );
  if (verdict === 'agent_gone') throw notFound('agent');
  if (verdict === 'agent_inactive') return AGENT_OFF;
  return verdict === 'blocked' ? POLICY_SINCE : undefined;
}

export const AGENT_OFF = 'Blocked: the agent is switched off.';
export const POLICY_SINCE = 'Blocked by a policy that was made since it was asked for.';

function eventIn({ body, release }: Answer): Judged {
  const text = ObjectText.of(body.toString())!;
  release?.();
  return judgedIn(text);
}

/** `text`: of an event in an answer. */
export function judgedIn(text: ObjectText): Judged {
  const result = JSON.parse(text.raw('policy_result')!) as PolicyResult;
  return { id: text.string('id')!, result, redacted: text.object('redacted_payload'), text };
}

/** Throws ServiceError where there is none. */
async function agentOf(
  { account, actor, principal, query }: PointCall,
  parts: Parts,
  { purpose, agent, otherwise }: PointQuestion,
): Promise<string> {
  const asking = query.agent ?? agent;
  const named = asking ?? otherwise;
  if (principal.agentId !== null && asking === undefined) return principal.agentId;
  if (named === undefined)
    throw validationFailed('It is not said which agent asks.', [
      { path: 'agent', message: 'must be given: in the query, in the body, or by a key that is bound to an agent' },
    ]);
  const id = isId('agent', named) ? named : (await parts.registry.agents.byName(account, named))?.id;
  if (principal.agentId !== null && id !== principal.agentId) throw notFound('agent');
  if (id !== undefined) return id;
  const registered = { name: named, metadata: { registered_by: purpose } };
  return (await parts.registry.newAgents.ofRequest(account, actor).register(registered)).id;
}

export function wordOf({ text, result: { outcome, reason, matches, policy_id } }: Judged): Word {
  if (outcome === 'allowed') return { allowedMs: Date.parse(text.string('received_at')!) };
  if (reason === 'agent_inactive') return { reason: AGENT_OFF };
  const decided = matches.find((match) => match.policy_id === policy_id);
  if (decided === undefined) return { reason: 'Blocked.' };
  return { reason: decided.description ?? `Blocked by policy "${decided.name}".` };
}

/** The decision, where there is one by then. */
async function undecided(call: PointCall, parts: Parts, result: PolicyResult, caller: Caller): Promise<Word> {
  caller.offloaded();
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
