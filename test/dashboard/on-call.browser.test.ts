// The dashboard of who is on call, in a real browser against the whole service: what a finger presses on a phone is large
// enough and lies under nothing, and a decision and the kill switch are taps.
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const TARGET_PX = 44;
const PHONES = [
  { what: 'a phone', viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
  { what: 'a window as narrow as one', viewport: { width: 360, height: 740 } },
  { what: 'a tablet', viewport: { width: 1024, height: 768 }, hasTouch: true, isMobile: true },
];

/** What is pressed, within what matches: its name, its height, what lies over its middle, and what else it overlaps. */
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
