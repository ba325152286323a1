// Inference hooks of products that cannot be changed (src/hooks/inference-hook.ts has their form): signed by a secret
// of their connection, and answered with 200 and a verdict whatever happens, since such a product takes anything else
// for a failure, which is never a denial. Errors become the connection's word in admission/connection-verdicts.ts.
// Invariant: nothing is judged or recorded before the signature is verified. A signed request that is not understood is
// recorded as an `error` of its agent, and answered with that word.
import { InferenceAnswer, InferenceHook } from '../../../../schemas/decision-points.ts';
import { ServiceError } from '../../../common/errors.ts';
import { jsonOf } from '../../../common/json-text.ts';
import { objectOfTexts } from '../../../common/object-text.ts';
import { NotUnderstood } from '../../../hooks/hook-form.ts';
import { inferenceAnswer } from '../../../hooks/inference-hook.ts';
import { type ReadConversation, readConversation } from '../../../ingest/hook-reading.ts';
import type { Caller } from '../../../ingest/ingest-parts.ts';
import { admit } from '../../admission/authenticate.ts';
import { notSigned } from '../../admission/connection-verdicts.ts';
import { isSignedBy } from '../../admission/webhook-signature.ts';
import { type Call, eventBody, type Parts, route } from '../../route.ts';
import { eventText } from './decision-point.ts';
import { INFERENCE_PATH, judgeConversation, requestKeyOf } from './inference-judging.ts';

type InferenceCall = Call<Buffer>;

/** Reading 10 MB takes half a second. */
const READ_HERE_BYTES_MAX = 64 * 1024;

export const inferenceRoute = route({
  method: 'POST',
  path: INFERENCE_PATH,
  needs: null,
  signed: true,
  body: eventBody('inference', InferenceHook),
  operation: {
    id: 'decideInferenceHook',
    tag: 'Decision points',
    summary: 'Answer an inference hook',
    description:
      'Of a product that sends each prompt and call of a tool, signed by a secret of the connection as Standard Webhooks has it; no key is asked for. Always answered with 200 and a verdict within `timeout_ms`: what cannot be judged gets what `on_failure` says. Of a conversation only messages that are new are judged and recorded.',
    answers: { 200: { description: 'The verdict', schema: InferenceAnswer, example: { action: 'allow' } } },
    bodyExample: {
      type: 'prompt',
      request_id: 'req-1',
      session_id: 's-1',
      actor: { type: 'user', id: 'u-1', email_address: 'ada@example.com' },
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Where is my order?' }] }],
    },
  },
  submit(call: InferenceCall, parts, caller) {
    verdictOf(call, parts, caller).then(
      (body) => caller.accepted({ body, isOwnForm: true }),
      (error: unknown) => caller.refused(asFailure(error)),
    );
  },
});

async function verdictOf(call: InferenceCall, parts: Parts, caller: Caller): Promise<string> {
  const connection = call.connection!;
  keepSigned(call);
  await admit(parts.limiter, call.principal);
  let read: ReadConversation;
  try {
    read = await readOf(call, parts, caller);
  } catch (error) {
    await recordFailure(call, parts, error);
    throw error;
  }
  const agentId = await agentOf(call, parts, read);
  const { account, requestId, webhook } = call;
  const requestKey = requestKeyOf(connection.id, read.requestId ?? webhook!.id);
  const isWatching = connection.mode === 'watch';
  const stop = await judgeConversation(parts, {
    ...{ account, agentId, connection: connection.id, read, requestId, requestKey, isWatching, caller },
  });
  return inferenceAnswer({ isAllowed: stop === undefined || isWatching, ...stop });
}

/** A large one apart from the loop that answers. Rejects with ServiceError. */
async function readOf({ account, body, connection }: InferenceCall, parts: Parts, caller: Caller) {
  const { id: seed } = connection!;
  if (body.length <= READ_HERE_BYTES_MAX) return readConversation(body, seed, parts.limits.eventBytesMax);
  caller.offloaded();
  return parts.hookReading.readHook({ account, seed, body }, caller);
}

/** Throws ServiceError invalid_token, not_found. */
function keepSigned({ connection, webhook, body }: InferenceCall): void {
  const { secrets, status } = connection!;
  if (webhook === undefined || !isSignedBy(secrets, webhook, body, Date.now())) throw notSigned();
  if (status === 'inactive') throw new ServiceError('not_found', 'the connection is switched off.');
}

/** The failure for a message that is not understood, as for any invalid request; other errors as they are. */
function asFailure(error: unknown): unknown {
  return error instanceof NotUnderstood ? new ServiceError('validation_failed', `${error.message}.`) : error;
}

/** The one that is given, or the one of that name; a new name is registered, within the bound of all ways in. */
async function agentOf(
  { account, connection, requestId }: InferenceCall,
  { registry }: Parts,
  read: Partial<Pick<ReadConversation, 'application' | 'actor'>>,
): Promise<string> {
  const { id, agent_id, agents_by, name: own } = connection!;
  if (agent_id !== null) return agent_id;
  const name = (agents_by === 'actor' ? read.actor : read.application) ?? own;
  const known = await registry.agents.byName(account, name);
  if (known !== null) return known.id;
  const actor = { actor: `connection:${id}`, requestId };
  const metadata = { registered_by: INFERENCE_PATH };
  try {
    return (await registry.newAgents.ofRequest(account, actor).register({ name, metadata })).id;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'rate_limited') throw error;
    // Over the bound they are one agent, as the connection is one.
    return (await registry.agents.register(account, { name: own, metadata }, actor)).agent.id;
  }
}

/** In the time that is left, and as far as it can be: it changes no answer. */
async function recordFailure(call: InferenceCall, parts: Parts, failure: unknown): Promise<void> {
  const { account, connection, requestId } = call;
  const why = failure instanceof ServiceError ? failure.message : 'our fault';
  const payload = objectOfTexts({
    ...{ kind: '"inference_hook"', error: jsonOf(`This could not be judged: ${why}`) },
    ...{ connection_id: jsonOf(connection!.id), request_bytes: `${call.body.length}` },
  });
  const body = Buffer.from(eventText({ type: 'error', payload, trace: undefined }));
  try {
    const agentId = await agentOf(call, parts, {});
    await new Promise<void>((resolve, refused) => {
      const request = { account, agentId, requestId, idempotencyKey: undefined, shape: 'one' as const, body };
      const caller = { isGone: false, offloaded: () => undefined, whenGone: () => undefined };
      parts.ingest.submit(request, {
        ...{ ...caller, refused },
        accepted: ({ release }) => {
          release?.();
          resolve();
        },
      });
    });
  } catch {
    // The stores are away: the answer says that it could not be judged.
  }
}
