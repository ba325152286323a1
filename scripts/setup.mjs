// Makes a checkout ready to run: packages, redis-server, build. npm runs it before `npm start` and `npm test`.
// Plain Node without any dependency, since it runs before there are any; a fresh clone needs nothing but Node 20.
// Each step looks whether it is needed and says what it does; with nothing to do it is silent and takes a fraction of a
// second. A step that fails ends the whole with a sentence that says what to do by hand.
//   node scripts/setup.mjs            what `npm start` needs
//   node scripts/setup.mjs --tests    and what `npm test` needs beyond it
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = ['schemas', 'src', 'pipelines', 'clickhouse', 'bench', 'test', 'scripts'];
const BUILD_STAMP = 'build/.stamp';
const TAP_STAMP = 'node_modules/.gatehouse-tap';
const NODE_MAJOR_MIN = 20;
/** A registry or a mirror that hiccups is asked again. */
const FETCH_TRIES = 3;
const FETCH_PAUSE_MS = 10_000;

class SetupError extends Error {}

function main(forTests) {
  process.chdir(ROOT);
  checkNode();
  if (!packagesAreInstalled()) installPackages();
  if (needsRedis(forTests) && !onPath('redis-server')) installRedis();
  const wanted = sourceStamp();
  if (read(BUILD_STAMP) !== wanted) build(wanted);
  if (forTests && !existsSync(TAP_STAMP)) buildTap();
}

function checkNode() {
  const major = Number(process.versions.node.split('.')[0]);
  if (major < NODE_MAJOR_MIN)
    throw new SetupError(`Node ${NODE_MAJOR_MIN} or newer is needed, this is ${process.version}.`);
}

/** Compares by content, not by time: a clone, a copy or a touched lock file must not set off an installation. */
function packagesAreInstalled() {
  const installed = readJson('node_modules/.package-lock.json')?.packages;
  if (!installed) return false;
  return Object.entries(readJson('package-lock.json').packages).every(
    ([folder, wanted]) =>
      folder === '' || (installed[folder] ? installed[folder].version === wanted.version : wanted.optional === true),
  );
}

function installPackages() {
  say('installing the packages of package-lock.json (npm ci) …');
  // Under `npm start` the very npm that runs us is used; development packages are needed, since they build.
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  run([...npm, 'ci', '--include=dev', '--include=optional'], 'npm ci failed; see its messages above.', FETCH_TRIES);
}

/** A service that is given its Redis by address needs no program of its own; the tests always do. */
function needsRedis(forTests) {
  return forTests || !process.env.GATEHOUSE_REDIS_URL;
}

/**
 * Installs Debian's redis-server, for its program alone: policy-rc.d keeps the package from starting a service, and the
 * service is taken out of the next boot as well. A Redis that already runs is not touched.
 */
function installRedis() {
  const byHand = 'Install redis-server 7 or newer so that it is on the PATH, or set GATEHOUSE_REDIS_URL.';
  if (!onPath('apt-get')) throw new SetupError(`redis-server is missing and there is no apt-get here. ${byHand}`);
  const asRoot = process.getuid?.() === 0 ? [] : onPath('sudo') ? ['sudo'] : undefined;
  if (!asRoot) throw new SetupError(`redis-server is missing, and installing it takes root or sudo. ${byHand}`);
  say('installing redis-server (apt-get) …');
  const script = `
    set -e
    export DEBIAN_FRONTEND=noninteractive
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
      trap 'exit 130' INT TERM
      printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
      chmod 755 /usr/sbin/policy-rc.d
    fi
    apt-get -q -o DPkg::Lock::Timeout=120 update || true
    apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends redis-server
    if [ -d /run/systemd/system ]; then systemctl disable redis-server.service || true
    else update-rc.d redis-server disable >/dev/null 2>&1 || true; fi`;
  run([...asRoot, 'sh', '-c', script], `apt-get could not install redis-server. ${byHand}`, FETCH_TRIES);
  if (!onPath('redis-server')) throw new SetupError(`redis-server is still not on the PATH. ${byHand}`);
}

function build(stamp) {
  say('building …');
  const failed = 'The build failed; see the messages above.';
  run([process.execPath, 'node_modules/typescript/bin/tsc', '-p', '.'], failed);
  run([process.execPath, 'scripts/build-wasm.mjs'], failed);
  removeOrphans('build');
  writeFileSync(BUILD_STAMP, stamp);
}

/** tap assembles its test class from its plugins; the first run after an installation fails unless that is done before. */
function buildTap() {
  say('preparing the test runner …');
  run([process.execPath, 'node_modules/tap/dist/esm/run.mjs', 'build'], 'tap build failed; see its messages above.');
  writeFileSync(TAP_STAMP, '');
}

/** What a renamed or deleted source left in the build would go on being run as a test. */
function removeOrphans(folder) {
  for (const file of filesIn(folder, '.js')) {
    const source = path.relative(folder, file).replace(/\.js$/, '');
    if (existsSync(`${source}.ts`)) continue;
    for (const suffix of ['.js', '.js.map']) rmSync(path.join(folder, source + suffix), { force: true });
  }
}

/** Names, sizes and times of everything that the build is made of. */
function sourceStamp() {
  const files = ['tsconfig.json', 'package-lock.json', ...SOURCES.flatMap((folder) => filesIn(folder, '.ts'))];
  const hash = createHash('sha256');
  for (const file of files.sort()) {
    const { mtimeMs, size } = statSync(file);
    hash.update(`${file}\0${mtimeMs}\0${size}\n`);
  }
  return hash.digest('hex');
}

function filesIn(folder, suffix) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(suffix))
    .map((name) => path.join(folder, name));
}

function onPath(program) {
  return (process.env.PATH ?? '').split(path.delimiter).some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

function run([program, ...args], sentence, tries = 1) {
  const { status, error } = spawnSync(program, args, { stdio: ['inherit', 2, 2] });
  if (!error && status === 0) return;
  if (error || tries === 1) throw new SetupError(error ? `${sentence} (${error.message})` : sentence);
  say('that failed; once more in a moment …');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FETCH_PAUSE_MS);
  run([program, ...args], sentence, tries - 1);
}

function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

function readJson(file) {
  const text = read(file);
  return text === undefined ? undefined : JSON.parse(text);
}

function say(text) {
  process.stderr.write(`setup: ${text}\n`);
}

try {
  main(process.argv.includes('--tests'));
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exitCode = 1;
}
