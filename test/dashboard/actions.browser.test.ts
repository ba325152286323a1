// What people change with the dashboard, in a real browser against the whole service: a policy tried before it is kept,
// alerts and what became of them, keys, the kill switch, the audit log and its checkpoints; and all of it by keyboard,
// where that is said.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import t from 'tap';
import { Api } from '../support/api.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { conditionsText } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

async function actions(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const send = (payload: object) => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload });
  const event = (await send({ tool: 'pay', arguments: { amount: 5000 } })).json.id as string;
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);

  browserTest('a policy is tried on an event before it is kept', { mayFail: /400/ }, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, `event?id=${event}`);
    await page.getByRole('link', { name: 'Try a policy on it' }).click();
    const dialog = page.getByRole('dialog');
    const conditions = await conditionsText(dialog);
    const tryIt = dialog.getByRole('button', { name: 'Try', exact: true });
    t.match(await dialog.getByLabel('Event', { exact: true }).inputValue(), event, 'the event that was open');
    await conditions.fill('{\n  "tool": "pay",\n  "amount": { "gt": "many" }\n}');
    await tryIt.click();
    await dialog.getByText('Line 3').first().waitFor();
    await conditions.fill('{ "tool": "pay", "arguments.amount": { "gt": 9000 } }');
    await tryIt.click();
    await dialog.getByText('would not match').waitFor();
    await conditions.fill('{ "tool": "pay", "arguments.amount": { "gt": 1000 } }');
    await dialog.getByRole('checkbox', { name: 'block' }).check();
    await tryIt.click();
    await dialog.getByText('would match, and by this policy alone be').waitFor();
    const says = (await dialog.getByRole('status').textContent())!;
    for (const part of ['blocked', 'arguments.amount', '/arguments/amount'])
      t.ok(says.includes(part), `it says ${part}`);
    t.same((await api.get('/v1/policies')).json.items, [], 'nothing is kept');
    t.equal((await api.get('/v1/events?outcome=blocked')).json.total, 0, 'nothing is recorded');
    await dialog.getByLabel('Name').fill('no large payments');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('link', { name: 'no large payments' }).waitFor();
  });

  browserTest('a link that names an approval shows it, whatever became of it', {}, async (t, open) => {
    const asks = { type: 'require_approval', conditions: { tool: 'refund' }, actions: ['block'] };
    await api.post('/v1/policies', { name: 'refunds need a person', ...asks });
    const held = await api.until(
      () => send({ tool: 'refund', order: 'of Monday' }),
      ({ json }) => json.policy_result.outcome === 'pending',
    );
    const { approval_id: id } = held.json.policy_result;
    await api.post(`/v1/approvals/${id}`, { decision: 'deny', comment: 'not on a Monday' });
    const { page } = await open();
    await signIn(page, service);
    await go(page, `approvals?id=${id}`);
    const side = page.getByRole('complementary', { name: 'What is to be decided' });
    await side.getByText('not on a Monday').waitFor();
    await side.getByText('"of Monday"').waitFor();
    await side.getByText('bootstrap key').waitFor();
    t.match(await side.textContent(), /denied by bootstrap key/);
  });

  browserTest('an alert is made, tested, seen to fail, and sent again', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.getByRole('link', { name: 'Alerts' }).click();
    await page.getByRole('button', { name: 'New alert' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('to the team');
    await dialog.getByLabel('Address').fill('https://nowhere.invalid/hook');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('It is shown once, here.').waitFor();
    t.match(await dialog.locator('code.secret').textContent(), /^whsec_/);
    await dialog.getByRole('button', { name: 'Close' }).click();
    const row = page.getByRole('row', { name: /to the team/ });
    await row.getByRole('button', { name: 'Test' }).click();
    await dialog.getByRole('button', { name: 'Send a test' }).click();
    await api.until(
      () => send({ tool: 'pay', arguments: { amount: 5000 } }),
      ({ json }) => json.policy_result.outcome === 'blocked',
    );
    const deliveries = (are: (items: { test: boolean; status: string; attempts: object[] }[]) => boolean) =>
      api.until(
        () => api.get('/v1/deliveries'),
        ({ json }) => are(json.items),
      );
    await deliveries((items) => items.length === 2 && items.every(({ attempts }) => attempts.length > 0));
    await row.getByRole('button', { name: 'Switch off' }).click();
    await dialog.getByRole('button', { name: 'Switch off' }).click();
    await row.getByText('inactive').waitFor();
    await deliveries((items) => items.some(({ test, status }) => !test && status === 'cancelled'));
    await row.getByRole('button', { name: 'Switch on' }).click();
    await dialog.getByRole('button', { name: 'Switch on' }).click();
    await row.getByRole('link', { name: 'Deliveries' }).click();
    await page.locator('summary', { hasText: 'Status' }).click();
    await page.getByRole('checkbox', { name: 'cancelled' }).check();
    const rows = page.getByRole('region', { name: 'Deliveries, newest first' });
    // The test that was sent may have come due meanwhile, and is cancelled as well.
    await page.getByText(/^(1 delivery|2 deliveries)$/).waitFor();
    await rows.getByRole('link').first().click();
    const side = page.getByRole('complementary', { name: 'Open delivery' });
    await side.getByText('cancelled').waitFor();
    t.match(await side.getByRole('table').textContent(), /dns|nowhere|resol/i, 'what came of the attempt');
    await side.getByRole('button', { name: 'Send again' }).click();
    await dialog.getByRole('button', { name: 'Send again' }).click();
    await side.getByText('pending').waitFor();
    await deliveries((items) => items.every(({ status }) => status === 'pending'));
  });

  browserTest('a key is made, shown once, used, and revoked', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.getByRole('link', { name: 'Settings' }).click();
    await page.getByRole('button', { name: 'New key' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Label').fill('of the payer');
    await dialog.getByLabel('Bound to an agent').fill(agent);
    await dialog.getByRole('checkbox', { name: 'submit' }).check();
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText('It is shown once').waitFor();
    const key = (await dialog.locator('code.secret').textContent())!;
    await dialog.getByRole('button', { name: 'Close' }).click();
    const may = api.as(key);
    t.equal((await may.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: {} })).status, 201);
    t.equal((await may.get('/v1/policies')).status, 403, 'it may submit, and no more');
    await page.reload();
    await page.getByRole('button', { name: 'Revoke of the payer' }).waitFor();
    t.notOk((await page.content()).includes(key), 'it is not shown again');
    await page.getByRole('button', { name: 'Revoke of the payer' }).click();
    await dialog.getByRole('button', { name: 'Revoke' }).click();
    await page.getByRole('button', { name: 'Revoke of the payer' }).waitFor({ state: 'detached' });
    await api.until(
      () => may.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: {} }),
      ({ status }) => status === 401,
    );
  });

  browserTest('a key that is bound to an agent sees that agent alone', { mayFail: /403|404/ }, async (t, open) => {
    const other = (await api.post('/v1/agents', { name: 'somebody else' })).json.id;
    await api.post(`/v1/agents/${other}/events`, { type: 'prompt', payload: { prompt: 'not for the payer' } });
    const bound = { label: 'bound', scope: 'write', agent_id: agent, permissions: ['read'] };
    const { key } = (await api.post('/v1/api-keys', bound)).json;
    const { page } = await open();
    await signIn(page, { url: service.url, key });
    for (const place of ['events', 'agents', 'approvals?status=all', 'anomalies', 'deliveries', 'traces']) {
      await go(page, place);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.locator('main .waiting').first().waitFor({ state: 'detached' });
      const text = (await page.locator('body').textContent())!;
      t.notMatch(text, /somebody else|not for the payer/, place);
      t.notMatch(text, other, place);
    }
    await go(page, `events?agent_id=${other}`);
    await page.getByText('No such agent.').first().waitFor();
  });

  browserTest('the kill switch says what it does before it does it', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.getByRole('link', { name: 'Agents' }).click();
    await page.getByRole('button', { name: 'Switch off payer' }).click();
    const dialog = page.getByRole('dialog');
    t.match(await dialog.textContent(), /every event of this agent is answered as blocked/);
    t.match((await api.get(`/v1/agents/${agent}`)).json, { status: 'active' }, 'nothing is done yet');
    await dialog.getByRole('button', { name: 'Switch off' }).click();
    await page.getByRole('button', { name: 'Switch on payer' }).click();
    t.match((await api.get(`/v1/agents/${agent}`)).json, { status: 'inactive' });
    await dialog.getByRole('button', { name: 'Switch on' }).click();
    await page.getByRole('button', { name: 'Switch off payer' }).waitFor();
  });

  browserTest(
    'the audit log is verified, and compared with a checkpoint kept elsewhere',
    { mayFail: /400/ },
    async (t, open) => {
      const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-checkpoint-'));
      t.teardown(() => rmSync(folder, { recursive: true, force: true }));
      const { page } = await open();
      await signIn(page, service);
      await page.getByRole('link', { name: 'Audit log' }).click();
      await page.getByRole('button', { name: 'Verify' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Verify now' }).click();
      await dialog.getByText('Nothing was changed, moved, added or removed.').waitFor();
      await dialog.getByRole('button', { name: 'Close' }).click();
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: 'Checkpoint' }).click(),
      ]);
      const kept = path.join(folder, 'kept.json');
      await download.saveAs(kept);
      await page.getByRole('button', { name: 'Compare' }).click();
      await dialog.getByLabel('The checkpoint file').setInputFiles(kept);
      await dialog.getByRole('button', { name: 'Compare' }).click();
      await dialog.getByText('Nothing was changed, moved, added or removed.').waitFor();
      const forged = path.join(folder, 'forged.json');
      const checkpoint = (await api.get('/v1/audit-logs/checkpoint')).text;
      writeFileSync(
        forged,
        checkpoint.replace(/"entries":(\d+)/, (_all, n: string) => `"entries":${Number(n) + 1}`),
      );
      await dialog.getByLabel('The checkpoint file').setInputFiles(forged);
      await dialog.getByRole('button', { name: 'Compare' }).click();
      await dialog.getByRole('alert').waitFor();
      t.match(await dialog.getByRole('alert').textContent(), /fault|signature/i);
    },
  );

  browserTest('everything is reached by keyboard alone', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.keyboard.press('?');
    await page.getByRole('dialog').getByText('Next event').waitFor();
    // no pause between keys: the browser reports that a dialog was closed when the next one may be open already
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press('Escape');
      await page.keyboard.press('Control+k');
      await page.keyboard.type('payer');
      await page.getByRole('option', { name: /^payer/ }).waitFor();
      await page.keyboard.press('Escape');
      await page.keyboard.press('?');
      await page.getByRole('dialog').getByText('Next event').waitFor();
    }
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+k');
    await page.keyboard.type('payer');
    await page.getByRole('option', { name: /^payer/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'payer', exact: true }).waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('e');
    await page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first().waitFor();
    await page.keyboard.press('j');
    await page.getByRole('region', { name: 'Why' }).waitFor();
    const first = new URL(page.url()).searchParams.get('id');
    await page.keyboard.press('j');
    await page.waitForURL((url) => ![first, null].includes(url.searchParams.get('id')));
    await page.keyboard.press('Escape');
    await page.waitForURL((url) => !url.searchParams.has('id'));
    await page.keyboard.press('Control+k');
    await page.keyboard.type(event);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Event', exact: true }).waitFor();
    await page.getByRole('region', { name: 'Payload' }).getByText('5000').waitFor();
    t.match(page.url(), `event?id=${event}`);
  });
}

if (skip !== false) t.plan(0, skip);
else await actions();
