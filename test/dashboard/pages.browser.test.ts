// Every screen of the dashboard, empty and full, light and dark: everyone can read and use it (axe, WCAG 2.2
// AA), it says what is the case when a store is away, it works behind a path prefix, and its first load is small. The
// full one is real agent runs.
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { HttpClient } from '../../bench/http-client.ts';
import { POLICIES, replay } from '../../bench/replay.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { axe, axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService, type TestService } from '../support/service.ts';

const RUNS = assetPath('../shared/data');
const FIRST_LOAD_BYTES_MAX = 60_000;
const FIRST_LOAD_REQUESTS_MAX = 8;
/** Its heading, by which it is known to be there. */
const SCREENS = {
  ...{
    overview: 'Overview',
    events: 'Events',
    traces: 'Traces',
    agents: 'Agents',
    approvals: 'Approvals',
    policies: 'Policies',
  },
  ...{ anomalies: 'Anomalies', alerts: 'Alerts', deliveries: 'Deliveries', audit: 'Audit log', settings: 'Settings' },
};
/** They are not in the navigation: other screens lead to them. */
const UNLISTED = { checks: 'Checks', connections: 'Connections' };

async function pages(): Promise<void> {
  const service = await startService(t, { stores: 'own', env: { GATEHOUSE_QUERY_TIMEOUT_SECONDS: '5' } });
  const api = new Api(t, service);

  browserTest('the first load is small, and from nowhere else', {}, async (t, open) => {
    const { page } = await open();
    const loaded: string[] = [];
    const sized: Promise<number>[] = [];
    page.on('requestfinished', (one) => {
      if (!new URL(one.url()).pathname.startsWith('/ui')) return;
      loaded.push(one.url());
      sized.push(one.sizes().then(({ responseBodySize }) => responseBodySize));
    });
    await signIn(page, service, '');
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await page.getByRole('heading', { name: 'No events yet' }).waitFor();
    const bytes = (await Promise.all(sized)).reduce((sum, one) => sum + one, 0);
    t.ok(bytes > 0 && bytes <= FIRST_LOAD_BYTES_MAX, `${bytes} bytes as they were sent`);
    t.ok(loaded.length <= FIRST_LOAD_REQUESTS_MAX, `${loaded.length} requests`);
    const answer = await fetch(`${service.url}/ui/`);
    t.equal(
      answer.headers.get('content-security-policy'),
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    );
    const again = await answer.text();
    for (const [, asset = ''] of again.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)) {
      const { headers } = await fetch(`${service.url}/ui/${asset}`);
      t.match(headers.get('cache-control'), /immutable/, asset);
      t.match(headers.get('content-encoding'), /br|gzip/);
    }
  });

  browserTest('the rows of events are asked for by the first script, before all else', {}, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service, '');
    const cold = await open({ storageState: await context.storageState() });
    const asked: string[] = [];
    cold.page.on('request', (one) => {
      const { pathname } = new URL(one.url());
      asked.push(pathname.replace(/-[\w-]{8}(?=\.\w+$)/, ''));
    });
    await cold.page.goto(`${service.url}/ui/events`);
    await cold.page.getByRole('heading', { name: 'No events yet' }).waitFor();
    const calls = asked.filter((path) => path.startsWith('/v1/'));
    t.equal(calls[0], '/v1/events', calls.join());
    const scripts = asked.filter((path) => path.endsWith('.js'));
    const needed = ['curl', 'events', 'index', 'rolldown-runtime'].map((name) => `/ui/assets/${name}.js`);
    t.same(scripts.filter((path) => !path.includes('start')).sort(), needed, 'no other scripts');
    for (const screen of ['events', 'policies', 'trace']) {
      const link = (await fetch(`${service.url}/ui/${screen}`)).headers.get('link') ?? '';
      const [, script = ''] = /^<\.\/(assets\/[^>]+)>; rel=modulepreload$/.exec(link) ?? [];
      t.match(script, new RegExp(`^assets/${screen}-`), 'named with the page, so that it comes beside the first');
      t.equal((await fetch(`${service.url}/ui/${script}`)).status, 200);
    }
    t.equal((await fetch(`${service.url}/ui/`)).headers.get('link'), null);
  });

  browserTest('an empty installation teaches what to do next', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service, '');
    await page.getByText(/^AGENT=\$\(curl/).waitFor();
    await everyScreen(t, page, service, 'empty');
  });

  t.test('agents have run', async (t) => {
    await fill(t, service, api);
  });

  browserTest('every screen shows real runs, and everyone can use it', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await everyScreen(t, page, service, 'full');
    await page.goto(`${service.url}/ui/events?outcome=blocked`);
    await page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first().click();
    await page.getByRole('region', { name: 'Why' }).waitFor();
    await axe(t, page, 'an open event');
    await page.getByRole('button', { name: /Go to/ }).click();
    await axe(t, page, 'the palette');
    await page.keyboard.press('Escape');
    await page.getByText('The same as a table').click();
    t.ok((await page.getByRole('table').first().getByRole('row').count()) > 1, 'the chart has its table');
    await page.goto(`${service.url}/ui/anomalies`);
    await page.getByRole('region', { name: 'Anomalies, newest first' }).getByRole('link').first().click();
    await page.getByRole('complementary', { name: 'Open anomaly' }).getByRole('heading').first().waitFor();
    await axe(t, page, 'an open anomaly');
    await page.goto(`${service.url}/ui/audit`);
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Verify now' }).click();
    await page.getByText('Nothing was changed, moved, added or removed.').waitFor();
    await axe(t, page, 'the audit log, verified');
  });

  browserTest('behind a path prefix it works without a setting', { mayFail: /401/ }, async (t, open) => {
    const front = createServer((req, res) => {
      if (!req.url!.startsWith('/gate/')) return void res.writeHead(404).end();
      const onward = request(new URL(req.url!.slice('/gate'.length), service.url), {
        method: req.method,
        headers: req.headers,
      });
      onward.on('response', (answer) => answer.pipe(res.writeHead(answer.statusCode!, answer.headers)));
      onward.on('error', () => res.destroy());
      return void req.pipe(onward);
    });
    front.listen(0, '127.0.0.1');
    await once(front, 'listening');
    try {
      const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}/gate`;
      const { page } = await open();
      await page.goto(`${url}/`);
      t.equal(page.url(), `${url}/ui/`);
      await signIn(page, { url, key: service.key }, '');
      for (const [screen, heading] of Object.entries(SCREENS)) {
        await page.getByRole('navigation').getByRole('link', { name: heading }).click();
        await page.getByRole('heading', { name: heading, exact: true, level: 1 }).waitFor();
        t.match(page.url(), new RegExp(`^${url}/ui/${screen}`));
      }
      const links = page
        .getByRole('navigation')
        .getByRole('link')
        .filter({ has: page.locator('svg') });
      const listed = (await links.allTextContents()).map((text) => text.replace(/\d+$/, ''));
      t.same(listed, Object.values(SCREENS), 'all that are listed, each with an icon');
      await page.close();
    } finally {
      front.closeAllConnections();
      front.close();
    }
  });

  browserTest(
    'with ClickHouse away it says what is the case, and goes on when it is back',
    { mayFail: /503|timeout/i },
    async (t, open) => {
      const { page } = await open();
      await signIn(page, service);
      await page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first().waitFor();
      const engine = (await service.children()).find(({ name }) => name === 'clickhouse')!;
      process.kill(engine.pid, 'SIGSTOP');
      try {
        await page.getByRole('link', { name: 'Traces' }).click();
        await page
          .getByRole('alert')
          .getByText(/Events are still taken and kept|Ask for a shorter time/)
          .first()
          .waitFor();
        t.ok(await page.getByRole('button', { name: 'Try again' }).first().isVisible());
      } finally {
        process.kill(engine.pid, 'SIGCONT');
      }
      await page.getByRole('button', { name: 'Try again' }).first().click();
      await page.getByRole('region', { name: 'Traces, newest first' }).getByRole('link').first().waitFor();
    },
  );
}

async function everyScreen(t: Test, page: Page, service: TestService, what: string): Promise<void> {
  for (const [screen, heading] of Object.entries({ ...SCREENS, ...UNLISTED })) {
    await page.goto(`${service.url}/ui/${screen}`);
    await page.getByRole('heading', { name: heading, exact: true, level: 1 }).waitFor();
    await page.locator('main .waiting').first().waitFor({ state: 'detached' });
    await axeInBothSchemes(t, page, `${screen}, ${what}`);
  }
}

/** Real runs where they are at hand; a few events made up of the same kinds elsewhere. */
async function fill(t: Test, service: TestService, api: Api): Promise<void> {
  for (const policy of POLICIES) {
    const { name, type, conditions } = policy;
    const actions = type === 'data_filter' ? ['log'] : ['block'];
    await api.post('/v1/policies', { name, type, conditions, actions, severity: 'high' });
  }
  await api.post('/v1/alerts', {
    name: 'violations',
    trigger: 'policy_violation',
    channel: 'email',
    target: 'team@example.com',
  });
  const agent = (await api.post('/v1/agents', { name: 'by hand' })).json.id;
  await api.post('/v1/policies', {
    name: 'no paying',
    type: 'block_action',
    conditions: { tool: 'pay' },
    actions: ['block', 'alert'],
  });
  await api.until(
    () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', trace_id: 'by-hand', payload: { tool: 'pay' } }),
    ({ json }) => json.policy_result.outcome === 'blocked',
  );
  if (!existsSync(RUNS)) return t.comment('../shared/data is not here: events of our own');
  const client = new HttpClient({ ...service, connections: 4 });
  const files = readdirSync(RUNS).filter((name) => /^(openllmetry|privacylens)\.ndjson$/.test(name));
  const { events } = await replay(
    client,
    files.map((name) => path.join(RUNS, name)),
  );
  client.close();
  t.ok(events > 500, `${events} events of real runs`);
  await api.get('/v1/events?limit=1');
  await api.get('/v1/anomalies?limit=1');
}

if (skip !== false) t.plan(0, skip);
else await pages();
