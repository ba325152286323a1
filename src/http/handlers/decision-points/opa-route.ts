// Queries of clients of the Open Policy Agent, as its data API has them.
// https://www.openpolicyagent.org/docs/rest-api
// Invariant: all of a query is read, or it is refused with the place of what is not: a member that is passed over may
// hold the arguments. Never `{}`, which is OPA's word for an undefined decision, and a yes to some clients.
import { Compile } from 'typebox/compile';
import { EVENT_TYPES, type EventType } from '../../../../schemas/closed-sets.ts';
import { OpaAnswer, OpaQuery } from '../../../../schemas/decision-points.ts';
import { given } from '../../../common/given.ts';
import { jsonOf } from '../../../common/json-text.ts';
import { type ObjectText, objectOfTexts } from '../../../common/object-text.ts';
import { validationFailed } from '../../../common/validation.ts';
import { bodyOf } from '../../../ingest/hook-reading.ts';
import { opaFlag, type QueryOf } from '../../reading/query.ts';
import { type Call, eventBody, route } from '../../route.ts';
import {
  answer,
  POINT_OPERATION,
  POINT_ROUTE,
  type PointQuestion,
  type PointVerdict,
  pointQuery,
  traceOf,
} from './decision-point.ts';

const PATH = '/v1/data/gatehouse/decision';

const query = {
  ...pointQuery,
  pretty: opaFlag('Of OPA. Taken, without effect'),
  metrics: opaFlag('Of OPA. The answer has `metrics`: the time from here to it, in nanoseconds'),
  instrument: opaFlag('Of OPA. As `metrics`'),
  provenance: opaFlag('Of OPA. Taken, without effect'),
  'strict-builtin-errors': opaFlag('Of OPA. Taken: it is always so. What cannot be evaluated counts as met'),
  explain: opaFlag('Of OPA. Taken, without effect: the event says what matched', [
    'off',
    'notes',
    'fails',
    'full',
    'debug',
  ]),
};
type OpaCall = Call<Buffer, QueryOf<typeof query>>;

const OF_ANY = ['agent', 'trace_id'];
const OF_EVENT = [...OF_ANY, 'type', 'payload'];
const OF_CALL = [...OF_ANY, 'tool', 'args', 'arguments', 'messages', 'runtimeContext'];

const validator = Compile(OpaQuery);

export const opaRoute = route({
  ...POINT_ROUTE,
  path: PATH,
  query,
  body: eventBody('event', OpaQuery),
  operation: {
    id: 'decideOpaQuery',
    ...POINT_OPERATION,
    summary: 'Decide, in the form of the Open Policy Agent',
    description:
      'As the data API of OPA: `{"input": …}` is answered with `{"result": {"decision": "allow" | "deny", "reason", …}}`. The event is recorded like any other. A query with a member that is not read is refused.',
    answers: { 200: { description: 'What was decided', schema: OpaAnswer } },
    bodyExample: { input: { agent: 'support-bot', tool: { name: 'refund' }, args: { amount: 20 } } },
  },
  submit(call: OpaCall, parts, caller) {
    const began = performance.now();
    const question = questionOf(bodyOf(call.body, OpaQuery, validator));
    answer(call, parts, { question, answerOf: (verdict) => answerOf(verdict, call.query, began) }, caller);
  },
});

/** Throws ServiceError validation_failed. */
function questionOf(body: ObjectText): PointQuestion {
  refuseOthers(body, '', ['input']);
  const input = body.object('input')!;
  const trace = traceOf(input.string('trace_id'));
  for (const key of OF_ANY)
    if (input.has(key) && input.string(key) === undefined) throw bad(`/input/${key}`, 'must be a text');
  const said = input.has('type') ? eventOf(input) : callOf(input);
  return { purpose: PATH, agent: input.string('agent'), event: { ...said, trace } };
}

function eventOf(input: ObjectText): { type: EventType; payload: string } {
  refuseOthers(input, '/input', OF_EVENT);
  const type = EVENT_TYPES.find((one) => one === input.string('type'));
  if (type === undefined) throw bad('/input/type', `must be one of ${EVENT_TYPES.join(', ')}`);
  const payload = input.object('payload');
  if (payload === undefined) throw bad('/input/payload', 'must be an object');
  return { type, payload: payload.text };
}

/** The call of a tool, which an input is that does not say that it is an event. */
function callOf(input: ObjectText): { type: EventType; payload: string } {
  refuseOthers(input, '/input', OF_CALL);
  const tool = input.object('tool');
  if (tool !== undefined) refuseOthers(tool, '/input/tool', ['name']);
  const [named, key] = tool === undefined ? [input, 'tool'] : [tool, 'name'];
  if ((named.string(key) ?? '').trim() === '')
    throw bad(tool === undefined ? '/input/tool' : '/input/tool/name', 'must name a tool');
  if (input.has('args') && input.has('arguments'))
    throw bad('/input/arguments', 'cannot stand beside /input/args: which of them is meant is not clear');
  const payload = objectOfTexts({
    tool: named.raw(key),
    arguments: input.raw('arguments') ?? input.raw('args'),
    messages: input.raw('messages'),
    runtimeContext: input.raw('runtimeContext'),
  });
  return { type: 'tool_call', payload };
}

function refuseOthers(object: ObjectText, place: string, read: readonly string[]): void {
  const other = object.keys.find((key) => !read.includes(key));
  if (other !== undefined) throw bad(`${place}/${other}`, `is not read; what is read is ${read.join(', ')}`);
}

function bad(path: string, message: string) {
  return validationFailed('The query does not fit.', [{ path, message }]);
}

function answerOf(verdict: PointVerdict, { metrics, instrument }: OpaCall['query'], began: number): string {
  const { event, result, reason, redacted } = verdict;
  const isAllowed = reason === undefined;
  const said = given({
    ...{ decision: isAllowed ? 'allow' : 'deny', allow: isAllowed, reason, event_id: event },
    ...{ policy_id: result.policy_id ?? undefined, approval_id: result.approval_id },
  });
  const ns = Math.round((performance.now() - began) * 1e6);
  return objectOfTexts({
    result: objectOfTexts({
      ...Object.fromEntries(Object.entries(said).map(([key, value]) => [key, jsonOf(value)])),
      redacted: redacted?.text,
    }),
    metrics: metrics || instrument ? jsonOf({ timer_server_handler_ns: ns }) : undefined,
  });
}
