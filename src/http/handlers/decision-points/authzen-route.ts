// Access evaluations of clients of AuthZEN: may this subject do this action to this resource?
// https://openid.net/specs/authorization-api-1_0.html
// Invariant: all of a question is read, or it is refused with the place of what is not. A client acts on `decision`
// alone: what a policy redacts cannot be given back to it, so that is a no.
import { Compile } from 'typebox/compile';
import { AuthZenAnswer, AuthZenQuestion } from '../../../../schemas/decision-points.ts';
import { given } from '../../../common/given.ts';
import { jsonOf } from '../../../common/json-text.ts';
import { type ObjectText, objectOfTexts } from '../../../common/object-text.ts';
import { bodyOf } from '../../../ingest/hook-reading.ts';
import { eventBody, route } from '../../route.ts';
import {
  answer,
  POINT_OPERATION,
  POINT_ROUTE,
  type PointCall,
  type PointQuestion,
  type PointVerdict,
  pointQuery,
  redactedBy,
  traceOf,
} from './decision-point.ts';

const PATH = '/access/v1/evaluation';

const validator = Compile(AuthZenQuestion);

export const authZenRoute = route({
  ...POINT_ROUTE,
  path: PATH,
  query: pointQuery,
  body: eventBody('event', AuthZenQuestion),
  operation: {
    id: 'decideAccess',
    ...POINT_OPERATION,
    summary: 'Answer an access evaluation of AuthZEN',
    description:
      'Judged as a `tool_call`: `tool` is the name of the action, `arguments` its properties; `subject`, `resource` and `context` stand beside them. A subject of the type `agent` is the agent that asks, by its id or name.',
    answers: { 200: { description: 'What was decided', schema: AuthZenAnswer } },
    bodyExample: {
      subject: { type: 'agent', id: 'support-bot' },
      action: { name: 'refund', properties: { amount: 20 } },
      resource: { type: 'order', id: '7' },
    },
  },
  submit(call: PointCall, parts, caller) {
    const question = questionOf(bodyOf(call.body, AuthZenQuestion, validator));
    answer(call, parts, { question, answerOf }, caller);
  },
});

function questionOf(asked: ObjectText): PointQuestion {
  const [subject, action] = [asked.object('subject')!, asked.object('action')!];
  const payload = objectOfTexts({
    tool: action.raw('name'),
    arguments: action.raw('properties') ?? '{}',
    subject: subject.text,
    resource: asked.raw('resource'),
    context: asked.raw('context'),
  });
  const agent = subject.string('type') === 'agent' ? subject.string('id') : undefined;
  const trace = traceOf(asked.object('context')?.string('trace_id'));
  return { purpose: PATH, agent, event: { type: 'tool_call', payload, trace } };
}

function answerOf({ event, result, reason, redacted }: PointVerdict): string {
  const lost =
    redacted === undefined ? undefined : `${redactedBy(result)} redacts part of this, which AuthZEN cannot give back.`;
  const why = reason ?? lost;
  const context = given({
    ...{ reason: why, event_id: event },
    ...{ policy_id: result.policy_id ?? undefined, approval_id: result.approval_id },
  });
  return jsonOf({ decision: why === undefined, context });
}
