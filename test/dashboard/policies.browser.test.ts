// The life of a policy on the Policies screen, in a real browser against the whole service: its revisions and how they
// differ, an earlier one put back, changes that meet another change, an event that it is tried on. Numbers stay as they
// were written, the address is the state, everything goes by keys, and everyone can read it (axe).
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { conditionsText, tabTo, told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

/** More than a double holds. */
const LARGE = '653247040368672769';
const FINE = '1000.00000000000000001';

async function policies(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const send = (payload: object) => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload });
  const create = async (body: string | object) => (await api.post('/v1/policies', body)).json.id as string;
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const textOf = (id: string) => api.get(`/v1/policies/${id}`).then(({ text }) => text);

  browserTest('revisions say who changed what, and any two are compared', {}, async (t, open) => {
    const id = await create({
      ...{ name: 'no shell', type: 'block_action', actions: ['log'], description: 'Nobody needs one.' },
      conditions: { tool: 'shell', 'payload.arguments.amount': { gt: 10 } },
    });
    await api.patch(`/v1/policies/${id}`, { actions: ['block'] });
    await api.patch(`/v1/policies/${id}`, {
      conditions: { tool: ['shell', 'bash'], 'payload.arguments.amount': { gt: 20 } },
    });
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'policies');
    await page.getByRole('link', { name: 'no shell' }).click();
    await page.getByRole('link', { name: 'Revisions' }).click();
    const list = page.getByRole('list', { name: 'Revisions, newest first' });
    await list.getByText('Revision 3').waitFor();
    await list.getByText('bootstrap key').first().waitFor();
    const items = await Promise.all((await list.locator(':scope > li').all()).map(told));
    t.equal(items.length, 3);
    t.match(items[0], /Revision 3 updated by bootstrap key/);
    t.match(items[0], '/conditions/tool before: "shell" after: ["shell","bash"]');
    t.match(items[0], '/conditions/payload.arguments.amount/gt before: 10 after: 20');
    t.match(items[1], '/actions before: ["log"] after: ["block"]');
    t.match(items[2], 'Revision 1 created');
    await axeInBothSchemes(t, page, 'revisions');

    await page.getByRole('link', { name: 'compare revision 1 with the newest' }).click();
    const compared = page.getByRole('region', { name: 'Comparison' });
    await compared.getByText('From revision 1 to 3').waitFor();
    await compared.getByText('/actions').waitFor();
    const differences = await told(compared);
    for (const part of ['/actions', '/conditions/tool', '/conditions/payload.arguments.amount/gt before: 10 after: 20'])
      t.match(differences, part);
    t.notMatch(differences, /revision 2|updated_at|created_at/);
    const address = page.url();
    t.match(address, /tab=revisions.*revision=1.*with=3/);
    await page.reload();
    await compared.getByText('/actions').waitFor();
    t.equal(await told(compared), differences, 'after a reload');
    await axeInBothSchemes(t, page, 'two revisions compared');

    await page.getByLabel('Revision', { exact: true }).fill('1');
    await page.getByLabel('with revision').fill('2');
    await page.keyboard.press('Enter');
    await compared.getByText('From revision 1 to 2').waitFor();
    await compared.getByText('/actions').waitFor();
    t.notMatch(await told(compared), /conditions/);
    await page.goBack();
    await compared.getByText('From revision 1 to 3').waitFor();
    await go(page, `policies?id=${id}&tab=revisions&revision=2&with=3`);
    const differing = compared.locator('.differences');
    await differing.waitFor();
    t.equal(
      await told(differing),
      await told(list.locator(':scope > li').first().locator('.differences')),
      'what the page compares differs as the service says that it does',
    );
    await page.getByRole('link', { name: 'Text of Revision 1' }).click();
    await page.getByRole('region', { name: 'Revision 1' }).getByText('"Nobody needs one."').waitFor();
  });

  browserTest('an earlier revision is put back, in view of what changes', {}, async (t, open) => {
    const conditions = { tool: 'pay' };
    const id = await create({ name: 'goes back', type: 'block_action', actions: ['log'], conditions });
    await api.patch(`/v1/policies/${id}`, { actions: ['block'], description: 'In earnest.' });
    const { page } = await open();
    await signIn(page, service);
    await go(page, `policies?id=${id}&tab=revisions`);
    await page.getByRole('button', { name: 'Restore revision 1' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('/description').waitFor();
    t.match(await told(dialog), '/actions before: ["block"] after: ["log"]');
    await axeInBothSchemes(t, page, 'a revision about to be put back');
    t.match(JSON.parse(await textOf(id)), { revision: 2 }, 'nothing is done yet');
    await dialog.getByRole('button', { name: 'Restore' }).click();
    await page.getByText('put revision 1 back').waitFor();
    const now = JSON.parse(await textOf(id));
    t.match(now, { revision: 3, actions: ['log'], conditions });
    t.notOk('description' in now);
    const audit = (await api.get(`/v1/audit-logs?resource_id=${id}`)).json;
    t.match(audit.logs[0], { action: 'policy.updated', details: { restored_from: 1 } });
  });

  browserTest(
    'of two who change one wins, and the other sees who was faster and what now stands',
    { mayFail: /412/ },
    async (t, open) => {
      const amount = (gt: number) => ({ conditions: { 'payload.amount': { gt } } });
      const id = await create({ name: 'contested', type: 'block_action', actions: ['log'], ...amount(1) });
      const { page } = await open();
      await signIn(page, service);
      await go(page, `policies?id=${id}`);
      await page.getByRole('button', { name: 'Change' }).click();
      const dialog = page.getByRole('dialog');
      await (await conditionsText(dialog)).fill('{ "payload.amount": { "gt": 3 } }');
      await api.patch(`/v1/policies/${id}`, amount(2));
      await api.patch(`/v1/policies/${id}`, { actions: ['alert'] });
      await dialog.getByRole('button', { name: 'Save' }).click();
      const conflict = dialog.getByRole('region', { name: 'Another change came first' });
      await conflict.getByText('what now stands').waitFor();
      await conflict.getByText('bootstrap key').first().waitFor();
      const faster = await told(conflict);
      t.match(faster, /bootstrap key updated it to revision 3/);
      t.match(faster, '/conditions/payload.amount/gt before: 1 after: 2');
      t.match(faster, '/actions before: ["log"] after: ["alert"]');
      t.match(JSON.parse(await textOf(id)), { revision: 3, ...amount(2) }, 'nothing was changed by it');
      t.match(await dialog.getByLabel('Conditions (JSON)').inputValue(), /"gt": 3/, 'what was written is still there');
      await axeInBothSchemes(t, page, 'a conflict');
      await conflict.getByRole('button', { name: 'Go on from revision 3' }).click();
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
      t.match(JSON.parse(await textOf(id)), { revision: 4, ...amount(3) });

      await page.getByRole('link', { name: 'Revisions' }).click();
      await page.getByRole('button', { name: 'Restore revision 1' }).click();
      await api.patch(`/v1/policies/${id}`, { severity: 'high' });
      await dialog.getByRole('button', { name: 'Restore' }).click();
      await conflict.getByText('/severity').waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      t.match(JSON.parse(await textOf(id)), { revision: 5 });
      for (const action of ['Switch off', 'Delete']) {
        await go(page, `policies?id=${id}`);
        await page.getByRole('complementary').getByRole('button', { name: action }).click();
        await api.patch(`/v1/policies/${id}`, { description: `before ${action}` });
        await dialog.getByRole('button', { name: action }).click();
        await conflict.getByText('/description').waitFor();
      }
      t.match(JSON.parse(await textOf(id)), { revision: 7, status: 'active' });
    },
  );

  browserTest('numbers stay as they were written, through the editor and in differences', {}, async (t, open) => {
    const id = await create(
      `{"name":"exact","type":"block_action","actions":["log"],"conditions":{"account":${LARGE},"amount":{"gt":${FINE}}}}`,
    );
    const { page } = await open();
    await signIn(page, service);
    await go(page, `policies?id=${id}`);
    const payload = page.getByRole('region', { name: 'Payload' });
    await payload.getByText(LARGE).waitFor();
    await payload.getByText(FINE).waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    const dialog = page.getByRole('dialog');
    t.match(await dialog.getByLabel('Conditions (JSON)').inputValue(), LARGE);
    await dialog.getByRole('checkbox', { name: 'alert' }).check();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    const now = await textOf(id);
    t.ok(now.includes(`"account":${LARGE}`) && now.includes(`"gt":${FINE}`), now);
    t.notMatch(now, /"description"/, 'what was not touched is not made');
    await page.getByRole('link', { name: 'Revisions' }).click();
    const first = page.getByRole('list', { name: 'Revisions, newest first' }).locator(':scope > li').first();
    await first.getByText('/actions').waitFor();
    t.notMatch(await told(first), /conditions|description/, 'and only what was changed was changed');
  });

  browserTest('a policy that was deleted keeps its revisions', { mayFail: /404/ }, async (t, open) => {
    const id = await create({
      name: 'short-lived',
      type: 'block_action',
      actions: ['block'],
      conditions: { tool: 'gone' },
    });
    const blocked = await api.until(
      () => send({ tool: 'gone' }),
      ({ json }) => json.policy_result.outcome === 'blocked',
    );
    await api.delete(`/v1/policies/${id}`);
    const { page } = await open();
    await signIn(page, service);
    await go(page, `event?id=${blocked.json.id}&agent_id=${agent}`);
    const why = page.getByRole('region', { name: 'Why' });
    await why.getByText('now deleted').waitFor();
    await why.getByText('"gone"').waitFor();
    await why.getByRole('link', { name: 'what it said' }).click();
    await page.getByRole('region', { name: 'Revision 1' }).getByText('"short-lived"').waitFor();
    await page.getByText('deleted by').waitFor();
    t.equal(await page.getByRole('button', { name: /^Restore/ }).count(), 0);
    await axeInBothSchemes(t, page, 'a deleted policy');
  });

  browserTest('it is tried on an event that was recorded, and on one that is written there', {}, async (t, open) => {
    await send({ tool: 'wire', arguments: { amount: 5 } });
    const { page } = await open();
    await signIn(page, service);
    await tryDraft(t, page, () => go(page, 'policies?new=1'));
    await go(page, 'policies?try=1');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Event', { exact: true }).selectOption('written');
    await dialog.getByLabel('Payload (JSON)').fill('{ "amount": 9, "account": 1 }');
    await dialog.getByRole('button', { name: 'Try', exact: true }).click();
    await dialog.getByText('by the policies in force would be').waitFor();
    const says = await told(dialog.getByRole('status'));
    t.match(says, /contested .*payload\.amount is more than .*at \/amount/, 'what matches, with its reason');
    t.match(says, /exact did not match .*account ?: “is exactly” does not hold/, 'and what does not, with its own');
    await axeInBothSchemes(t, page, 'an event tried on the policies in force');
    page.once('dialog', (asked) => void asked.accept());
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    t.notMatch(page.url(), /try=/);
  });

  browserTest('a revision is put back by keys alone', {}, async (t, open) => {
    const id = await create({ name: 'by keys', type: 'block_action', actions: ['log'], conditions: { tool: 'keys' } });
    await api.patch(`/v1/policies/${id}`, { actions: ['block'] });
    const { page } = await open();
    await signIn(page, service);
    await page.keyboard.press('Control+k');
    await page.keyboard.type('by keys');
    await page.getByRole('option', { name: /^by keys/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'by keys' }).waitFor();
    await tabTo(page, 'Revisions');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Restore revision 1' }).waitFor();
    await tabTo(page, 'Restore revision 1');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').getByText('/actions').waitFor();
    await tabTo(page, 'Restore');
    await page.keyboard.press('Enter');
    await page.getByText('put revision 1 back').waitFor();
    t.match(JSON.parse(await textOf(id)), { revision: 3, actions: ['log'] });
  });
}

async function tryDraft(t: Test, page: Page, begin: () => Promise<unknown>): Promise<void> {
  await begin();
  const dialog = page.getByRole('dialog');
  const says = dialog.getByRole('status');
  const tryIt = dialog.getByRole('button', { name: 'Try', exact: true });
  await (await conditionsText(dialog)).fill(
    '{ "tool": "wire", "arguments.amount": { "gt": 1000 }, "arguments.to": { "exists": true } }',
  );
  await tryIt.click();
  await dialog.getByText('would not match').waitFor();
  const unmet = await told(says.getByRole('list', { name: 'Conditions that did not hold' }));
  t.match(unmet, /arguments\.amount ?: “is more than” does not hold/);
  t.match(unmet, /arguments\.to ?: “exists” does not hold: no value is there/);
  t.notMatch(unmet, /\btool\b/, 'not what did hold');
  await axeInBothSchemes(t, page, 'an event that does not match');
  await dialog.getByLabel('Event', { exact: true }).selectOption('written');
  await dialog.getByLabel('Type of the event').selectOption('tool_call');
  await dialog.getByLabel('Payload (JSON)').fill('{ "tool": "wire", "arguments": { "amount": 1000.5, "to": "me" } }');
  await dialog.getByRole('checkbox', { name: 'block' }).check();
  await tryIt.click();
  await dialog.getByText('would match, and by this policy alone be').waitFor();
  t.match(await told(says), /blocked .*arguments\.amount is more than .*at \/arguments\/amount/);
  await dialog.getByLabel('Payload (JSON)').fill('{ "tool": ');
  await tryIt.click();
  await dialog.getByText('This is no JSON: payload.').waitFor();
}

if (skip !== false) t.plan(0, skip);
else await policies();
