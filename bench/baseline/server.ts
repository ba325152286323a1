// What Gatehouse is compared with: an event service as a competent user would write it in a day, with Fastify 5, its
// own ajv and ioredis. The same checks (key, request limit, schema of event and batch, agent known, times in bounds),
// the same policies, every event in a Redis stream before the answer, the full echo with `policy_result`. It is meant
// to be good: caches where one would have them, everything of a request in one pipeline, nothing awaited that need not
// be. What it does not do, for the record: refuse a key that stands twice in an object, keep numbers as they were
// written, share windows between requests (its rate limits are fixed windows), move events on into a database.
// There is no response schema: payloads are free, and JSON.stringify is the faster one for those.
// Run as a process: `node server.js '<Order as JSON>'`; prints its port.
import { randomUUID } from 'node:crypto';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { compile, decide, matchedBy, type RateLimit, type Rules } from './policies.ts';
import { BATCH_SCHEMA, EVENT_SCHEMA, type Event, type Policy, type PolicyResult } from './schemas.ts';
import { type Seed, Store } from './store.ts';

type Order = { redisUrl: string; seed: Seed; requestsPerSecond: number };
type Params = { id: string };

const BODY_BYTES_MAX = 8 * 1024 * 1024;
const EARLIEST = Date.UTC(2000, 0, 1);
const AHEAD_MAX_MS = 24 * 60 * 60 * 1000;

class Refusal extends Error {
  readonly statusCode: number;
  readonly code: string;

  constructor(statusCode: number, code: string, message: string) {
    super(message);
    this.statusCode = statusCode;
    this.code = code;
  }
}

export async function makeServer({ redisUrl, seed, requestsPerSecond }: Order): Promise<FastifyInstance> {
  const store = new Store(redisUrl);
  await store.seed(seed);
  const rules = compile(await store.policies());
  const app = Fastify({
    bodyLimit: BODY_BYTES_MAX,
    // Fastify would drop what a schema does not know and turn "1" into 1; here both are refused.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: false } },
  });
  app.addHook('onClose', () => store.close());
  app.setErrorHandler((error: Error & { statusCode?: number; code?: string }, request, reply) => {
    const { statusCode = 500, code = 'internal', message } = error;
    reply.code(statusCode).send({ error: { code, message, request_id: request.id } });
  });
  app.addHook('onRequest', async (request) => {
    const key = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (key === undefined || (await store.accountOf(key)) === null)
      throw new Refusal(401, 'invalid_token', 'The key is missing or unknown.');
    const second = Math.floor(Date.now() / 1000);
    const [requests] = await store.count([{ key: `requests:${key}:${second}`, by: 1, seconds: 2 }]);
    if (requests! > requestsPerSecond) throw new Refusal(429, 'rate_limited', 'Too many requests.');
  });
  app.post<{ Params: Params; Body: Event }>(
    '/v1/agents/:id/events',
    { schema: { body: EVENT_SCHEMA } },
    async (request, reply) => {
      await knownAgent(store, request.params.id);
      const unfit = timeMistake(request.body);
      if (unfit !== undefined) throw new Refusal(400, 'validation_failed', unfit);
      const [event] = await record(store, rules, request.params.id, [request.body]);
      reply.code(201);
      return event;
    },
  );
  app.post<{ Params: Params; Body: { events: unknown[] } }>(
    '/v1/agents/:id/events/batch',
    { schema: { body: BATCH_SCHEMA } },
    async (request) => {
      await knownAgent(store, request.params.id);
      const { events } = request.body;
      const mistakes = events.map((element) => mistakeOf(request, element));
      const sound = events.filter((_, i) => mistakes[i] === undefined) as Event[];
      if (sound.length === 0) throw new Refusal(400, 'validation_failed', 'No event of the batch fits the schema.');
      const recorded = await record(store, rules, request.params.id, sound);
      let next = 0;
      const results = mistakes.map((message) =>
        message === undefined ? recorded[next++] : { error: { code: 'validation_failed', message } },
      );
      return { results, total: recorded.length };
    },
  );
  return app;
}

async function knownAgent(store: Store, id: string): Promise<void> {
  if (!(await store.isAgent(id))) throw new Refusal(404, 'not_found', 'There is no such agent.');
}

function mistakeOf(request: FastifyRequest, element: unknown): string | undefined {
  const check = request.getValidationFunction(EVENT_SCHEMA) ?? request.compileValidationSchema(EVENT_SCHEMA);
  if (!check(element)) return check.errors?.[0]?.message ?? 'does not fit the schema';
  return timeMistake(element as Event);
}

function timeMistake({ timestamp }: Event): string | undefined {
  if (timestamp === undefined) return undefined;
  const at = Date.parse(timestamp);
  return at >= EARLIEST && at <= Date.now() + AHEAD_MAX_MS ? undefined : 'timestamp is out of bounds';
}

/** Judges the events in their order, keeps them, and answers what is answered for each. */
async function record(store: Store, rules: Rules, agentId: string, events: Event[]): Promise<object[]> {
  const matched = events.map((event) => matchedBy(rules, event));
  const isBlocked = (i: number) => matched[i]!.some(({ actions }) => actions.includes('block'));
  const over = await overLimits(store, rules.rateLimits, agentId, { events, isBlocked });
  const receivedAt = new Date().toISOString();
  const answers = events.map((event, i) => answerOf(agentId, event, decide(matched[i]!, over[i]!), receivedAt));
  await store.append(answers.map((answer) => ({ id: answer.id, agentId, body: JSON.stringify(answer) })));
  return answers;
}

function answerOf(agentId: string, event: Event, result: PolicyResult, receivedAt: string) {
  return {
    id: `evt_${randomUUID()}`,
    agent_id: agentId,
    type: event.type,
    payload: event.payload,
    trace_id: event.trace_id,
    timestamp: event.timestamp === undefined ? receivedAt : new Date(event.timestamp).toISOString(),
    received_at: receivedAt,
    policy_result: result,
  };
}

/** The rate limits that each event is over; one that is blocked anyway is not counted. One round trip for a request. */
async function overLimits(
  store: Store,
  limits: RateLimit[],
  agentId: string,
  { events, isBlocked }: { events: Event[]; isBlocked: (i: number) => boolean },
): Promise<Policy[][]> {
  const over: Policy[][] = events.map(() => []);
  const concerned = limits
    .map((limit) => ({
      limit,
      places: events.flatMap((event, i) => (limit.concerns(event) && !isBlocked(i) ? [i] : [])),
    }))
    .filter(({ places }) => places.length > 0);
  const now = Math.floor(Date.now() / 1000);
  const counters = concerned.map(({ limit: { policy, windowSeconds, perAgent }, places }) => ({
    key: `rate:${policy.id}:${perAgent ? agentId : 'account'}:${Math.floor(now / windowSeconds)}`,
    by: places.length,
    seconds: windowSeconds,
  }));
  const totals = await store.count(counters);
  for (const [c, { limit, places }] of concerned.entries()) {
    const before = totals[c]! - places.length;
    for (const [nth, place] of places.entries()) {
      if (before + nth + 1 > limit.threshold) over[place]!.push(limit.policy);
    }
  }
  return over;
}

if (process.argv[1] === import.meta.filename) {
  const app = await makeServer(JSON.parse(process.argv[2]!) as Order);
  const address = await app.listen({ host: '127.0.0.1', port: 0 });
  process.stdout.write(`${new URL(address).port}\n`);
  process.once('SIGTERM', () => void app.close().then(() => process.exit(0)));
}
