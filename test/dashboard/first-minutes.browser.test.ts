// The first minutes, by README alone: a service that has never run before, its commands up to the first blocked event,
// and the link that the start prints; the reason is on screen three clicks later.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { browserTest, skip } from '../support/browser.ts';
import { programEnvironment } from '../support/programs.ts';
import { startService } from '../support/service.ts';

const LAST_COMMAND = 'send_money';

async function firstMinutes(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_BOOTSTRAP_KEY: undefined, GATEHOUSE_FRONTS: '1' } });
  const link = /^Dashboard: (\S+)/m.exec(service.printed())?.[1] ?? '';
  const key = readFileSync(path.join(service.dataDir, 'admin-key'), 'utf8').trim();
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-first-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));

  browserTest('from the start to why the first event was blocked', {}, async (t, open) => {
    t.match(link, /\/ui\/$/, 'without a terminal the start prints a link without the key');
    const commands = [...readFileSync(assetPath('README.md'), 'utf8').matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(
      ([, text]) => text!,
    );
    const last = commands.findIndex((text) => text.includes(LAST_COMMAND));
    t.ok(last > 0 && last < 6, `${last + 1} of README's commands`);
    const script = ['set -e', ...commands.slice(0, last + 1)].join('\n');
    execFileSync('bash', ['-c', script], { cwd: folder, env: programEnvironment({ URL: service.url, KEY: key }) });

    const { page } = await open();
    await page.goto(`${link}#key=${key}`);
    await page.getByRole('button', { name: 'Sign in to default' }).waitFor();
    await page.keyboard.press('Enter');
    await page.locator('.figures > div', { hasText: 'Blocked' }).getByRole('link', { name: '1' }).click();
    const rows = page.getByRole('region', { name: 'Events, newest first' });
    await page.getByRole('figure', { name: /^Events over time/ }).waitFor(); // what comes later moves the rows
    await rows.getByRole('img', { name: 'blocked' }).first().click();
    const why = page.getByRole('region', { name: 'Why' });
    await why.getByText('no large payments').waitFor();
    await why.getByText('/arguments/amount').first().waitFor();
    t.match(await why.textContent(), /A policy blocked it/);
    t.match(await page.locator('code.lit').allTextContents(), [/send_money/, /5000/], 'the places are lit');
    t.notMatch(page.url(), 'key=', 'the key is out of the address');
  });
}

if (skip !== false) t.plan(0, skip);
else await firstMinutes();
