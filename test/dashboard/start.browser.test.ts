// How to send, in a real browser against the whole service: each way runs as the page shows it and its event comes up
// on the page, judged; all by keyboard, on a phone, in both schemes, and with a key that is bound to an agent.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { programEnvironment } from '../support/programs.ts';
import { startService } from '../support/service.ts';

const run = promisify(execFile);
const PHONE = { width: 360, height: 740 };
/** A server of MCP with no tools. */
const SERVER = `import { createInterface } from 'node:readline';
const tools = [{ name: 'look', inputSchema: { type: 'object' } }];
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  const result = method === 'initialize' ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} },
    serverInfo: { name: 'my-server', version: '1' } } : method === 'tools/list' ? { tools } : {};
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
}`;
const HOOK = '{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}';
const ASKS = [
  '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}',
  '{"jsonrpc":"2.0","method":"notifications/initialized"}',
  '{"jsonrpc":"2.0","id":2,"method":"tools/list"}',
];

/** The text that the page shows of the event that each way sends; the outcome is seen on the page, too. */
const WAYS: Record<string, RegExp> = {
  curl: /^prompt of /,
  TypeScript: /^prompt of /,
  Python: /^prompt of /,
  OpenTelemetry: /^tool_call of /,
  'Claude Code': /^tool_call of /,
  MCP: /^custom of /,
};

async function start(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-start-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(path.join(folder, 'my-server.mjs'), SERVER);
  const shown = (page: Page) => page.getByRole('tabpanel').locator('pre').allTextContents();
  const first = (page: Page) => page.getByRole('region', { name: 'The first event' });

  /** Runs what the page shows. A person replaces two things: the key, and where the folder of Gatehouse is. */
  const send = async (page: Page, key: string) => {
    const own = (text: string) => text.replaceAll('gth_…', key).replace('/path/to/gatehouse', assetPath('.'));
    const settings = own((await page.locator('.start pre').first().textContent()) ?? '');
    const texts = (await shown(page)).map(own);
    const config = texts.at(-1)!.startsWith('{') ? texts.pop()! : undefined;
    const shell = (script: string, input?: string) => {
      const env = programEnvironment({
        npm_config_prefix: folder,
        npm_config_offline: 'true',
        npm_config_cache: path.join(folder, 'cache'),
        XDG_STATE_HOME: folder,
        PATH: `${folder}/bin:${process.env['PATH']}`,
        PYTHONDONTWRITEBYTECODE: '1',
      });
      const child = run('bash', ['-c', `set -e\n${settings}\n${script}`], { cwd: folder, env });
      child.child.stdin!.end(input);
      return child;
    };
    const { stdout } = await shell(texts.join('\n'));
    if (config === undefined) return stdout;
    const { hooks, mcpServers } = JSON.parse(config);
    if (hooks !== undefined) return (await shell(hooks.PreToolUse[0].hooks[0].command, HOOK)).stdout;
    const { command, args, env } = mcpServers['my-server'];
    const child = spawn(path.join(folder, 'bin', command), args, {
      cwd: folder,
      env: programEnvironment({ ...env, XDG_STATE_HOME: folder }),
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    child.stdin.end(`${ASKS.join('\n')}\n`);
    let said = '';
    for await (const data of child.stdout) said += String(data);
    return said;
  };

  browserTest('each way runs as it is shown, and its event comes up judged', {}, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    await page.getByRole('heading', { name: 'No events yet' }).waitFor();
    t.same(await page.getByRole('tab').allTextContents(), Object.keys(WAYS));
    const seen = new Set<string | null>();
    for (const [way, says] of Object.entries(WAYS)) {
      if (way !== 'curl') await page.goto(`${service.url}/ui/start`);
      await page.getByRole('tab', { name: way }).click();
      t.notMatch((await page.locator('main').textContent()) ?? '', service.key, `${way}: the key is not shown`);
      await first(page).getByText('Waiting for the first event').waitFor();
      const said = await send(page, service.key);
      await first(page).getByText('allowed', { exact: true }).waitFor();
      t.match(await first(page).getByRole('link').first().textContent(), says, `${way}: ${said.slice(0, 200)}`);
      seen.add(await first(page).getByRole('link').first().getAttribute('href'));
    }
    await first(page).getByRole('link').first().click();
    await page
      .getByRole('heading', { name: 'Event', level: 1 })
      .or(page.getByRole('region', { name: 'Payload' }))
      .first()
      .waitFor();
    t.equal(seen.size, Object.keys(WAYS).length, 'each has an event of its own');
    const names = (await api.get('/v1/agents')).json.items.map(({ name }: { name: string }) => name);
    t.same(names, ['first-agent'], 'all of one agent');
  });

  browserTest('a key that is bound to an agent, with the keyboard alone', {}, async (t, open) => {
    const admin = await keyOfNewAccount(service, 'bound');
    const own = new Api(t, { ...service, key: admin });
    const agent = (await own.post('/v1/agents', { name: 'it\'s a "name"' })).json.id as string;
    const key = (await own.post('/v1/api-keys', { label: 'bound', scope: 'write', agent_id: agent })).json
      .key as string;
    const { page } = await open();
    await signIn(page, { url: service.url, key });
    await page.getByRole('tab', { name: 'curl' }).focus();
    for (const way of Object.keys(WAYS)) {
      t.equal(await page.getByRole('tab', { selected: true }).textContent(), way);
      t.equal(await page.evaluate('document.activeElement.textContent'), way, 'it has the focus');
      if (way === 'OpenTelemetry') {
        await send(page, key);
        await first(page).getByText('allowed', { exact: true }).waitFor();
        t.match(await first(page).getByRole('link').first().textContent(), `it's a "name"`);
      }
      await page.keyboard.press('ArrowRight');
    }
    t.equal(await page.getByRole('tab', { selected: true }).textContent(), 'curl', 'and around');
    await page.getByRole('link', { name: 'All events' }).click();
    await page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first().waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /an agent, a policy/ }).fill('how to');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'How to send', level: 1 }).waitFor();
  });

  browserTest('everyone can read it, on a phone too', {}, async (t, open) => {
    const { page } = await open({ viewport: PHONE, hasTouch: true });
    await signIn(page, service);
    for (const way of ['curl', 'typescript', 'python', 'opentelemetry', 'claude-code', 'mcp']) {
      await page.goto(`${service.url}/ui/start?way=${way}`);
      await page.getByRole('tabpanel').waitFor();
      await axeInBothSchemes(t, page, way);
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), PHONE.width, `${way}: nothing is wider`);
    }
  });
}

if (skip !== false) t.plan(0, skip);
else await start();
