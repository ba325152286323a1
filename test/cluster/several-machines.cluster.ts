// docs/several-machines.md as it stands: its blocks `sh machines` are run in one shell, and the block behind each is
// what it prints. What the page gives as a setup, ClickHouse and a key, is given here. Everything that the page starts
// is ended by its process group.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { startClickHouse } from '../support/clickhouse.ts';
import { programEnvironment } from '../support/programs.ts';

t.setTimeout(600_000);
const PAGE = 'docs/several-machines.md';
const MARK = '@@@ block';

type Block = { script: string; expected: string | undefined };

function blocksOf(page: string): Block[] {
  const found: Block[] = [];
  let isShown = false;
  for (const [, kind, text] of page.matchAll(/^```([^\n]*)\n(.*?)^```$/gms)) {
    if (kind === 'sh machines') found.push({ script: text!, expected: undefined });
    else if (kind === '' && isShown) found.at(-1)!.expected = text!.trim();
    isShown = kind === 'sh machines';
  }
  return found;
}

t.test('the page does what it says', async (t) => {
  const clickhouse = await startClickHouse(t);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-machines-'));
  const command = `#!/bin/sh\nexec '${process.execPath}' '${assetPath('build/service/cli.js')}' "$@"\n`;
  writeFileSync(path.join(folder, 'gatehouse'), command, { mode: 0o755 });
  const blocks = blocksOf(readFileSync(assetPath(PAGE), 'utf8'));
  const script = blocks.map(({ script }) => `${script}\nprintf '\\n${MARK}\\n'\n`).join('');
  const shell = spawn('bash', ['-e', '-o', 'pipefail', '-c', script], {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...programEnvironment(),
      PATH: `${folder}:${process.env.PATH}`,
      GATEHOUSE_CLICKHOUSE_URL: clickhouse.url,
      GATEHOUSE_DATA_DIR: path.join(folder, 'data'),
      GATEHOUSE_BOOTSTRAP_KEY: 'machines-0123456789abcdef0123456789abcdef',
    },
  });
  t.teardown(() => {
    for (const name of readdirSync(folder).filter((one) => one.startsWith('redis-')))
      end(path.join(folder, name, 'pid'));
    try {
      process.kill(-shell.pid!, 'SIGKILL');
    } catch {
      // All have ended.
    }
    rmSync(folder, { recursive: true, force: true });
  });
  let [output, said] = ['', ''];
  shell.stdout.on('data', (data: Buffer) => {
    output += data.toString();
  });
  shell.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  await once(shell, 'exit');
  const outputs = output.split(MARK);
  for (const [i, { script, expected }] of blocks.entries()) {
    const name = script.split('\n')[0]!;
    t.ok(outputs.length > i + 1, `${name}: ran to its end`) || t.comment(said.slice(-2_000));
    if (expected !== undefined) t.ok(outputs[i]?.includes(expected), `${name}: prints ${expected}`);
  }
});

function end(pidFile: string): void {
  try {
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGKILL');
  } catch {
    // It has ended.
  }
}
