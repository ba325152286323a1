// Makes of the service's sources and packages the few files that are run: `build/service/cli.js` and what it loads.
// A front of 700 small modules spends half a second of processor time on finding and linking them, and `gatehouse
// start` is four such processes; of one file each they take a third of that. The text stays readable: nothing is
// minified, and each part names the file that it is from. Tests and measurements import single modules, which tsc
// compiles beside it. Part of `npm run build`; a failure ends with the bundler's message and status 1.
// Invariant: an entry loads no more than its own: what only another command needs is a file of its own, loaded when it
// is asked for.
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const ENTRIES = [
  'src/composition/cli.ts',
  'src/chdb-server/clickhouse-server-main.ts',
  'src/process/stall-guard-thread.ts',
  'src/ingest/judging-thread.ts',
];
/** They load files that lie beside their own. */
const AS_PACKAGES = ['uWebSockets.js', 'chdb', 'lz4-wasm-nodejs'];

const bundle = await rolldown({
  cwd: ROOT,
  platform: 'node',
  input: Object.fromEntries(ENTRIES.map((entry) => [path.basename(entry, '.ts'), entry])),
  external: (id) => AS_PACKAGES.some((name) => id === name || id.startsWith(`${name}/`)),
});
await bundle.write({
  dir: path.join(ROOT, 'build', 'service'),
  cleanDir: true,
  format: 'esm',
  sourcemap: true,
  entryFileNames: '[name].js',
  chunkFileNames: '[name].js',
});
await bundle.close();
