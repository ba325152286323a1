// `npm run pictures`: the pictures of docs/dashboard.md, from the running page in Debian's chromium, light, with agent
// runs that were replayed into a service of its own: those of bench/demo-runs.ndjson, or of the files that are named.
// What others recorded is not ours to pass on, so it is in no picture that is kept.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { HttpClient } from '../bench/http-client.ts';
import { replay } from '../bench/replay.ts';
import { startBenchService } from '../bench/service.ts';
import { readPriceFiles } from '../src/common/policy-files.ts';
import { assetPath } from '../src/process/assets.ts';

const OWN_RUNS = assetPath('bench/demo-runs.ndjson');
const LIST_PRICES = assetPath('prices/list-prices.yaml');
const FOLDER = assetPath('docs/pictures');
const BROWSER = '/usr/bin/chromium';
const SIZE = { width: 1280, height: 800 };

const POLICIES = [
  {
    name: 'no cancellations',
    type: 'block_action',
    actions: ['block', 'alert'],
    severity: 'high',
    tools: ['cancel_reservation'],
  },
  { name: 'bookings need a person', type: 'require_approval', actions: ['block'], tools: ['book_reservation'] },
  { name: 'updates are watched', type: 'block_action', actions: ['log'], tools: ['update_reservation_flights'] },
];

const service = await startBenchService({});
const client = new HttpClient({ ...service, connections: 4 });
const browser = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox', '--disable-gpu'] });
try {
  for (const { tools, ...policy } of POLICIES)
    await client.json('POST', '/v1/policies', { ...policy, conditions: { type: 'tool_call', tool: tools } });
  const prices = readPriceFiles([LIST_PRICES]).map(({ price }) => price);
  await client.json('POST', '/v1/prices', { prices });
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const files = process.argv.slice(2);
  await replay(client, files.length > 0 ? files : [OWN_RUNS], { endMs: Date.now() });
  await client.json('GET', '/v1/events?limit=1');
  mkdirSync(FOLDER, { recursive: true });
  const page = await browser.newPage({ viewport: SIZE, locale: 'en-GB', timezoneId: 'UTC', colorScheme: 'light' });
  await page.goto(`${service.url}/ui/#key=${service.key}`);
  await page.getByRole('button', { name: /^Sign in to / }).click();
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
  await takeOverview(page);
  await takeEvents(page);
  await takeTrace(page);
  await page.goto(`${service.url}/ui/approvals`);
  await page.getByRole('region', { name: 'Payload' }).waitFor();
  await page.getByText('travel-desk').first().waitFor(); // names come behind the list
  await take(page, 'approvals');
} finally {
  await browser.close();
  client.close();
  await service.stop();
}

async function takeOverview(page: Page): Promise<void> {
  await page.getByRole('region', { name: 'Agents' }).getByRole('link').first().waitFor();
  await page.getByRole('list', { name: 'Cost by model' }).waitFor();
  await take(page, 'overview');
}

/** The longest run. */
async function takeTrace(page: Page): Promise<void> {
  await page.goto(`${service.url}/ui/traces?sort=events`);
  await page
    .getByRole('region', { name: /^Traces/ })
    .getByRole('link')
    .first()
    .click();
  await page.getByRole('region', { name: 'Conversation' }).locator('.message').first().waitFor();
  await take(page, 'trace');
}

async function takeEvents(page: Page): Promise<void> {
  await page.goto(`${service.url}/ui/events?type=tool_call`);
  await page
    .locator('.list-line', { has: page.getByLabel('blocked') })
    .first()
    .click();
  await page.getByRole('region', { name: 'Why' }).getByText('revision').first().waitFor();
  await page.locator('.u-over').first().waitFor();
  await take(page, 'events');
}

async function take(page: Page, name: string): Promise<void> {
  const file = path.join(FOLDER, `${name}.png`);
  await page.screenshot({ path: file });
  process.stdout.write(`${path.relative(process.cwd(), file)}\n`);
}
