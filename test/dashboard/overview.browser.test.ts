// The first page and an agent's page, on the real service: the numbers that a person sees are those that were sent,
// each leads to what was counted, everything works by keys alone, fits a phone, and keys that may less see less.
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const SIZES = [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
];
/** A name that turns the order of what follows, where it is not isolated. */
const ODD = 'pay\u202Eer';
const DAY_MS = 86_400_000;

async function overviewPages(): Promise<void> {
  const service = await startService(t);
  const api = new Api(t, service);
  const newAgent = async (name: string) =>
    (await api.post('/v1/agents', { name, metadata: { team: 'orders' } })).json.id;
  const [payer, reader]: string[] = [await newAgent(ODD), await newAgent('reader')];
  const policy = { type: 'block_action', actions: ['block', 'alert'], severity: 'high' };
  const own = { name: 'no paying', ...policy, conditions: { tool: 'pay' }, agent_id: payer };
  await api.post('/v1/policies', own);
  await api.post('/v1/policies', { name: 'no shell', ...policy, conditions: { tool: 'bash' } });
  const holds = { type: 'require_approval', actions: ['block'], conditions: { tool: 'ask' } };
  await api.post('/v1/policies', { name: 'ask first', ...holds });
  const asks = { type: 'prompt', trace_id: 'run-1', payload: { prompt: 'Pay Ann for the flowers.' } };
  await api.post(`/v1/agents/${payer}/events`, asks);
  await api.until(
    () => api.post(`/v1/agents/${payer}/events`, { type: 'tool_call', trace_id: 'run-1', payload: { tool: 'pay' } }),
    ({ json }) => json.policy_result.outcome === 'blocked',
  );
  await api.until(
    () => api.post(`/v1/agents/${reader}/events`, { type: 'tool_call', payload: { tool: 'ask' } }),
    ({ json }) => json.policy_result.outcome === 'pending',
  );
  const said = (n: number, at: number) => ({
    type: 'completion',
    timestamp: new Date(at).toISOString(),
    payload: { model: 'gpt-4o', tokens_used: 1_000, n },
  });
  const now = Date.now();
  const sent = Array.from({ length: 30 }, (_, n) => said(n, now));
  await api.post(`/v1/agents/${reader}/events/batch`, [...sent, { type: 'error', payload: { message: 'x' } }]);
  await api.post(`/v1/agents/${reader}/events/batch`, [
    said(0, now - DAY_MS - 1_000),
    said(1, now - 7 * DAY_MS - 1_000),
  ]);
  /** By the very numbers that the service answers, for the day may end while this runs. */
  const counted = async (query = '') => (await api.get(`/v1/overview?zone=Europe/Berlin${query}`)).json;

  browserTest('the first page says what today has had, and each number leads to it', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service, '');
    const { figures, tokens } = await counted();
    t.ok(figures.events.now >= 33, `${figures.events.now} events`);
    const figure = (name: string) => page.locator('.figures > div', { hasText: name });
    const shows = async (name: string, n: number) =>
      t.equal(await figure(name).getByRole('link').textContent(), n.toLocaleString('en'), name);
    await figure('Events').getByRole('link').waitFor();
    await shows('Events', figures.events.now);
    await shows('Blocked', figures.blocked.now);
    await shows('Errors', 1);
    await shows('Tokens', tokens.total.now);
    t.match(await figure('Tokens').textContent(), /yesterday 1,000 over 10 timesa week ago 1,000/);
    t.match(await figure('Blocked').textContent(), /yesterday 0 a week ago 0 $/, 'of nothing there is no share');
    t.match(await figure('Events').textContent(), /yesterday 1 a week ago 1 $/, 'nor of one event');
    const attention = page.getByRole('region', { name: 'Needs attention' });
    t.match(await attention.textContent(), /1 approval waits; the oldest has \d+:\d\d/);
    t.match(await attention.textContent(), /2 policies ask for an alert, but no alert is set up for violations/);
    const agents = page.getByRole('region', { name: 'Agents' });
    const [most, reading] = [agents.getByRole('row').nth(1), agents.getByRole('row').nth(2)];
    t.match(await reading.textContent(), /^reader/, 'behind the one with more troubles, though it sent last');
    t.equal(await reading.getByRole('cell').nth(4).textContent(), '1', 'its error');
    for (const [row, n] of [
      [most, 0],
      [reading, 1],
    ] as const) {
      const { events, blocked } = (await counted()).agents.items[n];
      const share = blocked === 0 ? '0 %' : `${Math.round((blocked / events) * 100)} % (${blocked})`;
      const shown = await row.getByRole('cell').allTextContents();
      t.same(shown.slice(2, 4), [share, events.toLocaleString('en')], 'the share of blocked beside its day');
    }
    t.ok(await agents.getByText('U+202E').isVisible(), 'what turns the order of a name is named');
    t.match(await page.getByRole('region', { name: 'Policies' }).textContent(), /3 in force.*no paying.*no shell/);
    t.match(await page.getByRole('list', { name: 'Tokens by model' }).textContent(), /gpt-4o30,000/);

    await figure('Blocked').getByRole('link').click();
    await page.getByRole('heading', { name: 'Events', level: 1 }).waitFor();
    const rows = page.getByRole('region', { name: 'Events, newest first' });
    await rows.getByRole('link').first().waitFor();
    t.equal(await rows.getByRole('link').count(), figures.blocked.now, 'as many events as the number said');
    await page.getByRole('link', { name: 'Gatehouse', exact: true }).click();
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await page.getByRole('list', { name: 'Policies by events that they matched' }).getByRole('link').last().click();
    await page.waitForURL(/events\?.*policy_id=pol_/);
  });

  browserTest('from an agent in it to the page of that agent, by keys alone', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.keyboard.press('g');
    await page.keyboard.press('h');
    const link = page.getByRole('region', { name: 'Agents' }).getByRole('link', { name: 'reader' });
    await link.waitFor();
    const focused = () => page.evaluate<string | null>('document.activeElement.textContent');
    for (let i = 0; i < 60 && (await focused()) !== 'reader'; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'reader', level: 1 }).waitFor();
    await page.getByRole('region', { name: 'Tokens' }).getByText('gpt-4o').waitFor();
    const { figures } = await counted(`&agent_id=${reader}`);
    const events = page.locator('.figures > div', { hasText: 'Events' }).getByRole('link');
    t.equal(await events.textContent(), figures.events.now.toLocaleString('en'), 'its own events alone');
    t.match(await page.getByRole('region', { name: 'Policies', exact: true }).textContent(), /2 in force/);
  });

  browserTest('what is said of notifications leads to those of today', {}, async (t, open) => {
    const mail = { name: 'mail', trigger: 'agent_down', channel: 'email', target: 'oncall@example.com' };
    const { id } = (await api.post('/v1/alerts', mail)).json;
    await api.post(`/v1/alerts/${id}/test`, undefined);
    await api.until(
      () => api.get('/v1/deliveries?status=delivered'),
      ({ json }) => json.total === 1,
    );
    const { page } = await open();
    await signIn(page, service, '');
    await page.getByRole('link', { name: '1 mail was kept in a folder' }).click();
    await page.waitForURL(/deliveries\?.*from=.*to=/);
    await page.getByText('1 delivery').waitFor();
    const rows = page.getByRole('region', { name: 'Deliveries, newest first' });
    t.match(await rows.getByRole('link').first().textContent(), /oncall@example\.com/);
    await api.delete(`/v1/alerts/${id}`);
  });

  browserTest(
    'those who look after the service read what is amiss in it, and where it is seen to',
    {},
    async (t, open) => {
      const { redisUrl, redisCluster } = await service.addresses();
      const redis = connectCommands({ url: redisUrl, cluster: redisCluster });
      t.teardown(() => redis.disconnect());
      await waitUntilReady(redis, 60_000);
      const keys = new Keys({ prefix: 'gh-', partitions: 8 });
      const account = (await api.get('/v1/account')).json.id as string;
      await redis.xadd(keys.dead(1), '*', 'why', 'x', 'at', '1', 'from', '1-1', 'group', 'store');
      await redis.set(keys.backupNote(), String(now - 3 * DAY_MS));
      const before = await redis.get(keys.auditVerification());
      await redis.set(keys.auditVerification(), JSON.stringify({ ...JSON.parse(before ?? '{}'), invalid: [account] }));
      await api.until(
        () => api.get('/v1/overview'),
        ({ json }) => json.attention.service.is_audit_invalid,
      );
      for (const viewport of SIZES) {
        const { page } = await open({ viewport });
        await signIn(page, service, '');
        const attention = page.getByRole('region', { name: 'Needs attention' });
        await attention.getByText('1 entry was put aside: gatehouse dead list says why').waitFor();
        await attention.getByText(/The last backup is 3 d ago: gatehouse backup DIR makes one/).waitFor();
        await fits(t, page, `what is amiss, ${viewport.width} px`);
        await attention.getByRole('link', { name: /audit chain did not verify/ }).click();
        await page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();
      }
      const { key } = (await api.post('/v1/api-keys', { label: 'no admin', scope: 'read' })).json;
      const { page } = await open();
      await signIn(page, { url: service.url, key }, '');
      const attention = page.getByRole('region', { name: 'Needs attention' });
      t.notMatch(await attention.textContent(), /put aside|backup|chain/);
      await redis.xtrim(keys.dead(1), 'MAXLEN', 0);
      await redis.del(keys.backupNote(), keys.auditVerification());
    },
  );

  browserTest("an agent's page has what is its own, and how to send as it", {}, async (t, open) => {
    const { page } = await open();
    const label = 'payer alone';
    await api.post('/v1/api-keys', { label, scope: 'write', agent_id: payer });
    await signIn(page, service);
    await page.goto(`${service.url}/ui/agents`);
    await page.getByRole('link', { name: /U\+202E/ }).click();
    await page.waitForURL(/agent\?id=agt_/);
    const region = (name: string) => page.getByRole('region', { name, exact: true });
    await region('Its own policies').getByRole('link', { name: 'no paying' }).waitFor();
    await region('Keys that are bound to it').getByText(label).waitFor();
    await region('Last traces')
      .getByRole('link', { name: /^Pay Ann for the flowers\./ })
      .waitFor();
    t.equal(await region('Last traces').getByText('run-1').count(), 0, 'what was asked stands for the id');
    t.match(await region('Alerts that tell of it').textContent(), /No alert tells of this agent/);
    const send = region('Send as this agent');
    for (const name of ['curl', 'TypeScript', 'Python']) {
      await send.getByRole('button', { name }).click();
      const text = await send.getByRole('group').textContent();
      t.ok(text?.includes(service.url) && text.includes(payer!), `${name} has the address and the id`);
      t.notMatch(text, 'gth_', 'and no key');
    }
    await page.getByRole('button', { name: /^Switch off pay/ }).click();
    const dialog = page.getByRole('dialog');
    t.match(await dialog.textContent(), /every event of this agent is answered as blocked/);
    await dialog.getByRole('button', { name: 'Switch off' }).click();
    await page.getByRole('button', { name: /^Switch on pay/ }).waitFor();
    t.match((await api.get(`/v1/agents/${payer}`)).json, { status: 'inactive' });
    await api.patch(`/v1/agents/${payer}`, { status: 'active' });
  });

  browserTest('both fit a phone and a screen, light and dark, for everyone', {}, async (t, open) => {
    for (const viewport of SIZES) {
      const { page } = await open({ viewport });
      await signIn(page, service, '');
      await page.getByRole('list', { name: 'Tokens by model' }).waitFor();
      await fits(t, page, `overview, ${viewport.width} px`);
      await page.goto(`${service.url}/ui/agent?id=${payer}`);
      await page.getByRole('region', { name: 'Last traces' }).getByRole('link').first().waitFor();
      await fits(t, page, `agent, ${viewport.width} px`);
      await page.close();
    }
  });

  browserTest('a key that is bound to one agent sees that agent, and nothing to configure', {}, async (t, open) => {
    const { key } = (await api.post('/v1/api-keys', { label: 'reads', scope: 'read', agent_id: reader })).json;
    const { page } = await open();
    await signIn(page, { url: service.url, key }, '');
    const agents = page.getByRole('region', { name: 'Agents' });
    await agents.getByRole('link', { name: 'reader' }).waitFor();
    t.equal(await agents.getByRole('row').count(), 2, 'its head, and one agent');
    t.equal(await page.getByRole('region', { name: 'Policies' }).getByRole('link', { name: 'no shell' }).count(), 0);
    await agents.getByRole('link', { name: 'reader' }).click();
    await page.getByRole('heading', { name: 'reader', level: 1 }).waitFor();
    await page.getByRole('region', { name: 'Its own policies' }).getByText('No policy is for this agent').waitFor();
    t.equal(await page.getByRole('button', { name: /^Switch/ }).count(), 0, 'it cannot be switched');
    t.equal(await page.getByRole('region', { name: 'Keys that are bound to it' }).count(), 0);
  });
}

async function fits(t: Test, page: Page, what: string): Promise<void> {
  const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
  t.ok(wide <= 0, `${what}: nothing is outside of the page (${wide} px)`);
  await axeInBothSchemes(t, page, what);
}

if (skip !== false) t.plan(0, skip);
else await overviewPages();
