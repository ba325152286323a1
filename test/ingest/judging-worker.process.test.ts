// The judging thread, as a front has it: what is judged there has the same verdict as on the loop that answers,
// accounts take turns, and a thread that ends takes nothing with it but the works that it had.
import t, { type Test } from 'tap';
import type { AgentRecord } from '../../schemas/agent.ts';
import { decodeEntry, type EventEntry, rowsOf } from '../../schemas/entry.ts';
import type { Policy } from '../../schemas/policy.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { readEventRow } from '../../src/common/event-row-codec.ts';
import { RowBinaryReader } from '../../src/common/row-binary.ts';
import { STEADY_CLOCK } from '../../src/common/steady-clock.ts';
import { inParts, readConversation } from '../../src/ingest/hook-reading.ts';
import { Ingest } from '../../src/ingest/ingest.ts';
import type { IngestParts, ShadowSums } from '../../src/ingest/ingest-parts.ts';
import type { JudgingParts } from '../../src/ingest/judging-calls.ts';
import { JudgingSlices } from '../../src/ingest/judging-slices.ts';
import { JudgingWorker } from '../../src/ingest/judging-worker.ts';
import { RateLimitBatcher } from '../../src/ingest/rate-limit-batcher.ts';
import { ShadowCounters } from '../../src/ingest/shadow-counters.ts';
import { type Allowed, loopShares, shadowAllowances, TOO_LONG } from '../../src/policy/allowance.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { Keys } from '../../src/redis/keys.ts';
import type { PackedAppend } from '../../src/streams/append.ts';
import { unpackFields } from '../../src/streams/packing.ts';
import {
  account,
  agent,
  agentId,
  CODECS,
  freshSequences,
  policiesOf,
  requestId,
  ruleSet,
  submitted,
} from './support.ts';

const keys = new Keys({ prefix: 'judge-', partitions: 4 });
const EVENT_BYTES_MAX = 1024 * 1024;
const KEPT = new Set(['payload', 'trace_id', 'outcome', 'reason', 'policy_id', 'model', 'tokens_used'] as const);
type Offload = NonNullable<IngestParts['offload']>;
const NOTHING: Allowed = {
  ...{ left: 0, isHere: true, isSpent: false },
  spend(units) {
    if (units > 0) throw TOO_LONG;
  },
};
const NOTHING_ALLOWED: Pick<Offload, 'shares'> = { shares: { begin: () => ({ ...NOTHING, inTurn: NOTHING }) } };
const ALL: Allowed = { ...{ left: Number.POSITIVE_INFINITY, isHere: true, isSpent: false }, spend: () => undefined };
/** Its account is over its share, whatever it sends. */
const IN_TURNS: Pick<Offload, 'shares'> = { shares: { begin: () => ({ ...ALL, isSpent: true, inTurn: ALL }) } };

class CountedSlices extends JudgingSlices {
  taken = 0;

  override judge(...work: Parameters<JudgingSlices['judge']>): Promise<void> {
    this.taken++;
    return super.judge(...work);
  }
}

/** Everything that the thread is given, and what it had done. */
class Front {
  readonly ingest: Ingest;
  readonly worker: JudgingWorker;
  readonly slices = new CountedSlices();
  readonly appended: PackedAppend[] = [];
  readonly once: string[] = [];
  readonly works: string[] = [];
  readonly told: string[] = [];
  readonly logged: string[] = [];
  readonly shadows: [string, number][] = [];
  rules: RuleSet;

  constructor(
    t: Test,
    rules: RuleSet,
    options: { heapMb?: number; shares?: Offload['shares']; checks?: JudgingParts['checks'] } = {},
  ) {
    this.rules = rules;
    const counted = new Map<string, number>();
    const counters: Counting = {
      take: async (checks) =>
        checks.map(({ key, threshold, count }) => {
          const before = counted.get(key) ?? 0;
          counted.set(key, before + count);
          const granted = Math.max(0, Math.min(count, threshold - before));
          return {
            granted,
            freeInMs: granted < count ? 1_000 : 0,
            atMs: Date.now(),
            leased: 0,
            bucket: 0,
            usableMs: 0,
          };
        }),
    };
    const rateLimits = new RateLimitBatcher(counters, keys);
    const spends = { ask: () => undefined, release: () => undefined };
    const shadow = {
      counters: new ShadowCounters({
        ...{ limits: new RateLimitBatcher(counters, keys), spends, sequences: freshSequences() },
      }),
      allowances: shadowAllowances(),
      onJudged: ({ said, skipped }: ShadowSums) => void this.shadows.push(...said, ...skipped),
    };
    const told = {
      onAccepted: (_account: string, outcome: string, events: number) =>
        void this.told.push(...Array<string>(events).fill(outcome)),
      onMatched: () => undefined,
      onBytes: () => undefined,
      onUnevaluated: (reason: string, times: number) => void this.told.push(`${reason} ${times}`),
      onUnknownBudgets: () => undefined,
    };
    const log = {
      error: (_about: unknown, what: string) => void this.logged.push(what),
    } as unknown as JudgingParts['log'];
    this.worker = new JudgingWorker({
      checks: options.checks ?? { ask: async () => [] },
      watchOutside: () => undefined,
      ...{
        rateLimits,
        sequences: freshSequences(),
        spends,
        shadow,
        keys,
        log,
        eventBytesMax: EVENT_BYTES_MAX,
        ...told,
      },
      ...(options.heapMb === undefined ? {} : { heapMb: options.heapMb }),
      appender: { appendPacked: async (append) => void this.appended.push(append) },
      once: {
        begin: async ({ key }) => {
          this.once.push(`begin ${key}`);
          return { state: 'new', token: 'token' };
        },
        appendPacked: async ({ key, entry }) => void this.once.push(`append ${key} ${entry === undefined}`),
        release: async ({ key }) => void this.once.push(`release ${key}`),
      },
      onWork: (kind, result) => void this.works.push(`${kind} ${result}`),
    });
    this.worker.start();
    t.teardown(() => this.worker.stop());
    const parts = {
      cache: { agent: () => ({ record: agent, account }), rules: () => this.rules },
      ...{ rateLimits, sequences: freshSequences(), spends, shadow, keys, ...told },
      backlog: { full: () => false },
      appender: {
        appendFor: (_append: unknown, caller: { appended(): void }) => caller.appended(),
      },
      once: {
        begin: async ({ key }: { key: string }) => {
          this.once.push(`begin here ${key}`);
          return { state: 'new', token: 'token' };
        },
        release: async ({ key }: { key: string }) => void this.once.push(`release here ${key}`),
      },
      eventBytesMax: EVENT_BYTES_MAX,
      clock: STEADY_CLOCK,
    } as unknown as IngestParts;
    const { worker } = this;
    const how = { shares: options.shares ?? loopShares(), slices: this.slices };
    this.ingest = new Ingest(
      { ...parts, offload: { worker, ...how, bytesMax: { wasm: 256 * 1024, json: 64 * 1024 } } },
      CODECS,
    );
  }

  async send(events: readonly object[], more: { account?: string; key?: string } = {}): Promise<Result[]> {
    const body = Buffer.from(JSON.stringify({ events }));
    const request = {
      account: more.account ?? account,
      agentId,
      shape: 'many' as const,
      body,
      requestId,
      idempotencyKey: more.key,
    };
    const answer = await submitted(this.ingest, request);
    return (JSON.parse(answer.body.toString()) as { results: Result[] }).results;
  }

  /** How many submissions were judged apart. */
  get apart(): number {
    return this.works.filter((work) => work === 'events done').length;
  }
}
type Counting = ConstructorParameters<typeof RateLimitBatcher>[0];
type Result = { payload: object; policy_result: { outcome: string; matches: { detail: object; name: string }[] } };

const verdicts = (results: readonly Result[]) =>
  results.map(({ policy_result: result }) => [
    result.outcome,
    result.matches.map(({ name, detail }) => [name, detail]),
  ]);

const rulesOf = (orders: Parameters<typeof policiesOf>[0]) => ruleSet(policiesOf(orders))!;
const ORDERS = [
  { type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] },
  { type: 'block_action', conditions: { expression: 'event.payload.text.size() > 60' }, actions: ['block'] },
  { type: 'block_action', conditions: { 'payload.text': { matches: '[a-z]+ly [a-z]+' } }, actions: ['alert'] },
  { type: 'rate_limit', conditions: { threshold: 30, window: '1m', per: 'payload.user' }, actions: ['block'] },
  { type: 'require_approval', conditions: { 'payload.amount': { gt: 100 } }, actions: ['block'] },
  {
    type: 'data_filter',
    conditions: { detectors: ['email'], patterns: ['secret-[0-9]+'], redact: true },
    actions: ['alert'],
  },
];
const EVENTS = Array.from({ length: 90 }, (_, i) => ({
  type: i % 3 === 0 ? 'tool_call' : 'prompt',
  ...(i % 4 === 0 ? { trace_id: `t-${i}` } : {}),
  payload: {
    ...(i % 3 === 0 ? { tool: i % 6 === 0 ? 'rm' : 'ls' } : {}),
    ...{ user: `u${i % 2}`, amount: i * 3 },
    text: ['kindly wait', `write to a${i}@example.com`, `secret-${i} é`, 'x'.repeat(i)][i % 4],
  },
}));

t.test('the verdict is the same wherever an event is judged', async (t) => {
  const here = new Front(t, rulesOf(ORDERS));
  const there = new Front(t, rulesOf(ORDERS), NOTHING_ALLOWED);
  const inTurns = new Front(t, rulesOf(ORDERS), IN_TURNS);
  const [a, b, c] = [await here.send(EVENTS), await there.send(EVENTS), await inTurns.send(EVENTS)];
  t.same([here.apart, there.apart, inTurns.apart], [0, 1, 0]);
  t.same([here.slices.taken, there.slices.taken, inTurns.slices.taken], [0, 0, 1]);
  t.same(verdicts(b), verdicts(a));
  t.same(verdicts(c), verdicts(a));
  t.same(
    b.map(({ payload }) => payload),
    a.map(({ payload }) => payload),
  );
  const outcomes = a.map(({ policy_result: result }) => result.outcome);
  t.same(new Set(outcomes), new Set(['allowed', 'blocked', 'pending']), 'of every kind');
  t.same([...there.told].sort(), [...here.told].sort(), 'and the same was counted');
  const [append] = there.appended;
  t.match(append, { account, agent: agentId, events: EVENTS.length });
  t.equal(unpacked(append!).summaries.length, EVENTS.length);
});

function unpacked({ entry }: PackedAppend): EventEntry {
  const fields: [string, Buffer][] = [
    ['v', Buffer.from(String(entry.version))],
    ['d', entry.summaries],
    ['r', entry.rows],
  ];
  return decodeEntry(unpackFields(new Map(fields)));
}

t.test('shadows say the same wherever an event is judged, and change nothing', async (t) => {
  const policies = policiesOf(ORDERS);
  const shadows = policies.map((policy, i): Policy => {
    const id = `pol_s${policy.id.slice(5)}`;
    const copy = i % 2 === 0 ? { shadow_of: policy.id, conditions: { 'payload.user': 'u1' } } : {};
    return { ...policy, ...(policy.type === 'block_action' ? copy : {}), id, mode: 'shadow' };
  });
  const [without, tried] = [await prepareRules(policies), await prepareRules([...policies, ...shadows])];
  const apart = NOTHING_ALLOWED;
  const fronts = [new Front(t, without, apart), new Front(t, tried, apart), new Front(t, tried)] as const;
  const [plain, there, here] = fronts;
  const [a, b, c] = [await plain.send(EVENTS), await there.send(EVENTS), await here.send(EVENTS)];
  t.same([plain.apart, there.apart, here.apart], [1, 1, 0]);
  t.same(verdicts(b), verdicts(a));
  t.same(verdicts(c), verdicts(a));
  t.notOk(JSON.stringify([...b, ...c]).includes('pol_s'));
  const [before, after] = [plain, there].map(({ appended }) => unpacked(appended[0]!)) as [EventEntry, EventEntry];
  const kept = (entry: EventEntry) => rowsOf(entry).map((row) => readEventRow(new RowBinaryReader(row), KEPT));
  t.same(kept(after), kept(before));
  t.ok(after.summaries.some(({ shadow }) => shadow !== undefined));
  const sums = (front: Front) => [...front.shadows].sort();
  t.same(sums(there), sums(here));
  t.same(new Set(there.shadows.map(([verdict]) => verdict)), new Set(['blocked', 'pending', 'matched', 'not_matched']));
  t.same(plain.shadows, []);
});

t.test('what is over its allowance is judged apart, from the beginning, with the whole budget', async (t) => {
  const counted = 'event.payload.c.exists(a, event.payload.c.exists(b, a == b + "x"))';
  const rules = rulesOf([
    { type: 'block_action', conditions: { expression: counted }, actions: ['block'] },
    { type: 'block_action', conditions: { 'payload.note': 'stop' }, actions: ['block'] },
  ]);
  const front = new Front(t, rules);
  const list = (n: number) => ({ type: 'prompt', payload: { c: Array.from({ length: n }, (_, i) => `item ${i}`) } });
  const results = await front.send([list(10), list(400), { type: 'prompt', payload: { note: 'stop', c: [] } }]);
  t.equal(front.apart, 1, 'one of them was too much for the loop that answers');
  t.match(verdicts(results), [
    ['allowed', []],
    ['blocked', [['p0', { reason: 'budget' }]]],
    ['blocked', [['p1', {}]]],
  ]);
  t.ok(front.told.includes('budget 1'));
  t.match(await front.send([list(10)]), [{ policy_result: { outcome: 'allowed' } }]);
  t.equal(front.apart, 1, 'and what is little is judged here');
});

t.test('large bodies are judged apart, plain ones without being parsed', async (t) => {
  const front = new Front(t, rulesOf(ORDERS));
  const plain = { type: 'prompt', payload: { text: 'x'.repeat(50), more: 'y'.repeat(9_000) } };
  t.equal((await front.send(Array(60).fill(plain))).length, 60);
  t.equal(front.apart, 1);
  const odd = { type: 'prompt', payload: { text: 'x', more: 'ÿ'.repeat(900), list: [{ '\u0001': 1 }] } };
  t.equal((await front.send(Array(60).fill(odd))).length, 60);
  t.equal(front.apart, 2);
  await t.rejects(front.send(Array(60).fill({ type: 'nothing', payload: { more: 'ÿ'.repeat(900) } })), {
    code: 'validation_failed',
  });
  t.equal(front.appended.length, 2);
});

t.test('an idempotent submission keeps its key wherever it is judged', async (t) => {
  const front = new Front(t, rulesOf(ORDERS), NOTHING_ALLOWED);
  await front.send(EVENTS.slice(0, 3), { key: 'k1' });
  t.same(front.once, ['begin here k1', 'release here k1', 'begin k1', 'append k1 false']);
  const large = { type: 'prompt', payload: { more: 'ÿ'.repeat(90_000) } };
  await front.send([large], { key: 'k2' });
  t.same(front.once.slice(4), ['begin k2', 'append k2 false'], 'a large one is begun there alone');
});

t.test('a changed policy is in force in the thread with the next event', async (t) => {
  const front = new Front(t, rulesOf(ORDERS.slice(0, 1)), NOTHING_ALLOWED);
  const event = { type: 'tool_call', payload: { tool: 'rm' } };
  t.match(await front.send([event]), [{ policy_result: { outcome: 'blocked' } }]);
  front.rules = rulesOf([{ ...ORDERS[0]!, conditions: { tool: 'mv' } }]);
  t.match(await front.send([event]), [{ policy_result: { outcome: 'allowed' } }]);
  const many = Array.from({ length: 20 }, (_, i) => `acc_${String(i).padStart(26, '0')}`);
  for (const other of [...many, ...many])
    t.match(await front.send([{ ...event, payload: { tool: 'mv' } }], { account: other }), [
      { policy_result: { outcome: 'blocked' } },
    ]);
});

t.test('an account waits behind itself alone, and past its bound it is refused', async (t) => {
  const counted = 'event.payload.c.exists(a, event.payload.c.exists(b, a == b + "x"))';
  const front = new Front(
    t,
    rulesOf([{ type: 'block_action', conditions: { expression: counted }, actions: ['block'] }]),
  );
  const costly = { type: 'prompt', payload: { c: Array.from({ length: 400 }, (_, i) => `item ${i}`) } };
  const order: string[] = [];
  const sent = (name: string, to: string) =>
    front.send(Array(10).fill(costly), { account: to }).then(
      () => void order.push(name),
      (error: ServiceError) => void order.push(`${name} ${error.code} ${error.recorded}`),
    );
  const all = Array.from({ length: 70 }, (_, i) => sent(`a${i}`, account));
  await sent('b', `acc_${'b'.repeat(26)}`);
  t.ok(order.filter((name) => /^a\d+$/.test(name)).length < 10, `served before another's only one: ${order.join()}`);
  await Promise.all(all);
  t.equal(
    order.filter((name) => / unavailable false$/.test(name)).length,
    5,
    'one under way, 64 in line, the rest refused',
  );
  t.equal(order.length, 71);
});

/** Some seconds of work for a thread. */
const COSTLY_RULES = rulesOf([
  {
    type: 'block_action',
    conditions: { expression: 'event.payload.c.exists(a, event.payload.c.exists(b, a == b + "x"))' },
    actions: ['block'],
  },
]);
const COSTLY = Array(100).fill({
  type: 'prompt',
  payload: { c: Array.from({ length: 800 }, (_, i) => `item ${i}`) },
});

/** Submits what is costly; its client can leave. */
function leaving(front: Front, key?: string) {
  let waiting: { callerLeft(): void } | undefined;
  let isGone = false;
  const body = Buffer.from(JSON.stringify({ events: COSTLY }));
  const request = { account, agentId, shape: 'many' as const, body, requestId, idempotencyKey: key };
  const outcome = new Promise<unknown>((resolve) => {
    front.ingest.submit(request, {
      accepted: () => resolve('accepted'),
      refused: resolve,
      offloaded: () => undefined,
      get isGone() {
        return isGone;
      },
      whenGone: (given) => {
        waiting = given;
      },
    });
  });
  const leave = () => {
    isGone = true;
    waiting!.callerLeft();
  };
  return { outcome, leave };
}

t.test('T19: where a client leaves, what is not recorded of its work is dropped', async (t) => {
  const front = new Front(t, COSTLY_RULES);
  const [working, waiting] = [leaving(front, 'k'), leaving(front)];
  while (!front.once.includes('begin k')) await new Promise((resolve) => setTimeout(resolve, 5));
  const left = { code: 'unavailable', recorded: false, message: /^The caller has left/ };
  waiting.leave();
  t.match(await waiting.outcome, left, 'from the line, while another is under way');
  t.same(front.works, ['events refused']);
  working.leave();
  t.match(await working.outcome, left, 'and from the thread, between its events');
  t.same(front.appended, []);
  t.same(front.once.slice(-2), ['begin k', 'release k'], 'its key is free');
  t.match(await front.send([{ type: 'prompt', payload: { c: [] } }]), [{ policy_result: { outcome: 'allowed' } }]);
});

t.test('T19: what governs waits neither for what is submitted nor for what is tried', async (t) => {
  const front = new Front(t, COSTLY_RULES);
  const submitted = leaving(front, 'k');
  while (!front.once.includes('begin k')) await new Promise((resolve) => setTimeout(resolve, 5));
  const policy = { type: 'block_action' as const, conditions: { tool: 'rm' }, actions: ['block' as const] };
  const tried = Array.from({ length: 70 }, () => front.worker.trials.check(account, policy).catch(() => 'refused'));
  t.same(await front.worker.check(account, policy), []);
  t.notOk(front.works.includes('events done'), 'beside it');
  t.ok((await Promise.all(tried)).includes('refused'), 'a line of their own');
  submitted.leave();
  await submitted.outcome;
});

t.test('a thread that ends takes its works with it, and the next makes another', async (t) => {
  const front = new Front(t, rulesOf(ORDERS), { heapMb: 24 });
  const keysOf = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`kéy${i}`, [i]]));
  const large = Array.from({ length: 7 }, () => ({ type: 'prompt', payload: keysOf(60_000) }));
  const error = await front.send(large).catch((error: unknown) => error);
  t.match(error, { code: 'unavailable', recorded: false });
  t.ok(error instanceof ServiceError);
  t.ok(front.logged.includes('judging_thread.failed'), front.logged.join());
  t.equal(front.appended.length, 0);
  const [next] = await front.send([{ type: 'prompt', payload: { text: 'x', more: 'ÿ'.repeat(90_000) } }]);
  t.equal(next!.policy_result.outcome, 'allowed');
});

t.test('policies are checked and tried there', async (t) => {
  const { worker, works } = new Front(t, rulesOf(ORDERS));
  const wrong = { type: 'data_filter' as const, conditions: { patterns: ['('] }, actions: ['block' as const] };
  t.match(await worker.check(account, wrong), [{ path: '/conditions/patterns/0', message: /RE2/ }]);
  t.same(await worker.check(account, { ...wrong, conditions: { patterns: ['a'] } }), []);
  const payload = { tool: 'rm' };
  const event = {
    ...{ type: 'tool_call' as const, trace_id: undefined, agent_id: agentId, timestamp: '2026-11-25T00:00:00.000Z' },
    ...{ payload, payloadText: JSON.stringify(payload), agent: agent as AgentRecord },
  };
  const policies = policiesOf(ORDERS.slice(0, 1));
  t.match(await worker.evaluate(account, { policies, event, isAgentOff: false }), {
    policy_result: { outcome: 'blocked' },
    judged: [{ result: 'matched' }],
  });
  const broken = policiesOf([{ ...ORDERS[0]!, conditions: { tool: {} } }]);
  await t.rejects(worker.evaluate(account, { policies: broken, event, isAgentOff: false }));
  t.same(works, ['policy done', 'policy done', 'policy done', 'policy refused']);
});

t.test('what waits for a check keeps no place in the thread, as far as there is room', async (t) => {
  const said = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
  const asking = rulesOf([{ type: 'external_check', conditions: { check: 'slow', ...said }, actions: ['block'] }]);
  const answers: (() => void)[] = [];
  const checks: JudgingParts['checks'] = {
    ask: (_account, questions) =>
      new Promise((resolve) => {
        const verdict = { match: false, score: null, labels: [], spans: [] };
        answers.push(() => resolve(questions.map(() => ({ verdict, ms: 1 }))));
      }),
  };
  const front = new Front(t, asking, { checks });
  const large = [{ type: 'custom', payload: { text: 'a text', list: Array.from({ length: 50_000 }, (_, i) => i) } }];
  const asked = async (count: number) => {
    while (answers.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const sent = Array.from({ length: 24 }, (_, i) => front.send(large, { account: `acc ${i % 3}` }));
  await asked(24);
  t.equal(answers.length, 24, 'eight of each account, though a line has one place for an account');
  const others = front.send(large, { account: 'acc 9' });
  await asked(25);
  const more = [front.send(large, { account: 'acc 0' }), front.send(large, { account: 'acc 0' })];
  await asked(26);
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal(answers.length, 26, 'the ninth keeps its place, and the tenth waits for it');
  for (let i = 0; i < 27; i++) {
    await asked(i + 1);
    answers[i]!();
  }
  for (const results of await Promise.all([...sent, others, ...more]))
    t.match(results, [{ policy_result: { outcome: 'allowed', checks: [{ check: 'slow', match: false }] } }]);
});

t.test('a conversation of 10 MB is read while the loop that answers goes on, and comes in parts', async (t) => {
  const front = new Front(t, rulesOf(ORDERS));
  const said = (text: string) => ({ role: 'user', content: [{ type: 'text', text }] });
  const many = Array.from({ length: 4_000 }, (_, i) => said(`${i} `.padEnd(1_000, 'lorem ipsum ')));
  const long = Array.from({ length: 5 }, (_, i) => said(`${i} `.padEnd(1_200_000, 'lorem "ipsum" ')));
  const messages = [
    ...many,
    ...long,
    { role: 'user', content: [{ type: 'tool_use', id: 'x', name: 'y', input: { text: 'z'.repeat(1_100_000) } }] },
  ];
  const body = Buffer.from(JSON.stringify({ type: 'prompt', session_id: 's', messages }));
  t.ok(body.length > 10e6);
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setTimeout(turn, 1);
  };
  turn();
  const caller = { isGone: false, whenGone: () => undefined };
  const read = await front.worker.readHook({ account, seed: 'seed', body }, caller);
  isOver = true;
  const here = readConversation(body, 'seed', EVENT_BYTES_MAX);
  t.same(
    read.messages.map(({ digest }) => digest),
    here.messages.map(({ digest }) => digest),
  );
  t.ok(JSON.stringify(read) === JSON.stringify(here), 'as it is read here');
  t.match(read.messages.at(-1)!.fault, /larger than/);
  const parts = [...inParts(here.messages)];
  t.ok(parts.length > 45, `${parts.length} parts`);
  t.ok(turns > parts.length, `${turns} turns of the loop`);
  t.ok(parts.every((part) => part.length <= 100));
  await t.rejects(front.worker.readHook({ account, seed: 'seed', body: Buffer.from('{"messages":7}') }, caller), {
    code: 'validation_failed',
  });
  t.match(front.works, ['hook done', 'hook refused']);
});
