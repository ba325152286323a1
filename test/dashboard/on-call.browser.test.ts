// The dashboard of who is on call, in a real browser against the whole service: what a finger presses on a phone is
// large enough and lies under nothing, a decision and the kill switch are taps, and the browser notifies of what waits,
// where a person has wished it, and nowhere else.
import type { BrowserContext, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, NETWORK_NAME, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const TARGET_PX = 44;
const PHONES = [
  { what: 'a phone', viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
  { what: 'a window as narrow as one', viewport: { width: 360, height: 740 } },
  { what: 'a tablet', viewport: { width: 1024, height: 768 }, hasTouch: true, isMobile: true },
];

/** The controls within what matches: name, height, is the middle free, is it in view, how many others it overlaps. */
const CONTROLS = `(within) => {
  const all = [...document.querySelectorAll(within)].flatMap((one) =>
    [...one.querySelectorAll('button, .button, summary, select, textarea, input:not([type=checkbox])')]);
  const shown = all.filter((one) => one.checkVisibility() && one.closest('.hidden, .rows') === null);
  const boxes = shown.map((one) => ({ one, box: one.getBoundingClientRect() }));
  return boxes.map(({ one, box: mine }) => {
    const name = (one.ariaLabel || one.textContent || one.closest('label')?.textContent || one.tagName).trim();
    const beside = boxes.filter(({ one: other, box }) => other !== one && !other.contains(one) && !one.contains(other) &&
      box.left < mine.right - 1 && mine.left < box.right - 1 && box.top < mine.bottom - 1 && mine.top < box.bottom - 1);
    one.scrollIntoView({ block: 'center' });
    const { left, top, width, height } = one.getBoundingClientRect();
    const at = document.elementFromPoint(left + width / 2, top + height / 2);
    const isOn = left >= 0 && left + width <= document.documentElement.clientWidth;
    return { name, height, isFree: at !== null && one.contains(at), isOn, beside: beside.length };
  });
}`;
type Control = { name: string; height: number; isFree: boolean; isOn: boolean; beside: number };

/** The browser's own notifications, which it shows nowhere without a window, noted as they are made. */
const NOTED = `
  globalThis.asked = 0;
  globalThis.told = [];
  globalThis.Notification = class extends Notification {
    static requestPermission() {
      globalThis.asked++;
      return super.requestPermission();
    }
    constructor(title, options) {
      super(title, options);
      globalThis.told.push({ title, ...options, one: this, isClosed: false });
    }
    close() {
      globalThis.told.find(({ one }) => one === this).isClosed = true;
      super.close();
    }
  };`;
type Told = { title: string; body: string; tag: string; isClosed: boolean };

async function onCall(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  await api.post('/v1/policies', {
    ...{ name: 'a person looks', type: 'require_approval', actions: ['block'] },
    conditions: { tool: 'pay', timeout: '1h' },
  });
  /** An event that waits; answers the id of its approval. */
  const wait = async (payload: object) => {
    const { json } = await api.until(
      () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'pay', ...payload } }),
      (answer) => answer.json.policy_result.outcome === 'pending',
    );
    return json.policy_result.approval_id as string;
  };
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const statusOf = async (path: string) => (await api.get(path)).json.status as string;

  for (const { what, ...options } of PHONES)
    browserTest(`a finger meets what it presses, on ${what}`, {}, async (t, open) => {
      const held = await wait({ arguments: { amount: 1250, to: `${'DE89 3704 0044 '.repeat(12)}` } });
      const { page } = await open(options);
      await signIn(page, service);
      await go(page, `approvals?id=${held}`);
      await page.getByRole('button', { name: /^Approve/ }).waitFor();
      await page.getByRole('button', { name: 'Copy payload' }).waitFor();
      const said = page.getByRole('complementary', { name: 'What is to be decided' }).locator('h2 + p');
      await said.getByText('payer').waitFor();
      t.match(await said.textContent(), /pay.*1250/, 'who and what stand above what is pressed');
      await meets(t, page, '.top, main', 8, 'what waits');
      await press(page, /^Approve/, options.hasTouch);
      await page.getByRole('button', { name: /^Yes, approve/ }).waitFor();
      await meets(t, page, 'main', 8, 'what is about to be approved');
      if (options.viewport.width < 400) await axeInBothSchemes(t, page, `approvals, ${what}`);
      await press(page, /^Yes, approve/, options.hasTouch);
      await api.until(
        () => api.get(`/v1/approvals/${held}`),
        ({ json }) => json.status === 'approved',
      );

      for (const place of ['agents', `agent?id=${agent}`]) {
        await go(page, place);
        await page.getByRole('button', { name: 'Switch off payer' }).waitFor();
        await meets(t, page, '.top, .screen > header, table', 3, place);
        await press(page, 'Switch off payer', options.hasTouch);
        await page.getByRole('dialog').waitFor();
        await meets(t, page, 'dialog', 2, `the kill switch of ${place}`);
        await press(page, /^Switch off$/, options.hasTouch);
        await page.getByRole('button', { name: 'Switch on payer' }).waitFor();
        t.equal(await statusOf(`/v1/agents/${agent}`), 'inactive', `it is off, by ${place}`);
        await press(page, 'Switch on payer', options.hasTouch);
        await press(page, /^Switch on$/, options.hasTouch);
        await page.getByRole('button', { name: 'Switch off payer' }).waitFor();
      }
    });

  browserTest('one tab notifies of what waits, where a person has wished it', {}, async (t, open) => {
    for (const severity of ['low', 'critical'])
      await api.post('/v1/policies', {
        ...{ name: `no ${severity}`, type: 'block_action', severity, actions: ['block'] },
        conditions: { tool: severity },
      });
    const { page, context } = await open();
    await context.grantPermissions(['notifications'], { origin: service.url });
    await context.addInitScript(NOTED);
    await signIn(page, service, 'settings');
    const button = page.getByRole('button', { name: 'Notify me in this browser' });
    t.equal(await button.getAttribute('aria-pressed'), 'false', 'off, although the browser would let it');
    await wait({ arguments: { amount: 1 } });
    await page.getByRole('navigation').getByText('1', { exact: true }).waitFor();
    t.same(await page.evaluate('[asked, told.length]'), [0, 0], 'unasked nothing is asked, and nothing is told');
    await button.click();
    await page.locator('button[aria-pressed=true]').waitFor();
    t.equal(await page.evaluate('asked'), 1);
    t.match(await toldIn(context), [{ title: 'Gatehouse notifies you here' }], 'how it looks');
    const kept = await page.evaluate<string>('JSON.stringify(localStorage) + JSON.stringify(sessionStorage)');
    t.match(kept, /gatehouse-notify/);
    t.notOk(kept.includes(service.key), 'no key is kept');

    const second = await context.newPage();
    await go(second, 'overview');
    await second.getByRole('navigation', { name: 'Screens' }).waitFor();
    await becomes(
      () => locksOf(page),
      ({ held, pending }) => held === 1 && pending === 1,
    );
    const toldOf = async (text: string) =>
      (await toldIn(context)).filter(({ title, body }) => `${title} ${body}`.includes(text));
    const first = await wait({ arguments: { amount: 1250 }, note: 'what no notification says' });
    await becomes(
      () => toldOf('1250'),
      (told) => told.length > 0,
    );
    for (const tool of ['low', 'critical'])
      await api.until(
        () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool, of: 'what it does' } }),
        ({ json }) => json.policy_result.outcome === 'blocked',
      );
    await becomes(
      () => toldOf('critical'),
      (told) => told.length > 0,
    );
    const told = await toldIn(context);
    t.match(await toldOf('1250'), [{ title: 'Waits for you: a person looks', body: 'pay(amount: 1250)', tag: first }]);
    t.match(await toldOf('critical'), [{ title: 'Anomaly, critical', tag: /^ano_/ }]);
    t.equal(told.length, 3, 'each once, by one of two tabs, and nothing of low severity');
    t.notOk(JSON.stringify(told).includes('no notification says'), 'the sentence alone');

    const leads = (await page.evaluate<number>('told.length')) > 1 ? page : second;
    await leads.evaluate(`told.find(({ tag }) => tag === '${first}').one.dispatchEvent(new Event('click'))`);
    await leads.waitForURL(new RegExp(`/ui/approvals\\?id=${first}$`));
    await leads.getByRole('button', { name: /^Approve/ }).waitFor();
    await api.post(`/v1/approvals/${first}`, { decision: 'deny' });
    await leads.waitForFunction(`told.filter(({ isClosed }) => isClosed).length === 1`);
    t.match(await toldOf('1250'), [{ isClosed: true }], 'what is decided is not told any longer');

    const other = leads === page ? second : page;
    await leads.close();
    await becomes(
      async () => {
        await wait({ arguments: { amount: 77 } });
        return toldOf('77');
      },
      (told) => told.length > 0,
    );
    await go(other, 'approvals');
    await other.getByRole('button', { name: 'Notify me in this browser' }).click();
    await becomes(
      () => locksOf(other),
      ({ held, pending }) => held + pending === 0,
    );
    t.equal(await other.evaluate(`localStorage.getItem('gatehouse-notify')`), null, 'off again, and not kept');
  });

  browserTest(
    'where a browser may not or cannot notify it says so',
    { mayFail: /Cross-Origin-Opener/ },
    async (t, open) => {
      const { page, context } = await open();
      await context.addInitScript(NOTED);
      await signIn(page, service, 'approvals');
      const button = page.getByRole('button', { name: 'Notify me in this browser' });
      await button.click();
      await page.getByText(/denies notifications|have not allowed it/).waitFor();
      t.equal(await button.getAttribute('aria-pressed'), 'false');
      const { page: far } = await open();
      await signIn(far, { ...service, url: service.url.replace('127.0.0.1', NETWORK_NAME) }, 'settings');
      await far.getByText('Browsers notify only of pages over HTTPS, or of this machine.').waitFor();
      await far.getByRole('button', { name: 'Notify me in this browser' }).click();
      t.equal(await far.evaluate(`localStorage.getItem('gatehouse-notify')`), null);
    },
  );
}

/** Throws where it does not. */
async function becomes<T>(ask: () => Promise<T>, isWanted: (answer: T) => boolean): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (isWanted(await ask())) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error('It has not become so.');
}

/** The notifications of all tabs. */
async function toldIn(context: BrowserContext): Promise<Told[]> {
  const ask = '(globalThis.told ?? []).map(({ one, ...said }) => said)';
  return (await Promise.all(context.pages().map((page) => page.evaluate<Told[]>(ask)))).flat();
}

/** Tabs that notify, and that wait for their turn. */
function locksOf(page: Page): Promise<{ held: number; pending: number }> {
  return page.evaluate(`navigator.locks.query().then(({ held, pending }) => {
    const count = (all) => all.filter(({ name }) => name.startsWith('gatehouse:notify:')).length;
    return { held: count(held), pending: count(pending) };
  })`);
}

/** `least`: so many controls are there, so that none of them is overlooked. */
async function meets(t: Test, page: Page, within: string, least: number, what: string): Promise<void> {
  const controls = await page.evaluate<Control[]>(`(${CONTROLS})(${JSON.stringify(within)})`);
  t.ok(controls.length >= least, `${what}: ${controls.length} controls`);
  for (const { name, height, isFree, isOn, beside } of controls) {
    t.ok(height >= TARGET_PX, `${what}: ${name} is ${height} px high`);
    t.same({ isFree, isOn, beside }, { isFree: true, isOn: true, beside: 0 }, `${what}: nothing lies over ${name}`);
  }
}

async function press(page: Page, name: string | RegExp, byTouch = false): Promise<void> {
  const button = page.getByRole('button', { name });
  await (byTouch ? button.tap() : button.click());
}

if (skip !== false) t.plan(0, skip);
else await onCall();
