// What a person reads in the rows of lists: what was asked, which tool is called with what, at a desk and on a phone;
// that columns and order are in the address, and that such an address is saved as a view of the account.
import t from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const SIZES = [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
];

/** An element, in the page. */
type InPage = { closest(selector: string): { scrollWidth: number; clientWidth: number } };

/** A number in a row. `gap`: from where its text ends to where its column does. */
type Cell = { text: string; gap: number; digits: string };

/** The columns that hold a number with its unit. Text, since it runs in the page. */
const NUMBERS = `[...document.querySelectorAll('.list-line > .column')]
  .filter((column) => /^[\\d,.]+ (?:tokens|events?|ms|s)$/.test(column.textContent))
  .map((column) => {
    const range = document.createRange();
    range.selectNodeContents(column);
    const gap = column.getBoundingClientRect().right - range.getBoundingClientRect().right;
    return { text: column.textContent, gap, digits: getComputedStyle(column).fontVariantNumeric };
  })`;

async function lists(): Promise<void> {
  const service = await startService(t);
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'support', metadata: {} })).json.id as string;
  const policy = (type: string, tool: string) =>
    api.post('/v1/policies', { name: `${type} ${tool}`, type, conditions: { tool }, actions: ['block'] });
  await policy('require_approval', 'refund');
  await policy('block_action', 'delete_all');
  const send = (type: string, trace_id: string, payload: object) =>
    api.post(`/v1/agents/${agent}/events`, { type, trace_id, payload });
  await api.until(
    () => send('tool_call', 'run-1', { tool: 'refund', arguments: { order: 7, amount: 12.5 } }),
    ({ json }) => json.policy_result.outcome === 'pending',
  );
  await api.until(
    () => send('tool_call', 'run-2', { tool: 'delete_all', arguments: { table: 'orders' } }),
    ({ json }) => json.policy_result.outcome === 'blocked',
  );
  await send('prompt', 'run-1', { model: 'm-1', messages: [{ role: 'user', content: 'Where is my order?' }] });
  await send('completion', 'run-1', { model: 'm-1', response: 'I look for it.', tokens_used: 40 });
  await send('prompt', 'run-2', { prompt: 'Clean up \u202egnihtyreve' });
  await send('completion', 'run-2', { response: 'Done.', tokens_used: 1_400 });

  const took = { tool: 'look_up', arguments: { order: 7 }, result: 'x'.repeat(9_000), duration_ms: 1_500 };
  await api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { ...took, otel: { span_id: 'a1' } } });

  for (const size of SIZES)
    browserTest(`rows say what happened, at ${size.width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport: size });
      await signIn(page, service);
      const rows = (label: string) => page.getByRole('region', { name: label });
      const isWhole = async (text: string, label: string) => {
        const one = rows(label).getByText(text).first();
        await one.waitFor();
        const [box, row] = [await one.boundingBox(), await rows(label).boundingBox()];
        t.ok(box!.x >= row!.x && box!.x + box!.width <= row!.x + row!.width + 1, `${text} is in the row`);
        const widths = await one.evaluate((node) => {
          const { scrollWidth, clientWidth } = (node as unknown as InPage).closest('.cut');
          return { scrollWidth, clientWidth };
        });
        t.ok(widths.scrollWidth <= widths.clientWidth, `${text} is not cut`);
      };
      const events = 'Events, newest first';
      for (const text of ['Where is my order?', 'refund(order: 7, amount: 12.5)', 'I look for it.', 'support'])
        await isWhole(text, events);
      await rows(events).getByText('U+202E').first().waitFor();
      await axeInBothSchemes(t, page, `events, ${size.width}`);

      await page.goto(`${service.url}/ui/traces`);
      await isWhole('Where is my order?', 'Traces, newest first');
      await axeInBothSchemes(t, page, `traces, ${size.width}`);

      await page.goto(`${service.url}/ui/approvals`);
      const inbox = page.getByRole('region', { name: 'Approvals', exact: true });
      await inbox.getByText('refund(order: 7, amount: 12.5)').first().waitFor();
      await page.goto(`${service.url}/ui/anomalies`);
      await rows('Anomalies, newest first').getByText('delete_all(table: orders)').first().waitFor();
      await page.goto(`${service.url}/ui/audit?action=event.blocked`);
      await isWhole('delete_all(table: orders)', 'Entries, newest first');
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing is beside the page');
    });

  browserTest('columns and order are in the address', {}, async (t, open) => {
    const { page } = await open({ viewport: SIZES[0]! });
    await signIn(page, service);
    const events = page.getByRole('region', { name: 'Events, newest first' });
    await events.getByText('I look for it.').waitFor();
    t.equal(await events.getByText('40 tokens').count(), 0);
    await page.getByText('Columns', { exact: true }).first().click();
    await page.getByRole('checkbox', { name: 'Tokens' }).check();
    await events.getByText('40 tokens').waitFor();
    await page.getByRole('checkbox', { name: 'Agent', exact: true }).uncheck();
    t.same(new URL(page.url()).searchParams.getAll('columns'), ['tokens']);
    await page.reload();
    await events.getByText('40 tokens').waitFor();
    t.equal(await events.getByText('support').count(), 0, 'as the address says');
    await page.getByText('Columns', { exact: true }).first().click();
    await page.getByRole('checkbox', { name: 'Duration' }).check();
    t.same(new URL(page.url()).searchParams.getAll('columns'), ['tokens', 'duration']);
    await page.reload();
    const call = events.getByRole('link').filter({ hasText: 'look_up(order: 7)' });
    await call.getByText('1.5 s', { exact: true }).waitFor();
    t.equal(await events.getByText(/\d m?s$/).count(), 1, 'of an event that says none there is none');

    await page.goto(`${service.url}/ui/traces`);
    await page.getByLabel('Sorted by').selectOption('tokens');
    const traces = page.getByRole('region', { name: 'Traces' });
    await traces.getByRole('link').first().getByText('1,400 tokens').waitFor();
    await page.getByLabel('Direction').selectOption('asc');
    await traces.getByRole('link').first().getByText('40 tokens').waitFor();
    t.match(page.url(), /sort=tokens&order=asc/);
    await page.getByRole('searchbox', { name: 'Words in an event' }).fill('where is my');
    await page.keyboard.press('Enter');
    await traces.getByText('Where is my order?').waitFor();
    t.equal(await traces.getByRole('link').count(), 1, 'the one with these words');
  });

  browserTest('what a row says has the most room, and the name of an agent is read', {}, async (t, open) => {
    const { page } = await open({ viewport: SIZES[0]! });
    await signIn(page, service);
    for (const [place, widest] of [
      ['traces', 200],
      ['anomalies', 350],
    ] as const) {
      await page.goto(`${service.url}/ui/${place}`);
      const line = page.locator('.list-line').first();
      await line.waitFor();
      const parts = await line.locator(':scope > *').evaluateAll((all) =>
        all.map((one) => {
          const { className, clientWidth } = one as unknown as { className: string; clientWidth: number };
          return { is: className.trim(), clientWidth };
        }),
      );
      const said = parts.find(({ is }) => is === 'said')!.clientWidth;
      t.ok(said >= widest, `${place}: ${said} px`);
      t.ok(
        parts.every(({ clientWidth }) => clientWidth <= said),
        'nothing is wider',
      );
      const agent = parts[place === 'traces' ? 2 : parts.length - 1]!.clientWidth;
      t.ok(agent >= 100, `its agent: ${agent} px`);
    }
  });

  browserTest('numbers of rows end one under the other', {}, async (t, open) => {
    const { page } = await open({ viewport: SIZES[0]! });
    await signIn(page, service);
    for (const [address, text, values] of [
      ['events?columns=tokens', '40 tokens', ['1,400 tokens', '40 tokens']],
      ['traces', '40 tokens', ['1,400 tokens', '3 events', '3 events', '40 tokens']],
    ] as const) {
      await page.goto(`${service.url}/ui/${address}`);
      await page.locator('.list-line').getByText(text).waitFor();
      const cells = await page.evaluate<Cell[]>(NUMBERS);
      const shown = cells.filter(({ text }) => /token|event/.test(text));
      t.same(shown.map((cell) => cell.text).sort(), values, `of ${address}`);
      for (const { text, gap, digits } of cells) {
        t.ok(Math.abs(gap) < 1, `${address}: ${text} ends where its column does (${gap} px)`);
        t.equal(digits, 'tabular-nums');
      }
    }
  });

  browserTest('numbers of a table stand one under the other', {}, async (t, open) => {
    const { page } = await open({ viewport: SIZES[0]! });
    await signIn(page, service, 'policies');
    const column = page.getByRole('table').locator('[data-label="Matches in 24 h"]');
    await column.nth(1).waitFor();
    const looks = await page.evaluate<string[]>(
      `[...document.querySelectorAll('thead th:nth-child(5), [data-label="Matches in 24 h"]')]
        .map((cell) => getComputedStyle(cell)).map((its) => its.textAlign + ' ' + its.fontVariantNumeric)`,
    );
    t.same(looks, Array(3).fill('right tabular-nums'), 'of the head and of two policies');
  });

  browserTest(
    'a list is saved as a view, and found in its menu and by Ctrl K',
    { mayFail: /404|409/ },
    async (t, open) => {
      const { page } = await open({ viewport: SIZES[0]! });
      await signIn(page, service);
      const filters: Record<string, string> = {
        ...{ events: 'outcome=blocked&range=24h&columns=tokens', traces: 'sort=tokens&order=asc' },
        ...{ anomalies: 'severity=high&severity=critical', audit: 'action=event.blocked' },
      };
      const save = async (name: string) => {
        await page.getByRole('button', { name: 'Save view' }).click();
        await page.getByRole('dialog').getByLabel('Name').fill(name);
        await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
      };
      for (const [screen, query] of Object.entries(filters)) {
        await page.goto(`${service.url}/ui/${screen}?${query}&id=evt_open&live=1`);
        await save(`mine of ${screen}`);
        await page.getByRole('dialog').waitFor({ state: 'detached' });
      }
      const kept = (await api.get('/v1/views')).json.items as { screen: string; query: string }[];
      t.same(Object.fromEntries(kept.map(({ screen, query }) => [screen, query])), filters, 'without what is open');

      await page.goto(`${service.url}/ui/events`);
      const menu = page.getByText('Views', { exact: true });
      await menu.click();
      await page.getByRole('link', { name: 'mine of events' }).waitFor();
      t.equal(await page.getByRole('link', { name: /^mine of/ }).count(), 1, 'the menu has those of this list');
      await axeInBothSchemes(t, page, 'views');
      await page.getByRole('link', { name: 'mine of events' }).click();
      await page.getByRole('button', { name: 'Remove the filter outcome blocked' }).waitFor();
      t.equal(new URL(page.url()).search, `?${filters['events']}`);
      await save('mine of events');
      await page.getByRole('alert').getByText('Another view has this name.').waitFor();
      await page.reload();
      await page.getByRole('button', { name: 'Save view' }).waitFor();

      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /^A screen, a view/ }).fill('mine of aud');
      await page.getByRole('option', { name: 'mine of audit' }).waitFor();
      await page.keyboard.press('Enter');
      await page.waitForURL(/\/ui\/audit\?action=event\.blocked$/);
      await menu.click();
      await page.getByRole('button', { name: 'Delete the view mine of audit' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByText('No view of this list is saved.').waitFor();
      t.equal((await api.get('/v1/views')).json.total, 3);

      const { key } = (await api.post('/v1/api-keys', { label: 'looks', scope: 'read' })).json;
      const { page: reader } = await open();
      await signIn(reader, { url: service.url, key });
      await reader.getByText('Views', { exact: true }).click();
      await reader.getByRole('link', { name: 'mine of events' }).waitFor();
      t.equal(await reader.getByRole('button', { name: /Save view|Delete the view/ }).count(), 0, 'it only reads');
      const bound = (await api.post('/v1/api-keys', { label: 'its own', scope: 'read', agent_id: agent })).json.key;
      const { page: own } = await open();
      await signIn(own, { url: service.url, key: bound });
      await own.getByText('Columns', { exact: true }).first().waitFor();
      t.equal(await own.getByText('Views', { exact: true }).count(), 0, 'a key of an agent has none');
    },
  );
}

if (skip !== false) t.plan(0, skip);
else await lists();
