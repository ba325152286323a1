// `npm run test:mutation`: do the tests of the path still bite? StrykerJS changes one place of a compiled file at a
// time and runs the tests that reach it; a mutant that no test fails on is printed. Without arguments the three files
// below, in about a quarter of an hour; `-- src/policy/decide.js policy/engine,policy/explain` another one with its
// tests. StrykerJS comes from the registry into build/mutation, since one command in a hundred needs it.
// Bounded: one test process at a time, a minute for each mutant. Ends with 1 where the score is under SCORE_MIN.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Compiled file -> tests. The rest of the mutants are equal to the original, or change a message's words. */
const FILES = {
  'src/streams/packing.js': ['streams/packing'],
  'src/policy/quotas/quota-lease.js': ['policy/quota-lease'],
  'src/policy/decide.js': ['ingest/reference', 'policy/explain', 'policy/engine'],
};
const SCORE_MIN = 85;
/** The last one for Node.js 20. */
const PACKAGES = ['@stryker-mutator/core@9.6.1', '@stryker-mutator/tap-runner@9.6.1', 'typescript@5.9.3'];

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const work = path.join(root, 'build', 'mutation');
const tools = path.join(work, 'tools');

const [file, tests] = process.argv.slice(2);
const files = file === undefined ? FILES : { [file]: (tests ?? '').split(',').filter(Boolean) };
install();
let isBelow = false;
for (const [mutated, names] of Object.entries(files)) isBelow = mutate(mutated, names) < SCORE_MIN || isBelow;
process.exitCode = isBelow ? 1 : 0;

function install() {
  if (existsSync(path.join(tools, 'node_modules', '@stryker-mutator', 'tap-runner'))) return;
  process.stdout.write(`installing ${PACKAGES.join(', ')} into build/mutation …\n`);
  mkdirSync(tools, { recursive: true });
  writeFileSync(path.join(tools, 'package.json'), '{"private": true}');
  const { status } = spawnSync('npm', ['install', '--no-audit', '--no-fund', ...PACKAGES], { cwd: tools });
  if (status !== 0) throw new Error('npm could not install StrykerJS');
}

/** The share of mutants that a test fails on, in percent. */
function mutate(mutated, names) {
  const report = path.join(work, `${path.basename(mutated, '.js')}.json`);
  const config = {
    testRunner: 'tap',
    plugins: [path.join(tools, 'node_modules/@stryker-mutator/tap-runner/dist/src/index.js')],
    mutate: [`build/${mutated}`],
    tap: { testFiles: names.map((name) => `build/test/${name}.test.js`), nodeArgs: [], forceBail: true },
    ignorePatterns: ['/data', '/docs', '/bench', '/dashboard', '/build/dashboard', '/build/mutation'],
    concurrency: 1,
    coverageAnalysis: 'perTest',
    reporters: ['json', 'progress-append-only'],
    jsonReporter: { fileName: report },
    tsconfigFile: 'none.json', // what is mutated is compiled already
    tempDirName: path.join(work, 'sandboxes'),
    timeoutMS: 60_000,
    allowConsoleColors: false,
  };
  mkdirSync(work, { recursive: true });
  const configFile = path.join(work, 'stryker.json');
  writeFileSync(configFile, JSON.stringify(config));
  const program = path.join(tools, 'node_modules/@stryker-mutator/core/bin/stryker.js');
  const env = { GATEHOUSE_TEST_SHARE: '0.1', ...process.env };
  const { status } = spawnSync(process.execPath, [program, 'run', configFile], { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) throw new Error(`StrykerJS ended with ${status}`);
  return scoreOf(mutated, JSON.parse(readFileSync(report, 'utf8')));
}

function scoreOf(mutated, report) {
  const { mutants, source } = Object.values(report.files)[0];
  const lines = source.split('\n');
  const survived = mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage');
  const score = 100 * (1 - survived.length / mutants.length);
  process.stdout.write(`\n${mutated}: ${mutants.length} mutants, ${survived.length} survived, ${score.toFixed(1)} %\n`);
  for (const { location, mutatorName, replacement } of survived) {
    const changed = (replacement ?? '').replace(/\s+/g, ' ').slice(0, 60);
    process.stdout.write(
      `  ${location.start.line} ${mutatorName} ${changed} | ${lines[location.start.line - 1].trim()}\n`,
    );
  }
  return score;
}
