// `npm run build:client`: the package @gatehouse/client in clients/typescript/dist: ESM and CommonJS, a file for the
// core and one for each adapter, and their types. Bundled, so that a page or a worker at the edge loads one file.
// Failure: the compiler's messages and status 1.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
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
