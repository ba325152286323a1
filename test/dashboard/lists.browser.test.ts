// What a person reads in the rows of lists: what was asked, which tool is called with what, at a desk and on a phone;
// and that columns and order are in the address.
import t from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const SIZES = [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
];

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
        const cut = '(text) => text.closest(".cut").scrollWidth > text.closest(".cut").clientWidth';
        t.notOk(await one.evaluate(`(${cut})`), `${text} is not cut`);
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
}

if (skip !== false) t.plan(0, skip);
else await lists();
