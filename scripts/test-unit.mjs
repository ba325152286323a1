// `npm run test:unit`: the tests that need nothing but Node.js (their names have no second suffix), with a tenth of
// their random cases, for while one works. `npm test` runs all of them whole. Each file is a program that prints TAP
// and ends with its result: started as such, without the runner, they take half the processor time. The largest first,
// as many at a time as there are processors. Of a file that fails everything from its first failure on is shown.
import { spawn } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const folder = path.join(root, 'build', 'test');
const tests = readdirSync(folder, { recursive: true })
  .filter((name) => /^[^.]+\.test\.js$/.test(name))
  .sort((a, b) => statSync(path.join(folder, b)).size - statSync(path.join(folder, a)).size);

let [passed, failed] = [0, 0];
const started = performance.now();
await Promise.all(Array.from({ length: os.availableParallelism() }, work));
const seconds = ((performance.now() - started) / 1000).toFixed(1);
process.stdout.write(`${passed} files passed, ${failed} failed, in ${seconds} s\n`);
process.exitCode = failed === 0 ? 0 : 1;

async function work() {
  for (let name = tests.shift(); name !== undefined; name = tests.shift()) {
    const { code, output } = await run(path.join(folder, name));
    if (code === 0) passed++;
    else {
      failed++;
      const from = Math.max(0, output.search(/^ *not ok/m));
      process.stdout.write(`FAILED ${name} (${code})\n${output.slice(from)}\n`);
    }
  }
}

/** `code`: exit code, or the signal that ended it. */
function run(file) {
  const env = { GATEHOUSE_TEST_SHARE: '0.1', TAP_TIMEOUT: '600', ...process.env };
  const child = spawn(process.execPath, [file], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code: code ?? signal, output })));
}
