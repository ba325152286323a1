// What a page shows stays and comes back, in a real browser: while one reads further down, when another tab closes,
// from the page of an event, after the service was away. A service that has nothing to do, with pages open, fills
// neither its disk, nor its log, nor its memory.
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { createClient } from '@clickhouse/client';
import type { Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { type Answer, Api } from '../support/api.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService, type TestService } from '../support/service.ts';

const ROWS = 60;
const IDLE_MS = 60_000;
/** Three minutes had 0.5 MB and 3 MB of memory; the garbage of one minute is beside it. */
const IDLE_DISK_MAX = 1_000_000;
const IDLE_MEMORY_MAX = 60_000_000;

type Scrolled = { scrollTop: number; scrollTo(x: number, y: number): void };

async function staysAndReturns(): Promise<void> {
  const env = { GATEHOUSE_FRONTS: '1' };
  let service = await startService(t, { stores: 'own', env });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'payer' })).json.id as string;
  const send = (mark: string) =>
    api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'look', mark } });
  for (let n = 0; n < ROWS; n++) await send(`row ${n}.`);
  await api.get('/v1/events?limit=1');
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const rowsOf = (page: Page) => page.getByRole('region', { name: 'Events, newest first' });
  const scrollTop = (page: Page) => rowsOf(page).evaluate((box) => (box as unknown as Scrolled).scrollTop);
  const scroll = (box: Locator, to: number) =>
    box.evaluate((one, px) => (one as unknown as Scrolled).scrollTo(0, px), to);
  const live = async (page: Page) => {
    await go(page, 'events?live=1');
    await rowsOf(page).getByRole('link').first().waitFor();
  };
  const marks = async (page: Page, of: RegExp) => {
    const found = (await rowsOf(page).getByRole('link').allInnerTexts()).flatMap((text) => of.exec(text)?.[0] ?? []);
    return found.sort();
  };

  for (const width of [1360, 360])
    browserTest(`back from an event all is as it was left, ${width} px`, {}, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      await go(page, 'events?type=tool_call');
      await rowsOf(page).getByText('row 50.').waitFor();
      const row = rowsOf(page).getByText('row 30.');
      await scroll(rowsOf(page), width > 900 ? 900 : 2_600);
      await row.click();
      const beside = page.getByRole('complementary', { name: 'Open event' });
      await beside.getByText('row 30.').first().waitFor();
      const address = page.url();
      const place = await heightIn(row, rowsOf(page));
      await beside.getByRole('link', { name: 'Open by itself' }).click();
      await page.waitForURL(/\/ui\/event\?/);
      await page.getByRole('region', { name: 'Payload' }).getByText('row 30.').waitFor();
      await page.goBack();
      await beside.getByText('row 30.').first().waitFor();
      t.equal(page.url(), address, 'filters and what was open');
      await row.waitFor();
      t.equal(await heightIn(row, rowsOf(page)), place, 'the row is where it was');
    });

  browserTest('further down nothing moves, whatever comes in or gets the focus', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await live(page);
    await scroll(rowsOf(page), 900);
    const read = rowsOf(page).getByText('row 30.');
    await read.waitFor();
    const before = (await read.boundingBox())!;
    for (let n = 0; n < 40; n++) await send(`newcomer ${n}.`);
    await page.getByRole('button', { name: '40 new' }).waitFor();
    for (const event of ['blur', 'focus', 'online']) await page.evaluate(`dispatchEvent(new Event('${event}'))`);
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))");
    await send('one more.');
    await page.getByRole('button', { name: '41 new' }).waitFor();
    const after = (await read.boundingBox())!;
    t.ok(Math.abs(after.y - before.y) < 2, `what is read stands where it was: ${before.y}, now ${after.y}`);
    t.equal(await scrollTop(page), 900);
    await page.getByRole('button', { name: '41 new' }).click();
    await rowsOf(page).getByText('one more.').waitFor();
    t.equal(await scrollTop(page), 0, 'a press shows them');
  });

  browserTest('of two tabs each shows all rows once, also when the one that reads is closed', {}, async (t, open) => {
    const { page: leader, context } = await open();
    await signIn(leader, service);
    await live(leader);
    const other = await context.newPage();
    await live(other);
    for (let n = 0; n < 10; n++) await send(`both ${n}.`);
    for (const page of [leader, other]) await rowsOf(page).getByText('both 9.').waitFor();
    t.same(await marks(leader, /both \d\./), await marks(other, /both \d\./));
    await Promise.all([leader.close(), send('both a.')]);
    for (const n of [...'bcdefghij']) await send(`both ${n}.`);
    await rowsOf(other).getByText('both j.').waitFor();
    const expected = [...'0123456789abcdefghij'].map((n) => `both ${n}.`);
    await rowsOf(other).getByText('both a.').waitFor();
    t.same(await marks(other, /both \w\./), expected, 'all of them, none twice');
  });

  browserTest('with nothing to do, and pages open, nothing grows', {}, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service);
    await live(page);
    const overview = await context.newPage();
    await go(overview, '');
    await overview.getByRole('heading', { level: 1 }).waitFor();
    await page.waitForTimeout(IDLE_MS / 4); // what began with the pages comes to its end
    const before = await sizeOf(service);
    const nodes = await nodesIn(page, overview);
    const asked: string[] = [];
    for (const one of [page, overview]) one.on('request', (request) => asked.push(request.url()));
    await page.waitForTimeout(IDLE_MS);
    const after = await sizeOf(service);
    const rows = Object.entries(after).map(([what, now]) => `${what} ${now - before[what as keyof Sizes]}`);
    t.comment(`${rows.join(', ')}; ${asked.length} requests`);
    t.ok(after.disk - before.disk < IDLE_DISK_MAX, 'the disk');
    const logged = (await service.log()).split('\n').slice(before.logLines - 1);
    t.ok(after.logLines - before.logLines < 10, `the log, which only a busy machine may write to: ${logged.join()}`);
    t.ok(after.memory - before.memory < IDLE_MEMORY_MAX, 'memory');
    t.ok((await nodesIn(page, overview)) <= nodes + 10, 'what the pages are made of');
    t.ok(asked.length <= IDLE_MS / 5_000, `${asked.length} requests`);
    await noLogTables(t, service);
  });

  browserTest('live goes on when the service was stopped and started', { mayFail: /./ }, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service);
    await live(page);
    const other = await context.newPage();
    await other.goto(`${service.url}/ui/approvals`);
    await other.getByText('Nothing waits for you').waitFor();
    await send('before the stop.');
    await rowsOf(page).getByText('before the stop.').waitFor();
    const { dataDir, key, url } = service;
    await service.stop();
    await page.getByText('Live updates are away').first().waitFor();
    const again = { ...env, GATEHOUSE_PORT: new URL(url).port, GATEHOUSE_BOOTSTRAP_KEY: key };
    service = await startService(t, { stores: 'own', dataDir, env: again });
    t.equal(service.url, url);
    await api.until(
      () => send('after the start.'),
      ({ status }) => status === 201,
    );
    await rowsOf(page).getByText('after the start.').first().waitFor();
    await page.getByText('Live updates are away').first().waitFor({ state: 'detached' });
    await api.post('/v1/policies', {
      ...{ name: 'looks need a person', type: 'require_approval', actions: ['block'] },
      conditions: { tool: 'look' },
    });
    await api.until(
      () => send('to be approved.'),
      ({ json }) => json.policy_result.outcome === 'pending',
    );
    await other.getByText('to be approved.').first().waitFor();
    t.pass('the inbox of another tab follows again, too');

    const front = (await service.children()).find(({ name }) => name.startsWith('front'))!;
    process.kill(front.pid, 'SIGKILL');
    await api.until(
      () => send('after a kill.').catch(() => ({ status: 0 }) as Answer),
      ({ status }) => status === 201,
    );
    await rowsOf(page).getByText('after a kill.').first().waitFor();
    await context.setOffline(true);
    await context.setOffline(false);
    await send('after the network was away.');
    await rowsOf(page).getByText('after the network was away.').waitFor();
  });
}

type Sizes = { disk: number; logLines: number; memory: number };

async function sizeOf(service: TestService): Promise<Sizes> {
  const { dataDir, pid } = service;
  const files = await readdir(dataDir, { recursive: true });
  const sizes = await Promise.all(files.map((file) => bytesOf(path.join(dataDir, file))));
  const pids = [pid, ...(await service.children()).map((child) => child.pid)];
  const memory = await Promise.all(
    pids.map(async (one) => {
      const [, kib = '0'] = /^VmRSS:\s+(\d+)/m.exec(await readFile(`/proc/${one}/status`, 'utf8')) ?? [];
      return Number(kib) * 1024;
    }),
  );
  const sum = (all: number[]) => all.reduce((total, one) => total + one, 0);
  return { disk: sum(sizes), logLines: (await service.log()).split('\n').length, memory: sum(memory) };
}

/** 0: it is gone since it was listed. */
async function bytesOf(file: string): Promise<number> {
  const { size = 0 } = await stat(file).catch(() => ({ size: 0 }));
  return size;
}

async function heightIn(row: Locator, box: Locator): Promise<number> {
  const [one, around] = await Promise.all([row.boundingBox(), box.boundingBox()]);
  return Math.round(one!.y - around!.y);
}

async function nodesIn(...pages: Page[]): Promise<number> {
  const counts = await Promise.all(pages.map((page) => page.evaluate<number>("document.querySelectorAll('*').length")));
  return counts.reduce((total, one) => total + one, 0);
}

/** ClickHouse writes what it does into tables of its own, without bound, where it is let. */
async function noLogTables(t: Test, service: TestService): Promise<void> {
  const { clickhouseUrl: url } = await service.addresses();
  const clickhouse = createClient({ url });
  const query = "SELECT name FROM system.tables WHERE database = 'system' AND name LIKE '%\\_log'";
  const answer = await clickhouse.query({ query, format: 'JSONEachRow' });
  t.same(await answer.json(), [], 'the engine keeps no log of its own');
  await clickhouse.close();
}

if (skip !== false) t.plan(0, skip);
else await staysAndReturns();
