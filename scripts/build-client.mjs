// `npm run build:client`: the package @gatehouse/client in clients/typescript/dist: ESM and CommonJS, a file for the
// core and one for each adapter, and their types, for each of the two (TypeScript takes a .d.ts of a package of modules
// for no CommonJS). Bundled, so that a page or a worker at the edge loads few files.
// Failure: the compiler's messages and status 1.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const PACKAGE = path.join(ROOT, 'clients', 'typescript');
const DIST = path.join(PACKAGE, 'dist');
const source = (name) => path.join(PACKAGE, 'src', name);
const INPUT = {
  index: source('index.ts'),
  ...Object.fromEntries(
    ['ai-sdk', 'openai-agents', 'langchain', 'claude-agent-sdk'].map((name) => [name, source(`adapters/${name}.ts`)]),
  ),
};

rmSync(DIST, { recursive: true, force: true });
const bundle = await rolldown({ input: INPUT, external: ['@langchain/core/messages'], platform: 'neutral' });
for (const [folder, format, ending] of [
  ['esm', 'esm', 'js'],
  ['cjs', 'cjs', 'cjs'],
])
  await bundle.write({
    ...{ dir: path.join(DIST, folder), format, minify: true },
    ...{ entryFileNames: `[name].${ending}`, chunkFileNames: `[name].${ending}` },
  });
await bundle.close();
const tsc = path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
const { status } = spawnSync(process.execPath, [tsc, '-p', PACKAGE], { stdio: 'inherit' });
process.exitCode = status ?? 1;

const types = path.join(DIST, 'types');
for (const name of readdirSync(types, { recursive: true }).filter((one) => one.endsWith('.d.ts'))) {
  const file = path.join(types, name);
  const text = readFileSync(file, 'utf8');
  for (const ending of ['js', 'cjs'])
    writeFileSync(
      file.replace(/ts$/, ending === 'js' ? 'ts' : 'cts'),
      text.replace(/(from '\.[^']*\.)ts'/g, `$1${ending}'`),
    );
}
