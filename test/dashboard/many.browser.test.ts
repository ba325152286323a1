// Pages of accounts with more agents, policies and entries than one page of a list holds, in a real browser against the
// whole service: names are those of what is on screen, fields find what they do not list, counts are what was counted,
// links open what they name, and who did something is called by their label.
import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

const AGENTS = 131;
/** More than there are counts by value. */
const POLICIES = 60;

/** Resolves when `condition` holds in the page. */
const until = (page: Page, condition: string) =>
  page.evaluate(`new Promise((done) => {
    const look = () => (${condition} ? done() : requestAnimationFrame(look));
    look();
  })`);

/** Says whether a chart has all these colours. */
const DRAWN = `(colours) => {
  const canvas = document.querySelector('.plot canvas');
  if (canvas === null) return false;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add('rgb(' + data[i] + ', ' + data[i + 1] + ', ' + data[i + 2] + ')');
  return colours.every((colour) => seen.has(colour));
}`;

async function many(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const register = async (name: string) => (await api.post('/v1/agents', { name })).json.id as string;
  const create = async (body: object) => (await api.post('/v1/policies', body)).json.id as string;
  const block = (name: string, more: object = {}) => {
    return { name, type: 'block_action', conditions: { tool: name }, actions: ['block'], ...more };
  };
  const oldest = await register('aaa-oldest');
  const policy = await create(block('of the oldest', { agent_id: oldest }));
  for (let i = 0; i < AGENTS - 1; i++) await register(`zzz-${i}`);

  browserTest('a policy of one agent says so, and changing it keeps it', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, `policies?id=${policy}`);
    await page.getByRole('complementary').getByText('aaa-oldest').waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    const scope = page.getByRole('dialog').getByLabel('Applies to');
    await until(page, 'document.querySelector("dialog input[list]").value === "aaa-oldest"');
    t.ok(await scope.isDisabled());
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    t.equal((await api.get(`/v1/policies/${policy}`)).json.agent_id, oldest);
  });

  browserTest('fields find an agent that they do not list', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    const dialog = page.getByRole('dialog');
    const suggested = (field: Locator) =>
      field.evaluate((input) =>
        [...(input as unknown as { list: { options: { value: string }[] } }).list.options].map(({ value }) => value),
      );
    const choose = async (label: string) => {
      const field = dialog.getByRole('combobox', { name: label, exact: true });
      await field.waitFor();
      await dialog.getByText(`100 of ${AGENTS} agents are suggested`).first().waitFor();
      t.equal((await suggested(field)).length, 100);
      await field.fill('nobody is called so');
      await dialog.getByText('No agent has this in its name.').waitFor();
      t.notOk(await field.evaluate((input) => (input as unknown as { checkValidity(): boolean }).checkValidity()));
      await field.fill('OLDEST');
      await until(page, 'document.activeElement.list.options.length === 1');
      t.same(await suggested(field), ['aaa-oldest'], 'looked for among all of them');
      await page.keyboard.press('Enter');
      await until(page, 'document.activeElement.value === "aaa-oldest"');
      t.ok(await dialog.isVisible(), 'Enter chooses, and sends nothing');
    };
    await go(page, 'policies?new=1');
    await choose('Applies to');
    await axeInBothSchemes(t, page, 'a field that searches');
    await dialog.getByLabel('Name').fill('made for one');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    const [made] = (await api.get('/v1/policies?q=MADE%20for')).json.items;
    t.match(made, { agent_id: oldest });
    await go(page, 'policies?new=1');
    const scope = dialog.getByRole('combobox', { name: 'Applies to' });
    await dialog.getByLabel('Name').fill('made for none');
    for (const [written, chosen] of [
      ['nobody', undefined],
      [oldest, 'aaa-oldest'],
    ] as const) {
      await scope.fill(written);
      await dialog.getByRole('button', { name: 'Save' }).click();
      if (chosen === undefined) t.ok(await dialog.isVisible(), 'what is no agent is not taken for all of them');
      else await dialog.waitFor({ state: 'detached' });
    }
    t.match(
      (await api.get('/v1/policies?q=for%20none')).json,
      { total: 1, items: [{ agent_id: oldest }] },
      'by its id',
    );
    await go(page, 'alerts');
    await page.getByRole('button', { name: 'New alert' }).click();
    await choose('Agent');
    await go(page, 'settings');
    await page.getByRole('button', { name: 'New key' }).click();
    await choose('Bound to an agent');
    await go(page, 'policies?new=1');
    await choose('Of which agent');
    await go(page, 'policies?try=1');
    await dialog.getByLabel('Event', { exact: true }).selectOption('written');
    await choose('Agent of the event');
  });

  browserTest('a chart of more agents than there are colours draws the others as one', {}, async (t, open) => {
    const { items } = (await api.get('/v1/agents?limit=12')).json as { items: { id: string }[] };
    for (const [n, { id }] of items.entries())
      for (let i = 0; i <= n; i++) await api.post(`/v1/agents/${id}/events`, { type: 'custom', payload: { i } });
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'events?by=agent_id&type=custom');
    const legend = page.getByRole('figure', { name: 'Events over time by agent_id' }).locator('.legend > span');
    await legend.getByText('others').waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const colours = await legend
        .locator('.swatch')
        .evaluateAll((marks) =>
          marks.map((mark) => (mark as unknown as { style: { background: string } }).style.background),
        );
      t.equal(colours.length, 9);
      t.equal(new Set(colours).size, 9, `each has its own, ${colorScheme}`);
      await until(page, `(${DRAWN})(${JSON.stringify(colours)})`);
    }
  });

  browserTest('the list of agents is sorted as a whole, by its heads', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'agents');
    await page.getByRole('row', { name: /^zzz-/ }).first().waitFor();
    t.equal(await page.getByRole('row').count(), 51, 'a page of them');
    const head = (name: string) => page.getByRole('columnheader', { name });
    await head('Agent').getByRole('button').focus();
    await page.keyboard.press('Enter');
    await page.getByRole('row').nth(1).getByText('aaa-oldest').waitFor();
    await until(page, `document.querySelectorAll('tbody tr').length === ${AGENTS}`);
    t.equal(await head('Agent').getAttribute('aria-sort'), 'ascending');
    t.match(page.url(), /sort=Agent/);
    t.match((await page.getByRole('row').nth(3).textContent()) ?? '', /^zzz-1\b/, 'numbers in names by their size');
    await axeInBothSchemes(t, page, 'a sorted list');
    await page.keyboard.press('Enter');
    await page.getByRole('row').nth(1).getByText('zzz-129').waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => !url.searchParams.has('sort'));
    await head('Events').getByRole('button').click();
    await page.locator('th[aria-sort=descending]').waitFor();
    const counts = await page.locator('tbody tr td:nth-of-type(4)').allInnerTexts();
    t.same(
      counts,
      [...counts].sort((a, b) => Number(b) - Number(a)),
      'the most first',
    );
    await page.reload();
    await page.locator('th[aria-sort=descending]').waitFor();
  });

  browserTest('events, filters, the palette and the list of agents know all by their names', {}, async (t, open) => {
    await api.post(`/v1/agents/${oldest}/events`, { type: 'prompt', trace_id: 'of-the-oldest', payload: { n: 1 } });
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await page
      .getByRole('link', { name: /prompt allowed .*aaa-oldest/ })
      .first()
      .waitFor();
    await go(page, `anomalies?agent_id=${oldest}`);
    await page.getByRole('button', { name: 'Remove the filter agent aaa-oldest' }).waitFor();
    await page.locator('summary').filter({ hasText: 'Agent' }).click();
    const menu = page.getByRole('group', { name: 'Agent' });
    await menu.getByLabel('aaa-oldest').waitFor();
    t.ok(await menu.getByLabel('aaa-oldest').isChecked(), 'what is chosen is there');
    await menu.getByText(`And ${AGENTS - 100} more`).waitFor();
    await menu.getByLabel('Search: Agent').fill('zzz-0');
    await menu.getByLabel('zzz-0').check();
    await page.waitForURL((url) => url.searchParams.getAll('agent_id').length === 2);
    await go(page, 'traces');
    await page.getByRole('link', { name: /aaa-oldest/ }).waitFor();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('aaa-old');
    await page.getByRole('option', { name: /^aaa-oldest/ }).waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL((url) => url.searchParams.get('id') === oldest);
    for (const q of ['AAA-old', oldest]) {
      await go(page, `agents?q=${q}`);
      await page.getByRole('row', { name: /aaa-oldest/ }).waitFor();
      t.equal(await page.getByRole('row').count(), 2);
    }
    await go(page, 'agents?q=nobody');
    await page.getByText('No agent has “nobody” in its name.').waitFor();
  });

  browserTest('each policy says how often it matched, however many there are', {}, async (t, open) => {
    const agent = await register('busy');
    const ids: string[] = [];
    for (let i = 0; i < POLICIES; i++)
      ids.push(await create(block(`rule-${i}`, { conditions: { 'payload.n': { gte: i } }, actions: ['log'] })));
    await api.until(
      () => api.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: { n: POLICIES } }),
      ({ json }) => json.policy_result.matches.length === POLICIES,
    );
    for (let n = 0; n < POLICIES; n += 20)
      await api.post(
        `/v1/agents/${agent}/events/batch`,
        Array.from({ length: 20 }, (_, i) => ({ type: 'custom', payload: { n: n + i } })),
      );
    const totals = new Map<string, number>();
    for (const id of ids) totals.set(id, (await api.get(`/v1/events?limit=1&policy_id=${id}`)).json.total);
    t.ok(Math.min(...totals.values()) > 0 && new Set(totals.values()).size > 50);
    for (const id of ids.slice(10, 40)) await api.delete(`/v1/policies/${id}`);
    const { page } = await open();
    await signIn(page, service);
    const seen = new Map<string, string>();
    const read = async () => {
      for (const row of await page.getByRole('row').all()) {
        const name = /^rule-\d+/.exec(await told(row))?.[0];
        if (name !== undefined) seen.set(name, await told(row.getByRole('cell').nth(3)));
      }
    };
    await go(page, 'policies?q=RULE');
    await page.getByText('rule-59').waitFor();
    await api.until(
      async () => {
        await read();
        return api.get('/v1/session');
      },
      () => [...seen.values()].every((count) => count !== '…'),
    );
    t.equal(seen.size, POLICIES - 30);
    for (const [i, id] of ids.entries())
      if (i < 10 || i >= 40) t.equal(seen.get(`rule-${i}`), totals.get(id)!.toLocaleString('en'), `rule-${i}`);
    await axeInBothSchemes(t, page, 'counts of policies');

    // The deleted ones have places among the most frequent: what is left is said to be others.
    await go(page, 'events');
    await page.locator('summary').filter({ hasText: 'Policy' }).click();
    const menu = page.getByRole('group', { name: 'Policy' });
    await menu.getByText(/^Others, not shown here: [\d,]+ events\.$/).waitFor();
    await menu.getByLabel('Search: Policy').fill('rule-59');
    await menu.getByLabel('rule-59').check();
    await page.getByRole('button', { name: 'Remove the filter policy rule-59' }).waitFor();
  });

  browserTest('what cannot be counted is not said to be none', { mayFail: /503|Failed to load/ }, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    let answers = 0;
    await page.route(/activity=true/, async (route) => {
      if (answers++ === 0) await new Promise((resolve) => setTimeout(resolve, 500));
      await route.fulfill({ status: 503, json: { error: { code: 'unavailable', message: 'Away.', request_id: 'x' } } });
    });
    await go(page, 'policies?q=of%20the%20oldest');
    const cell = page
      .getByRole('row', { name: /of the oldest/ })
      .getByRole('cell')
      .nth(3);
    await cell.getByText('…').waitFor();
    await cell.getByText('not known').waitFor();
    t.ok(answers > 0);
  });

  browserTest(
    'a link to an entry of the audit log opens it, however old it is',
    { mayFail: /404/ },
    async (t, open) => {
      const { logs } = (await api.get('/v1/audit-logs?order=asc&limit=3&resource_type=agent')).json;
      const first = logs[0] as { id: string; action: string; resource_id: string };
      t.equal(first.resource_id, oldest);
      const { page } = await open();
      await signIn(page, service);
      const entry = page.getByRole('complementary', { name: 'Open entry' });
      for (const place of [`audit?id=${first.id}`, `audit?id=${first.id}&submissions=all&action=policy.created`]) {
        await go(page, place);
        await entry.getByRole('heading', { name: 'agent.registered' }).waitFor();
        await entry.getByRole('link', { name: oldest }).waitFor();
      }
      await axeInBothSchemes(t, page, 'an old entry');
      await go(page, 'events');
      await page.getByRole('heading', { name: 'Events', exact: true }).waitFor();
      await page.keyboard.press('Control+k');
      await page.keyboard.type(first.id);
      await page.getByRole('option', { name: first.id }).waitFor();
      await page.keyboard.press('Enter');
      await entry.getByRole('heading', { name: 'agent.registered' }).waitFor();
      await go(page, 'audit?id=log_00000000000000000000000000');
      await entry.getByText('No such entry').waitFor();
      await entry.getByRole('button', { name: 'Close' }).click();
      await entry.waitFor({ state: 'detached' });
    },
  );

  browserTest('who did something is called by the label of the key', { mayFail: /409|stream/ }, async (t, open) => {
    const made = (await api.post('/v1/api-keys', { label: 'Ines of finance', scope: 'write' })).json;
    const ines = api.as(made.key);
    const ask = await create({
      ...{ name: 'refunds', type: 'require_approval', actions: ['alert'] },
      conditions: { tool: 'refund', timeout: '1h' },
    });
    const waits: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { json } = await api.until(
        () => api.post(`/v1/agents/${oldest}/events`, { type: 'tool_call', payload: { tool: 'refund', n } }),
        ({ json: sent }) => sent.policy_result.outcome === 'pending',
      );
      waits.push(json.policy_result.approval_id);
    }
    await ines.post(`/v1/approvals/${waits[0]}`, { decision: 'approve', comment: 'fine' });
    await ines.patch(`/v1/policies/${ask}`, { severity: 'low' });
    await api.delete(`/v1/api-keys/${made.id}`);
    const { page } = await open();
    await signIn(page, service);
    const by = (scope = page.locator('main')) => scope.getByText('Ines of finance').first();
    await go(page, `approvals?id=${waits[0]}`);
    await by().waitFor();
    await page.locator('main').getByTitle(`key:${made.id}`).first().waitFor();
    t.match(await told(page.getByRole('complementary')), /approved by Ines of finance/);
    t.notMatch(await told(page.locator('main')), made.id);
    await go(page, `approvals?id=${waits[1]}`);
    await by(page.getByRole('region', { name: 'Past decisions' })).waitFor();
    await go(page, `policies?id=${ask}&tab=revisions`);
    const list = page.getByRole('list', { name: 'Revisions, newest first' });
    await list.getByText('Ines of finance').waitFor();
    t.match(await told(list), /Revision 2 updated by Ines of finance/);
    await go(page, `audit?resource_id=${ask}`);
    await page.getByRole('link', { name: /policy\.updated .*Ines of finance/ }).click();
    await by(page.getByRole('complementary', { name: 'Open entry' })).waitFor();

    // An agent is called by its name, and a decision that came first says whose it was.
    await go(page, `audit?resource_id=${oldest}`);
    await page.getByRole('link', { name: /agent\.registered/ }).waitFor();
    await go(page, `approvals?id=${waits[2]}`);
    await page.getByRole('button', { name: 'Approve a' }).click();
    await page.getByRole('button', { name: 'Yes, approve' }).waitFor();
    // The other decides between the choice and Enter; this page does not get it in time.
    await page.route('**/v1/stream*', (route) => route.abort());
    await api.post(`/v1/approvals/${waits[2]}`, { decision: 'deny' });
    await page.keyboard.press('Enter');
    await page
      .getByText(/It was denied by bootstrap key before\.|denied by bootstrap key/)
      .first()
      .waitFor();
  });

  browserTest(
    'who promotes a shadow sees what others changed in the policy since',
    { mayFail: /412/ },
    async (t, open) => {
      const conditions = { tool: ['pay', 'send'], 'payload.amount': { gt: 1000 } };
      const id = await create(block('raced by two', { conditions }));
      const copy = { ...conditions, 'payload.amount': { gt: 500 } };
      const shadow = await create(block('lower', { conditions: copy, mode: 'shadow', shadow_of: id }));
      await api.patch(`/v1/policies/${id}`, { conditions: { ...conditions, tool: ['pay', 'send', 'wire'] } });
      t.match(await api.call('POST', `/v1/policies/${shadow}/promote`, { headers: { 'If-Match': '"1"' } }), {
        ...{ status: 412, json: { error: { code: 'revision_conflict', details: [{ path: 'original_revision' }] } } },
      });
      const { page } = await open();
      await signIn(page, service);
      await go(page, `policies?id=${shadow}&tab=report`);
      await page.getByRole('button', { name: 'Promote' }).click();
      const dialog = page.getByRole('dialog');
      const meanwhile = dialog.getByRole('region', { name: 'Changed meanwhile' });
      await meanwhile.getByText('/conditions/tool').waitFor();
      t.match(await told(meanwhile), /made of revision 1 of raced by two, which is at revision 2 now/);
      t.match(await told(meanwhile), '/conditions/tool before: ["pay","send"] after: ["pay","send","wire"]');
      await axeInBothSchemes(t, page, 'a shadow of a policy that was changed since');
      await api.patch(`/v1/policies/${id}`, { status: 'inactive' });
      await dialog.getByRole('button', { name: 'Promote' }).click();
      await dialog
        .getByRole('alert')
        .getByText(/at revision 3 and switched off/)
        .waitFor();
      t.match((await api.get(`/v1/policies/${id}`)).json, { revision: 3 }, 'nothing is promoted unseen');
      await dialog.getByRole('button', { name: 'Look at revision 3' }).click();
      await dialog.getByText('It is switched off, and stays so:').waitFor();
      await dialog.getByRole('button', { name: 'Promote' }).click();
      await page.waitForURL((url) => url.searchParams.get('id') === id);
      t.match((await api.get(`/v1/policies/${id}`)).json, { revision: 4, status: 'inactive', conditions: copy });

      await go(page, `policies?id=${id}&tab=revisions`);
      await page.getByRole('button', { name: 'Restore revision 1' }).click();
      await dialog.getByText('The policy is switched off, and stays so.').waitFor();
      await dialog.getByRole('button', { name: 'Restore' }).click();
      await dialog.waitFor({ state: 'detached' });
      t.match((await api.get(`/v1/policies/${id}`)).json, { revision: 5, status: 'inactive', conditions });
    },
  );
}

if (skip !== false) t.plan(0, skip);
else await many();
