// Judges what is new in a conversation that comes whole with each request (inference-route.ts): each message is one
// submission of its events, in order, and what stops the first one is the answer.
//   open      which messages were let through before; who asks about each of the others
//   judge     the next message, under the key of who asked first: two requests with the same message record it once
//   settle    what was let through is not judged again; what was stopped is, and what waits is asked by its approval
// Invariant: an answer that lets the request go is given when every message in it is recorded and was allowed, or the
// connection only watches. A message that was stopped is judged again whenever it comes under another request.
// Failure: throws ServiceError, NotUnderstood; what was let through until then stays so.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { BATCH_EVENTS_MAX } from '../../../../schemas/event.ts';
import { ServiceError } from '../../../common/errors.ts';
import { isId } from '../../../common/ids.ts';
import { itemsOf, textAt } from '../../../common/json-text.ts';
import { ObjectText } from '../../../common/object-text.ts';
import { approvalPage } from '../../../common/page-address.ts';
import { NotUnderstood } from '../../../hooks/hook-form.ts';
import type { ReadConversation, ReadMessage } from '../../../ingest/hook-reading.ts';
import type { Answer, Caller } from '../../../ingest/ingest-parts.ts';
import type { ConversationKey, OpenConversation } from '../../../registry/conversations.ts';
import type { Parts } from '../../route.ts';
import { knownApproval } from '../known-approval.ts';
import { AGENT_OFF, eventText, judgedIn, POLICY_SINCE, redactedBy, traceOf, wordOf } from './decision-point.ts';

/** `requestKey`: of this request. `isWatching`: what is stopped is recorded, and stops nothing. */
type Conversation = {
  account: string;
  agentId: string;
  connection: string;
  read: ReadConversation;
  requestId: string;
  requestKey: string;
  isWatching: boolean;
  caller: Pick<Caller, 'isGone' | 'offloaded'>;
};
/** Why it is stopped; `reference`: the event or the approval. `instead`: approvals that it waits for, '' none. */
type Stop = { reason: string; reference: string | undefined; instead: string };

export const INFERENCE_PATH = '/v1/hooks/inference/{connection}';
/** One submission: its body, hash and answer take the loop that answers some milliseconds, one after the other. */
const GROUP_BYTES_MAX = 1024 * 1024;
/** While another request has the same message in hand. */
const ASKED_AGAIN_MS = 25;

/** undefined: it may go on. */
export async function judgeConversation(parts: Parts, conversation: Conversation): Promise<Stop | undefined> {
  const { account, agentId, connection, read, requestKey, isWatching } = conversation;
  const { session, messages } = read;
  // Without a session every request is a conversation of its own.
  const key: ConversationKey = { account, name: `${connection}/${session ?? `?${requestKey}`}` };
  const digests = messages.map(({ digest }) => digest);
  const opened = await parts.registry.conversations.open(key, requestKey, digests);
  if (opened.seen === messages.length) return stopOfAgent(parts, account, agentId);
  const through: string[] = [];
  let stopped: { digest: string; askedBy: string; instead: string } | undefined;
  try {
    for (const [i, message] of messages.slice(opened.seen).entries()) {
      const askedBy = firstToAsk(opened, i);
      const stop = await stopOf(parts, conversation, { message, askedBy });
      if (stop === undefined || isWatching) through.push(message.digest);
      else {
        stopped = { digest: message.digest, askedBy, instead: stop.instead };
        return stop;
      }
    }
    return undefined;
  } finally {
    await parts.registry.conversations.settle(key, through, stopped);
  }
}

function firstToAsk({ askedBy }: OpenConversation, i: number): string {
  return askedBy[i]!;
}

/** Nothing is new: it is asked of the one who is switched off all the same. */
async function stopOfAgent({ registry }: Parts, account: string, agentId: string): Promise<Stop | undefined> {
  const agent = await registry.agents.get(account, agentId);
  return agent?.status === 'active' ? undefined : { reason: AGENT_OFF, reference: undefined, instead: '' };
}

type PendingMessage = { message: ReadMessage; askedBy: string };

async function stopOf(parts: Parts, conversation: Conversation, asked: PendingMessage): Promise<Stop | undefined> {
  const { read } = conversation;
  const { events, fault } = asked.message;
  if (fault !== undefined) throw new NotUnderstood(fault);
  if (asked.askedBy.startsWith('apr_')) return stopOfApprovals(parts, conversation, asked);
  const trace = traceOf(read.session);
  const groups = inGroups(
    events.map((event) => eventText({ ...event, trace })),
    Math.min(GROUP_BYTES_MAX, parts.limits.batchBytesMax),
  );
  const stops: Stop[] = [];
  for (const [i, group] of groups.entries()) {
    const key = `${asked.askedBy}.${asked.message.digest}.${i}`;
    const results = await resultsOf(parts, conversation, { group, key });
    stops.push(...results.flatMap((result) => stopIn(parts, result) ?? []));
  }
  return stops.find(({ instead }) => instead === '') ?? together(stops);
}

/** One stop for several pending approvals, which waits for all of them; undefined: there is none. */
function together(stops: readonly Stop[]): Stop | undefined {
  const [first] = stops;
  return first === undefined ? undefined : { ...first, instead: stops.map(({ instead }) => instead).join(' ') };
}

/** As many as one submission takes. */
function inGroups(events: readonly string[], bytesMax: number): string[][] {
  const groups: string[][] = [];
  let bytes = 0;
  for (const event of events) {
    const size = Buffer.byteLength(event) + 1;
    const last = groups.at(-1);
    if (last === undefined || last.length === BATCH_EVENTS_MAX || bytes + size > bytesMax) {
      groups.push([event]);
      bytes = 2 + size;
    } else {
      last.push(event);
      bytes += size;
    }
  }
  return groups;
}

type Group = { group: readonly string[]; key: string };

/** Waits where another request has it in hand. Throws ServiceError, NotUnderstood. */
async function resultsOf(parts: Parts, conversation: Conversation, { group, key }: Group): Promise<ObjectText[]> {
  const { account, agentId, requestId, requestKey, caller } = conversation;
  const request = {
    ...{ account, agentId, requestId, shape: 'many' as const, purpose: INFERENCE_PATH },
    body: Buffer.from(`[${group.join(',')}]`),
  };
  for (let idempotencyKey = key; ; ) {
    try {
      return resultsIn(await submitted(parts, { ...request, idempotencyKey }, caller));
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const isOther = error.code === 'idempotency_conflict' && !idempotencyKey.startsWith(`${requestKey}:`);
      // The same message with other words around it: by itself.
      if (isOther) idempotencyKey = `${requestKey}:${key}`;
      else if (error.code === 'idempotency_in_progress' && !caller.isGone) await sleep(ASKED_AGAIN_MS);
      else throw error;
    }
  }
}

function submitted(
  { ingest }: Parts,
  request: Parameters<Parts['ingest']['submit']>[0],
  caller: Conversation['caller'],
): Promise<Answer> {
  return new Promise((accepted, refused) => {
    ingest.submit(request, {
      ...{ accepted, refused, whenGone: () => undefined },
      offloaded: () => caller.offloaded(),
      get isGone() {
        return caller.isGone;
      },
    });
  });
}

function resultsIn({ body, release }: Answer): ObjectText[] {
  const text = body.toString();
  release?.();
  const results = ObjectText.of(text)!.raw('results')!;
  return itemsOf(results)!.map((item) => ObjectText.of(textAt(results, item))!);
}

/** Throws NotUnderstood for an event that was not recorded. */
function stopIn({ publicUrl }: Parts, result: ObjectText): Stop | undefined {
  const error = result.object('error');
  if (error !== undefined) throw new NotUnderstood(error.string('message') ?? 'an event was refused');
  const judged = judgedIn(result);
  const { id, redacted } = judged;
  const approval = judged.result.approval_id;
  if (judged.result.outcome === 'pending') return waitsFor(approval!, publicUrl);
  const { reason } = wordOf(judged);
  if (reason !== undefined) return { reason, reference: id, instead: '' };
  if (redacted === undefined) return undefined;
  const why = `${redactedBy(judged.result)} redacts part of this, which cannot be given back.`;
  return { reason: why, reference: id, instead: '' };
}

function waitsFor(approval: string, publicUrl: string | undefined): Stop {
  const where = publicUrl === undefined ? '' : ` Where it is decided: ${approvalPage(publicUrl, approval)}`;
  const reason = `Approval ${approval} is pending: a person has to decide it. Send the same again once it is approved.`;
  return { reason: `${reason}${where}`, reference: approval, instead: approval };
}

/** Inspects what was asked about before, and waited: it was let through by people, or not. */
async function stopOfApprovals(
  parts: Parts,
  { account, read }: Conversation,
  { askedBy, message: { events } }: PendingMessage,
): Promise<Stop | undefined> {
  for (const id of askedBy.split(' ').filter((one) => isId('approval', one))) {
    const { known } = await knownApproval(parts, account, id);
    if (known === null || known.outcome === 'pending') return { ...waitsFor(id, parts.publicUrl), instead: askedBy };
    if (known.outcome === 'blocked') return { reason: `Approval ${id} was not given.`, reference: id, instead: '' };
    for (const { type, payload } of events) {
      const event = { type, traceId: traceOf(read.session), occurredMs: Date.now(), payloadText: payload };
      const { verdict } = await parts.registry.evaluations.review(account, known, event);
      if (verdict === 'blocked') return { reason: POLICY_SINCE, reference: known.event_id, instead: '' };
      if (verdict !== 'allowed') return { reason: AGENT_OFF, reference: known.event_id, instead: '' };
    }
  }
  return undefined;
}

/** Short, whatever the request calls itself. */
export function requestKeyOf(connection: string, requestId: string): string {
  return createHash('sha256').update(`${connection}/${requestId}`).digest('base64url').slice(0, 22);
}
