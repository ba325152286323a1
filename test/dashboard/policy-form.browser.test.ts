// A policy that is made without JSON, in a real browser against the whole service: while one writes it says what the
// policy would have matched; form and JSON follow each other. On a wide and a narrow screen, by keys too, and everyone
// can read it (axe).
import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { conditionsText, tabTo, told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

const WIDTHS = [1280, 360];
/** By the clock of the browser. */
const TODAY = "new Intl.DateTimeFormat('sv').format(new Date())";

async function form(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const send = (payload: object) => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload });
  for (let n = 1; n <= 12; n++) await send({ tool: 'send_money', arguments: { amount: n * 250 } });
  await send({ tool: 'read_file', path: '/etc/passwd', depth: 2 });
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const isWide = (page: Page) => page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth');
  const preview = (page: Page) => page.getByRole('region', { name: 'What it would have matched' });

  for (const width of WIDTHS) {
    const viewport = { width, height: 800 };

    browserTest(`while one writes it says what it would have matched, ${width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport });
      await signIn(page, service);
      await go(page, 'policies?new=1');
      const dialog = page.getByRole('dialog');
      await preview(page).getByText('Would have matched 0 of the last 13 events.').waitFor();
      const tool = dialog.getByLabel('Value of condition 2');
      await tool.fill('send_money');
      await dialog.getByRole('button', { name: 'Add a condition' }).click();
      await dialog.getByLabel('Field of condition 3').fill('payload.arguments.amount');
      await dialog.getByLabel('Comparison of condition 3').selectOption({ label: 'is more than' });
      await dialog.getByLabel('Value of condition 3').fill('1000');
      await preview(page).getByText('Would have matched 8 of the last 13 events.').waitFor();
      const links = preview(page).getByRole('link');
      t.equal(await links.count(), 5, 'with the first of them');
      const newest = (await api.get('/v1/events?limit=2&payload=none')).json.items[1] as {
        id: string;
        summary: string;
      };
      t.match(await told(links.first()), newest.summary.slice(0, 20), 'by what they say');
      t.match(await links.first().getAttribute('href'), newest.id);
      await axeInBothSchemes(t, page, `a preview, ${width} px`);
      const suggested = (id: string | null) =>
        page.evaluate<string[]>(
          `[...document.getElementById(${JSON.stringify(id)}).options].map(({ value }) => value)`,
        );
      t.same((await suggested(await tool.getAttribute('list'))).sort(), ['read_file', 'send_money'], 'recorded tools');
      t.ok((await suggested('policy-fields')).includes('payload.arguments.amount'), 'and recorded fields');
      await tool.fill('read_file');
      await dialog.getByRole('button', { name: 'Remove condition 3' }).click();
      await preview(page).getByText('Would have matched 1 of the last 13 events.').waitFor();
      t.match(await told(preview(page)), '/etc/passwd');
      t.equal((await api.get('/v1/policies')).json.total, 0, 'nothing is kept');
      t.notOk(await isWide(page), 'nothing stands out of the page');
    });

    browserTest(`form and JSON follow each other, and the tab stays, ${width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport });
      await signIn(page, service);
      await go(page, 'policies?new=1');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Value of condition 2').fill('refund');
      const json = await conditionsText(dialog);
      t.match(await json.inputValue(), '"payload.tool": "refund"', 'the JSON has what the form was given');
      await json.fill('{\n  "type": "tool_call",\n  "payload.tool": ["read_file", "ls"],\n  "payload.depth": 2.0\n}');
      await preview(page).getByText('Would have matched 1 of').waitFor();
      await axeInBothSchemes(t, page, `the JSON of a policy, ${width} px`);
      await tabTo(page, 'JSON');
      await page.keyboard.press('ArrowLeft');
      await dialog.getByRole('group', { name: 'Condition 3' }).waitFor();
      t.equal(await dialog.getByLabel('Value of condition 3').inputValue(), '2.0', 'a value as it was written');
      t.equal(await dialog.getByRole('tab', { name: 'Form' }).getAttribute('aria-selected'), 'true');
      t.equal(await page.evaluate('document.activeElement.textContent'), 'Form', 'by keys');
      await page.keyboard.press('ArrowRight');
      await json.waitFor();
      await page.goto('about:blank');
      await go(page, 'policies?new=1');
      t.equal(await dialog.getByRole('tab', { name: 'JSON' }).getAttribute('aria-selected'), 'true', 'what was chosen');
      t.ok(await json.isVisible());
    });
  }

  for (const width of WIDTHS)
    browserTest(`a policy is made of an event, ${width} px`, {}, async (t, open) => {
      const sent = await api.post(
        `/v1/agents/${agent}/events`,
        '{"type":"tool_call","payload":{"tool":"wire","account":653247040368672769,"arguments":{"amount":1000.0}}}',
      );
      await api.get('/v1/events?limit=1');
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      await go(page, `event?agent_id=${agent}&id=${sent.json.id}`);
      await page.getByText('Make a policy of this').click();
      const isPicked = (name: string) => page.getByRole('checkbox', { name }).isChecked();
      for (const name of ['type', 'payload.tool']) t.ok(await isPicked(name), name);
      t.notOk(await isPicked('payload.account'));
      for (const name of ['payload.account', 'payload.arguments.amount'])
        await page.getByRole('checkbox', { name }).check();
      await axeInBothSchemes(t, page, `what a policy is made of, ${width} px`);
      await page.getByRole('link', { name: 'Open it in the editor' }).click();
      const dialog = page.getByRole('dialog');
      await preview(page)
        .getByText(/Would have matched \d+ of/)
        .waitFor();
      t.notMatch(page.url(), /wire|6532/, 'no value is in the address');
      t.equal(await dialog.getByRole('combobox', { name: 'Type' }).first().inputValue(), 'block_action');
      t.same(
        JSON.parse((await dialog.getByLabel('Conditions (JSON)').inputValue()).replace(/:\s*(\d[\d.]+)/g, ':"$1"')),
        {
          ...{ type: 'tool_call', 'payload.tool': 'wire' },
          ...{ 'payload.account': '653247040368672769', 'payload.arguments.amount': '1000.0' },
        },
        'with the digits that were sent',
      );
      t.match(await dialog.getByLabel('Event', { exact: true }).inputValue(), sent.json.id, 'to be tried on it');
      await dialog.getByLabel('Name').fill(`like this one, ${width}`);
      await dialog.getByRole('button', { name: 'Save' }).click();
      await page.getByRole('link', { name: `like this one, ${width}` }).waitFor();
      const [made] = (await api.get(`/v1/policies?q=${width}`)).json.items;
      t.match(made, { type: 'block_action', actions: ['block'], mode: 'enforce', agent_id: null });
      await api.delete(`/v1/policies/${made.id}`);
    });

  for (const how of ['the mouse', 'keys'])
    browserTest(`from an event its tool is forbidden for its agent from tomorrow, by ${how}`, {}, async (t, open) => {
      const width = how === 'keys' ? 1280 : 360;
      const sent = (await send({ tool: 'say "wire"', arguments: { amount: 7 } })).json;
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      await go(page, `events?id=${sent.id}&of=${agent}`);
      const forbid = page.getByRole('link', { name: 'Forbid this tool' });
      await forbid.waitFor();
      await axeInBothSchemes(t, page, `an event of a tool, ${width} px`);
      if (how === 'keys') await page.keyboard.press('x');
      else await forbid.click();
      const dialog = page.getByRole('dialog');
      await dialog.waitFor();
      t.notMatch(page.url(), 'wire', 'no value is in the address');
      t.equal(await dialog.getByLabel('Name').inputValue(), 'no say "wire" for payer');
      t.equal(await dialog.getByLabel('Applies to').inputValue(), 'payer');
      const later = dialog.getByLabel('Save it');
      if (how === 'keys') {
        await later.focus();
        await page.keyboard.press('ArrowDown');
        await dialog.getByLabel('Name').focus();
        await page.keyboard.press('Enter');
      } else {
        await later.selectOption({ label: 'in force from a time on' });
        await dialog.getByRole('button', { name: 'Save' }).click();
      }
      await page.getByText('from tomorrow 00:00').waitFor();
      const [made] = (await api.get('/v1/policies?q=say')).json.items;
      t.match(made, { type: 'block_action', actions: ['block'], agent_id: agent, mode: 'enforce' });
      t.same(made.conditions, { type: 'tool_call', 'payload.tool': 'say "wire"' });
      t.notOk(await isWide(page), 'nothing stands out of the page');
      await api.delete(`/v1/policies/${made.id}`);
      const other = (await api.post(`/v1/agents/${agent}/events`, { type: 'custom', payload: { tool: 'x' } })).json;
      await go(page, `event?agent_id=${agent}&id=${other.id}`);
      await page.getByText('Make a policy of this').waitFor();
      t.equal(await forbid.count(), 0, 'what calls no tool has no such link');
    });

  for (const width of WIDTHS)
    browserTest(
      `a ready policy is tried as a shadow by one click, ${width} px`,
      { mayFail: /409/ },
      async (t, open) => {
        const { page } = await open({ viewport: { width, height: 800 } });
        await signIn(page, service);
        await go(page, 'policies');
        await page.getByRole('button', { name: 'Ready policies' }).click();
        const dialog = page.getByRole('dialog');
        const tried = dialog.getByRole('button', { name: /^Try it as a shadow/ });
        await tried.first().waitFor();
        t.equal(await tried.count(), 15, 'sequences, too');
        await axeInBothSchemes(t, page, `ready policies, ${width} px`);
        await dialog.getByRole('button', { name: /large payments need approval/ }).click();
        await dialog.getByRole('link', { name: /large payments need approval/ }).click();
        await page.getByRole('heading', { name: 'large payments need approval' }).waitFor();
        const [made] = (await api.get('/v1/policies?q=large%20payments')).json.items;
        t.match(made, { mode: 'shadow', type: 'require_approval', status: 'active' });
        const { items } = (await api.get('/v1/policies/ready')).json;
        const file = items.find(({ name }: { name: string }) => name === made.name);
        t.same(made.conditions, file.policy.conditions, 'as it stands in the file');
        await go(page, 'policies?ready=1');
        await dialog.getByRole('button', { name: /large payments need approval/ }).click();
        await dialog.getByText('Another policy has this name').waitFor();
        t.equal((await api.get('/v1/policies')).json.total, 1, 'and nothing is made twice');
        await api.delete(`/v1/policies/${made.id}`);
      },
    );

  for (const width of WIDTHS)
    browserTest(`a tool is forbidden for one agent from tomorrow, ${width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      await go(page, 'policies?new=1');
      const dialog = page.getByRole('dialog');
      await dialog.getByLabel('Name').fill(`no wires ${width}`);
      await dialog.getByLabel('Applies to').fill('payer');
      await dialog.getByLabel('Value of condition 2').fill('wire');
      await dialog.getByLabel('Save it').selectOption({ label: 'in force from a time on' });
      const from = dialog.getByRole('textbox', { name: /^In force from/ });
      await dialog.getByText('Time in Europe/Berlin').waitFor();
      const today = await page.evaluate<string>(TODAY);
      t.ok((await from.inputValue()) > `${today}T23:59`, 'tomorrow at first');
      t.match(await from.inputValue(), /T00:00$/);
      t.ok(await dialog.getByRole('checkbox', { name: 'block', exact: true }).isChecked(), 'what its type is called');
      await axeInBothSchemes(t, page, `a policy for later, ${width} px`);
      await dialog.getByRole('button', { name: 'Save' }).click();
      const row = page.getByRole('row', { name: `no wires ${width}` });
      await row.getByText('from tomorrow 00:00').waitFor();
      t.equal(await row.getByText('active', { exact: true }).count(), 0, 'it is not in force');
      await axeInBothSchemes(t, page, `a policy that waits, ${width} px`);
      const [made] = (await api.get(`/v1/policies?q=wires%20${width}`)).json.items;
      const midnight = await page.evaluate<string>('new Date(new Date().setHours(24, 0, 0, 0)).toISOString()');
      t.match(made, { agent_id: agent, actions: ['block'], starts_at: midnight }, 'by the clock of the browser');
      t.match((await send({ tool: 'wire' })).json.policy_result, { outcome: 'allowed' }, 'until then it may');
      t.notOk(await isWide(page), 'nothing stands out of the page');

      await page.getByRole('button', { name: 'Try an event' }).click();
      await dialog.getByRole('button', { name: 'Try', exact: true }).click();
      await dialog.getByText(/is not in force yet, from \d{4}-/).waitFor();
      await page.keyboard.press('Escape');

      await row.getByRole('link', { name: `no wires ${width}` }).click();
      await page.getByText('In force from').waitFor();
      await page.getByRole('button', { name: 'Change' }).click();
      t.equal(await dialog.getByLabel('Save it').inputValue(), 'later', 'as it is');
      await from.fill('2998-12-31T23:30');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await page.getByText('from 2998-12-31 23:30').first().waitFor();
      await page.getByRole('button', { name: 'Change' }).click();
      await dialog.getByLabel('Save it').selectOption({ label: 'in force at once' });
      await dialog.getByRole('button', { name: 'Save' }).click();
      await page.getByText('from 2998-12-31 23:30').first().waitFor({ state: 'detached' });
      t.notOk('starts_at' in (await api.get(`/v1/policies/${made.id}`)).json);
      t.match((await send({ tool: 'wire' })).json.policy_result, { outcome: 'blocked' }, 'from now on it may not');
      await api.delete(`/v1/policies/${made.id}`);
    });

  /** A new policy of a type, saved as it was written; what is stored then. */
  const made = async (page: Page, type: string, name: string, write: (dialog: Locator) => Promise<void>) => {
    await go(page, 'policies?new=1');
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('combobox', { name: 'Type' }).first().selectOption(type);
    await dialog.getByLabel('Name').fill(name);
    await write(dialog);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('link', { name }).waitFor();
    return (await api.get(`/v1/policies?q=${encodeURIComponent(name)}`)).json.items[0];
  };
  const exactly = { exact: true };

  for (const width of WIDTHS)
    browserTest(`a sequence is made by the form alone, ${width} px`, { mayFail: /400/ }, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      const name = `secrets leave ${width}`;
      const policy = await made(page, 'sequence', name, async (dialog) => {
        const first = dialog.getByRole('group', { name: 'Step 1', ...exactly });
        await dialog.getByLabel('Value of condition 2', exactly).fill('http_post');
        await dialog.getByLabel('Value of condition 1 of step 1').fill('read_file');
        await first.getByRole('button', { name: 'Add a condition of step 1' }).click();
        await dialog.getByLabel('Field of condition 2 of step 1').fill('payload.path');
        await dialog.getByLabel('Comparison of condition 2 of step 1').selectOption({ label: 'is like (* ?)' });
        await dialog.getByLabel('Value of condition 2 of step 1').fill('*.env');
        await first.getByText('What its texts hold').click();
        await first.getByRole('checkbox', { name: 'api_key' }).check();
        await first.getByLabel('What was blocked').selectOption({ label: 'is a step, too' });
        await tabTo(page, 'Add a step');
        await page.keyboard.press('Enter');
        await dialog.getByLabel('Value of condition 1 of step 2').fill('send_money');
        await dialog.getByRole('button', { name: 'Add a step' }).click();
        t.equal(await dialog.getByRole('button', { name: 'Add a step' }).count(), 0, 'three are all');
        await dialog.getByRole('button', { name: 'Remove step 3' }).click();
        await dialog.getByRole('button', { name: 'Add what must not have occurred' }).click();
        await dialog.getByLabel('Value of condition 1 of the exception').fill('ask_a_person');
        await dialog.getByLabel('In the last').fill('10m');
        await dialog.getByLabel('In the events of one').fill('trace');
        for (const path of ['payload.account', 'payload.to']) {
          await dialog.getByRole('button', { name: 'Add an equal value' }).click();
          await dialog.getByLabel('Path now of equal value').last().fill(path);
        }
        await dialog.getByLabel('Path before of equal value 2').fill('payload.arguments.to');
        await dialog.getByLabel('the sum of the numbers at').fill('payload.arguments.amount');
        await dialog.getByLabel('is more than', exactly).fill('10000.50');
        await preview(page).getByText('Would have matched 0 of').waitFor();
        t.equal(await dialog.getByRole('option', { name: 'as a shadow' }).count(), 1, 'it may be one');
        await axeInBothSchemes(t, page, `a sequence, ${width} px`);
        t.notOk(await isWide(page), 'nothing stands out of the page');
      });
      t.match(policy, { type: 'sequence', actions: ['log'], mode: 'enforce' });
      t.same(policy.conditions, {
        ...{ type: 'tool_call', 'payload.tool': 'http_post', within: '10m', per: 'trace' },
        after: [
          {
            ...{ 'payload.tool': 'read_file', 'payload.path': { glob: '*.env' } },
            ...{ detectors: ['api_key'], outcome: 'any' },
          },
          { 'payload.tool': 'send_money' },
        ],
        unless: { 'payload.tool': 'ask_a_person' },
        same: { 'payload.account': 'payload.account', 'payload.to': 'payload.arguments.to' },
        sum: { path: 'payload.arguments.amount', gt: 10000.5 },
      });

      await page.getByRole('link', { name }).click();
      await page.getByRole('button', { name: 'Change' }).click();
      const dialog = page.getByRole('dialog');
      t.equal(await dialog.getByLabel('is more than', exactly).inputValue(), '10000.5');
      t.equal(await dialog.getByLabel('Value of condition 2 of step 1').inputValue(), '*.env');
      const json = await conditionsText(dialog);
      const text = await json.inputValue();
      await json.fill(text.replace('"send_money"', '"wire"').replace(/,\s*"sum": \{[^}]*\}/, ', "at_least": 3'));
      await dialog.getByRole('tab', { name: 'Form' }).click();
      t.equal(await dialog.getByLabel('Value of condition 1 of step 2').inputValue(), 'wire', 'the form follows');
      t.equal(await dialog.getByLabel('The last step at least so often').inputValue(), '3');
      t.equal(await dialog.getByLabel('the sum of the numbers at').inputValue(), '');
      await dialog.getByRole('button', { name: 'Remove the exception' }).click();
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
      const { conditions } = (await api.get(`/v1/policies/${policy.id}`)).json;
      t.match(conditions, { after: [{}, { 'payload.tool': 'wire' }], at_least: 3 });
      t.notOk('unless' in conditions || 'sum' in conditions);
      await api.delete(`/v1/policies/${policy.id}`);
    });

  for (const width of WIDTHS)
    browserTest(`a budget is made by the form alone, ${width} px`, { mayFail: /400/ }, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      const money = await made(page, 'budget', `a month of money ${width}`, async (dialog) => {
        await dialog.getByLabel('May use up').fill('40.50');
        await dialog.getByLabel('In each').fill('month');
        await dialog.getByLabel('Of the time zone').fill('Europe/Berlin');
        await dialog.getByLabel('Of each').fill('payload.user');
        await dialog.getByLabel('A call reserves').selectOption({ label: 'the most possible' });
        await dialog.getByLabel('For at most').fill('5m');
        await dialog.getByLabel('A call without a known price').selectOption({ label: 'is not counted' });
        for (const share of ['0.8', '0.9', '0.95']) {
          await dialog.getByLabel('Another warn_at').fill(share);
          await page.keyboard.press('Enter');
        }
        await dialog.getByRole('button', { name: '0.9 : remove' }).click();
        const json = await conditionsText(dialog);
        t.match(await json.inputValue(), '"limit": "40.50 USD"', 'the JSON follows');
        await dialog.getByRole('tab', { name: 'Form' }).click();
        t.equal(await dialog.getByRole('option', { name: 'as a shadow' }).count(), 1, 'it may be one');
        await axeInBothSchemes(t, page, `a budget, ${width} px`);
        t.notOk(await isWide(page), 'nothing stands out of the page');
      });
      t.same(money.conditions, {
        ...{ limit: '40.50 USD', window: 'month', zone: 'Europe/Berlin', per: 'payload.user' },
        ...{ estimate: 'worst', hold: '5m', unpriced: 'allow', warn_at: [0.8, 0.95] },
      });
      for (const [unit, key] of [
        ['tokens', 'tokens'],
        ['calls', 'events'],
      ] as const) {
        const counted = await made(page, 'budget', `${unit} ${width}`, async (dialog) => {
          await dialog.getByLabel('May use up').fill('200000');
          await dialog.getByLabel('Counted in').selectOption({ label: unit });
          await dialog.getByLabel('In each').fill('1h');
          await dialog.getByLabel('Of the time zone').fill('');
        });
        t.same(counted.conditions, { limit: { [key]: 200_000 }, window: '1h', per: 'agent' });
        await api.delete(`/v1/policies/${counted.id}`);
      }
      await api.delete(`/v1/policies/${money.id}`);
    });

  browserTest('which verdict of a check matches is chosen in the form', { mayFail: /400/ }, async (t, open) => {
    await api.post('/v1/checks', { name: 'guard', speaks: 'presidio', url: 'https://guard.example/', timeout_ms: 300 });
    const { page } = await open({ viewport: { width: 1280, height: 800 } });
    await signIn(page, service);
    const policy = await made(page, 'external_check', 'a guard looks', async (dialog) => {
      const check = dialog.getByLabel('Asks the check');
      await check.fill('guard');
      const suggested = page.locator(`datalist#${await check.getAttribute('list')} option`);
      await suggested.waitFor({ state: 'attached' });
      t.equal(await suggested.getAttribute('value'), 'guard', 'checks are suggested');
      await dialog.getByLabel('A score of at least').fill('0.90');
      await dialog.getByLabel('A score below').fill('1');
      await dialog.getByLabel('Another labels').fill('harm');
      await page.keyboard.press('Enter');
      await dialog.getByLabel('No room').selectOption({ label: 'a person decides' });
      await axeInBothSchemes(t, page, 'a policy that asks a check');
    });
    t.same(policy.conditions, {
      ...{ type: 'prompt', check: 'guard', when: { score: { gte: 0.9, lt: 1 }, labels: ['harm'] } },
      ...{ on_timeout: 'match', on_error: 'match', on_overload: 'pending' },
    });
    await api.delete(`/v1/policies/${policy.id}`);
  });

  browserTest('of a draft that would be refused it counts nothing', { mayFail: /400/ }, async (_, open) => {
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'policies?new=1');
    const json = await conditionsText(page.getByRole('dialog'));
    for (const wrong of ['{ "tool": ', '{ "amount": { "gt": "many" } }']) {
      await json.fill(wrong);
      await preview(page).getByText('once it is valid').waitFor();
      await json.fill('{ "payload.tool": "read_file" }');
      await preview(page).getByText('Would have matched 1 of').waitFor();
    }
  });
}

if (skip !== false) t.plan(0, skip);
else await form();
