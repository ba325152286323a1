// What a person sees of costs, on the real service: on the overview by model and agent beside yesterday, on the page of
// an agent, in lists, in a trace and at an event; what is unknown is said; without prices there is nothing.
import t from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

const DAY_MS = 86_400_000;

async function costPages(): Promise<void> {
  const service = await startService(t);
  const api = new Api(t, service);
  const prices = [
    { model: 'gpt-4o', input: '2.50 USD', output: '10 USD' },
    { model: 'small', input: '0.10 USD', output: '0.40 USD' },
  ];
  const agent = (await api.post('/v1/agents', { name: 'spender' })).json.id as string;
  const { revision } = (await api.post('/v1/prices', { prices })).json;
  const used = (model: string, input: number, more: object = {}) => ({
    ...{ type: 'completion', payload: { model, usage: { prompt_tokens: input, completion_tokens: 0 } }, ...more },
  });
  const old = used('small', 0, { timestamp: '2020-01-01T00:00:00Z' });
  await api.until(
    async () => api.get(`/v1/agents/${agent}/events/${(await api.post(`/v1/agents/${agent}/events`, old)).json.id}`),
    ({ json }) => json.price_revision === revision,
  );
  const yesterday = new Date(Date.now() - DAY_MS - 1_000).toISOString();
  await api.post(`/v1/agents/${agent}/events/batch`, [
    used('gpt-4o', 4_938_000, { trace_id: 'dear' }), // 12.345 USD
    used('small', 1_000, { trace_id: 'cheap' }), // 0.0001 USD
    used('unheard-of', 10, { trace_id: 'cheap' }),
    used('unheard-of', 10, { trace_id: 'unknown' }),
    used('gpt-4o', 400_000, { timestamp: yesterday }), // 1 USD
  ]);

  browserTest(
    'the overview and the page of an agent say what today has cost, and who spent it',
    {},
    async (t, open) => {
      const { page } = await open();
      await signIn(page, service, '');
      const figure = page.locator('.figures > div', { hasText: 'Cost' });
      await figure.getByRole('link').waitFor();
      const { cost } = (await api.get('/v1/overview?zone=Europe/Berlin')).json;
      t.equal(cost.total.now, '12.3451 USD', 'as the service reckons it');
      t.equal(await figure.getByRole('link').textContent(), '$12.35');
      t.match(await figure.textContent(), /yesterday \$1\.00 over 10 timesa week ago –/);
      t.equal(await figure.locator('.number').getAttribute('title'), '12.3451 USD');
      t.match(await page.getByRole('list', { name: 'Cost by model' }).textContent(), /gpt-4o\$12\.35small\$0\.0001/);
      t.match(await page.getByRole('list', { name: 'Cost by agent' }).textContent(), /spender\$12\.35/);
      const card = page.getByRole('region', { name: 'Cost', exact: true });
      t.match(await card.textContent(), /Without 2 events of today that say tokens and have no price/);
      await axeInBothSchemes(t, page, 'the overview with costs');
      await page.getByRole('region', { name: 'Agents' }).getByRole('link', { name: 'spender' }).click();
      await page.getByRole('heading', { name: 'spender', level: 1 }).waitFor();
      await page.getByRole('region', { name: 'Cost', exact: true }).getByText('gpt-4o').waitFor();
      t.equal(await figure.getByRole('link').textContent(), '$12.35');
    },
  );

  browserTest('traces have their cost in a column, by which they are sorted', {}, async (t, open) => {
    const { page } = await open({ viewport: { width: 1280, height: 800 } });
    await signIn(page, service, 'traces');
    await page.getByLabel('Sorted by').selectOption('cost');
    await page.waitForURL(/sort=cost/);
    const rows = page.getByRole('region', { name: 'Traces', exact: true }).getByRole('link');
    await rows.nth(2).waitFor();
    const texts = await rows.allTextContents();
    t.match(texts, [/dear.*\$12\.35/, /cheap.*\$0\.0001/, /unknown.*unknown cost/]);
    await page.goto(`${service.url}/ui/trace?id=cheap`);
    const fact = page.locator('.trace-facts > div', { hasText: 'Cost' });
    await fact.waitFor();
    t.match(await fact.textContent(), /\$0\.0001 without 1 that have no price/);
  });

  browserTest('events have it in a column that is chosen, and each by itself', {}, async (t, open) => {
    const { page } = await open({ viewport: { width: 1280, height: 800 } });
    await signIn(page, service, 'events?trace_id=dear&columns=cost');
    const row = page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first();
    await row.getByText('$12.35').waitFor();
    await row.click();
    const facts = page.getByRole('article', { name: 'Event' }).locator('.facts');
    await facts.getByText('Cost').waitFor();
    t.match(await facts.textContent(), new RegExp(`Cost\\$12\\.35 by revision ${revision} of the prices`));
  });

  browserTest('without prices nothing is said of costs', {}, async (t, open) => {
    const key = await keyOfNewAccount(service, 'no prices');
    const other = new Api(t, { url: service.url, key });
    const { id } = (await other.post('/v1/agents', { name: 'free' })).json;
    await other.post(`/v1/agents/${id}/events`, used('gpt-4o', 10));
    const { page } = await open();
    await signIn(page, { url: service.url, key }, '');
    await page.locator('.figures > div', { hasText: 'Tokens' }).getByRole('link').waitFor();
    t.equal(await page.locator('.figures > div', { hasText: 'Cost' }).count(), 0);
    t.equal(await page.getByRole('region', { name: 'Cost', exact: true }).count(), 0);
  });
}

if (skip !== false) t.plan(0, skip);
else await costPages();
