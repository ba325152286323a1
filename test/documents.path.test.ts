// The examples of README and of every page in docs are run as they are, page by page in one shell each, against the
// whole service; what a page shows as output is what comes out. Each page has an account of its own.
//
//   ```sh           is run. A plain or `json` block right behind it is what it prints: `…` represents anything, white
//                   space does not count, and more may be printed before and after
//   ```sh setup     is done by this test: URL, KEY (scope admin), OPERATOR_KEY, and on pages other than README AGENT,
//                   an agent of that account
//   ```sh machines  is run by test/cluster/several-machines.cluster.ts
//   anything else   is not run, and may hold no call of curl or of the command
// A call that is answered with an error fails its block, unless the page shows an error.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import t, { type Test } from 'tap';
import { assetPath } from '../src/process/assets.ts';
import { keyOfNewAccount } from './support/accounts.ts';
import { folderOf } from './support/folder.ts';
import { programEnvironment, programPath } from './support/programs.ts';
import { startService, type TestService } from './support/service.ts';

const MARK = '@@@ block';
const OPERATOR_KEY = `gop_${randomBytes(24).toString('hex')}`;
/**
 * A page waits a second for what is promised within one, and reads once: where the machine stood still it gets another
 * go.
 */
const TRIES = 3;
const PAGE_MS_MAX = 300_000;

/**
 * Also in pipelines and substitutions: an answer that is an error fails the call that got it, and a list that says that
 * it is not whole yet is asked for again, as its reader would.
 */
const CURL = `
curl() {
  local head=$(mktemp -p .) status try
  for try in $(seq 30); do
    status=0
    command curl --show-error $MAY_FAIL -D $head "$@" > $head.body || status=$?
    grep -qi '^gatehouse-incomplete' $head || break
  done
  cat $head.body
  return $status
}`;

type Block = { line: number; kind: string; text: string };
type Example = { where: string; script: string; expected: string | undefined };
type Ran = { output: string; said: string };

const pages = [
  'README.md',
  'CONTRIBUTING.md',
  ...(await readdir(assetPath('docs'))).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
].sort();
const texts = new Map(
  await Promise.all(pages.map(async (page) => [page, await readFile(assetPath(page), 'utf8')] as const)),
);

t.test('every call that a page shows stands in a block that is run', async (t) => {
  for (const [page, text] of texts) {
    const notRun = blocksOf(text)
      .filter(({ kind }) => !/^sh( setup| machines)?$/.test(kind))
      .flatMap(({ line, text: body }) =>
        body
          .split('\n')
          .flatMap((one, i) => (/^\s*(?:curl|npx gatehouse) /.test(one) ? [`${page}:${line + i + 1}`] : [])),
      );
    t.same(notRun, [], `${page}: write \`\`\`sh before it`);
    const indented = text.split('\n').flatMap((one, i) => (/^ {4}(?:curl|npx) /.test(one) ? [`${page}:${i + 1}`] : []));
    t.same(indented, [], `${page}: write it as a block with \`\`\`sh`);
  }
});

t.test('every example does what its page shows', async (t) => {
  const service = await startService(t, {
    stores: 'own',
    env: { GATEHOUSE_BACKTESTS: '1', GATEHOUSE_OPERATOR_KEYS: `alice:${OPERATOR_KEY}` },
  });
  const examples = pages.map((page) => [page, examplesOf(page, texts.get(page)!)] as const);
  t.ok(examples.flatMap(([, some]) => some).length >= 25, 'there are examples');
  for (const [page, some] of examples) {
    if (some.length > 0) await t.test(page, (t) => check(t, service, page, some));
  }
});

async function check(t: Test, service: TestService, page: string, examples: readonly Example[]): Promise<void> {
  let ran: Ran[] = [];
  for (let tries = 0; tries < TRIES; tries++) {
    ran = await run(t, service, `${page.replaceAll(/[^a-z]/gi, '-')}-${tries}`, examples);
    if (examples.every((example, i) => failureOf(example, ran, i) === undefined)) break;
  }
  examples.forEach((example, i) => {
    const failure = failureOf(example, ran, i);
    const name = `${example.where}: ${example.script.split('\n')[0]}`;
    if (failure === undefined) t.pass(name);
    else t.fail(name, { ...failure, stack: '', at: {} });
  });
}

/** Runs the blocks in one shell, which ends at the first that fails; answers what each of them prints. */
async function run(t: Test, service: TestService, account: string, examples: readonly Example[]): Promise<Ran[]> {
  const folder = await workFolder(t);
  const key = await keyOfNewAccount(service, account);
  const isReadme = account.startsWith('README');
  const variables = {
    URL: service.url,
    KEY: key,
    OPERATOR_KEY,
    ...(isReadme ? {} : { AGENT: await newAgent(service.url, key) }),
  };
  const script = [
    'exec 2>&1; set -e -o pipefail',
    CURL,
    ...['wrk', 'hey'].map((name) => `${name}() { ${loadToolOf(name)} "$@"; }`),
    ...examples.map(
      ({ script, expected }, i) =>
        `MAY_FAIL=${showsError(expected) ? '' : '--fail-with-body'}\necho; echo '${MARK} ${i}'\n${script}`,
    ),
  ].join('\n');
  const env = programEnvironment({ ...variables, GATEHOUSE_DATA_DIR: service.dataDir });
  const output = await new Promise<string>((resolve) => {
    execFile('bash', ['-c', script], { cwd: folder, env, timeout: PAGE_MS_MAX }, (error, stdout) =>
      resolve(error === null ? stdout : `${stdout}\n(${error.killed ? 'took too long' : `ended with ${error.code}`})`),
    );
  });
  return output
    .split(new RegExp(`^${MARK} \\d+\n`, 'm'))
    .slice(1)
    .map((text, i, all) => ({ output: text, said: i === all.length - 1 ? text.slice(-2_000) : '' }));
}

/** A machine that has none, nor can fetch it, leaves its command out. */
function loadToolOf(name: string): string {
  const found = programPath(name);
  return found ?? `echo 'there is no ${name} here, so no Requests/sec: … requests in … [201]'`;
}

/** Where a page's files go, and where `npx gatehouse` finds the command as in a checkout. */
async function workFolder(t: Test): Promise<string> {
  const folder = folderOf(t);
  const bin = path.join(folder, 'node_modules', '.bin');
  await mkdir(bin, { recursive: true });
  await writeFile(path.join(folder, 'package.json'), '{"private": true}');
  await writeFile(
    path.join(bin, 'gatehouse'),
    `#!/bin/sh\nexec '${process.execPath}' '${assetPath('build/service/cli.js')}' "$@"\n`,
    { mode: 0o755 },
  );
  await symlink(assetPath('node_modules/.bin/autocannon'), path.join(bin, 'autocannon'));
  for (const name of ['README.md', 'bench', 'clients', 'policies'])
    await symlink(assetPath(name), path.join(folder, name));
  return folder;
}

async function newAgent(url: string, key: string): Promise<string> {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
  const made = await fetch(`${url}/v1/agents`, { method: 'POST', headers, body: '{"name": "documented"}' });
  return ((await made.json()) as { id: string }).id;
}

function failureOf({ where, script, expected }: Example, ran: readonly Ran[], i: number) {
  const one = ran[i];
  if (one === undefined) return { where, why: 'an earlier block failed, so this one was not run', script };
  const hasEnded = i === ran.length - 1 && /\n\((?:took too long|ended with .*)\)$/.test(one.output);
  if (hasEnded) return { where, why: 'the block failed', script, said: one.said };
  if (expected === undefined || wanted(expected).test(bare(one.output))) return undefined;
  return {
    where,
    why: 'it prints something else than the page shows',
    script,
    shown: expected,
    printed: one.output.slice(-4_000),
  };
}

/** A shown status counts as well: `-w '%{http_code}'`. */
function showsError(expected: string | undefined): boolean {
  return expected !== undefined && /"error":|^[45]\d\d$/m.test(expected);
}

function wanted(expected: string): RegExp {
  return new RegExp(bare(expected).split('…').map(literally).join('[\\s\\S]*'));
}

/** The blocks that are run, each with the block right behind it where that is what it prints. */
function examplesOf(page: string, text: string): Example[] {
  const blocks = blocksOf(text);
  return blocks.flatMap(({ line, kind, text: script }, i) => {
    if (kind !== 'sh') return [];
    const next = blocks[i + 1];
    const end = line + script.split('\n').length;
    const between =
      next === undefined
        ? ''
        : text
            .split('\n')
            .slice(end, next.line - 1)
            .join('')
            .trim();
    const isOutput = next !== undefined && /^(?:json)?$/.test(next.kind) && between === '';
    return [{ where: `${page}:${line}`, script, expected: isOutput ? next.text : undefined }];
  });
}

/** Fenced blocks with the number of the line that opens them, from 1. */
function blocksOf(text: string): Block[] {
  return [...text.matchAll(/^```([a-z ]*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    line: text.slice(0, match.index).split('\n').length,
    kind: match[1]!,
    text: match[2]!,
  }));
}

function bare(text: string): string {
  return text.replace(/\s+/g, '');
}

function literally(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
