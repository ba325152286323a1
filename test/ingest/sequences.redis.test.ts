// Sequences as ingestion applies them, by both codecs, with what occurred in a real Redis: which events are blocked,
// what a match says, what is a step and what is not.
import t, { type Test } from 'tap';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { mintId } from '../../src/common/ids.ts';
import { STEADY_CLOCK, SteadyClock } from '../../src/common/steady-clock.ts';
import type { Codec } from '../../src/ingest/codec.ts';
import { Ingest } from '../../src/ingest/ingest.ts';
import type { IngestParts } from '../../src/ingest/ingest-parts.ts';
import { RateLimitBatcher } from '../../src/ingest/rate-limit-batcher.ts';
import { SequenceBatcher } from '../../src/ingest/sequence-batcher.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import type { SequenceTerms } from '../../src/policy/kinds/sequence.ts';
import { Counters } from '../../src/policy/quotas/counters.ts';
import { SequenceStore, settledWrites } from '../../src/policy/quotas/sequence-store.ts';
import { type Commands, connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { AppendCaller } from '../../src/streams/append.ts';
import { opened, startRedis, untilConnected } from '../support/redis.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { agent, agentId, CODECS, JSON_CODEC, type PolicyOrder, policiesOf, requestId, submitted } from './support.ts';

const server = await startRedis(t);
const keys = new Keys({ prefix: 'ingest-sequences-', partitions: 2 });
const redis = await connect(t);

function connect(t: Test): Promise<Commands> {
  return opened(t, untilConnected(connectCommands(server.address)));
}

type Match = { policy_id: string; detail: { after?: { event_id: string; path?: string }[]; [key: string]: unknown } };
type Taken = { id: string; outcome: string; matches: Match[] };
type Sent = { type: string; trace_id?: string; payload: object };

/** A front of an account of its own, which has these policies. */
class Front {
  readonly account: string;
  readonly policies: Policy[];
  readonly rules: RuleSet;
  readonly store: SequenceStore;
  asked = 0;
  clock: Pick<SteadyClock, 'now' | 'take'> = STEADY_CLOCK;
  /** Nothing is recorded any more. */
  isFull = false;
  readonly #codecs: readonly Codec[];
  readonly #parts: IngestParts;

  constructor(orders: readonly PolicyOrder[], codecs: readonly Codec[], of?: Front, client = redis) {
    this.account = of?.account ?? mintId('account', Date.now());
    this.policies = policiesOf(orders);
    this.rules = new RuleSet(this.policies, { traceKey: 'key' });
    this.store = new SequenceStore(client, keys);
    this.#codecs = codecs;
    const sequences = new SequenceBatcher(this.store);
    this.#parts = {
      cache: { agent: () => ({ record: agent }), rules: () => this.rules },
      rateLimits: new RateLimitBatcher(new Counters(client), keys),
      sequences: {
        ask: (...args: Parameters<SequenceBatcher['ask']>) => {
          this.asked++;
          sequences.ask(...args);
        },
        settle: (...args: Parameters<SequenceBatcher['settle']>) => sequences.settle(...args),
      },
      appender: {
        appendFor: (_append: unknown, caller: AppendCaller) =>
          this.isFull ? caller.refused(new ServiceError('unavailable', 'full')) : caller.appended(),
      },
      backlog: { full: () => false },
      clock: { now: () => this.clock.now(), take: (count: number) => this.clock.take(count) },
      keys,
      ...{ onAccepted: () => undefined, onMatched: () => undefined, onBytes: () => undefined },
      onUnevaluated: () => undefined,
    } as unknown as IngestParts;
  }

  async known(): Promise<this> {
    for (const { policy, terms } of this.rules.rules.values())
      if (terms.type === 'sequence')
        await redis.hset(keys.sequences(this.account), `${policy.id}/${(terms as SequenceTerms).meaning}`, '1');
    return this;
  }

  async send(...events: Sent[]): Promise<Taken[]> {
    const body = Buffer.from(JSON.stringify(events));
    const request = { account: this.account, agentId, shape: 'many' as const, body, requestId };
    const answer = await submitted(new Ingest(this.#parts, this.#codecs), { ...request, idempotencyKey: undefined });
    const { results } = JSON.parse(answer.body.toString()) as { results: { id: string; policy_result: Taken }[] };
    answer.release?.();
    return results.map(({ id, policy_result }) => ({ ...policy_result, id }));
  }

  async one(event: Sent): Promise<Taken> {
    return (await this.send(event))[0]!;
  }
}

function call(tool: string, args: object = {}, trace?: string): Sent {
  return { type: 'tool_call', ...(trace !== undefined && { trace_id: trace }), payload: { tool, arguments: args } };
}

function sequence(conditions: object, actions = ['block']): PolicyOrder {
  return { type: 'sequence', conditions, actions };
}

const POST = { type: 'tool_call', tool: ['http_post', 'send_email'] };
const READ = { type: 'tool_call', tool: 'read_file', 'payload.arguments.path': { glob: '*.env' } };
const NOTHING_LEAVES = { ...POST, after: [READ], within: '1h', per: 'agent' };
const read = (path = 'a.env', trace?: string) => call('read_file', { path }, trace);
const post = (trace?: string) => call('http_post', { url: 'x' }, trace);
const outcomes = (taken: readonly Taken[]) => taken.map(({ outcome }) => outcome);

for (const [name, codecs] of [
  ['json', JSON_CODEC],
  ['both', CODECS],
] as const) {
  const front = (...orders: PolicyOrder[]) => new Front(orders, codecs).known();

  t.test(`${name}: what leaves after a secret was read is blocked, and says after what`, async (t) => {
    const one = await front(sequence(NOTHING_LEAVES));
    t.equal((await one.one(post())).outcome, 'allowed');
    const step = await one.one(read());
    t.equal(step.outcome, 'allowed');
    t.equal((await one.one(call('read_file', { path: 'a.txt' }))).outcome, 'allowed');
    const { outcome, matches } = await one.one(post());
    t.equal(outcome, 'blocked');
    t.match(matches, [
      {
        policy_id: one.policies[0]!.id,
        detail: {
          after: [{ event_id: step.id, path: '/arguments/path', at: /^20..-..-..T/ }],
          conditions: [{ condition: 'type' }, { condition: 'tool', path: '/tool' }],
        },
      },
    ]);
    t.equal(one.asked, 3, 'what is neither step nor sink is not asked about');
  });

  t.test(`${name}: calls that are alike share what their text says, others do not`, async (t) => {
    const sink = { ...POST, 'payload.arguments.to': { ne: 'A' }, after: [{ tool: 'read_file' }], within: '1h' };
    const one = await front(sequence(sink, ['alert']));
    await one.one(read());
    const calls = [{ to: 'B' }, { to: 'B' }, {}, { to: 'A' }, { to: { a: 1 } }].map((args) => call('http_post', args));
    const taken = await one.send(...calls);
    t.match(
      taken.map(({ matches }) => matches.map(({ detail }) => (detail['conditions'] as object[]).at(-1))),
      [
        ...[
          [{ path: '/arguments/to' }],
          [{ path: '/arguments/to' }],
          [{ absent: true }],
          [],
          [{ path: '/arguments/to' }],
        ],
      ],
    );
  });

  t.test(`${name}: in a batch its order counts`, async (t) => {
    const one = await front(sequence(NOTHING_LEAVES));
    t.same(outcomes(await one.send(post(), read(), post(), call('other'), post())), [
      ...['allowed', 'allowed', 'blocked', 'allowed', 'blocked'],
    ]);
  });

  t.test(`${name}: what is blocked has not occurred, unless any outcome counts`, async (t) => {
    const block = { type: 'block_action', conditions: { tool: 'read_file' }, actions: ['block'] };
    const one = await front(block, sequence(NOTHING_LEAVES));
    t.same(outcomes(await one.send(read(), post())), ['blocked', 'allowed']);
    const any = { ...NOTHING_LEAVES, after: [{ ...READ, outcome: 'any' }] };
    const other = await front(block, sequence(any));
    t.same(outcomes(await other.send(read(), post())), ['blocked', 'blocked']);
    const twice = await front(
      sequence({ tool: 'pay', after: [{ tool: 'pay' }], within: '1h' }),
      sequence(NOTHING_LEAVES),
    );
    t.same(outcomes(await twice.send(call('pay'), call('pay'))), ['allowed', 'blocked'], 'step and sink in one');
  });

  t.test(`${name}: unless it was approved, by an event that may itself wait`, async (t) => {
    const pay = sequence({ tool: 'pay', unless: { tool: 'approve' }, within: '1h' });
    const one = await front(pay);
    t.same(outcomes(await one.send(call('pay'), call('approve'), call('pay'))), ['blocked', 'allowed', 'allowed']);
    const asked = { type: 'require_approval', conditions: { tool: 'approve' }, actions: ['block'] };
    const other = await front(asked, pay);
    const [waiting, blocked] = await other.send(call('approve'), call('pay'));
    t.equal(waiting!.outcome, 'pending');
    t.equal(blocked!.outcome, 'blocked');
    t.match(blocked!.matches[0]!.detail, { after: [], reason: 'not_finished', waits_for: waiting!.id });
    const approved = { id: waiting!.id, atMs: Date.now() };
    for (const [command, ...args] of settledWrites(keys, other.account, approved)) await redis.call(command, ...args);
    t.equal((await other.one(call('pay'))).outcome, 'allowed');
  });

  t.test(`${name}: values that must be the same`, async (t) => {
    const one = await front(
      sequence({
        tool: 'pay',
        unless: { tool: 'approve' },
        same: { 'payload.arguments.to': 'payload.arguments.account' },
        within: '1h',
      }),
    );
    const [to, account] = [
      (value: unknown) => call('pay', { to: value }),
      (v: unknown) => call('approve', { account: v }),
    ];
    t.same(outcomes(await one.send(account('A'), to('A'), to('B'), to(['A']), to(['A', 'B']), call('pay'))), [
      ...['allowed', 'allowed', 'blocked', 'allowed', 'blocked', 'blocked'],
    ]);
    const two = await front(
      sequence({
        tool: 'pay',
        after: [{ tool: 'change' }],
        same: { 'payload.arguments.to': 'payload.arguments.account' },
        within: '1h',
      }),
    );
    const change = (value: unknown) => call('change', { account: value });
    t.same(outcomes(await two.send(change('A'), to('A '), to('B'), call('pay'), call('change'), to('B'))), [
      ...['allowed', 'blocked', 'allowed', 'blocked', 'allowed', 'blocked'],
    ]);
    const raw = await redis.hkeys(keys.sequenceScope(two.account, memory(two), `agent ${agentId}`));
    t.notOk(
      raw.some((field) => /^"?a/i.test(field) && field.length < 22),
      'values are not kept in clear',
    );
  });

  t.test(`${name}: leaving the trace out resets nothing`, async (t) => {
    const conditions = { ...NOTHING_LEAVES, per: 'trace' };
    const one = await front(sequence(conditions));
    t.same(outcomes(await one.send(read('a.env', 'one'), post('two'), post('one'), post())), [
      ...['allowed', 'allowed', 'blocked', 'blocked'],
    ]);
    const other = await front(sequence(conditions));
    t.same(outcomes(await other.send(read(), post('two'), post())), ['allowed', 'blocked', 'blocked']);
    const steps = [READ, { tool: 'zip' }];
    const mixed = await front(sequence({ ...conditions, after: steps }));
    t.same(outcomes(await mixed.send(read('a.env', 'one'), call('zip'), post('one'))), [
      ...['allowed', 'allowed', 'blocked'],
    ]);
  });

  t.test(`${name}: steps in their order, and how often the last one`, async (t) => {
    const after = [READ, { tool: 'zip' }];
    const one = await front(sequence({ ...NOTHING_LEAVES, after, at_least: 2 }));
    const zip = call('zip');
    t.same(outcomes(await one.send(zip, zip, read(), zip, post(), zip, post())), [
      ...['allowed', 'allowed', 'allowed', 'allowed', 'allowed', 'allowed', 'blocked'],
    ]);
  });

  t.test(`${name}: a step may be what a detector finds; what cannot be evaluated is one`, async (t) => {
    const one = await front(sequence({ ...POST, after: [{ detectors: ['credit_card'] }], within: '1h' }));
    const seen = { type: 'completion', payload: { text: 'it is 4111 1111 1111 1111' } };
    const [step, blocked] = await one.send(seen, post());
    t.equal(blocked!.outcome, 'blocked');
    t.match(blocked!.matches[0]!.detail.after, [{ event_id: step!.id, path: '/text' }]);
    t.equal(step!.matches.length, 0, 'a step is no match');
    const fails = { expression: 'event.payload.missing > 1' };
    const after = await front(sequence({ ...POST, after: [{ tool: 'x', ...fails }], within: '1h' }));
    t.same(outcomes(await after.send(call('x'), post())), ['allowed', 'blocked']);
    const unless = await front(sequence({ ...POST, unless: { tool: 'x', ...fails }, within: '1h' }));
    t.same(outcomes(await unless.send(call('x'), post())), ['allowed', 'blocked']);
  });

  t.test(`${name}: an event that a sequence blocks takes no permit of a limit`, async (t) => {
    const limit = {
      type: 'rate_limit',
      conditions: { threshold: 2, window: '1h', per: 'account', tool: 'http_post' },
      actions: ['block'],
    };
    const one = await front(limit, sequence({ tool: 'http_post', unless: { tool: 'go' }, within: '1h' }));
    t.same(outcomes(await one.send(post(), post())), ['blocked', 'blocked']);
    t.same(outcomes(await one.send(post())), ['blocked']);
    t.equal((await one.one(call('go'))).outcome, 'allowed');
    const passed = await one.send(post(), post(), post());
    t.same(outcomes(passed), ['allowed', 'allowed', 'blocked'], JSON.stringify(passed.map(({ matches }) => matches)));
  });
}

function memory({ rules, policies }: Front): string {
  return `${policies[0]!.id}/${(rules.rules.get(policies[0]!.id)!.terms as SequenceTerms).meaning}`;
}

t.test('what occurred is not known: it counts as a match', async (t) => {
  const one = new Front([sequence(NOTHING_LEAVES)], CODECS);
  const { outcome, matches } = await one.one(post());
  t.equal(outcome, 'blocked');
  t.match(matches[0]!.detail, { after: [], reason: 'state_unknown' });
});

t.test('what was not recorded has not been done', async (t) => {
  const pay = sequence({ tool: 'pay', unless: { tool: 'approve' }, within: '1h' });
  const one = await new Front([pay], CODECS).known();
  one.isFull = true;
  await t.rejects(one.one(call('approve')), { code: 'unavailable' });
  one.isFull = false;
  const { outcome, matches } = await one.one(call('pay'));
  t.equal(outcome, 'blocked');
  t.match(matches[0]!.detail, { reason: 'not_finished', waits_for: /^evt_/ });
  t.equal((await one.one(call('approve'))).outcome, 'allowed');
  t.equal((await one.one(call('pay'))).outcome, 'allowed', 'it was recorded before it was answered');
});

t.test('what occurred at one front is known at the other', async (t) => {
  const orders = [sequence(NOTHING_LEAVES)];
  const one = await new Front(orders, CODECS).known();
  const other = new Front(orders, CODECS, one, await connect(t));
  await one.one(read());
  t.equal((await other.one(post())).outcome, 'blocked');
});

/** A clock on the wall that is wrong by so much. */
function clockAhead(ms: number): SteadyClock {
  const sources = { wallMs: () => Date.now() + ms, monotonicMs: () => performance.now() };
  return new SteadyClock({ ...sources, originMs: performance.timeOrigin + ms });
}

t.test('a front whose clock is five minutes off changes neither the order nor the window', async (t) => {
  const orders = [sequence({ ...NOTHING_LEAVES, within: '1m' })];
  for (const [aheadMs, otherAheadMs] of [
    [300_000, 0],
    [-300_000, 0],
    [-300_000, 300_000],
  ] as const) {
    const one = await new Front(orders, CODECS).known();
    const other = new Front(orders, CODECS, one, await connect(t));
    [one.clock, other.clock] = [clockAhead(aheadMs), clockAhead(otherAheadMs)];
    t.equal((await other.one(post())).outcome, 'allowed', 'what came before is no step of what comes later');
    await one.one(read());
    t.equal((await other.one(post())).outcome, 'blocked', `${aheadMs} and ${otherAheadMs} ms`);
    t.equal((await one.one(post())).outcome, 'blocked');
  }
});

t.test('both codecs say the same of random events', async (t) => {
  const random = randomFrom(SEED);
  const oneOf = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!;
  const TOOLS = ['read_file', 'http_post', 'zip', 'approve', 'other'];
  let blocked = 0;
  for (let run = 0; run < 50; run++) {
    const called = () => ({ tool: oneOf(TOOLS), ...(random() < 0.3 && { 'payload.arguments.to': { ne: 'A' } }) });
    const conditions = () => ({
      ...called(),
      ...(random() < 0.8 ? { after: [called(), called()].slice(random() < 0.5 ? 1 : 0) } : {}),
      ...(random() < 0.3 ? { same: { 'payload.arguments.to': 'payload.arguments.to' } } : {}),
      ...(random() < 0.3 && { 'payload.arguments.of': 1 }),
      within: '1h',
      per: oneOf(['agent', 'agent', 'trace', 'account', 'payload.arguments.of']),
    });
    const orders = Array.from({ length: 3 }, () => {
      const some = conditions();
      const atLeast = 'after' in some && random() < 0.3 ? { at_least: 3 } : {};
      const all = { ...some, ...atLeast };
      return sequence('after' in some && random() < 0.8 ? all : { ...all, unless: { tool: oneOf(TOOLS) } }, [
        oneOf(['block', 'alert']),
      ]);
    });
    const fronts = [await new Front(orders, JSON_CODEC).known(), await new Front(orders, CODECS).known()];
    const seen: string[][] = [[], []];
    for (let batch = 0; batch < 6; batch++) {
      const events = Array.from({ length: oneOf([1, 3]) }, () => {
        const args = { ...(random() < 0.8 && { to: oneOf(['A', 'B']) }), ...(random() < 0.5 && { of: 1 }) };
        const trace = random() < 0.8 ? oneOf(['a', 'b']) : undefined;
        // One by one, or judged and asked about together.
        return Array<Sent>(oneOf([1, 1, 5])).fill(call(oneOf(TOOLS), args, trace));
      }).flat();
      const [a, b] = await Promise.all(
        fronts.map(async (one, i) => {
          const taken = await one.send(...events);
          seen[i]!.push(...taken.map(({ id }) => id));
          return plain(taken, seen[i]!);
        }),
      );
      t.same(b, a);
      blocked += a!.filter(({ outcome }) => outcome === 'blocked').length;
    }
  }
  t.ok(blocked > 20, `${blocked}`);
});

/** Without times; of ids the place among all that were `seen`. */
function plain(taken: readonly Taken[], seen: readonly string[]): { outcome: string; matches: unknown }[] {
  const placeOf = (id: unknown) => (id === undefined ? undefined : seen.indexOf(id as string));
  return taken.map(({ outcome, matches }) => ({
    outcome,
    matches: matches.map(({ policy_id, detail: { after, waits_for, ...detail } }) => ({
      policy_id,
      after: after?.map(({ path, event_id }) => [path, placeOf(event_id)]),
      waitsFor: placeOf(waits_for),
      ...detail,
    })),
  }));
}

t.test('Redis away: nothing is recorded', async (t) => {
  const away = connectCommands({ url: 'redis://127.0.0.1:1', cluster: false });
  t.teardown(() => away.disconnect());
  away.on('error', () => undefined);
  const one = new Front([sequence(NOTHING_LEAVES)], CODECS, undefined, away);
  await t.rejects(one.one(post()), { code: 'unavailable', recorded: false });
});

t.test('amounts are added up exactly, with the event at hand', async (t) => {
  const sum = { path: 'payload.arguments.amount', gt: 0.3 };
  const one = await new Front([sequence({ tool: 'pay', after: [{ tool: 'pay' }], sum, within: '1h' })], CODECS).known();
  const pay = (amount: unknown) => call('pay', { amount });
  // As doubles 0.1 and 0.2 are more than 0.3.
  t.same(outcomes(await one.send(pay(0.1), pay('0.2'), pay(0), pay(-5), pay(0.000000000001), pay(0))), [
    ...['allowed', 'allowed', 'allowed', 'allowed', 'blocked', 'allowed'],
  ]);
  const other = await new Front(
    [sequence({ tool: 'pay', after: [{ tool: 'pay' }], sum, within: '1h' })],
    CODECS,
  ).known();
  t.same(outcomes(await other.send(pay(0.5), pay('much'), pay({}), pay([0.1, 0.2]), call('pay'), pay(0.1))), [
    ...['blocked', 'blocked', 'blocked', 'allowed', 'allowed', 'blocked'],
  ]);
});
