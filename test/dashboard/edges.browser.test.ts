// What stood at the edges of screens, in a real browser against the whole service: menus that were opened beyond the
// page, and ids in the audit log that led nowhere. On a wide and a narrow screen.
import t from 'tap';
import { Api } from '../support/api.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

async function edges(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer-of-all-bills' })).json.id as string;
  const policy = { name: 'no paying', type: 'block_action', actions: ['block'], conditions: { tool: 'pay' } };
  const { id } = (await api.post('/v1/policies', policy)).json;
  const connection = (await api.post('/v1/connections', { name: 'assistant' })).json.id as string;

  for (const width of [1280, 360])
    browserTest(`an opened menu is inside of the page, ${width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      for (const screen of ['events', 'deliveries', 'anomalies', 'audit']) {
        await page.goto(`${service.url}/ui/${screen}`);
        const menu = page.locator('header.bar details.menu', { hasText: 'Export' });
        await menu.locator('summary').click();
        const choices = await menu.locator('.choices').boundingBox();
        t.ok(choices!.x >= 0 && choices!.x + choices!.width <= width, `${screen}: ${JSON.stringify(choices)}`);
        t.ok(await menu.getByRole('link', { name: 'NDJSON' }).isVisible());
      }
    });

  browserTest('the name of an agent stands in a line on a phone, too', {}, async (t, open) => {
    const { page } = await open({ viewport: { width: 360, height: 800 } });
    await signIn(page, service);
    await page.goto(`${service.url}/ui/agent?id=${agent}`);
    const name = page.getByRole('heading', { name: 'payer-of-all-bills', level: 1 });
    await page.getByRole('button', { name: /^Switch off/ }).waitFor();
    const { height, width } = (await name.boundingBox())!;
    t.ok(height < 40, `${width} by ${height} px`);
  });

  browserTest('an entry of the audit log says what it is on, and leads there', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    for (const [resource, name, heading] of [
      [id, 'no paying', 'no paying'],
      [agent, 'payer-of-all-bills', 'payer-of-all-bills'],
      [connection, 'assistant', 'Connections'],
    ] as const) {
      await page.goto(`${service.url}/ui/audit?resource_id=${resource}`);
      const rows = page.getByRole('region', { name: 'Entries, newest first' });
      await rows.getByText(name, { exact: true }).first().click();
      const entry = page.getByRole('complementary', { name: 'Open entry' });
      await entry.getByRole('link', { name: 'All entries on it' }).waitFor();
      await entry.getByRole('link', { name: resource, exact: true }).click();
      await page.getByRole('heading', { name: heading, exact: true }).first().waitFor();
      t.notMatch(page.url(), /\/audit/);
    }
  });
}

if (skip !== false) t.plan(0, skip);
else await edges();
