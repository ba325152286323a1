// A front: the process that answers HTTP (`gatehouse front`). Composed here; several share one port.
// It runs before Redis (appends, counters, registry) and beside ClickHouse (queries). It keeps nothing that it cannot
// lose.
// Invariant: the HTTP server starts last and stops first; accepted events are appended and answered before the
// connections to Redis close.
// Failure: it serves even while Redis is unreachable, and answers 503 until Redis is back; /readyz says what is
// missing.

import os from 'node:os';
import type { ClickHouse } from '../../clickhouse/client.ts';
import type { KeptOf } from '../../clickhouse/kept-reads.ts';
import { storedRowCount } from '../../clickhouse/queries/count-events.ts';
import { decidedEvents } from '../../clickhouse/queries/decided-events.ts';
import { storedEvents } from '../../clickhouse/queries/get-event.ts';
import { getPolicyRevision } from '../../clickhouse/queries/policy-revisions.ts';
import { Checkpoints } from '../audit/checkpoints.ts';
import { Feed } from '../audit/feed.ts';
import type { Stores } from '../audit/sources.ts';
import { VerificationJobs } from '../audit/verification-job.ts';
import { AuditVerifier } from '../audit/verifier.ts';
import { AccountChecks } from '../checks/account-checks.ts';
import { CheckCalls } from '../checks/check-calls.ts';
import { CheckLabels } from '../checks/check-labels.ts';
import { BufferPool } from '../common/buffer-pool.ts';
import { FairQueue } from '../common/fair-queue.ts';
import { METRICS_ACCOUNTS_MAX, METRICS_CHECKS_MAX, METRICS_POLICIES_MAX, UNACKED_BYTES_MAX } from '../common/limits.ts';
import { STEADY_CLOCK } from '../common/steady-clock.ts';
import { GuardedHttps } from '../egress/guarded-https.ts';
import { mailTransportOf } from '../egress/mail-transport.ts';
import { allowedHostsOf } from '../egress/target-url.ts';
import { bodySlots } from '../http/answers/body-slots.ts';
import { Live } from '../http/answers/live.ts';
import type { Parts } from '../http/route.ts';
import { makeRoutes } from '../http/routes.ts';
import { Server } from '../http/server.ts';
import { chooseTransport } from '../http/transport/choose.ts';
import type { Codec } from '../ingest/codec.ts';
import { Ingest } from '../ingest/ingest.ts';
import type { IngestParts } from '../ingest/ingest-parts.ts';
import { JsonCodec } from '../ingest/json-codec.ts';
import type { JudgingParts } from '../ingest/judging-calls.ts';
import { JudgingSlices } from '../ingest/judging-slices.ts';
import { JudgingWorker } from '../ingest/judging-worker.ts';
import { OutsideWatching } from '../ingest/outside-watching.ts';
import { RateLimitBatcher } from '../ingest/rate-limit-batcher.ts';
import { SequenceBatcher } from '../ingest/sequence-batcher.ts';
import { SpansIntake } from '../ingest/spans-intake.ts';
import { SpendBatcher } from '../ingest/spend-batcher.ts';
import { WasmCodec } from '../ingest/wasm-codec.ts';
import { DependencyGauges } from '../metrics/dependency-gauges.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { UsageCounts } from '../metrics/usage-counts.ts';
import { SpanAgents } from '../otlp/span-agents.ts';
import { SPANS_BYTES_MAX } from '../otlp/span-groups.ts';
import { loopShares } from '../policy/allowance.ts';
import type { PolicyWork } from '../policy/policy-work.ts';
import { Counters } from '../policy/quotas/counters.ts';
import { SequenceStore } from '../policy/quotas/sequence-store.ts';
import { SpendStore } from '../policy/quotas/spend-store.ts';
import type { Config } from '../process/config.ts';
import { type Part, periodicPart } from '../process/lifecycle.ts';
import { AccountQuotas } from '../registry/accounts/account-quota.ts';
import { removeAccountOf } from '../registry/accounts/account-removal.ts';
import { keptOf as keptOfAccount } from '../registry/accounts/account-retention.ts';
import { Accounts } from '../registry/accounts/accounts.ts';
import { ApiKeys } from '../registry/accounts/api-keys.ts';
import { Holds } from '../registry/accounts/holds.ts';
import type { RequestLimit } from '../registry/accounts/principal.ts';
import { RequestLimiter } from '../registry/accounts/request-limit.ts';
import { Sessions } from '../registry/accounts/sessions.ts';
import { Agents } from '../registry/agents.ts';
import { Alerts, type TargetRules } from '../registry/alerts/alerts.ts';
import { Deliveries } from '../registry/alerts/deliveries.ts';
import { OutgoingFeeds } from '../registry/alerts/outgoing-feeds.ts';
import type { FetchEvent } from '../registry/approvals/approval-review.ts';
import { ApprovalWaits } from '../registry/approvals/approval-waits.ts';
import { Approvals } from '../registry/approvals/approvals.ts';
import { PriceTables } from '../registry/budgets/price-tables.ts';
import { RegistryCache } from '../registry/cache/cache.ts';
import { CheckActivities } from '../registry/check-activity.ts';
import type { RegistryStore } from '../registry/commit.ts';
import { Connections } from '../registry/connections.ts';
import { Conversations } from '../registry/conversations.ts';
import { ExternalChecks } from '../registry/external-checks.ts';
import { NewAgents } from '../registry/new-agents.ts';
import { Backtests, type FetchRevision } from '../registry/policies/backtests.ts';
import { Policies } from '../registry/policies/policies.ts';
import { PolicyDeclarations } from '../registry/policies/policy-declaration.ts';
import { PolicyEvaluations } from '../registry/policies/policy-evaluation.ts';
import { PolicyPreviews } from '../registry/policies/policy-preview.ts';
import { PolicyPromotions } from '../registry/policies/policy-promotion.ts';
import { ReadyPolicyFiles } from '../registry/policies/ready-policies.ts';
import { Views } from '../registry/views.ts';
import { readiness, refusalOf, sharedReadiness } from '../stores/readiness.ts';
import { type Appended, Appender } from '../streams/append.ts';
import { AppendOnce } from '../streams/append-once.ts';
import { Backlog } from '../streams/backlog.ts';
import { HeldSpans } from '../streams/held-spans.ts';
import { IngestHeartbeat } from '../streams/ingest-heartbeat.ts';
import { LimitSignals } from '../streams/limit-signals.ts';
import { Progress } from '../streams/progress.ts';
import { ReadBarrier } from '../streams/read-barrier.ts';
import { SpanNotes } from '../streams/span-notes.ts';
import { SubmissionsInHand } from '../streams/submissions-in-hand.ts';
import { makeBudgets } from './budget-parts.ts';
import {
  connectionsPart,
  makeClickHouse,
  makeCommands,
  makeKeys,
  makeRedisWatch,
  makeWriter,
  mostRetentionDays,
  redisAddress,
} from './clients.ts';
import { serviceCare } from './service-care.ts';
import { makeShadows } from './shadow-parts.ts';
import type { WorkerContext } from './worker-process.ts';

/** A front that starts while Redis is away has 503 to give, so it does not wait for long. */
const WAIT_MS_MAX = 2_000;
/**
 * A list asks three things at once. With more of one account under way than there are processors another's list waits
 * for it.
 */
const READS_OF_ACCOUNT = Math.max(4, os.availableParallelism());
const READS = { max: 4 * READS_OF_ACCOUNT, accountMax: READS_OF_ACCOUNT, waitingMax: 64 };
/**
 * Bodies that are read and recorded within some 2 ms; larger ones make others wait, and are judged in the judging
 * thread.
 */
const BYTES_MAX = { wasm: 256 * 1024, json: 64 * 1024 };
/** Accounts are made by hand: a scan of 16 small hashes finds a new one before it has done much. */
const ACCOUNTS_LOOK_MS = 10_000;

/** A span that waits for the one around it is recorded so soon after that has come. */
const HELD_LOOK_MS = 500;

export async function frontParts({
  config,
  log,
  metrics,
  link,
  isSupervised,
  say,
  leaving,
}: WorkerContext): Promise<Part[]> {
  const keys = makeKeys(config);
  const writer = makeWriter(config);
  const redis = makeCommands(config);
  const keptOf = async (account: string) => keptOfAccount((await cache.account(account)) ?? {}, config, Date.now());
  const clickhouse = makeClickHouse(config, { fair: new FairQueue(READS), keptOf });
  const usage = usageCounts(config, metrics);
  const cache = new RegistryCache({ address: redisAddress(config), keys, onPolicies: usage.policiesAre });
  const watch = makeRedisWatch({ config, log, metrics, isSupervised }, { redis, clickhouse }, () => cache.forgetAll());
  const { backlogEntriesMax: entriesMax, backlogBytesMax: bytesMax, idempotencyBytesMax, eventBytesMax } = config;
  const backlog = new Backlog({ redis, keys, entriesMax, bytesMax, idempotencyBytesMax });
  const buffers = new BufferPool();
  const clock = STEADY_CLOCK;
  const appender = new Appender({ redis: writer, keys, buffers, onAppended: countAppended(metrics) });
  const rateLimits = new RateLimitBatcher(new Counters(redis), keys);
  const { shadow, limits: shadowLimits } = makeShadows({ redis, keys }, metrics);
  const sequences = new SequenceBatcher(new SequenceStore(redis, keys));
  const { once, notes } = makeKept({ redis, keys }, backlog, metrics);
  const limitSignals = new LimitSignals({ redis, keys });
  const isAccepting = () => !backlog.full() && watch.trouble === undefined;
  const heartbeat = new IngestHeartbeat({ redis, keys, isAccepting });
  const inHand = new SubmissionsInHand({ redis, keys });
  const barrier = new ReadBarrier({ redis, keys });
  const quotas = makeQuotas({ redis, keys }, clickhouse, metrics);
  const callbacks = eventCallbacks(metrics, usage, quotas);
  const checkActivities = new CheckActivities({ redis, keys });
  const { checkCalls, checks, watching } = makeChecks(
    config,
    { log, metrics },
    { signals: limitSignals, cache, checkActivities },
  );
  const spendStore = new SpendStore(redis, keys);
  const spends = new SpendBatcher(spendStore);
  const budgets = makeBudgets({ redis, keys }, { spends: spendStore, clickhouse, barrier });
  const onUnknownBudgets: IngestParts['onUnknownBudgets'] = (account, ids) => budgets.know(account, ids);
  const { watchOutside } = watching;
  const asked = { rateLimits, spends, onUnknownBudgets, sequences, checks, watchOutside, shadow };
  const parts = { ...asked, appender, once, keys, eventBytesMax, clock, ...callbacks };
  const judging = makeJudging(parts, { log, metrics });
  const fetching = {
    fetchEvent: eventsOnceStored(clickhouse, barrier),
    fetchRevision: revisionsOnceStored(clickhouse, barrier),
  };
  const made = makeRegistry({ redis, keys }, fetching, targetRules(config), judging);
  const registry = { ...made, budgets, checkActivities };
  const approvalWaits = new ApprovalWaits({ address: redisAddress(config), keys, approvals: registry.approvals });
  const intake = { redis, keys, clickhouse, cache, backlog, judging, registry, inHand };
  const spans = makeSpansIntake({ ...intake, notes, metrics, log });
  const server = new Server({
    transport: await chooseTransport(config, log),
    ...{ config, buffers, onRefused: usage.refused },
    routes: makeRoutes({ metrics: config.metricsPort === undefined, publicUrl: config.publicUrl }),
    cache,
    ingest: watching.recordingBy(
      new Ingest({ ...parts, inHand, cache, backlog, offload: offloadTo(judging) }, codecsFor(buffers)),
    ),
    spans,
    ...{ registry, hookReading: judging, checkCalls, approvalWaits, clickhouse, barrier },
    ...auditParts({ redis, keys, clickhouse }, config, keptOf),
    ...lastingAnswers({ redis, keys, clickhouse, barrier, registry, log }),
    backlogFull: () => backlog.full(),
    ...{ limiter: makeLimiter({ redis, keys }, config, limitSignals), quotas },
    health: sharedReadiness(() => readiness({ redis, keys, clickhouse, watch, leaving, room: link.room })),
    care: serviceCare({ redis, keys, isOwn: () => link.room !== undefined }),
    leaving,
    refusal: (writes) => watch.refusal(writes) ?? (writes ? refusalOf(link.room) : undefined),
    requestLimit: requestLimit(config),
    retention: config,
    metrics,
    log: log.child({ part: 'http' }),
  });
  metrics.sampleBy(() => showState(metrics, { backlog, entriesMax, appender, approvalWaits }));
  const gauges = new DependencyGauges({ metrics, redis, clickhouse });
  return [
    connectionsPart({ config, redis: [writer, redis], clickhouse, waitMs: WAIT_MS_MAX, mayBeAway: true, say, log }),
    { name: 'redis watch', start: () => watch.start(), stop: () => watch.stop() },
    { name: 'registry cache', start: () => cache.start(), stop: () => cache.close() },
    { name: 'rate limits', start: () => undefined, stop: () => closed([rateLimits, shadowLimits]) },
    { name: 'watching checks', start: () => undefined, stop: () => watching.stop() },
    { name: 'checks', start: () => undefined, stop: () => checkCalls.stop() },
    { name: 'activity of checks', start: () => checkActivities.start(), stop: () => checkActivities.stop() },
    { name: 'backlog', start: () => backlog.start(), stop: () => backlog.stop() },
    { name: 'appender', start: () => undefined, stop: () => appender.close() },
    { name: 'limit signals', start: () => limitSignals.start(), stop: () => limitSignals.stop() },
    ...[judging, inHand, ...keptParts(once, approvalWaits), gauges],
    showsAccounts(usage, registry.accounts),
    periodicPart('held spans', HELD_LOOK_MS, () => spans.recordHeld()),
    httpPart(server, approvalWaits),
    { name: 'ingest heartbeat', start: () => heartbeat.start(), stop: () => heartbeat.stop() },
  ];
}

type LastingParts = RegistryStore & Pick<Parts, 'clickhouse' | 'barrier' | 'registry'> & { log: WorkerContext['log'] };

/** Streams, the feed and exports. */
function lastingAnswers({ redis, keys, clickhouse, barrier, registry, log }: LastingParts) {
  const progress = new Progress({ redis, keys });
  const erasing = (account: string) => registry.agents.erasing(account);
  const live = new Live({ clickhouse, progress, erasing, log });
  return { slots: bodySlots(), live, feed: new Feed({ clickhouse, keys, barrier, erasing }) };
}

type EventCallback = 'onAccepted' | 'onMatched' | 'onBytes' | 'onUnevaluated';

function eventCallbacks(metrics: Metrics, usage: UsageCounts, quotas: AccountQuotas): Pick<IngestParts, EventCallback> {
  const onUnevaluated = (reason: string, times: number) =>
    metrics.inc('gatehouse_unevaluated_rules_total', { reason }, times);
  const onMatched: IngestParts['onMatched'] = (account, match, of) =>
    usage.matched(account, { id: match.policy_id, name: match.name, type: match.type }, of);
  const count = countAccepted(metrics, usage);
  return {
    onAccepted(account, outcome, events) {
      count(account, outcome, events);
      quotas.charge(account, 'events', events);
    },
    onMatched,
    onBytes(account, bytes) {
      usage.bytes(account, bytes);
      quotas.charge(account, 'bytes', bytes);
    },
    onUnevaluated,
  };
}

async function closed(limits: readonly RateLimitBatcher[]): Promise<void> {
  await Promise.all(limits.map((one) => one.close()));
}

function codecsFor(buffers: BufferPool): Codec[] {
  return [new WasmCodec(buffers), new JsonCodec()];
}

function offloadTo(worker: JudgingWorker): NonNullable<IngestParts['offload']> {
  return { worker, shares: loopShares(), slices: new JudgingSlices(), bytesMax: BYTES_MAX };
}

function makeJudging(
  parts: Omit<JudgingParts, 'log' | 'onWork'>,
  { log, metrics }: Pick<WorkerContext, 'log' | 'metrics'>,
): JudgingWorker {
  const onWork: JudgingParts['onWork'] = (kind, result) =>
    metrics.inc('gatehouse_judging_thread_works_total', { kind, result });
  return new JudgingWorker({ ...parts, log: log.child({ part: 'judging' }), onWork });
}

type SpansParts = RegistryStore & {
  log: WorkerContext['log'];
  clickhouse: ClickHouse;
  cache: RegistryCache;
  backlog: Backlog;
  judging: JudgingWorker;
  registry: Pick<Parts['registry'], 'agents' | 'newAgents'>;
  notes: SpanNotes;
  inHand: SubmissionsInHand;
  metrics: Metrics;
};

function makeSpansIntake(parts: SpansParts): SpansIntake {
  const { redis, keys, clickhouse, cache, backlog, judging, registry, notes, inHand, metrics, log } = parts;
  const counters = { traces: 'gatehouse_spans_total', logs: 'gatehouse_log_records_total' } as const;
  return new SpansIntake({
    ...{ worker: judging, cache, backlog, notes, agents: new SpanAgents(registry.agents, registry.newAgents) },
    ...{ held: new HeldSpans({ redis, keys }), inHand, log },
    decided: (account, ids) => decidedEvents(clickhouse, account, ids, SPANS_BYTES_MAX),
    onSpans({ spans, ignored, rejected }, signal) {
      if (signal === 'metrics') return;
      const results = { recorded: spans - ignored - rejected, ignored, rejected };
      for (const [result, count] of Object.entries(results)) metrics.inc(counters[signal], { result }, count);
    },
  });
}

/**
 * Where callers of every account can ask for `/metrics`, it has no label by account, unless the operator sets it;
 * and never names.
 */
function usageCounts({ metricsPort, metricsAccountsMax, metricsPoliciesMax }: Config, metrics: Metrics): UsageCounts {
  const isApart = metricsPort !== undefined;
  const usage = new UsageCounts({
    accountsMax: metricsAccountsMax ?? (isApart ? METRICS_ACCOUNTS_MAX : 0),
    policiesMax: metricsPoliciesMax ?? (isApart ? METRICS_POLICIES_MAX : 0),
  });
  usage.report(metrics, { names: isApart });
  return usage;
}

/**
 * An account is there as 0 before its first request, so that a rate over its series has that one, too. While Redis is
 * away nothing is new.
 */
function showsAccounts(usage: UsageCounts, accounts: Accounts): Part {
  return periodicPart('accounts in metrics', ACCOUNTS_LOOK_MS, async () => {
    if (usage.accountsRoom === 0) return;
    await accounts.someIds(usage.accountsMax).then(
      (ids) => usage.accountsAre(ids),
      () => undefined,
    );
  });
}

/** The calls of checks, with bounded series, as of accounts: where callers of all accounts can ask, none is named. */
function makeChecks(
  config: Config,
  { log, metrics }: Pick<WorkerContext, 'log' | 'metrics'>,
  { cache, ...noted }: CheckNotes & { cache: RegistryCache },
) {
  const checkCalls = makeCheckCalls(config, { log, metrics }, noted);
  const checks = new AccountChecks(checkCalls, (account) => cache.checks(account));
  const onDropped = () => metrics.inc('gatehouse_check_watch_dropped_total', {});
  const watching = new OutsideWatching({ checks, log: log.child({ part: 'checks' }), onDropped });
  return { checkCalls, checks, watching };
}

type CheckNotes = { signals: LimitSignals; checkActivities: CheckActivities };

function makeCheckCalls(
  config: Config,
  { log, metrics }: Pick<WorkerContext, 'log' | 'metrics'>,
  { signals, checkActivities }: CheckNotes,
): CheckCalls {
  const labels = new CheckLabels(config.metricsPort === undefined ? 0 : METRICS_CHECKS_MAX);
  metrics.set('gatehouse_check_breakers_open', {}, 0);
  return new CheckCalls({
    https: new GuardedHttps({ allowedHosts: allowedHostsOf(config.egressAllowedHosts) }),
    log: log.child({ part: 'checks' }),
    onCall(id, result, seconds) {
      const check = labels.of(id);
      metrics.inc('gatehouse_check_calls_total', { check, result });
      metrics.observe('gatehouse_check_seconds', { check }, seconds);
      checkActivities.note(id, result, 1000 * seconds);
    },
    onBreaker(check, isOpen) {
      metrics.set('gatehouse_check_breakers_open', {}, labels.breaker(check.id, isOpen));
      checkActivities.breaker(check.id, isOpen);
      if (isOpen) signals.noteCheck(check.account, check);
    },
  });
}

function makeKept(store: RegistryStore, backlog: Backlog, metrics: Metrics): { once: AppendOnce; notes: SpanNotes } {
  const onEvicted = (records: number) => metrics.inc('gatehouse_idempotency_evicted_total', {}, records);
  const options = { ...store, bytesMax: () => backlog.idempotencyBytesMax, onEvicted };
  return { once: new AppendOnce(options), notes: new SpanNotes(options) };
}

function makeLimiter(store: RegistryStore, config: Config, limitSignals: LimitSignals): RequestLimiter {
  const onRefused = (account: string, key: string) => limitSignals.note(account, key);
  return new RequestLimiter({ ...store, limit: requestLimit(config), onRefused });
}

function makeQuotas(store: RegistryStore, clickhouse: ClickHouse, metrics: Metrics): AccountQuotas {
  return new AccountQuotas({
    ...store,
    countRows: (account) => storedRowCount(clickhouse, account),
    onRefused: (quota) => metrics.inc('gatehouse_quota_refusals_total', { quota }),
  });
}

function keptParts(once: AppendOnce, approvalWaits: ApprovalWaits): Part[] {
  return [
    { name: 'kept answers', start: () => once.start(), stop: () => once.stop() },
    { name: 'approval waits', start: () => approvalWaits.start(), stop: () => approvalWaits.stop() },
  ];
}

function httpPart(server: Server, approvalWaits: ApprovalWaits): Part {
  return {
    name: 'http server',
    start: async () => void (await server.listen()),
    // Requests that wait for a decision are sent to another front: the drain does not wait for people.
    stop: () => {
      approvalWaits.answerAll();
      return server.drain();
    },
  };
}

/** A person may decide on an event that came a moment ago and is on its way to where it is stored. */
function eventsOnceStored(clickhouse: ClickHouse, barrier: ReadBarrier): FetchEvent {
  const fetchStored = storedEvents(clickhouse);
  return async (account, agent, event) => {
    await barrier.waitForEvents(account, agent);
    return fetchStored(account, agent, event);
  };
}

/** Fetches revisions, also that of a policy that was changed a moment ago. */
function revisionsOnceStored(clickhouse: ClickHouse, barrier: ReadBarrier): FetchRevision {
  return async (account, policyId, revision) => {
    await barrier.waitForJournal(account);
    return getPolicyRevision(clickhouse, account, { policyId, ...(revision === undefined ? {} : { revision }) });
  };
}

function makeRegistry(
  store: RegistryStore,
  { fetchEvent, fetchRevision }: { fetchEvent: FetchEvent; fetchRevision: FetchRevision },
  rules: TargetRules,
  work: PolicyWork & Pick<JudgingWorker, 'trials'>,
): Omit<Parts['registry'], 'budgets' | 'checkActivities'> {
  const agents = new Agents(store);
  const policies = new Policies(store, work);
  return {
    accounts: new Accounts(store),
    removeAccount: (id, actor) => removeAccountOf(store, id, actor),
    ...{ agents, newAgents: new NewAgents(store, agents) },
    policies,
    readyPolicies: new ReadyPolicyFiles(),
    previews: new PolicyPreviews(store, policies, work.trials),
    declarations: new PolicyDeclarations(store, work),
    promotions: new PolicyPromotions(store, work),
    evaluations: new PolicyEvaluations(store, fetchEvent, work.trials),
    backtests: new Backtests(store, fetchRevision, work.trials),
    alerts: new Alerts({ ...store, ...rules }),
    deliveries: new Deliveries(store),
    apiKeys: new ApiKeys(store),
    ...{ sessions: new Sessions(store), views: new Views(store), holds: new Holds(store) },
    connections: new Connections(store),
    checks: new ExternalChecks({ ...store, allowedHosts: rules.allowedHosts }),
    outgoingFeeds: new OutgoingFeeds({ ...store, allowedHosts: rules.allowedHosts }),
    conversations: new Conversations(store),
    prices: new PriceTables(store),
    approvals: new Approvals({ ...store, fetchEvent, work }),
  };
}

function targetRules(config: Config): TargetRules {
  return { allowedHosts: allowedHostsOf(config.egressAllowedHosts), mailTransport: mailTransportOf(config) };
}

function requestLimit({ requestsPerSecond: perSecond, requestsBurst: burst }: Config): RequestLimit {
  return { perSecond, burst };
}

type Shown = { backlog: Backlog; entriesMax: number; appender: Appender; approvalWaits: ApprovalWaits };

function showState(metrics: Metrics, { backlog, entriesMax, appender, approvalWaits }: Shown): void {
  const { entries, usedBytes, bytesMax, full, idempotencyBytes } = backlog.state();
  metrics.set('gatehouse_idempotency_bytes', {}, idempotencyBytes);
  metrics.set('gatehouse_idempotency_limit_bytes', {}, backlog.idempotencyBytesMax);
  metrics.set('gatehouse_backlog_entries', {}, entries);
  metrics.set('gatehouse_backlog_limit_entries', {}, entriesMax);
  metrics.set('gatehouse_backlog_bytes', {}, usedBytes);
  metrics.set('gatehouse_backlog_limit_bytes', {}, bytesMax);
  metrics.set('gatehouse_backlog_full', {}, full ? 1 : 0);
  metrics.set('gatehouse_unacked_bytes', {}, appender.unackedBytes);
  metrics.set('gatehouse_unacked_limit_bytes', {}, UNACKED_BYTES_MAX);
  metrics.set('gatehouse_approval_waits', {}, approvalWaits.count);
}

function countAppended(metrics: Metrics): (appended: Appended) => void {
  const done = metrics.counter('gatehouse_appends_total', { result: 'ok' });
  const failed = metrics.counter('gatehouse_appends_total', { result: 'failed' });
  const events = metrics.counter('gatehouse_append_events_total', {});
  return (appended) => {
    (appended.ok ? done : failed).inc();
    if (appended.ok) events.inc(appended.events);
    metrics.observe('gatehouse_append_seconds', {}, appended.seconds);
  };
}

function countAccepted(metrics: Metrics, usage: UsageCounts): IngestParts['onAccepted'] {
  const all = metrics.counter('gatehouse_accepted_events_total', {});
  const byOutcome = {
    allowed: metrics.counter('gatehouse_events_total', { outcome: 'allowed' }),
    blocked: metrics.counter('gatehouse_events_total', { outcome: 'blocked' }),
    pending: metrics.counter('gatehouse_events_total', { outcome: 'pending' }),
  };
  return (account, outcome, events) => {
    all.inc(events);
    byOutcome[outcome].inc(events);
    usage.events(account, outcome, events);
  };
}

function auditParts(stores: Stores, config: Config, keptOf: KeptOf) {
  return {
    audit: new AuditVerifier({ ...stores, retentionDays: mostRetentionDays(config), keptOf }),
    checkpoints: new Checkpoints({ ...stores, dataDir: config.dataDir }),
    verifications: new VerificationJobs(stores),
  };
}
