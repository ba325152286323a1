// Nothing changes under the hand of who looks at the dashboard, in a real browser against the whole service: a choice
// is of what was read, a page acts in the session that it was drawn for, live updates come back or say that they are
// away, time is the service's, a range stays where it was chosen, and what was written is not lost unasked.
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { untilListed } from '../support/approvals.ts';
import { axe } from '../support/axe.ts';
import { browserTest, NETWORK_NAME, signIn, skip } from '../support/browser.ts';
import { conditionsText, told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

const MINUTE_MS = 60_000;

async function underTheHand(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const send = (payload: object, more = {}) =>
    api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload, ...more });
  const asks = (tool: string, conditions = {}) =>
    api.post('/v1/policies', {
      ...{ name: `${tool} needs a person`, type: 'require_approval', actions: ['block'] },
      conditions: { tool, timeout: '1h', ...conditions },
    });
  /** An event that waits; answers the id of its approval. */
  const wait = async (tool: string, amount: number) => {
    const held = await api.until(
      () => send({ tool, amount }),
      ({ json }) => json.policy_result.outcome === 'pending',
    );
    const id = held.json.policy_result.approval_id as string;
    await untilListed(api, id);
    return id;
  };
  const statusOf = async (id: string) => (await api.get(`/v1/approvals/${id}`)).json.status as string;
  const decideAll = async () => {
    for (const { id } of (await api.get('/v1/approvals?status=pending&limit=100')).json.items)
      await api.post(`/v1/approvals/${id}`, { decision: 'deny' });
  };
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const rowsOf = (page: Page) => page.getByRole('region', { name: 'Events, newest first' });
  const payloadOf = (page: Page) => page.getByRole('region', { name: 'Payload' });
  const inbox = (page: Page) => page.getByRole('region', { name: 'Approvals' });

  await asks('pay');
  await asks('wire', { timeout: '5m', on_timeout: 'approve' });
  await wait('pay', 1);
  await decideAll();

  for (const [how, choose, confirm] of [
    ['keys', (page: Page) => page.keyboard.press('a'), (page: Page) => page.keyboard.press('Enter')],
    ['the other key', (page: Page) => page.keyboard.press('d'), (page: Page) => page.keyboard.press('Enter')],
    [
      'the mouse',
      (page: Page) => page.getByRole('button', { name: /^Approve/ }).click(),
      (page: Page) => page.getByRole('button', { name: /^Yes/ }).click(),
    ],
    [
      'touch',
      (page: Page) => page.getByRole('button', { name: /^Approve/ }).tap(),
      (page: Page) => page.getByRole('button', { name: /^Yes/ }).tap(),
    ],
  ] as const) {
    browserTest(`what is decided is what was read, whatever comes in: by ${how}`, {}, async (t, open) => {
      const { page } = await open(how === 'touch' ? { hasTouch: true } : {});
      await signIn(page, service);
      const read = await wait('pay', 10);
      await go(page, 'approvals');
      await payloadOf(page).getByText('10', { exact: true }).waitFor();
      await choose(page);
      await page.getByRole('button', { name: /^Yes/ }).waitFor();
      const newcomer = await wait('pay', 999_999);
      await inbox(page).getByRole('listitem').nth(1).waitFor();
      await payloadOf(page).getByText('10', { exact: true }).waitFor();
      await confirm(page);
      await api.until(
        () => api.get(`/v1/approvals/${read}`),
        ({ json }) => json.status !== 'pending',
      );
      t.equal(await statusOf(read), how === 'the other key' ? 'denied' : 'approved');
      t.equal(await statusOf(newcomer), 'pending', 'nobody decided the one that came in');
      await payloadOf(page).getByText('999999').waitFor();
      t.equal(await page.getByRole('button', { name: /^Yes/ }).count(), 0, 'and no choice is left for it');
      await decideAll();
    });
  }

  browserTest('a choice does not pass on to another one when somebody else decides', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    const older = await wait('pay', 7);
    const newer = await wait('pay', 8);
    await go(page, 'approvals');
    await payloadOf(page).getByText('8', { exact: true }).waitFor();
    await page.keyboard.press('a');
    await page.getByLabel(/^Comment/).fill('for the cleaners');
    await page.getByRole('button', { name: /^Yes/ }).focus();
    await api.post(`/v1/approvals/${newer}`, { decision: 'deny' });
    await page
      .getByText(/^denied by/)
      .first()
      .waitFor();
    await page.getByText('Your comment came too late').waitFor();
    await page.keyboard.press('Enter');
    await payloadOf(page).getByText('8', { exact: true }).waitFor();
    t.equal(await statusOf(older), 'pending');
    await page.keyboard.press('j');
    await payloadOf(page).getByText('7', { exact: true }).waitFor();
    await page.keyboard.press('Enter');
    t.equal(await page.getByRole('button', { name: /^Yes/ }).count(), 0);
    t.equal(await statusOf(older), 'pending');
    await page.keyboard.press('a');
    await inbox(page).getByRole('link').first().focus();
    await page.keyboard.press('Enter');
    t.equal(await statusOf(older), 'pending', 'Enter on a link is for the link');
    await decideAll();
  });

  browserTest(
    'a link that comes later takes no place of one that is asked about',
    { mayFail: /401/ },
    async (t, open) => {
      const [first, second] = [await keyOfNewAccount(service, 'first'), await keyOfNewAccount(service, 'second')];
      const { page } = await open();
      await page.goto(`${service.url}/ui/#key=${first}`);
      await page.getByRole('button', { name: 'Sign in to first' }).waitFor();
      await page.evaluate(`location.hash = '#key=${second}'`);
      await page.waitForURL((url) => url.hash === '');
      for (let n = 0; n < 3; n++) await page.evaluate("fetch('../v1/session').then((answer) => answer.status)");
      t.match(await told(page.getByRole('main')), /to the account first/);
      await page.keyboard.press('Enter');
      await page.getByRole('navigation', { name: 'Screens' }).waitFor();
      t.equal(await page.locator('.account').textContent(), 'first');
    },
  );

  browserTest(
    'a page acts in no other account than the one that it was drawn for',
    { mayFail: /401/ },
    async (t, open) => {
      const theirs = await keyOfNewAccount(service, 'theirs');
      const { page, context } = await open();
      await signIn(page, service);
      await go(page, 'agents');
      await page.getByRole('button', { name: 'Register an agent' }).click();
      const dialog = page.getByRole('dialog', { name: 'Register an agent' });
      await dialog.getByLabel('Name').fill('meant for the first');
      const other = await context.newPage();
      await other.goto(`${service.url}/ui/#key=${theirs}`);
      await other.getByRole('button', { name: 'Sign in to theirs' }).click();
      await other.getByRole('navigation', { name: 'Screens' }).waitFor();

      await page.getByLabel('API key').waitFor();
      t.match(await told(page.getByRole('dialog', { name: 'Sign in' })), /Another tab .* signed in anew/);
      t.match(await told(page.getByRole('dialog', { name: 'Sign in' })), /sign in to default to go on/);
      await axe(t, page, 'another tab has signed in anew');
      let question = '';
      page.once('dialog', (asked) => {
        question = asked.message();
        void asked.dismiss();
      });
      await page.getByRole('button', { name: 'Go on in theirs' }).click();
      t.match(question, /did not save is lost/, 'going there is asked about');
      await page.getByLabel('API key').fill(service.key);
      await page.keyboard.press('Enter');
      await dialog.waitFor();
      t.equal(await dialog.getByLabel('Name').inputValue(), 'meant for the first', 'what was written is there');
      await dialog.getByRole('button', { name: 'Register' }).click();
      await page.getByRole('link', { name: 'meant for the first' }).waitFor();
      t.equal(await page.locator('.account').textContent(), 'default');
      t.same((await api.as(theirs).get('/v1/agents')).json.items, [], 'nothing was done in the other account');

      await other.getByLabel('API key').waitFor();
      await other.getByRole('button', { name: 'Go on in default' }).click();
      await other.getByRole('navigation', { name: 'Screens' }).waitFor();
      t.equal(await other.locator('.account').textContent(), 'default', 'the other tab goes on where a person says so');
    },
  );

  browserTest(
    'a page offers nothing that the key of another tab may not do',
    { mayFail: /40[13]/ },
    async (t, open) => {
      const reader = (await api.post('/v1/api-keys', { label: 'reader', scope: 'read' })).json.key as string;
      const { page, context } = await open();
      await signIn(page, service);
      await go(page, 'policies');
      await page.getByRole('button', { name: 'New policy' }).waitFor();
      const other = await context.newPage();
      await other.goto(`${service.url}/ui/settings`);
      await other.getByRole('button', { name: 'Sign out' }).click();
      await other.getByRole('heading', { name: 'Gatehouse' }).waitFor();
      await other.getByLabel('API key').fill(reader);
      await other.keyboard.press('Enter');
      await other.getByRole('heading', { name: 'Settings' }).waitFor();
      await page.getByRole('button', { name: 'Go on in default' }).click();
      await page.getByRole('heading', { name: 'Policies' }).waitFor();
      await page.locator('main .waiting').first().waitFor({ state: 'detached' });
      t.equal(await page.getByRole('button', { name: 'New policy' }).count(), 0);
      t.equal(await page.locator('.account').getAttribute('title'), 'reader');
    },
  );

  browserTest('a file is of the session that the page was drawn for', { mayFail: /401/ }, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    for (const place of ['events', 'anomalies', 'deliveries', 'audit']) {
      await go(page, place);
      await page.getByRole('heading', { level: 1 }).waitFor();
      const links = page.locator('a[download]');
      await links.first().waitFor({ state: 'attached' });
      for (const link of await links.all()) {
        const address = new URL((await link.getAttribute('href'))!, page.url());
        const own = await page.request.get(address.href);
        t.equal(own.status(), 200, address.pathname);
        address.searchParams.set('session', 'ses_00000000000000000000000000');
        const foreign = await page.request.get(address.href);
        t.equal(foreign.status(), 401);
        t.equal((await foreign.json()).error.code, 'other_session');
      }
    }
  });

  for (const status of [502, 503, 429, 401])
    browserTest(
      `live updates come back after an answer of ${status}, and say meanwhile that they are away`,
      { mayFail: /502|503|429|401|stream/ },
      async (t, open) => {
        const proxy = await startProxy(t, service.url);
        const { page, context } = await open();
        await signIn(page, { url: proxy.url, key: service.key });
        const second = await context.newPage();
        for (const one of [page, second]) {
          await one.goto(`${proxy.url}/ui/events?live=1`);
          await rowsOf(one).getByRole('link').first().waitFor();
        }
        await send({ tool: 'look', mark: `before ${status}` });
        for (const one of [page, second]) await rowsOf(one).getByText(`before ${status}`).waitFor();
        proxy.answers(status);
        for (const one of [page, second]) await one.getByText('Live updates are away').first().waitFor();
        await send({ tool: 'look', mark: `during ${status}` });
        proxy.answers(undefined);
        for (const one of [page, second]) {
          await rowsOf(one).getByText(`during ${status}`).waitFor();
          await one.getByText('Live updates are away').first().waitFor({ state: 'detached' });
        }
        await send({ tool: 'look', mark: `after ${status}` });
        for (const one of [page, second]) await rowsOf(one).getByText(`after ${status}`).waitFor();
        t.pass();
        await page.close();
        await second.close();
      },
    );

  browserTest(
    'over plain HTTP of a network name it is live, and what cannot be copied is shown',
    { mayFail: /Cross-Origin-Opener-Policy/ },
    async (t, open) => {
      const url = service.url.replace('127.0.0.1', NETWORK_NAME);
      const { page, context } = await open();
      await signIn(page, { url, key: service.key });
      t.equal(await page.evaluate('isSecureContext'), false);
      const second = await context.newPage();
      for (const one of [page, second]) {
        await one.goto(`${url}/ui/events?live=1`);
        await rowsOf(one).getByRole('link').first().waitFor();
      }
      await send({ tool: 'look', mark: 'over plain HTTP' });
      for (const one of [page, second]) {
        await rowsOf(one).getByText('over plain HTTP').waitFor();
        t.equal(await rowsOf(one).getByText('over plain HTTP').count(), 1, 'once');
      }
      await page.getByRole('button', { name: 'Share' }).click();
      const field = page.getByLabel(/Copy it by hand/);
      t.equal(await field.inputValue(), page.url(), 'what is to be shared');
      t.equal(await page.evaluate('getSelection().toString()'), page.url(), 'and it is selected');
      await axe(t, page, 'to be copied by hand');
      await go(page, `event?agent_id=${agent}&id=${(await send({ tool: 'look' })).json.id}`);
      await page.goto(page.url().replace('127.0.0.1', NETWORK_NAME));
      await page.getByRole('button', { name: 'Copy as curl' }).click();
      t.match(await field.inputValue(), /^curl -X POST /);
    },
  );

  for (const minutes of [10, -10])
    browserTest(`time is the service's where the browser's is ${minutes} min ahead`, {}, async (t, open) => {
      const { page, context } = await open();
      await context.addInitScript(`{
        const Own = Date;
        const ahead = ${minutes * MINUTE_MS};
        globalThis.Date = class extends Own {
          constructor(...given) { given.length === 0 ? super(Own.now() + ahead) : super(...given); }
          static now() { return Own.now() + ahead; }
        };
      }`);
      await signIn(page, service);
      const id = await wait('wire', 5);
      await go(page, `approvals?id=${id}`);
      const side = page.getByRole('complementary', { name: 'What is to be decided' });
      await side.getByText(/^0[45]:\d\d$/).waitFor();
      await side.getByRole('button', { name: /^Deny/ }).click();
      await side.getByRole('button', { name: /^Yes/ }).click();
      await page.getByText('Nothing waits for you').waitFor();
      t.equal(await statusOf(id), 'denied');

      // Of a trace of their own: of the last minutes there are many more than can be seen at once.
      const trace = `clock ${minutes}`;
      for (const [mark, before] of [
        ['now', 0],
        ['shortly before', 12],
        ['long before', 20],
      ] as const) {
        const timestamp = new Date(Date.now() - before * MINUTE_MS).toISOString();
        await send({ tool: 'look', mark }, { trace_id: trace, timestamp });
      }
      await go(page, `events?range=15m&trace_id=${encodeURIComponent(trace)}`);
      await rowsOf(page).getByText('shortly before').waitFor();
      await rowsOf(page).getByText('mark: now').waitFor();
      t.equal(await rowsOf(page).getByText('long before').count(), 0, 'of the last 15 minutes');
      await go(page, 'agents');
      const row = page.getByRole('row', { name: /payer/ });
      await row.getByText(/just now|ago$/).waitFor();
      t.match(await told(row), /just now|\d+ s ago|1 min/);
      await go(page, 'policies');
      await page
        .getByRole('row', { name: /wire needs a person/ })
        .getByRole('link', { name: /^[1-9]/ })
        .waitFor();
    });

  browserTest('a relative range stays where it was chosen until it is moved on', {}, async (t, open) => {
    const events = Array.from({ length: 100 }, (_, n) => ({ type: 'custom', payload: { filler: n } }));
    for (let n = 0; n < 3; n++) await api.post(`/v1/agents/${agent}/events/batch`, { events });
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await page.clock.install();
    await signIn(page, service);
    await go(page, 'events?range=1h');
    await rowsOf(page).getByRole('link').first().waitFor();
    const scrollTop = () => rowsOf(page).evaluate((box) => (box as unknown as { scrollTop: number }).scrollTop);
    await rowsOf(page).evaluate((box) => ((box as unknown as { scrollTop: number }).scrollTop = 1_000));
    const shown = rowsOf(page).getByRole('link').nth(12);
    await shown.waitFor();
    const [text = ''] = await shown.allInnerTexts();
    const asked: string[] = [];
    page.on('request', (one) => asked.push(one.url()));
    for (let n = 0; n < 3; n++) {
      await page.clock.fastForward(11_000);
      await page.getByRole('button', { name: n % 2 === 0 ? 'Europe/Berlin' : 'UTC' }).click();
    }
    await page
      .getByRole('button', { name: 'Europe/Berlin' })
      .or(page.getByRole('button', { name: 'UTC' }))
      .click();
    t.equal(await scrollTop(), 1_000, 'the list did not move');
    await rowsOf(page).getByText(text.split('\n').at(-2)!, { exact: true }).first().click();
    await page.getByRole('complementary', { name: 'Open event' }).waitFor();
    t.ok((await scrollTop()) > 500, 'nor when a row is opened');
    t.same(
      asked.filter((url) => /\/v1\/events\?/.test(url) && !/cursor=/.test(url)),
      [],
      'it is the same question',
    );
    await page.getByRole('complementary').getByRole('button', { name: 'Close' }).click();
    await send({ tool: 'look', mark: 'after the range was chosen' });
    await page.clock.fastForward(60_000);
    const [answer] = await Promise.all([
      page.waitForRequest((one) => /\/v1\/events\?/.test(one.url())),
      page.getByRole('button', { name: 'Refresh' }).click(),
    ]);
    t.match(answer.url(), /from=/);
    await rowsOf(page).evaluate((box) => ((box as unknown as { scrollTop: number }).scrollTop = 0));
    await rowsOf(page).getByText('after the range was chosen').waitFor();
  });

  browserTest('what was written outlives the session that it was written in', { mayFail: /401/ }, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'policies?new=1');
    const dialog = page.getByRole('dialog', { name: 'New policy' });
    await dialog.getByLabel('Name').fill('written for long');
    await (await conditionsText(dialog)).fill('{ "tool": "much_thought" }');
    await dialog.getByLabel('What it is for').fill('so that nothing is lost');
    await endSessions(api);
    // The page may have noticed by itself; nothing below the sign-in can be used then.
    await dialog
      .getByRole('button', { name: 'Save' })
      .click({ timeout: 5_000 })
      .catch(() => undefined);
    await page.getByLabel('API key').fill(service.key);
    await page.keyboard.press('Enter');
    await dialog.waitFor();
    t.equal(await dialog.getByLabel('Name').inputValue(), 'written for long');
    t.equal(await dialog.getByLabel('Conditions (JSON)').inputValue(), '{ "tool": "much_thought" }');
    t.equal(await dialog.getByLabel('What it is for').inputValue(), 'so that nothing is lost');
    const kept = await page.evaluate<string>(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state])',
    );
    t.notOk(kept.includes(service.key), 'no key is kept');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('link', { name: 'written for long' }).waitFor();
  });

  browserTest('what was written is not left unasked: Escape, Cancel, back, reload', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.getByRole('link', { name: 'Policies' }).click();
    await page.getByRole('button', { name: 'New policy' }).click();
    const dialog = page.getByRole('dialog', { name: 'New policy' });
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    t.pass('nothing is asked where nothing was written');
    await page.getByRole('button', { name: 'New policy' }).click();
    await dialog.getByLabel('What it is for').fill('not to be lost');
    const asked: string[] = [];
    let isLeft = false;
    page.on('dialog', (one) => {
      asked.push(one.type());
      void (isLeft ? one.accept() : one.dismiss());
    });
    const still = async (what: string, type = 'confirm') => {
      await dialog.waitFor();
      t.equal(await dialog.getByLabel('What it is for').inputValue(), 'not to be lost', what);
      t.same(asked.splice(0), [type], `${what}: asked once`);
    };
    await page.keyboard.press('Escape');
    await still('Escape');
    await page.keyboard.press('Escape');
    await still('Escape again');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await still('Cancel');
    await page.evaluate('history.back()');
    await page.waitForURL(/new=1/);
    await api.until(
      async () => ({ status: asked.length }) as never,
      ({ status }) => status > 0,
    );
    await still('back');
    await page.waitForURL(/new=1/);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('Agents');
    await page.keyboard.press('Enter');
    await still('another place');
    await page.reload({ timeout: 5_000 }).catch(() => undefined);
    await still('reload', 'beforeunload');
    isLeft = true;
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'New policy' }).click();
    t.equal(await dialog.getByLabel('What it is for').inputValue(), '', 'who says so leaves it');
  });

  browserTest('a comment stays with its approval while one looks elsewhere', {}, async (t, open) => {
    const [first, second] = [await wait('pay', 21), await wait('pay', 22)];
    const { page } = await open();
    await signIn(page, service);
    await go(page, `approvals?id=${first}`);
    const comment = page.getByLabel(/^Comment/);
    await payloadOf(page).getByText('21', { exact: true }).waitFor();
    await comment.fill('asked the owner');
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByRole('heading', { name: 'Agents' }).waitFor();
    await page.goBack();
    await payloadOf(page).getByText('21', { exact: true }).waitFor();
    t.equal(await comment.inputValue(), 'asked the owner');
    await inbox(page).getByRole('link').first().click();
    await payloadOf(page).getByText('22', { exact: true }).waitFor();
    t.equal(await comment.inputValue(), '', 'it is of that one alone');
    await inbox(page).getByRole('link').nth(1).click();
    await payloadOf(page).getByText('21', { exact: true }).waitFor();
    const asked: string[] = [];
    page.on('dialog', (one) => {
      asked.push(one.type());
      void one.dismiss();
    });
    await page.reload({ timeout: 5_000 }).catch(() => undefined);
    t.same(asked, ['beforeunload']);
    t.equal(await comment.inputValue(), 'asked the owner');
    await page.getByRole('button', { name: /^Deny/ }).click();
    await page.getByRole('button', { name: /^Yes/ }).click();
    await payloadOf(page).getByText('22', { exact: true }).waitFor();
    t.match((await api.get(`/v1/approvals/${first}`)).json, { status: 'denied', comment: 'asked the owner' });
    t.equal(await statusOf(second), 'pending');
    await decideAll();
  });

  browserTest('an hour that comes twice is told apart, and editing a range moves nothing', {}, async (t, open) => {
    for (const at of ['2026-11-01T05:30:00Z', '2026-11-01T06:30:00Z'])
      await send({ tool: 'look', at }, { timestamp: at });
    await api.get('/v1/events?limit=1');
    const { page } = await open({ timezoneId: 'America/New_York' });
    await signIn(page, service);
    const range = 'from=2026-11-01T05:00:00.000Z&to=2026-11-01T07:00:00.000Z';
    await go(page, `events?${range}`);
    const times = rowsOf(page).locator('time');
    await times.nth(1).waitFor();
    t.same(await times.allInnerTexts(), ['2026-11-01 01:30:00.000 -05:00', '2026-11-01 01:30:00.000 -04:00']);
    t.match(await times.nth(1).getAttribute('title'), '-04:00 (America/New_York)');
    await go(page, 'events?from=2026-11-01T06:20:00.000Z');
    const field = page.getByLabel('From (America/New_York)');
    t.equal(await field.inputValue(), '2026-11-01T01:20');
    t.match(await field.getAttribute('title'), '-05:00');
    await field.fill('2026-11-01T01:20:30');
    await field.blur();
    await page.waitForURL((url) => url.searchParams.get('from') === '2026-11-01T06:20:30.000Z');
    await go(page, 'events?from=2026-11-01T05:20:59.999999Z');
    await field.fill('2026-11-01T01:21:59');
    await field.blur();
    await page.waitForURL((url) => url.searchParams.get('from') === '2026-11-01T05:21:59.999999Z');
    t.pass('what the field does not show stays');

    await go(page, 'events?from=2026-10-20T04:00:00.000Z&to=2026-11-04T04:59:59.999Z');
    await page.getByText('The same as a table').click();
    const days = page.getByRole('table').first().getByRole('rowheader');
    await days.first().waitFor();
    for (const day of await days.allInnerTexts()) t.match(day, /^2026-1\d-\d\d (00|06|12|18):00:00$/, 'by its clock');
  });

  browserTest('durations say how long it was', {}, async (t, open) => {
    const began = Date.parse('2026-11-10T10:00:00Z');
    for (const ms of [0, 1_999, 3_500, 122_900, 122_900 + 7_500_000])
      await send({ tool: 'step', ms }, { trace_id: 'steps', timestamp: new Date(began + ms).toISOString() });
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'trace?id=steps&view=list');
    const steps = page.getByRole('region', { name: 'Events of the trace, in order' });
    await steps.getByRole('listitem').nth(4).waitFor();
    const shown = await told(steps);
    for (const gap of ['+2.0 s', '+1.5 s', '+1 min 59 s', '+2 h 5 min']) t.ok(shown.includes(gap), gap);
    await page.getByText('Lasted').waitFor();
    t.match(await told(page.getByRole('main')), /Lasted ?2 h 7 min/);
  });
}

/** In front of the service; answers all that comes with a status of the test's, while there is one. */
async function startProxy(
  t: Test,
  to: string,
): Promise<{ url: string; answers: (status: number | undefined) => void }> {
  let status: number | undefined;
  const open = new Set<{ destroy(): void }>();
  const proxy = createServer((req, res) => {
    if (status !== undefined) return void res.writeHead(status, { 'Content-Type': 'text/html' }).end('<h1>away</h1>');
    const onward = request(new URL(req.url!, to), { method: req.method!, headers: req.headers });
    onward.on('response', (answer) => answer.pipe(res.writeHead(answer.statusCode!, answer.headers)));
    onward.on('error', () => res.destroy());
    open.add(res);
    res.on('close', () => {
      open.delete(res);
      onward.destroy();
    });
    return void req.pipe(onward);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  t.teardown(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    answers(next) {
      status = next;
      if (next !== undefined) for (const one of open) one.destroy();
    },
  };
}

/** Those of browsers, by an admin. */
async function endSessions(api: Api): Promise<void> {
  for (const { id } of (await api.get('/v1/sessions?limit=100')).json.items) await api.delete(`/v1/sessions/${id}`);
}

if (skip !== false) t.plan(0, skip);
else await underTheHand();
