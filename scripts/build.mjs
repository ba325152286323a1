// `npm run build`: TypeScript, AssemblyScript and the pages of the dashboard into `build`, without what renamed or
// deleted sources had left there, and a stamp that says what it was made of. setup.mjs asks `isBuilt` and builds where
// the answer is no. The stamp goes by content: a clone or a copy of a checkout together with its `build` is built.
// Where no sources came along (a container that was given the build alone) there is nothing to compare with.
// Failure: the compiler's messages and status 1; the old stamp is gone by then, so the next start builds again.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = ['schemas', 'src', 'pipelines', 'clickhouse', 'bench', 'test', 'scripts'];
const SETTINGS = ['tsconfig.json', 'package-lock.json'];
const BUILD = path.join(ROOT, 'build');
const STAMP = path.join(BUILD, '.stamp');
const STEPS = [
  ['node_modules/typescript/bin/tsc', '-p', '.'],
  ['scripts/build-service.mjs'],
  ['scripts/build-wasm.mjs'],
  ['node_modules/vite/bin/vite.js', 'build', '--config', 'dashboard/vite.config.mjs'],
];
const PAGES = path.join(BUILD, 'dashboard');

/** Undefined: it can be written; else the code of the error that a build would end with. */
export function whyNotWritable() {
  try {
    accessSync(existsSync(BUILD) ? BUILD : ROOT, constants.W_OK);
    return undefined;
  } catch (error) {
    return error.code;
  }
}

/** Is `build` there, and made of the sources as they are? */
export function isBuilt() {
  if (!existsSync(path.join(ROOT, 'src', 'composition', 'cli.ts')))
    return existsSync(path.join(BUILD, 'service', 'cli.js'));
  return existsSync(STAMP) && readFileSync(STAMP, 'utf8') === sourceStamp();
}

function build() {
  const stamp = sourceStamp();
  rmSync(STAMP, { force: true });
  for (const step of STEPS) {
    const { status } = spawnSync(process.execPath, step, { cwd: ROOT, stdio: 'inherit' });
    if (status !== 0) process.exit(1);
  }
  removeOrphans();
  compressPages();
  // npm makes a command executable after it has linked it; a second npx that comes between the two must find it so.
  for (const command of Object.values(commands())) chmodSync(path.join(ROOT, command), 0o755);
  writeFileSync(STAMP, stamp);
}

/** Once, here, so that a front need not at its start: the best brotli of 300 kB takes a second. */
function compressPages() {
  for (const file of filesIn(PAGES, '')) {
    const content = readFileSync(file);
    writeFileSync(`${file}.br`, brotliCompressSync(content));
    writeFileSync(`${file}.gz`, gzipSync(content, { level: 9 }));
  }
}

function commands() {
  return JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')).bin;
}

/**
 * Removes what a renamed or deleted source left in the build, which would continue being run as a test. Other folders
 * in there are a test's own, which may be running.
 */
function removeOrphans() {
  for (const file of SOURCES.flatMap((folder) => filesIn(path.join(BUILD, folder), '.js'))) {
    const source = path.relative(BUILD, file).replace(/\.js$/, '');
    if (existsSync(path.join(ROOT, `${source}.ts`))) continue;
    for (const suffix of ['.js', '.js.map']) rmSync(path.join(BUILD, source + suffix), { force: true });
  }
}

/** Names and contents of everything that the build is made of. */
function sourceStamp() {
  const sources = SOURCES.flatMap((folder) => filesIn(path.join(ROOT, folder), '.ts'));
  sources.push(...filesIn(path.join(ROOT, 'dashboard'), ''));
  const files = [...SETTINGS.map((name) => path.join(ROOT, name)), ...sources].sort();
  const hash = createHash('sha256');
  for (const file of files)
    hash
      .update(`${path.relative(ROOT, file)}\0`)
      .update(readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

function filesIn(folder, suffix) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(suffix))
    .map((name) => path.join(folder, name))
    .filter((file) => statSync(file).isFile());
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) build();
