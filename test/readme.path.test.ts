// README's examples are run as they stand, in one shell, against the whole service; what it shows as output is what comes out.
// In a shown output `…` stands for anything, and white space does not count.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { assetPath } from '../src/assets.ts';
import { startService } from './support/service.ts';

const MARK = '@@@ block';

type Block = { script: string; expected: string | undefined };

t.test('every example of README does what README shows', async (t) => {
  const blocks = examples(await readFile(assetPath('README.md'), 'utf8'));
  t.ok(blocks.length >= 8, `${blocks.length} examples`);
  let outputs = await run(t, blocks);
  // They wait a second for what is promised within one, and read once: where the machine stood still they get another service.
  for (let again = 0; again < 2 && !blocks.every((block, i) => isShown(block, outputs[i])); again++) {
    t.comment('once more', outputs);
    outputs = await run(t, blocks);
  }
  t.equal(outputs.length, blocks.length, 'every block ran');
  blocks.forEach((block, i) => {
    if (block.expected === undefined) return;
    t.match(bare(outputs[i] ?? ''), wanted(block.expected), `shows what README shows: ${block.script.split('\n')[0]}`);
  });
});

/** What each block prints, all of them in one shell against a service of their own. */
async function run(t: Test, blocks: readonly Block[]): Promise<string[]> {
  const service = await startService(t);
  const folder = await mkdtemp(path.join(os.tmpdir(), 'gatehouse-readme-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const script = [
    'set -e -o pipefail',
    `export URL='${service.url}' KEY='${service.key}'`,
    ...blocks.map((block, i) => `echo '${MARK} ${i}'\n${block.script}\necho`),
  ].join('\n');
  const done = promisify(execFile)('bash', ['-c', script], { cwd: folder, timeout: 180_000 });
  const { stdout } = await done.catch((error: { stdout: string }) => error);
  return stdout.split(new RegExp(`^${MARK} \\d+\n`, 'm')).slice(1);
}

function wanted(expected: string): RegExp {
  return new RegExp(bare(expected).split('…').map(literally).join('[\\s\\S]*'));
}

function isShown({ expected }: Block, output: string | undefined): boolean {
  return output !== undefined && (expected === undefined || wanted(expected).test(bare(output)));
}

/** The `sh` blocks, each with the plain or `json` block that follows it; the `setup` block is done by this test. */
function examples(readme: string): Block[] {
  const fences = [...readme.matchAll(/^```([a-z ]*)\n([\s\S]*?)^```$/gm)].map(([, kind, text]) => ({
    kind,
    text: text!,
  }));
  return fences.flatMap(({ kind, text }, i) => {
    if (kind !== 'sh') return [];
    const next = fences[i + 1];
    const between =
      next === undefined ? '' : readme.slice(readme.indexOf(text) + text.length, readme.indexOf(next.text));
    const isOutput = (next?.kind === '' || next?.kind === 'json') && /^```\s+```(json)?\n$/.test(between);
    return [{ script: text, expected: isOutput ? next.text : undefined }];
  });
}

function bare(text: string): string {
  return text.replace(/\s+/g, '');
}

function literally(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
