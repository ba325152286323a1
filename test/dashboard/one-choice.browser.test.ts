// A choice is of one thing of one account, in a real browser against the whole service: an approval that a link names
// stays the one that is decided, two presses on Yes decide one, and a page's switch of an agent moves no agent of the
// same name in the account that another tab has signed in to.
import type { Page } from 'playwright-core';
import t from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { untilListed } from '../support/approvals.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

async function choices(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payments-bot' })).json.id as string;
  await api.post('/v1/policies', {
    ...{ name: 'payments need a person', type: 'require_approval', actions: ['block'] },
    conditions: { tool: 'pay', timeout: '1h' },
  });
  /** An event that waits; answers the id of its approval. */
  const wait = async (amount: number) => {
    const held = await api.until(
      () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'pay', amount } }),
      ({ json }) => json.policy_result.outcome === 'pending',
    );
    const id = held.json.policy_result.approval_id as string;
    await untilListed(api, id);
    return id;
  };
  const approval = (id: string) => api.get(`/v1/approvals/${id}`);
  const payloadOf = (page: Page) => page.getByRole('region', { name: 'Payload' });
  const inbox = (page: Page) => page.getByRole('region', { name: 'Approvals', exact: true });
  const yes = (page: Page) => page.getByRole('button', { name: /^Yes/ });

  browserTest('a link to an approval decides that one, whatever comes in', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    const [other, named] = [await wait(5), await wait(10)];
    await page.goto(`${service.url}/ui/approvals?id=${named}`);
    await payloadOf(page).getByText('10', { exact: true }).waitFor();
    await page.keyboard.press('a');
    await yes(page).waitFor();
    const newcomer = await wait(999_999);
    await inbox(page).getByText('999999').first().waitFor();
    t.equal(await payloadOf(page).getByText('10', { exact: true }).count(), 1, 'what is open stays open');
    await page.keyboard.press('Enter');
    await api.until(
      () => approval(named),
      ({ json }) => json.status !== 'pending',
    );
    t.equal((await approval(named)).json.status, 'approved');
    for (const id of [other, newcomer]) t.equal((await approval(id)).json.status, 'pending', id);
  });

  browserTest('two presses on Yes decide one', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    const waiting = [await wait(21), await wait(22)];
    await page.goto(`${service.url}/ui/approvals`);
    await payloadOf(page).getByText('22', { exact: true }).waitFor();
    await page.getByRole('button', { name: /^Approve/ }).click();
    await yes(page).dblclick();
    await api.until(
      () => approval(waiting[1]!),
      ({ json }) => json.status !== 'pending',
    );
    // The second press has come to the page, and the next one is open there.
    await payloadOf(page).getByText('22', { exact: true }).waitFor({ state: 'detached' });
    await inbox(page)
      .getByRole('link', { name: /\b21\b/ })
      .click();
    await payloadOf(page).getByText('21', { exact: true }).waitFor();
    t.equal(await yes(page).count(), 0, 'no choice is left for another one');
    t.equal((await approval(waiting[1]!)).json.status, 'approved');
    t.equal((await approval(waiting[0]!)).json.status, 'pending');
  });

  browserTest('a switch is of the account that its page was drawn for', { mayFail: /401/ }, async (t, open) => {
    const key = await keyOfNewAccount(service, 'theirs');
    const theirs = api.as(key);
    const namesake = (await theirs.post('/v1/agents', { name: 'payments-bot' })).json.id as string;
    const { page, context } = await open();
    await signIn(page, service);
    await page.goto(`${service.url}/ui/agent?id=${agent}`);
    await page.getByRole('button', { name: 'Switch off payments-bot' }).click();
    const act = page.getByRole('dialog').getByRole('button', { name: 'Switch off' });
    await act.waitFor();
    // Nothing tells this page of what the other tab does.
    await page.route('**/v1/stream*', (route) => route.abort());
    const other = await context.newPage();
    await signIn(other, { url: service.url, key });
    t.equal(await other.locator('.account').textContent(), 'theirs');
    await act.click({ timeout: 5_000, force: true }).catch(() => undefined);
    await page.getByLabel('API key').waitFor();
    const statuses = [await api.get(`/v1/agents/${agent}`), await theirs.get(`/v1/agents/${namesake}`)];
    t.same(
      statuses.map(({ json }) => json.status),
      ['active', 'active'],
      'neither is switched off',
    );
  });
}

if (skip !== false) t.plan(0, skip);
else await choices();
