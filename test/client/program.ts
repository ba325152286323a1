// A program of a user of the API: written against the types that a generator makes of the description, and run against
// a real service by client.path.test.ts, which compiles it as strictly as there is. It stands apart from the build,
// since the types are made when the test runs. Each `@ts-expect-error` is something that a caller gets wrong and the
// compiler has to say. Answers with a line of JSON that says what it saw.
import createClient from 'openapi-fetch';
import type { components, paths } from './gatehouse.ts';

type Schemas = components['schemas'];
/** true for `any` alone. */
type IsAny<T> = 0 extends 1 & T ? true : false;
type IsUnknown<T> = IsAny<T> extends true ? false : unknown extends T ? true : false;
/** Does not compile where the type is `any` or `unknown`. */
type Known<T> = IsAny<T> extends true ? never : IsUnknown<T> extends true ? never : T;

const baseUrl = process.env['GATEHOUSE_URL'] ?? '';
const headers = { Authorization: `Bearer ${process.env['GATEHOUSE_KEY']}` };
const client = createClient<paths>({ baseUrl, headers });

function sound<T>(answer: { data?: T; error?: Schemas['Error'] }): Known<T> {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data as Known<T>;
}

/** Tried again while the service says that nothing was recorded: the event may still be on its way into the store. */
async function decided<T>(decide: () => Promise<{ data?: T; error?: Schemas['Error'] }>): Promise<Known<T>> {
  for (let tries = 30; ; tries--) {
    const answer = await decide();
    if (answer.error?.error.recorded !== false || tries === 0) return sound(answer);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** One of each type. */
const policies: Schemas['PolicyCreate'][] = [
  {
    name: 'no large payments',
    type: 'block_action',
    actions: ['block', 'alert'],
    severity: 'high',
    conditions: {
      type: 'tool_call',
      tool: ['send_money', 'pay'],
      'payload.amount': { gt: 1000, lte: 1_000_000 },
      payload_schema: { type: 'object', required: ['model'], properties: { model: { enum: ['a', 'b'] } } },
    },
  },
  {
    name: 'not too often',
    type: 'rate_limit',
    actions: ['block'],
    conditions: { threshold: 1, window: '1h', per: 'payload.customer', tool: 'look_up' },
  },
  {
    name: 'no secrets',
    type: 'data_filter',
    actions: ['alert'],
    conditions: { detectors: ['email', 'api_key'], fields: ['payload.prompt'], redact: true },
  },
  {
    name: 'refunds need a person',
    type: 'require_approval',
    actions: ['alert'],
    conditions: { tool: 'refund', timeout: 900, on_timeout: 'deny' },
  },
];

/** What the compiler has to refuse. Never sent. */
export const refused: Schemas['PolicyCreate'][] = [
  // @ts-expect-error there is no such type
  { name: 'x', type: 'block', actions: ['block'], conditions: {} },
  // @ts-expect-error there is no such action
  { name: 'x', type: 'block_action', actions: ['blok'], conditions: {} },
  // @ts-expect-error there is no such operator
  { name: 'x', type: 'block_action', actions: ['block'], conditions: { 'payload.amount': { grt: 1 } } },
  // @ts-expect-error a number is compared with a number
  { name: 'x', type: 'block_action', actions: ['block'], conditions: { 'payload.amount': { gt: '1' } } },
  // @ts-expect-error a rate limit has a window
  { name: 'x', type: 'rate_limit', actions: ['block'], conditions: { threshold: 5 } },
  // @ts-expect-error a threshold is a number
  { name: 'x', type: 'rate_limit', actions: ['block'], conditions: { threshold: '5', window: 60 } },
  // @ts-expect-error there is no such detector
  { name: 'x', type: 'data_filter', actions: ['block'], conditions: { detectors: ['emails'] } },
  // @ts-expect-error either deny or approve
  { name: 'x', type: 'require_approval', actions: ['block'], conditions: { on_timeout: 'ask' } },
  // @ts-expect-error each failure of a check has its word
  { name: 'x', type: 'external_check', actions: ['block'], conditions: { check: 'guard', on_error: 'match' } },
  // @ts-expect-error a policy has a name
  { type: 'require_approval', actions: ['block'], conditions: {} },
];

/** What a match says, by its type. */
function told(match: Schemas['PolicyMatch']): string {
  switch (match.type) {
    case 'rate_limit': {
      const limit: number = match.detail.threshold;
      return `${limit} in ${match.detail.window_seconds} s by ${match.detail.per} of ${match.detail.value ?? 'none'}`;
    }
    case 'data_filter':
      // @ts-expect-error a data filter has no threshold
      void match.detail.threshold;
      return `${match.detail.detector ?? match.detail.pattern} at ${match.detail.path}`;
    case 'external_check':
      return `${match.detail.check}: ${match.detail.reason ?? match.detail.score}`;
    case 'sequence':
      // @ts-expect-error what was before has no threshold
      void match.detail.threshold;
      return match.detail.after.map(({ at, path }) => `${path ?? '?'} at ${at}`).join();
    case 'block_action':
    case 'require_approval':
      // @ts-expect-error nor has one that goes by its conditions
      void match.detail.window_seconds;
      return match.detail.reason ?? 'matched';
    case 'budget':
      return `${match.detail.needed} of ${match.detail.limit}`;
    default:
      return match satisfies never;
  }
}

/** A page that lacks nothing of what was sent before. */
async function eventsOf(agentId: string, offset: number): Promise<Schemas['EventPage']> {
  const query = { agent_id: [agentId], limit: 2, offset };
  for (let tries = 1; ; tries++) {
    const answer = await client.GET('/v1/events', { params: { query } });
    if (tries === 30 || answer.response.headers.get('Gatehouse-Incomplete') === null) return sound(answer);
  }
}

async function main(): Promise<void> {
  const agent = sound(await client.POST('/v1/agents', { body: { name: 'client', metadata: { team: 'support' } } }));
  const created: string[] = [];
  for (const body of policies) {
    const policy = sound(await client.POST('/v1/policies', { body }));
    if (policy.type === 'rate_limit') created.push(`${policy.type} ${policy.conditions.threshold}`);
    else if (policy.type === 'data_filter') created.push(`${policy.type} ${policy.conditions.detectors?.join()}`);
    else created.push(policy.type);
  }
  const send = async (payload: Schemas['Payload']) => {
    const path = { id: agent.id };
    const body: Schemas['Submission'] = { type: 'tool_call', payload, trace_id: 'client' };
    return sound(await client.POST('/v1/agents/{id}/events', { params: { path }, body }));
  };
  // A policy is in force within a second.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const said: string[] = [];
  for (const payload of [
    { tool: 'pay', amount: 5000, model: 'c' },
    { tool: 'look_up', customer: 'c-1' },
    { tool: 'look_up', customer: 'c-1' },
    { tool: 'note', prompt: 'write to ada@example.com' },
    { tool: 'refund' },
  ]) {
    const { policy_result: result } = await send(payload);
    said.push(`${result.outcome}: ${result.matches.map(told).join('; ') || 'nothing'}`);
    if (result.approval_id === undefined) continue;
    const path = { id: result.approval_id };
    const body = { decision: 'approve', comment: 'checked' } as const;
    const approval = await decided(() => client.POST('/v1/approvals/{id}', { params: { path }, body }));
    said.push(`${approval.status}: ${approval.outcome}`);
  }
  const listed: string[] = [];
  for (let offset = 0; ; offset += 2) {
    const page = await eventsOf(agent.id, offset);
    listed.push(...page.items.map((event) => event.id));
    if (page.items.length === 0 || listed.length >= page.total) break;
  }
  // @ts-expect-error there is no such filter
  const wrong = await client.GET('/v1/events', { params: { query: { outcome: ['denied'] } } });
  const code: Schemas['ErrorCode'] | undefined = wrong.error?.error.code;
  const health = createClient<paths>({ baseUrl });
  const { status } = sound(await health.GET('/healthz'));
  process.stdout.write(
    `${JSON.stringify({ agent: agent.name, created, said, listed: listed.length, code, status })}\n`,
  );
}

await main();
