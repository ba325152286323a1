// A policy before it is in force, on the Policies screen, in a real browser against the whole service: replayed over
// recorded events, with its progress and what it found, and run in shadow beside the one in force, with its report,
// until it is promoted. What is drawn equals what the API answers; the address is the state; all of it is for everyone
// (axe).
import type { Page } from 'playwright-core';
import t from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { conditionsText, tabTo, told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

/** Enough that a replay of them is seen while it runs. */
const MANY = 12_000;
const BATCH = 100;

type Outcomes = { was: string; now: string; events: number }[];

async function trials(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1', GATEHOUSE_BACKTESTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const other = (await api.post('/v1/agents', { name: 'reader' })).json.id as string;
  const send = (payload: object, of = agent) => api.post(`/v1/agents/${of}/events`, { type: 'tool_call', payload });
  const pay = (amount: number) => send({ tool: 'pay', arguments: { amount } });
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const inForce = async (name: string, gt: number) => {
    const conditions = { tool: 'pay', 'arguments.amount': { gt } };
    const body = { name, type: 'block_action', actions: ['block'], conditions };
    const id = (await api.post('/v1/policies', body)).json.id as string;
    await api.until(
      () => pay(gt + 1),
      ({ json }) => json.policy_result.outcome === 'blocked',
    );
    return { id, body };
  };

  browserTest('without any the lists teach what they are for', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'policies?view=backtests');
    await page.getByText('No backtests').waitFor();
    await axeInBothSchemes(t, page, 'no backtests');
    const { id } = await inForce('in force', 100_000);
    await go(page, `policies?id=${id}&tab=shadows`);
    await page.getByText('No shadows').waitFor();
    await axeInBothSchemes(t, page, 'no shadows');
    await go(page, `policies?id=${id}&tab=backtests`);
    await page.getByText('No backtests').waitFor();
    await page.getByRole('button', { name: 'Replay' }).waitFor();
    await axeInBothSchemes(t, page, 'no backtests of a policy');
  });

  browserTest(
    'a draft is replayed from the editor, and what would change is drawn',
    { mayFail: /400/ },
    async (t, open) => {
      for (const amount of [10, 700, 1500]) await pay(amount);
      await send({ tool: 'read', arguments: { amount: 5000 } }, other);
      await api.get('/v1/events?limit=1');
      const { page } = await open();
      await signIn(page, service);
      await go(page, 'policies?new=1');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill('no large payments');
      await dialog.getByRole('checkbox', { name: 'block' }).check();
      await (await conditionsText(dialog)).fill('{\n  "tool": "pay",\n  "arguments.amount": { "gt": "x" }\n}');
      await dialog.getByRole('button', { name: 'Replay' }).click();
      await dialog.getByText('Line 3').first().waitFor();
      await (await conditionsText(dialog)).fill('{ "tool": "pay", "arguments.amount": { "gt": 500 } }');
      await dialog.getByRole('button', { name: 'Replay' }).click();
      const matrix = dialog.getByRole('table', { name: 'Outcomes then, and with the policy' });
      await matrix.waitFor();
      t.match(await told(matrix.getByRole('row', { name: 'then allowed' })), /then allowed \d+ 0 2 0/);
      await axeInBothSchemes(t, page, 'a draft, replayed in the editor');
      page.once('dialog', (asked) => void asked.accept());
      await dialog.getByRole('link', { name: 'By day, agent and tool, with samples' }).click();

      const result = page.getByRole('region', { name: 'Backtest' });
      await result.getByText('would have another outcome').waitFor();
      t.match(page.url(), /view=backtests&backtest=bkt_\w+$/);
      const id = new URL(page.url()).searchParams.get('backtest');
      const { json } = await api.get(`/v1/backtests/${id}`);
      t.match(await told(result), `${json.result.changed} of ${json.result.events} events would have another outcome`);
      for (const was of ['allowed', 'pending', 'blocked']) {
        const row = result.getByRole('row', { name: `then ${was}` });
        const cells = ['allowed', 'pending', 'blocked', 'unknown'].map((now) =>
          eventsOf(json.result.outcomes, was, now),
        );
        t.equal(await told(row), `then ${was} ${cells.join(' ')}`);
      }
      const chart = result.getByRole('figure', { name: 'What would change, by day' });
      await chart.locator('canvas').waitFor();
      await chart.getByText('The same as a table').click();
      t.equal(await chart.getByRole('row').count(), json.result.by_day.length + 1, 'each day has its row');
      t.match(await told(chart), 'allowed → blocked');
      t.match(await told(result.getByRole('region', { name: 'By agent' })), /payer \d+ 2/);
      t.match(await told(result.getByRole('region', { name: 'By tool' })), /pay \d+ 2/);
      const samples = result.getByRole('region', { name: 'Samples' });
      t.match(await told(samples), /allowed → blocked .*arguments\.amount is more than .*\/arguments\/amount/);
      await axeInBothSchemes(t, page, 'a backtest');
      const before = await told(result);
      await page.reload();
      await result.getByText('would have another outcome').waitFor();
      await chart.getByText('The same as a table').click();
      // Names are read behind what they stand in.
      await samples.getByText('payer').first().waitFor();
      await result.getByRole('region', { name: 'By agent' }).getByText('reader').waitFor();
      t.equal(await told(result), before, 'after a reload');
      await samples.getByRole('link', { name: 'pay' }).first().click();
      await page.getByRole('region', { name: 'Payload' }).getByText('"pay"').waitFor();
      await page.goBack();
      await page.getByRole('button', { name: 'Edit what was tried' }).click();
      t.match(await dialog.getByLabel('Conditions (JSON)').inputValue(), /"gt": 500/, 'the draft is not lost');
      t.equal(await dialog.getByLabel('Name').inputValue(), 'no large payments');
      await page.keyboard.press('Escape');
      await result.getByRole('button', { name: 'Delete' }).click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await dialog.waitFor({ state: 'detached' });
      t.equal((await api.get(`/v1/backtests/${id}`)).status, 404, 'nothing of it is left');
    },
  );

  browserTest(
    'a revision is replayed: how far it is, another one meanwhile, and stopping it',
    { mayFail: /409|404/ },
    async (t, open) => {
      const { id } = await inForce('replayed', 50_000);
      const busy = (await api.post('/v1/agents', { name: 'busy' })).json.id as string;
      for (let n = 0; n < MANY; n += BATCH) {
        const events = Array.from({ length: BATCH }, (_, i) => ({
          type: 'tool_call',
          payload: { tool: 'read', n: n + i },
        }));
        await api.post(`/v1/agents/${busy}/events/batch`, { events });
      }
      await api.get('/v1/events?limit=1');
      const replayer = (await service.children()).find(({ name }) => name.startsWith('backtests'))!;
      const { page } = await open();
      await signIn(page, service);
      await go(page, `policies?id=${id}&tab=backtests`);
      await page.getByLabel('Of which agent').fill(busy);
      const result = page.getByRole('region', { name: 'Backtest' });
      process.kill(replayer.pid, 'SIGSTOP');
      try {
        await page.getByRole('button', { name: 'Replay' }).click();
        await result.getByText('Waits to be taken up.').waitFor();
        await result.getByRole('progressbar', { name: 'Replayed' }).waitFor();
        await axeInBothSchemes(t, page, 'a backtest that waits');
        const running = new URL(page.url()).searchParams.get('backtest')!;
        await page.getByRole('button', { name: 'Replay' }).click();
        const way = page.getByRole('link', { name: 'Look at the one that runs' });
        await way.waitFor();
        t.match(await way.getAttribute('href'), running);
      } finally {
        process.kill(replayer.pid, 'SIGCONT');
      }
      await result.getByText('would have another outcome').waitFor();
      t.match(await told(result), `0 of ${MANY.toLocaleString('en')} events would have another outcome`);

      const halfway = await stoppedWhileItRuns(api, replayer.pid, { policy_id: id, from: '2026-01-01T00:00:00Z' });
      try {
        await go(page, `policies?view=backtests&backtest=${halfway}`);
        await result
          .getByText(new RegExp(`^[\\d,]+ of ${MANY.toLocaleString('en').slice(0, 3)}[\\d,]+ events`))
          .waitFor();
        const bar = result.getByRole('progressbar', { name: 'Replayed' });
        t.match(await bar.getAttribute('max'), /^12\d{3}$/);
        await axeInBothSchemes(t, page, 'a backtest that runs');
      } finally {
        process.kill(replayer.pid, 'SIGCONT');
      }
      await result.getByText('would have another outcome').waitFor();
      await go(page, `policies?id=${id}&tab=backtests&backtest=${halfway}`);
      await page.getByRole('button', { name: 'Replay' }).waitFor();
      const others = (await api.get('/v1/backtests')).json.total - 1;
      const last = new URL(page.url()).searchParams.get('backtest');
      process.kill(replayer.pid, 'SIGSTOP');
      try {
        await page.getByRole('button', { name: 'Replay' }).click();
        await page.waitForURL((url) => url.searchParams.get('backtest') !== last);
        await result.getByRole('button', { name: 'Stop' }).click();
        const dialog = page.getByRole('dialog');
        await dialog.getByRole('button', { name: 'Stop' }).click();
        await dialog.waitFor({ state: 'detached' });
      } finally {
        process.kill(replayer.pid, 'SIGCONT');
      }
      const kept = (await api.get('/v1/backtests')).json.items.map(({ id: one }: { id: string }) => one);
      t.ok(kept.includes(last) && kept.length === others + 1, 'the one that was stopped is gone, the others are kept');
    },
  );

  browserTest('what is not known is counted and explained', {}, async (t, open) => {
    const filter = { type: 'data_filter', actions: ['log'] };
    const conditions = { detectors: ['email'], redact: true };
    await api.post('/v1/policies', { name: 'no addresses kept', ...filter, conditions });
    const writer = (await api.post('/v1/agents', { name: 'writer' })).json.id as string;
    await api.until(
      () => send({ text: 'write to ada@example.com' }, writer),
      ({ json }) => json.policy_result.matches.length > 0,
    );
    await api.get('/v1/events?limit=1');
    const policy = { name: 'ada alone', ...filter, actions: ['block'], conditions: { patterns: ['ada@'] } };
    const body = { policy, from: '2026-01-01T00:00:00Z', agent_id: writer };
    const { id } = (await api.post('/v1/backtests', body)).json;
    const { page } = await open();
    await signIn(page, service);
    await go(page, `policies?view=backtests&backtest=${id}`);
    const result = page.getByRole('region', { name: 'Backtest' });
    const unknown = result.getByRole('list', { name: 'Not known' });
    await unknown.waitFor();
    const { json } = await api.get(`/v1/backtests/${id}`);
    const [one] = json.result.unknown;
    t.match(one, { reason: 'redacted_text' });
    t.match(await told(unknown), `${one.events} events: ${one.message}`);
    t.match(await told(result.getByRole('row', { name: 'then allowed' })), new RegExp(` ${one.events}$`));
    t.match(await told(result.getByRole('region', { name: 'Samples' })), /allowed → unknown .*text that was redacted/);
    await axeInBothSchemes(t, page, 'a backtest with what is not known');
  });

  browserTest('a changed copy runs in shadow, its report is drawn, and it is promoted', {}, async (t, open) => {
    const { id } = await inForce('limit', 1_000);
    const { page } = await open();
    await signIn(page, service);
    await go(page, `policies?id=${id}`);
    await page.getByRole('complementary').getByRole('button', { name: 'Change' }).click();
    const dialog = page.getByRole('dialog');
    await (await conditionsText(dialog)).fill('{ "tool": ["pay", "wire"], "arguments.amount": { "gt": 300 } }');
    await dialog.getByLabel('Save it').selectOption('shadow');
    t.equal(await dialog.getByLabel('Name').inputValue(), 'limit (shadow)', 'a name of its own');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Shadows' }).click();
    await page.getByRole('region', { name: 'Shadows' }).getByRole('link', { name: 'limit (shadow)' }).click();
    const report = page.getByRole('region', { name: 'Shadow report' });
    await report.getByText('Neither matched an event yet.').waitFor();
    await axeInBothSchemes(t, page, 'an empty shadow report');
    const shadow = new URL(page.url()).searchParams.get('id')!;
    t.match((await api.get(`/v1/policies/${shadow}`)).json, { mode: 'shadow', shadow_of: id, revision: 1 });

    const judged = await api.until(
      async () => {
        const { json } = await pay(400);
        return api.get(`/v1/agents/${agent}/events/${json.id}`);
      },
      ({ json }) => json.policy_result.shadow !== undefined,
    );
    t.match(judged.json.policy_result, { outcome: 'allowed', shadow: [{ policy_id: shadow, would: 'blocked' }] });
    await pay(2_000);
    await api.get('/v1/events?limit=1');
    await go(page, `event?agent_id=${agent}&id=${judged.json.id}`);
    await page.getByRole('region', { name: 'Why' }).getByText('would have blocked it').waitFor();
    await axeInBothSchemes(t, page, 'an event with a shadow');
    await go(page, `policies?id=${shadow}&tab=report`);
    const totals = report.getByRole('table', { name: 'What would change' });
    await totals.waitFor();
    const { json } = await api.get(`/v1/policies/${shadow}/shadow-report`);
    t.ok(json.counts.newly_blocked >= 1 && json.counts.same >= 1);
    for (const name of ['newly_blocked', 'no_longer_blocked', 'same'])
      t.match(await told(totals), `${name.replaceAll('_', ' ')} ${json.counts[name]}`);
    const chart = report.getByRole('figure', { name: 'What would change, by day' });
    await chart.locator('canvas').waitFor();
    await chart.getByText('The same as a table').click();
    t.match(await told(chart), 'newly blocked');
    t.match(await told(report.getByRole('region', { name: 'By agent' })), 'payer');
    t.match(await told(report.getByRole('region', { name: 'By tool' })), 'pay');
    t.match(await told(report.getByRole('region', { name: 'Samples' })), /pay .*newly blocked not matched blocked/);
    await axeInBothSchemes(t, page, 'a shadow report');
    await page.getByLabel('Range of time').selectOption('1h');
    await page.waitForURL(/range=1h/);
    await totals.waitFor();

    await report.getByRole('button', { name: 'Promote' }).click();
    await dialog.getByText('/conditions/arguments.amount/gt').waitFor();
    t.match(await told(dialog), '/conditions/arguments.amount/gt before: 1000 after: 300');
    t.notMatch(await told(dialog), /\/(name|mode|shadow_of|expires_at|status)\b/);
    await axeInBothSchemes(t, page, 'a shadow about to be promoted');
    await dialog.getByRole('button', { name: 'Promote' }).click();
    await page.waitForURL((url) => url.searchParams.get('id') === id);
    await page.getByRole('heading', { name: 'limit', exact: true }).waitFor();
    t.match((await api.get(`/v1/policies/${id}`)).json, {
      ...{ revision: 2, mode: 'enforce', conditions: { 'arguments.amount': { gt: 300 } } },
    });
    t.equal((await api.get(`/v1/policies/${shadow}`)).status, 404);
  });

  browserTest(
    'who promotes what was changed meanwhile sees it first; by keys alone',
    { mayFail: /412/ },
    async (t, open) => {
      const { id, body } = await inForce('raced', 5_000);
      const copy = { ...body, name: 'raced, lower', mode: 'shadow', shadow_of: id };
      const shadow = (await api.post('/v1/policies', copy)).json.id as string;
      const { page } = await open();
      await signIn(page, service);
      await page.keyboard.press('Control+k');
      await page.keyboard.type('raced, lower');
      await page.getByRole('option', { name: /^raced, lower/ }).waitFor();
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'raced, lower' }).waitFor();
      await tabTo(page, 'Report');
      await page.keyboard.press('Enter');
      await page.getByRole('button', { name: 'Promote' }).waitFor();
      await tabTo(page, 'Promote');
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Promote' }).waitFor();
      await api.patch(`/v1/policies/${shadow}`, { conditions: { tool: 'pay', 'arguments.amount': { gt: 4_000 } } });
      await tabTo(page, 'Promote');
      await page.keyboard.press('Enter');
      const conflict = dialog.getByRole('region', { name: 'Another change came first' });
      await conflict.getByText('/conditions/arguments.amount/gt').waitFor();
      t.match((await api.get(`/v1/policies/${id}`)).json, { revision: 1 }, 'nothing is promoted');
      await axeInBothSchemes(t, page, 'a promotion that came second');
      await tabTo(page, 'Go on from revision 2');
      await page.keyboard.press('Enter');
      await tabTo(page, 'Promote');
      await page.keyboard.press('Enter');
      await page.waitForURL((url) => url.searchParams.get('id') === id);
      t.match((await api.get(`/v1/policies/${id}`)).json, {
        revision: 2,
        conditions: { 'arguments.amount': { gt: 4_000 } },
      });
    },
  );
}

/** Starts one and stops its process while it runs: on a machine that is quick that may take several. Answers its id. */
async function stoppedWhileItRuns(api: Api, pid: number, body: object): Promise<string> {
  for (let n = 0; n < 10; n++) {
    const { id } = (await api.post('/v1/backtests', body)).json;
    const status = async () => (await api.get(`/v1/backtests/${id}`)).json.status as string;
    while ((await status()) === 'waiting');
    process.kill(pid, 'SIGSTOP');
    if ((await status()) === 'running') return id;
    process.kill(pid, 'SIGCONT');
  }
  throw new Error('no backtest was seen to run');
}

function eventsOf(outcomes: Outcomes, was: string, now: string): number {
  return outcomes.find((one) => one.was === was && one.now === now)?.events ?? 0;
}

if (skip !== false) t.plan(0, skip);
else await trials();
