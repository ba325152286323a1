// Which test files a command of scripts/test.mjs means. Each file runs somewhere: with every change, unless it starts a
// service of its own or a browser, or is named here; then before a change is merged, or at night. test/tidy.test.ts
// holds that what is named here exists.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root, testNames } from './test-runs.mjs';

/** Run with every change, although each starts a service of its own: the contract, and a screen. */
const WITH_EVERY_CHANGE = ['http/api.path', 'dashboard/first-minutes.browser'];

/** Too long for every change, although they start no service. */
const AT_MERGE = [
  'audit/chain.clickhouse',
  'bench/demo.path',
  'clickhouse/final-outcome.clickhouse',
  'clickhouse/queries.clickhouse',
  'clients/arguments.path',
  'clients/python.path',
  'clients/records.path',
  'http/framing.socket',
  'http/hooks.path',
  'http/short-pages.path',
  'http/wire.socket',
  'mcp/mcp.path',
  'otlp/decode',
  'pipelines/drain.clickhouse',
  'pipelines/group-insert.clickhouse',
  'pipelines/store.clickhouse',
  'policy/folded',
  'policy/one-verdict',
  'policy/policy-replay',
  'search/pages.clickhouse',
  'search/parts.clickhouse',
  'search/words',
  'streams/idempotency.redis',
];

/**
 * Run at night and before a release: kills and outages of minutes each, the bench programs themselves, what few
 * changes reach (an installed package, the protocols of ClickHouse and of Redis's replicas), and what takes minutes
 * and holds details of one part: who changes that part has `--since` run it. All of a merge stays under 45 minutes on a
 * machine half as fast as a quiet one.
 */
const AT_NIGHT = [
  'audit/ordered-verification.path',
  'bench/baseline.redis',
  'bench/remote.path',
  'clickhouse/cursors.clickhouse',
  'clickhouse/data-directory.clickhouse',
  'clickhouse/protocol.clickhouse',
  'dashboard/checks-and-connections.browser',
  'dashboard/conversation.browser',
  'dashboard/many.browser',
  'dashboard/on-call.browser',
  'dashboard/policy-form.browser',
  'dashboard/policy-trials.browser',
  'dashboard/recorded.browser',
  'dashboard/seen-as-it-is.browser',
  'dashboard/stays-and-returns.browser',
  'dashboard/under-the-hand.browser',
  'documents.path',
  'http/ended-callers.path',
  'http/neighbour.path',
  'http/overload.path',
  'http/overloaded-hooks.path',
  'http/proxies.path',
  'mcp/attacks.path',
  'mcp/messages.path',
  'ops.path',
  'pipelines/backtest.path',
  'pipelines/crash.clickhouse',
  'pipelines/file-cleaning.clickhouse',
  'pipelines/outgoing-s3.path',
  'processes/any-node.path',
  'processes/apply-kills.path',
  'processes/backtest-kills.path',
  'processes/backup-slow-disk.path',
  'processes/copied-folder.path',
  'processes/full-disk.path',
  'processes/installation.path',
  'processes/npm-start.path',
  'processes/orphans.path',
  'processes/outages.path',
  'processes/own-stores.path',
  'processes/put-back.path',
  'processes/stored-backup.path',
  'processes/supervisor.path',
  'processes/two-versions.path',
  'production.path',
  'redis/replicas.redis',
  'redis/sentinel.redis',
  'search/search.clickhouse',
];

/** A test that starts a service of its own has one of these calls. */
const OWN_SERVICE = /\b(startService|launchService|spawnCli)\(/;
/** A test whose random cases can be fewer has this call. Every change runs a tenth of them, a merge all. */
const RANDOM_CASES = /\bruns\(/;
const FEW_CASES = { GATEHOUSE_TEST_SHARE: '0.1' };

const USAGE = 'usage: test.mjs [--all | --rest | --night | --unit | --since COMMIT | NAME …] [--record]';

/**
 * `names`: of test files, `isBounded`: in the time that they may take; or `usage`: what is wrong with the arguments.
 */
export function namesOf(args) {
  const all = testNames();
  const [kind, commit] = args;
  const atNight = (name) => AT_NIGHT.includes(name);
  const atMerge = (name) => !atNight(name) && isAtMerge(name);
  if (kind === undefined)
    return { names: all.filter((name) => !atMerge(name) && !atNight(name)), env: FEW_CASES, isBounded: true };
  if (kind === '--since' && args.length === 2) return { names: sinceCommit(all, commit) };
  if (kind.startsWith('-') && args.length > 1) return { usage: USAGE };
  if (kind === '--all') return { names: all.filter((name) => !atNight(name)) };
  if (kind === '--rest')
    return { names: all.filter((name) => atMerge(name) || (!atNight(name) && hasRandomCases(name))) };
  if (kind === '--night') return { names: all };
  if (kind === '--unit') {
    const units = all.filter((name) => !path.basename(name).includes('.'));
    return { names: units, env: FEW_CASES, alone: true };
  }
  if (kind.startsWith('-')) return { usage: `${kind} is not known\n${USAGE}` };
  const unknown = args.filter((begin) => !all.some((name) => name.startsWith(begin)));
  if (unknown.length > 0) return { usage: `no test file begins with ${unknown.join(', ')}\n${USAGE}` };
  return { names: all.filter((name) => args.some((begin) => name.startsWith(begin))) };
}

function isAtMerge(name) {
  if (WITH_EVERY_CHANGE.includes(name)) return false;
  const isNamed = AT_MERGE.includes(name) || name.endsWith('.browser');
  return isNamed || OWN_SERVICE.test(sourceOf(name));
}

function hasRandomCases(name) {
  return RANDOM_CASES.test(sourceOf(name));
}

function sourceOf(name) {
  return readFileSync(path.join(root, 'test', `${name}.test.ts`), 'utf8');
}

/** Folders of source text. What changes elsewhere (packages, scripts, SQL) may concern any test. */
const SOURCES = ['src', 'schemas', 'pipelines', 'clickhouse', 'dashboard', 'clients', 'bench', 'test'];
/** Hold all files of the repository to something. */
const OF_ALL_FILES = ['tidy', 'naming', 'spec', 'own-json', 'packages'];
const IMPORT = /(?:from|import)\s*\(?\s*'(\.[^']+)'/g;
/** A program that is started by its built name. */
const PROGRAM = /build\/service\/([\w-]+)\.js/g;

/** The tests that import a file that has changed, or start a program that does. */
function sinceCommit(all, commit) {
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\n').filter(Boolean);
  const changed = [...git('diff', '--name-only', commit), ...git('ls-files', '--others', '--exclude-standard')];
  const isText = (file) => file.endsWith('.md');
  const isSource = (file) => /\.tsx?$/.test(file) && SOURCES.includes(file.split('/')[0]);
  if (changed.length === 0) return [];
  if (changed.some((file) => !isText(file) && !isSource(file))) return all;
  const importers = importersOf(SOURCES.flatMap(filesIn));
  const reached = new Set();
  const visit = (file) => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const importer of importers.get(file) ?? []) visit(importer);
  };
  for (const file of changed.filter(isSource)) visit(file);
  const isDashboard = changed.some((file) => file.startsWith('dashboard/'));
  return all.filter(
    (name) =>
      OF_ALL_FILES.includes(name) ||
      reached.has(`test/${name}.test.ts`) ||
      (isDashboard && name.endsWith('.browser')) ||
      (changed.some(isText) && name.startsWith('documents')),
  );
}

function filesIn(folder) {
  if (!existsSync(path.join(root, folder))) return [];
  return readdirSync(path.join(root, folder), { recursive: true })
    .filter((name) => /\.tsx?$/.test(name) && !name.includes('node_modules'))
    .map((name) => path.posix.join(folder, name));
}

function importersOf(files) {
  const importers = new Map();
  const add = (to, file) => importers.set(to, [...(importers.get(to) ?? []), file]);
  const byName = new Map(files.map((file) => [path.basename(file, '.ts'), file]));
  for (const file of files) {
    const text = readFileSync(path.join(root, file), 'utf8');
    for (const [, to] of text.matchAll(IMPORT)) add(path.posix.join(path.posix.dirname(file), to), file);
    for (const [, program] of text.matchAll(PROGRAM)) add(byName.get(program), file);
  }
  return importers;
}
