// `npm run test:unit`: the tests that need nothing but Node.js (their names have no second suffix), with a tenth of
// their random cases: the answer within half a minute while one works. `npm test` runs all of them whole.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';

const root = path.dirname(path.dirname(new URL(import.meta.url).pathname));
const folder = path.join(root, 'build', 'test');
const tests = readdirSync(folder, { recursive: true })
  .filter((name) => /^[^.]+\.test\.js$/.test(name))
  .map((name) => path.join(folder, name));
const { status } = spawnSync(path.join(root, 'node_modules', '.bin', 'tap'), ['run', ...tests], {
  cwd: root,
  env: { GATEHOUSE_TEST_SHARE: '0.1', ...process.env },
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
