// The report of a shadow is exact: on generated events it says what a plain count over the same events says, by day,
// agent and tool, and its samples are the newest events that differ.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { saysSince, shadowReport } from '../../clickhouse/queries/shadow-report.ts';
import type { PolicyAction, PolicyType } from '../../schemas/closed-sets.ts';
import { SHADOW_REPORT_ROWS_MAX, type ShadowCounts } from '../../schemas/shadow-report.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeRow, plainEvent, startClickHouse, withOthers } from '../support/clickhouse.ts';
import { randomFrom, SEED } from '../support/seed.ts';

const { makeDatabase } = await startClickHouse(t);
const clickhouse = makeDatabase();
await migrate(clickhouse, { retentionDays: 3_650 });

const NOW = Date.UTC(2026, 10, 27, 12);
const DAY_MS = 86_400_000;
const random = randomFrom(SEED);
const any = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;

type Match = { policy_id: string; type: PolicyType; actions: PolicyAction[] };
type Said = { policy_id: string; revision: number; would: string };
type Made = {
  id: string;
  atMs: number;
  agent: string;
  tool: string | null;
  outcome: string;
  matches: Match[];
  said: Said[];
};

const account = mintId('account', NOW);
const [shadow, original, other] = ['s', 'o', 'x'].map((name) => `pol_${name.repeat(26)}`) as [string, string, string];
const agents = ['a', 'b', 'c'].map((name) => `agt_${name.repeat(26)}`);
const ACTIONS: PolicyAction[][] = [['block'], ['alert'], ['log'], ['block', 'alert']];

function made(i: number, of: string): Made {
  const atMs = NOW - Math.floor(random() * 10 * DAY_MS);
  const matches: Match[] = [];
  for (const policy_id of [original, other])
    if (random() < 0.5)
      matches.push({ policy_id, type: any(['block_action', 'require_approval']), actions: any(ACTIONS) });
  const verdicts = ['blocked', 'pending', 'matched', 'skipped'];
  if (matches.some(({ policy_id: id }) => id === original)) verdicts.push('not_matched', 'not_matched');
  const said: Said[] = [];
  if (random() < 0.3) said.push({ policy_id: other, revision: 9, would: 'blocked' });
  if (random() < 0.8) said.push({ policy_id: shadow, revision: 1 + Math.floor(random() * 3), would: any(verdicts) });
  const best = Math.max(0, ...matches.map((match) => RANK[verdictOf(match)]!));
  return {
    ...{
      id: mintId('event', atMs),
      atMs,
      agent: any(agents),
      tool: any([null, 'pay', 'ls', `tool ${i}`]),
      matches,
      said,
    },
    outcome: of === '' ? ['allowed', 'pending', 'blocked'][best]! : of,
  };
}

const RANK: Record<string, number> = { not_matched: 0, matched: 0, pending: 1, blocked: 2 };

function verdictOf({ type, actions }: Match): string {
  if (actions.every((action) => action === 'log')) return 'matched';
  if (type === 'require_approval') return 'pending';
  return actions.includes('block') ? 'blocked' : 'matched';
}

/** The verdicts and the change that one event counts as; undefined: the shadow said nothing of it. */
function judged({ matches, said }: Made, since: number) {
  const own = said.find(({ policy_id: id, revision }) => id === shadow && revision >= since);
  if (own === undefined) return undefined;
  const match = matches.find(({ policy_id: id }) => id === original);
  const [did, would] = [match === undefined ? 'not_matched' : verdictOf(match), own.would];
  const others = Math.max(0, ...matches.flatMap((one) => (one.policy_id === original ? [] : [RANK[verdictOf(one)]!])));
  let change = 'same';
  if (would === 'skipped') change = 'skipped';
  else if (would !== did) {
    const [name] = ['blocked', 'pending', 'matched'].filter((verdict) => verdict === would || verdict === did);
    change = `${name === would ? 'newly' : 'no_longer'}_${name}`;
  }
  const isSame = Math.max(others, RANK[did]!) === Math.max(others, RANK[would] ?? 0);
  return { did, would, change, isSame: isSame && change !== 'same' && change !== 'skipped' };
}

type Counts = Record<string, number>;

function counts(events: readonly Made[], since: number): ShadowCounts {
  const names = ['blocked', 'pending', 'matched'].flatMap((verdict) => [`newly_${verdict}`, `no_longer_${verdict}`]);
  const sums: Counts = Object.fromEntries([...names, 'same', 'skipped', 'same_outcome'].map((name) => [name, 0]));
  for (const event of events) {
    const one = judged(event, since);
    if (one === undefined) continue;
    sums[one.change]!++;
    if (one.isSame) sums['same_outcome']!++;
  }
  return sums as ShadowCounts;
}

const events = Array.from({ length: 2_000 }, (_, i) => made(i, i % 50 === 0 ? 'blocked' : ''));

t.before(async () => {
  const months = new Map<number, Buffer[]>();
  for (const { id, atMs, agent, tool, outcome, matches, said } of events) {
    const payload = JSON.stringify(tool === null ? { tool: 5 } : { tool });
    const result = matches.length === 0 ? '' : JSON.stringify({ outcome, matches });
    const row = plainEvent({
      ...{ account_id: account, agent_id: agent, id, timestamp: atMs - 5, received_at: atMs, payload },
      ...{ outcome: outcome as 'allowed', policy_result: result },
    });
    const stored = withOthers(encodeRow(row), payload, said.length === 0 ? {} : { shadow: JSON.stringify(said) });
    const month = new Date(atMs).getUTCMonth();
    months.set(month, [...(months.get(month) ?? []), stored]);
  }
  for (const rows of months.values()) await clickhouse.insertEvents(rows, randomUUID());
});

t.test('it says what a plain count says', async (t) => {
  for (const [since, from, to] of [
    [1, NOW - 20 * DAY_MS, NOW],
    [2, NOW - 20 * DAY_MS, NOW],
    [1, NOW - 5 * DAY_MS + 123, NOW - 2 * DAY_MS],
    [1, NOW + 1, NOW + 2],
  ] as const) {
    const asked = { policyId: shadow, shadowOf: original, since, from, to };
    const report = await shadowReport(clickhouse, account, asked);
    const within = events.filter(({ atMs }) => atMs >= from && atMs <= to);
    const seen = within.filter((event) => judged(event, since) !== undefined);
    t.same(report.counts, counts(seen, since));
    const days = [...new Set(seen.map(({ atMs }) => new Date(atMs).toISOString().slice(0, 10)))].sort();
    t.same(
      report.by_day,
      days.map((day) => {
        return {
          day,
          ...counts(
            seen.filter(({ atMs }) => new Date(atMs).toISOString().startsWith(day)),
            since,
          ),
        };
      }),
    );
    for (const { agent_id, ...own } of report.by_agent)
      t.same(
        own,
        counts(
          seen.filter(({ agent }) => agent === agent_id),
          since,
        ),
      );
    t.equal(report.by_agent.length, new Set(seen.map(({ agent }) => agent)).size);
    for (const { tool, ...own } of report.by_tool)
      t.same(
        own,
        counts(
          seen.filter((event) => event.tool === tool),
          since,
        ),
      );
    t.equal(report.by_tool.length, Math.min(SHADOW_REPORT_ROWS_MAX, new Set(seen.map(({ tool }) => tool)).size));
    const differing = seen
      .filter((event) => !['same', 'skipped'].includes(judged(event, since)!.change))
      .sort((a, b) => (a.id < b.id ? 1 : -1));
    t.same(
      report.samples.map(({ event_id, did, would, change, outcome }) => [event_id, did, would, change, outcome]),
      differing.slice(0, SHADOW_REPORT_ROWS_MAX).map((event) => {
        const { did, would, change } = judged(event, since)!;
        return [event.id, did, would, change, event.outcome];
      }),
    );
  }
});

t.test(
  'one that copies none is compared with nothing; another account has none; erased agents are left out',
  async (t) => {
    const range = { since: 1, from: NOW - 20 * DAY_MS, to: NOW };
    const alone = await shadowReport(clickhouse, account, { policyId: other, shadowOf: undefined, ...range });
    const said = events.filter(({ said: all }) => all.some(({ policy_id: id }) => id === other)).length;
    t.equal(alone.counts.newly_blocked, said);
    const asked = { policyId: shadow, shadowOf: original, ...range };
    t.same((await shadowReport(clickhouse, mintId('account', NOW), asked)).by_day, []);
    const left = await shadowReport(clickhouse, account, { ...asked, excludeAgents: [agents[0]!] });
    t.same(
      left.counts,
      counts(
        events.filter(({ agent }) => agent !== agents[0]),
        1,
      ),
    );
  },
);

t.test('since when it says so: the last revision that touched conditions or actions', async (t) => {
  const row = { account_id: account, policy_id: shadow, agent_id: '', actor: 'system', restored_from: 0, record: '{}' };
  const at = (seconds: number) => `2026-11-27 00:00:0${seconds}.000`;
  const revision = (number: number, action: string, ...paths: string[]) => {
    const differences = JSON.stringify(paths.map((path) => ({ path, before: 1, after: 2 })));
    return { ...row, revision: number, action, created_at: at(number), differences };
  };
  t.equal(await saysSince(clickhouse, account, shadow), undefined);
  await clickhouse.insertRows('policy_revisions', [
    revision(1, 'created'),
    revision(2, 'updated', '/conditions/tool', '/name'),
    revision(3, 'updated', '/name', '/conditions_of_another_kind'),
    revision(4, 'updated', '/status', '/expires_at'),
  ]);
  const secondMs = Date.UTC(2026, 10, 27);
  t.same(await saysSince(clickhouse, account, shadow), { revision: 2, judgedMs: secondMs + 4_000 });
  await clickhouse.insertRows('policy_revisions', [revision(5, 'updated', '/actions')]);
  t.same(await saysSince(clickhouse, account, shadow), { revision: 5, judgedMs: secondMs + 5_000 });
});
