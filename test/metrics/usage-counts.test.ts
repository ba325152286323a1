// The counts by account and policy: bounded, never losing a count, gone some time after what they count.
import t from 'tap';
import { RecentMax } from '../../src/common/recent-max.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { UsageCounts } from '../../src/metrics/usage-counts.ts';

function world(bounds: { accountsMax: number; policiesMax: number }, names = true) {
  let nowMs = 0;
  const usage = new UsageCounts({ ...bounds, now: () => nowMs });
  const metrics = new Metrics({ processName: 'front-1', kind: 'front' });
  usage.report(metrics, { names });
  const lines = async (name: string) =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith(`${name}{`) && !line.endsWith(' 0'));
  const sleep = (ms: number) => {
    nowMs += ms;
  };
  return { usage, metrics, lines, sleep };
}

const policy = (id: string) => ({ id, name: `name of ${id}`, type: 'block_action' });

t.test(
  'events, bytes and refusals are counted by account, matches by policy and what became of the event',
  async (t) => {
    const { usage, metrics, lines } = world({ accountsMax: 10, policiesMax: 10 });
    usage.bytes('acc_1', 120);
    usage.events('acc_1', 'allowed', 3);
    usage.events('acc_1', 'blocked', 2);
    usage.matched('acc_1', policy('pol_1'), { outcome: 'blocked', events: 2 });
    for (const status of [429, 503, 404, 413, 500]) usage.refused('acc_1', status);
    t.same(await lines('gatehouse_account_events_total'), [
      'gatehouse_account_events_total{account="acc_1",outcome="allowed",process="front-1"} 3',
      'gatehouse_account_events_total{account="acc_1",outcome="blocked",process="front-1"} 2',
    ]);
    t.same(await lines('gatehouse_account_body_bytes_total'), [
      'gatehouse_account_body_bytes_total{account="acc_1",process="front-1"} 120',
    ]);
    t.same(await lines('gatehouse_account_refused_requests_total'), [
      'gatehouse_account_refused_requests_total{account="acc_1",reason="limited",process="front-1"} 1',
      'gatehouse_account_refused_requests_total{account="acc_1",reason="unavailable",process="front-1"} 1',
      'gatehouse_account_refused_requests_total{account="acc_1",reason="invalid",process="front-1"} 2',
      'gatehouse_account_refused_requests_total{account="acc_1",reason="failed",process="front-1"} 1',
    ]);
    t.same(await lines('gatehouse_policy_matches_total'), [
      'gatehouse_policy_matches_total{account="acc_1",policy="pol_1",outcome="blocked",process="front-1"} 2',
    ]);
    t.match(
      await metrics.text(),
      '{account="acc_1",outcome="pending",process="front-1"} 0',
      'the others are there as 0',
    );
  },
);

t.test('beyond the bound the least recently used makes room, at most one a second', async (t) => {
  const { usage, lines, sleep } = world({ accountsMax: 2, policiesMax: 1 });
  usage.events('acc_1', 'allowed', 1);
  usage.events('acc_2', 'allowed', 10);
  usage.events('acc_1', 'allowed', 1);
  usage.events('acc_3', 'allowed', 100);
  usage.events('acc_4', 'allowed', 1_000);
  const counted = async () =>
    (await lines('gatehouse_account_events_total')).map((line) => line.replace(/^.*account="(\w+)".* (\d+)$/, '$1 $2'));
  t.same(await counted(), ['acc_1 2', 'acc_3 100', 'other 1010'], 'acc_2 made room for acc_3; acc_4 came too soon');
  t.same(usage.folded, { account: 1, policy: 0 });
  sleep(1_000);
  usage.events('acc_4', 'allowed', 1);
  t.same(await counted(), ['acc_3 100', 'acc_4 1', 'other 1010'], 'what was shown of acc_1 is not shown again');
  t.same(usage.folded, { account: 2, policy: 0 });
  for (let n = 0; n < 1_000; n++) {
    sleep(1_000);
    usage.matched('acc_1', policy(`pol_${n}`), { outcome: 'allowed', events: 1 });
  }
  t.match(await lines('gatehouse_policy_matches_total'), [/pol_999".* 1$/, /"other".* 999$/], 'the bound, and other');
  t.match(await lines('gatehouse_folded_series_total'), [/kind="account".* 2$/, /kind="policy".* 999$/]);
});

t.test('whichever series makes room, the increases of all together are what was counted', async (t) => {
  const { usage, metrics, sleep } = world({ accountsMax: 3, policiesMax: 1 });
  const former = new Map<string, number>();
  let increase = 0;
  let counted = 0;
  // As Prometheus reckons: a value below the last one is a counter that began again.
  const scrape = async () => {
    for (const line of (await metrics.text()).split('\n')) {
      const [, series, value] = /^(gatehouse_account_events_total\{.*\}) (\d+)$/.exec(line) ?? [];
      if (series === undefined) continue;
      const before = former.get(series) ?? 0;
      increase += Number(value) >= before ? Number(value) - before : Number(value);
      former.set(series, Number(value));
    }
  };
  for (let n = 0; n < 400; n++) {
    const events = 1 + ((n * 7) % 13);
    usage.events(`acc_${(n * 5) % 11}`, 'blocked', events);
    counted += events;
    sleep(n % 3 === 0 ? 1_000 : 300);
    if (n % 4 === 0) await scrape();
  }
  await scrape();
  t.ok(usage.folded.account > 50, `${usage.folded.account} made room`);
  t.equal(increase, counted);
});

t.test('a bound of 0 counts everything under other', async (t) => {
  const { usage, lines } = world({ accountsMax: 0, policiesMax: 0 });
  usage.policiesAre('acc_1', [policy('pol_1')]);
  usage.events('acc_1', 'allowed', 1);
  usage.matched('acc_1', policy('pol_1'), { outcome: 'allowed', events: 1 });
  t.match(await lines('gatehouse_account_events_total'), [/account="other",outcome="allowed".* 1$/]);
  t.match(await lines('gatehouse_policy_matches_total'), [/account="other",policy="other".* 1$/]);
  t.same(await lines('gatehouse_policy_info'), []);
});

t.test('a policy is shown as 0 before its first match, under its present name, and goes after its end', async (t) => {
  const { usage, metrics, lines, sleep } = world({ accountsMax: 5, policiesMax: 5 });
  usage.policiesAre('acc_1', [policy('pol_1'), policy('pol_2')]);
  t.match(await metrics.text(), 'policy="pol_1",outcome="blocked",process="front-1"} 0\n');
  usage.policiesAre('acc_1', [{ ...policy('pol_1'), name: 'renamed "so"' }]);
  t.match(await lines('gatehouse_policy_info'), [/policy="pol_1",name="renamed \\"so\\"",type="block_action"/]);
  sleep(9 * 60_000);
  t.match(await metrics.text(), 'policy="pol_2"', 'its last count can still be scraped');
  sleep(60_000);
  t.notMatch(await metrics.text(), 'policy="pol_2"');
  t.match(await metrics.text(), 'policy="pol_1"');
  sleep(24 * 60 * 60_000);
  t.notMatch(await metrics.text(), 'policy="pol_1"', 'nothing was heard of it for a day');
});

t.test('whatever a policy is called, its series is one line, with its name as it is', async (t) => {
  const { usage, metrics } = world({ accountsMax: 5, policiesMax: 5 });
  usage.policiesAre('acc_1', [{ ...policy('pol_1'), name: 'back \\ quote " new\nline \u2028 \r end\\' }]);
  const text = await metrics.text();
  t.match(
    text.split('\n').filter((line) => line.includes('pol_1') && line.startsWith('gatehouse_policy_info')),
    [
      /^gatehouse_policy_info\{account="acc_1",policy="pol_1",name="back \\\\ quote \\" new\\nline \u2028 \r end\\\\",.*\} 1$/,
    ],
    'a backslash, a quote and a break of a line are escaped, as the format asks, and nothing else is',
  );
  // Only a line feed ends a line there: each line is a comment or a sample.
  t.same(
    text.split('\n').filter((line) => line !== '' && !/^(# |\w+(\{.*\})? \S+$)/s.test(line)),
    [],
  );
});

t.test('accounts that there are show up as 0 before their first request, as far as there is room', async (t) => {
  const { usage, metrics } = world({ accountsMax: 2, policiesMax: 0 });
  usage.events('acc_1', 'allowed', 5);
  t.equal(usage.accountsRoom, 1);
  usage.accountsAre(['acc_1', 'acc_2', 'acc_3']);
  const text = await metrics.text();
  t.match(text, 'gatehouse_account_events_total{account="acc_1",outcome="allowed",process="front-1"} 5\n');
  t.match(text, 'gatehouse_account_events_total{account="acc_2",outcome="allowed",process="front-1"} 0\n');
  t.notMatch(text, 'acc_3');
  t.equal(usage.accountsRoom, 0);
});

t.test('names that users gave are left out where callers can read /metrics', async (t) => {
  const { usage, metrics } = world({ accountsMax: 5, policiesMax: 5 }, false);
  usage.policiesAre('acc_1', [policy('pol_1')]);
  t.notMatch(await metrics.text(), 'name of pol_1');
});

t.test('the largest value of a minute is not emptied by reading, and goes within a minute', (t) => {
  const recent = new RecentMax();
  recent.note(7, 1_000);
  recent.note(3, 12_000);
  t.same([recent.max(13_000), recent.max(59_999)], [7, 7]);
  t.equal(recent.max(60_000), 3);
  t.equal(recent.max(75_000), 0);
  recent.note(5, 1e9);
  t.equal(recent.max(1e9), 5);
  t.end();
});
