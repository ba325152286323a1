// The files for those who run the service, held against a real one: every metric and label that alert rules and board
// name is in an answer of /metrics. promtool (see support/prometheus.ts) checks the answer, the rules and the board's
// expressions, and shows that each alert fires on series that it is made for, and rests on others.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { alertRules, withMonitoring } from '../scripts/docs.ts';
import { freePort } from '../src/embedded/free-port.ts';
import { METRICS } from '../src/metrics/metrics.ts';
import { assetPath } from '../src/process/assets.ts';
import { folderOf } from './support/folder.ts';
import { type Exposition, promtool, readExposition } from './support/prometheus.ts';
import { startService } from './support/service.ts';

type Board = { uid: string; panels: { title: string; type: string; targets?: { expr: string }[] }[] };
type Series = [series: string, values: string][];

const RULES = assetPath('ops/prometheus-alerts.yaml');
const board = JSON.parse(readFileSync(assetPath('ops/grafana-dashboard.json'), 'utf8')) as Board;
const docs = readFileSync(assetPath('docs/monitoring.md'), 'utf8');
const rules = alertRules();
const boardExpressions = board.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
/** Labels that Prometheus adds to what it scrapes. */
const OF_THE_SCRAPE = new Set(['job', 'instance']);
const READY_TRIES = 240;

t.test('the alerts and metrics in the docs are those of the rules and the code', (t) => {
  t.equal(withMonitoring(docs), docs, '`npm run docs` writes them');
  t.match(docs, '### GatehouseProcessDown\n');
  t.match(docs, '| `gatehouse_up` | gauge |');
  t.end();
});

t.test('each alert says how bad it is, what to do and where that is explained', (t) => {
  const text = readFileSync(RULES, 'utf8');
  t.equal(rules.length, text.split('alert: ').length - 1, 'all rules are read');
  t.ok(rules.length > 15);
  t.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length, 'each name stands once');
  for (const rule of rules) {
    t.match(
      rule,
      { for: /^\d+m$/, severity: /^(critical|warning|info)$/, summary: /\w/, description: /\.$/ },
      rule.alert,
    );
    const page = '{{ or $externalLabels.gatehouse_docs `docs` }}/monitoring.md';
    t.equal(rule.runbook_url, `${page}#${rule.alert.toLowerCase()}`);
  }
  t.end();
});

t.test(
  'what rules and board name is in a real answer, with its labels, and promtool finds no fault with it',
  async (t) => {
    const port = await freePort();
    const service = await startService(t, {
      stores: 'own',
      env: { GATEHOUSE_METRICS_PORT: String(port), GATEHOUSE_BACKTESTS: '1' },
    });
    const atFirst = await whenThere(`http://127.0.0.1:${port}/metrics`, [
      'gatehouse_account_events_total{account="acc_',
    ]);
    t.match(atFirst, /gatehouse_account_events_total\{account="acc_\w+",outcome="allowed",process="front-1"\} 0\n/);
    const call = async (url: string, body: object) => {
      const headers = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
      const answer = await fetch(`${service.url}${url}`, { method: 'POST', headers, body: JSON.stringify(body) });
      t.ok(answer.ok, `${url}: ${answer.status}`);
      return (await answer.json()) as { id: string; policy_result: { outcome: 'allowed' | 'blocked' } };
    };
    const budgets = { headers: { Authorization: `Bearer ${service.key}` } };
    t.equal(
      (await fetch(`${service.url}/v1/budgets?check=true`, budgets)).status,
      200,
      'drift is known once it is asked',
    );
    const agent = await call('/v1/agents', { name: 'watched' });
    const conditions = { patterns: ['forbidden'] };
    const policy = await call('/v1/policies', {
      name: 'a "name"',
      type: 'data_filter',
      conditions,
      actions: ['block'],
    });
    const told = { allowed: 0, blocked: 0 };
    // A policy is in force within a second: what comes before that is allowed, and counted so.
    for (let n = 0; n < READY_TRIES && told.blocked === 0; n++) {
      const { policy_result } = await call(`/v1/agents/${agent.id}/events`, {
        type: 'custom',
        payload: { text: 'forbidden' },
      });
      told[policy_result.outcome]++;
      await sleep(25);
    }
    const whole = Object.keys(METRICS).map((name) => `# TYPE ${name} `);
    const text = await whenThere(`http://127.0.0.1:${port}/metrics`, whole);
    const answer = readExposition(text);
    t.same(answer.faults, []);
    for (const name of Object.keys(METRICS)) t.ok(answer.types.has(name), name);
    for (const expression of [...rules.map(({ expr }) => expr), ...boardExpressions]) checkNames(t, answer, expression);
    const value = (name: string, labels: object) =>
      answer.samples.find((one) => one.name === name && Object.entries(labels).every(([k, v]) => one.labels[k] === v))
        ?.value;
    for (const outcome of ['allowed', 'blocked'] as const) {
      t.equal(value('gatehouse_events_total', { outcome }), told[outcome], `events ${outcome}`);
      t.equal(sumOf(answer, 'gatehouse_account_events_total', { outcome }), told[outcome], `of accounts, ${outcome}`);
    }
    t.equal(value('gatehouse_policy_matches_total', { policy: policy.id, outcome: 'blocked' }), 1);
    t.equal(value('gatehouse_policy_info', { policy: policy.id, name: 'a \\"name\\"', type: 'data_filter' }), 1);
    t.equal(value('gatehouse_dependency_up', { dependency: 'clickhouse', process: 'front-1' }), 1);
    checkByPromtool(t, ['check', 'metrics'], text);
  },
);

t.test('the reader finds what promtool would', (t) => {
  const faults = (text: string) => readExposition(text).faults;
  const whole = '# HELP a_total A\n# TYPE a_total counter\na_total{b="c"} 1\n';
  t.same(faults(whole), []);
  const broken = [
    whole.replace('# HELP a_total A\n', ''),
    whole.replaceAll('a_total', 'a'),
    whole.replace('counter', 'gauge'),
    `${whole}a_total{b="c"} 2\n`,
    whole.replace('} 1', '} one'),
    whole.replace('"c"', 'c'),
    whole.trimEnd(),
  ];
  for (const text of broken) t.not(faults(text).length, 0, text);
  t.end();
});

t.test('promtool accepts the rules and the expressions of the board', (t) => {
  checkByPromtool(t, ['check', 'rules', RULES]);
  const made = boardExpressions.map((expr, i) => ({
    record: `board:${i}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$job', '.*'),
  }));
  t.ok(made.length > 30);
  const file = path.join(folderOf(t), 'board.yaml');
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'board', rules: made }] }));
  checkByPromtool(t, ['check', 'rules', file]);
  t.end();
});

const counter = (perMinute: number) => `0+${perMinute}x30`;
const constant = (value: number) => `${value}x30`;
const SUBMIT = 'route="POST /v1/agents/{id}/events"';
const requests = (fine: number, failed: number): Series => [
  ['gatehouse_requests_total{status="200"}', counter(fine)],
  ['gatehouse_requests_total{status="503"}', counter(failed)],
];
const latency = (le: string): Series => [
  [`gatehouse_request_seconds_bucket{${SUBMIT},le="0.001"}`, counter(le === '0.001' ? 60 : 0)],
  [`gatehouse_request_seconds_bucket{${SUBMIT},le="5"}`, counter(60)],
  [`gatehouse_request_seconds_bucket{${SUBMIT},le="+Inf"}`, counter(60)],
];
const hooks = (unjudged: number): Series => [
  ['gatehouse_requests_total{route="POST /v1/hooks/inference/{connection}",status="200"}', counter(60)],
  ['gatehouse_unjudged_hooks_total{reason="unavailable"}', counter(unjudged)],
  ['gatehouse_unjudged_hooks_total{reason="unsigned"}', counter(60)],
];
const forDays = (value: number) => `${value}x6000`;
/** When it is tried that an alert fires, and that it rests: promtool's clock begins at 0, as for a new service. */
const TRIED_AT: Record<string, [fires: string, rests: string]> = {
  GatehouseBackupOld: ['2900m', '2900m'],
  GatehouseNeverBackedUp: ['1500m', '1400m'],
  GatehouseAuditNotVerified: ['4800m', '4800m'],
  GatehouseAuditNeverVerified: ['1500m', '1400m'],
};
/** For each alert: series on which it fires after 20 minutes, and series on which it rests. */
const ON: Record<string, [fires: Series, rests: Series]> = {
  GatehouseAbsent: [[['other', constant(1)]], [['gatehouse_up', constant(0)]]],
  GatehouseProcessDown: both('gatehouse_up{process="front-1"}', constant(0), constant(1)),
  GatehouseRestarts: both('gatehouse_restarts_total{child="front-1"}', counter(1), '0x10 1x20'),
  GatehouseDependencyDown: [
    [['gatehouse_dependency_up{dependency="redis",process="front-1"}', constant(0)]],
    [
      ['gatehouse_dependency_up{dependency="redis",process="front-1"}', constant(0)],
      ['gatehouse_dependency_up{dependency="redis",process="pipelines"}', constant(1)],
    ],
  ],
  GatehouseDependencyPartlyDown: both('gatehouse_dependency_up{dependency="redis"}', constant(0), '0x17 1x13'),
  GatehouseRegistryMissing: both('gatehouse_registry_missing', constant(1), constant(0)),
  GatehouseRedisNotDurable: both('gatehouse_redis_not_durable', constant(1), constant(0)),
  GatehouseRedisWithoutReplica: both('gatehouse_redis_masters_without_replica', constant(1), constant(0)),
  GatehouseRedisWentBack: both('gatehouse_recovered_total{what="rows"}', '0x10 7x20', constant(7)),
  GatehouseBacklogGrows: [
    [
      ['gatehouse_backlog_entries', constant(60)],
      ['gatehouse_backlog_limit_entries', constant(100)],
    ],
    [
      ['gatehouse_backlog_entries', constant(40)],
      ['gatehouse_backlog_limit_entries', constant(100)],
    ],
  ],
  GatehouseBacklogFull: both('gatehouse_backlog_full', constant(1), constant(0)),
  GatehouseStoreLag: both('gatehouse_store_lag_seconds', constant(70), constant(2)),
  GatehouseNothingStored: [
    [
      ['gatehouse_accepted_events_total', counter(60)],
      ['gatehouse_taken_events_total', constant(5)],
    ],
    [
      ['gatehouse_accepted_events_total', counter(60)],
      ['gatehouse_taken_events_total', counter(1)],
    ],
  ],
  GatehousePipelinesStuck: both('gatehouse_pipelines_stuck', constant(1), constant(0)),
  GatehouseInsertsFail: both('gatehouse_inserts_total{table="events",result="failed"}', counter(1), constant(3)),
  GatehouseDeadEntries: both('gatehouse_dead_entries', constant(2), constant(0)),
  GatehouseErasureLate: both('gatehouse_erasure_late_seconds', constant(30), constant(0)),
  GatehouseDeliveriesLate: both('gatehouse_deliveries_late_seconds', constant(301), constant(20)),
  GatehouseOutgoingFeedFails: both('gatehouse_outgoing_feeds_failing_seconds', constant(901), constant(20)),
  GatehouseDeliveriesFail: both('gatehouse_deliveries_total{result="failed"}', '0x10 1x20', constant(4)),
  GatehouseMailsRemoved: both('gatehouse_outbox_removed_total', '0x10 1x20', constant(4)),
  GatehouseApprovalsOverflow: both('gatehouse_approvals_total{result="overflowed"}', '0x10 1x20', constant(4)),
  GatehouseServerErrors: [requests(10, 1), requests(1_000, 1)],
  GatehouseSignInsFail: both(`gatehouse_requests_total{${SUBMIT},status="401"}`, counter(60), counter(20)),
  GatehouseSlow: [latency('5'), latency('0.001')],
  GatehouseCheckDown: both('gatehouse_check_breakers_open', constant(1), constant(0)),
  GatehouseHooksUnjudged: [hooks(6), hooks(1)],
  GatehouseOverloaded: both('gatehouse_overloaded', constant(1), constant(0)),
  GatehouseEventLoopDelay: both('gatehouse_event_loop_delay_p99_seconds', constant(0.4), constant(0.02)),
  GatehouseDiskNearlyFull: [
    [
      ['gatehouse_disk_free_bytes', constant(5)],
      ['gatehouse_disk_size_bytes', constant(100)],
    ],
    [
      ['gatehouse_disk_free_bytes', constant(50)],
      ['gatehouse_disk_size_bytes', constant(100)],
    ],
  ],
  GatehouseRetentionNotApplied: both('gatehouse_retention_unapplied_seconds', constant(90_000), constant(7_000)),
  GatehouseBackupOld: both('gatehouse_backup_timestamp_seconds', forDays(1_000), forDays(100_000)),
  GatehouseNeverBackedUp: both('gatehouse_backup_timestamp_seconds', forDays(0), forDays(0)),
  GatehouseAuditInvalid: both('gatehouse_audit_invalid_accounts', constant(1), constant(0)),
  GatehouseAuditNotVerified: both('gatehouse_audit_verified_timestamp_seconds', forDays(1_000), forDays(100_000)),
  GatehouseAuditNeverVerified: both('gatehouse_audit_verified_timestamp_seconds', forDays(0), forDays(0)),
  GatehouseClockSkew: both('gatehouse_clock_offset_seconds', constant(-2), constant(0.01)),
  GatehouseFailClosed: both('gatehouse_unevaluated_rules_total{reason="budget"}', counter(60), counter(1)),
  GatehouseHeapNearLimit: [
    [
      ['nodejs_heap_size_used_bytes', constant(95)],
      ['gatehouse_heap_limit_bytes', constant(100)],
    ],
    [
      ['nodejs_heap_size_used_bytes', constant(50)],
      ['gatehouse_heap_limit_bytes', constant(100)],
    ],
  ],
  GatehouseSeriesFolded: both('gatehouse_folded_series_total{kind="account"}', counter(60), counter(1)),
};

t.test('each alert fires on what it is for, and rests on what is in order', (t) => {
  t.same(Object.keys(ON).sort(), rules.map(({ alert }) => alert).sort(), 'every alert is tried');
  const runs = (which: 0 | 1) => {
    const tests = Object.entries(ON).map(([alertname, on]) => ({
      interval: '1m',
      input_series: on[which].map(([name, values]) => ({ series: name, values })),
      alert_rule_test: [{ eval_time: TRIED_AT[alertname]?.[which] ?? '20m', alertname, exp_alerts: [] }],
    }));
    const file = path.join(folderOf(t), 'tests.yaml');
    writeFileSync(file, JSON.stringify({ rule_files: [RULES], tests }));
    return promtool(['test', 'rules', file]);
  };
  const resting = runs(1);
  const firing = runs(0);
  if (resting === undefined || firing === undefined) t.comment('there is no promtool: not tried');
  else {
    t.ok(resting.ok, `none fires: ${resting.output}`);
    t.notOk(firing.ok);
    // No alert was expected, so promtool names each that fires.
    for (const { alert } of rules)
      t.match(
        firing.output,
        new RegExp(`alertname: ${alert}, time: [0-9dhms]+,\\s+exp:\\[\\s*\\],\\s+got:\\[\\s*(0:)?\\s*Labels:`),
      );
  }
  t.end();
});

t.test('a pager can open what is to be done, where the label says how the pages are reached', (t) => {
  const runbook = (labels: object) => {
    const annotations = { runbook_url: 'x' };
    const tests = [
      {
        ...{ interval: '1m', external_labels: labels, input_series: [{ series: 'other', values: constant(1) }] },
        alert_rule_test: [
          { eval_time: '5m', alertname: 'GatehouseAbsent', exp_alerts: [{ exp_annotations: annotations }] },
        ],
      },
    ];
    const file = path.join(folderOf(t), 'tests.yaml');
    writeFileSync(file, JSON.stringify({ rule_files: [RULES], tests }));
    return promtool(['test', 'rules', file]);
  };
  const named = runbook({ gatehouse_docs: 'https://wiki.example.com/gatehouse' });
  const left = runbook({});
  if (named === undefined || left === undefined) t.comment('there is no promtool: not tried');
  else {
    // Other annotations were expected, so promtool shows those that there are.
    t.match(named.output, 'runbook_url="https://wiki.example.com/gatehouse/monitoring.md#gatehouseabsent"');
    t.match(left.output, 'runbook_url="docs/monitoring.md#gatehouseabsent"');
  }
  t.end();
});

function both(series: string, fires: string, rests: string): [Series, Series] {
  return [[[series, fires]], [[series, rests]]];
}

function checkByPromtool(t: Test, args: readonly string[], input?: string): void {
  const ran = promtool(args, input);
  if (ran === undefined) t.comment(`there is no promtool: promtool ${args[0]} ${args[1]} is left out`);
  else t.ok(ran.ok, `promtool ${args[0]} ${args[1]}: ${ran.output}`);
}

/** The text, once all of that is in it: some gauges are set by timers. */
async function whenThere(url: string, parts: readonly string[]): Promise<string> {
  let text = '';
  for (let n = 0; n < READY_TRIES; n++) {
    text = await (await fetch(url)).text();
    if (parts.every((part) => text.includes(part))) break;
    await sleep(250);
  }
  return text;
}

function checkNames(t: Test, { samples }: Exposition, expression: string): void {
  const selectors = selectorsOf(expression);
  t.not(selectors.length, 0, expression);
  const known = new Set<string>();
  for (const { name, labels } of selectors) {
    const own = samples.filter((sample) => sample.name === name);
    t.ok(own.length > 0, `${name}, of: ${expression}`);
    for (const label of own.flatMap((sample) => Object.keys(sample.labels))) known.add(label);
    for (const label of labels)
      t.ok(OF_THE_SCRAPE.has(label) || own.some((sample) => label in sample.labels), `${name} has the label ${label}`);
  }
  const grouped = [...expression.matchAll(/\b(?:by|on|group_left) \(([^)]*)\)/g)].flatMap(([, inner]) =>
    inner!.split(/, */),
  );
  for (const label of grouped) t.ok(OF_THE_SCRAPE.has(label) || known.has(label), `${label}, of: ${expression}`);
}

function selectorsOf(expression: string): { name: string; labels: string[] }[] {
  return [
    ...expression.matchAll(/\b((?:gatehouse|nodejs|process)_[a-z0-9_]+)(?:\{((?:"(?:[^"\\]|\\.)*"|[^}"])*)\})?/g),
  ].map(([, name, inner]) => ({
    name: name!,
    labels: [...(inner ?? '').matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label!),
  }));
}

function sumOf({ samples }: Exposition, name: string, labels: Record<string, string>): number {
  return samples
    .filter((one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
