// Makes a checkout ready to run: packages, redis-server, build. `npm start` does it first (start.mjs), and npm runs it
// before `npm test`, `npm run bench` and `npm run demo`.
// Plain Node without any dependency, since it runs before there are any; a fresh clone needs nothing but Node 20.
// Each step looks whether it is needed and says what it does before it does it; with nothing to do it is silent and
// takes a fraction of a second. A step that fails ends the whole with a sentence that says what to do by hand.
// Invariant: it becomes root by no means of its own, and with --no-install it puts nothing on the machine: it says what
// is missing.
//   node scripts/setup.mjs                what `npm start` needs
//   node scripts/setup.mjs --dev          and the packages of development, also where nothing is to be built
//   node scripts/setup.mjs --tests        and what `npm test` needs beyond that
//   node scripts/setup.mjs --no-install   the build alone
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isBuilt, whyNotWritable } from './build.mjs';
import { fetchScript, missingPrograms, onPath } from './programs.mjs';
import { prune } from './prune.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TAP_STAMP = 'node_modules/.gatehouse-tap';
const ENGINE = 'node_modules/chdb';
/** As `engines` in package.json says it. */
const NODE_MAJOR_MIN = 20;
const NODE_MINOR_MIN = { 20: 19, 22: 13 };
/** A registry or a mirror that hiccups is asked again. */
const FETCH_TRIES = 3;
const FETCH_PAUSE_MS = 10_000;
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'];
const SIGNAL_EVERY_MS = 5_000;

/** A person can mend it: the sentence says how. */
export class SetupError extends Error {}

/**
 * Throws SetupError. `forDevelopment`: with the packages that tests and measurements need, though there is nothing to
 * be built; `forTests`: and the test runner. `mayInstall`: false refuses where something would have to be put on the
 * machine.
 */
export async function setUp({ forTests = false, forDevelopment = forTests, mayInstall = true }) {
  process.chdir(ROOT);
  checkNode();
  const isReady = isBuilt();
  const locked = isReady ? undefined : whyNotWritable();
  if (locked !== undefined)
    throw new SetupError(
      `${ROOT}build is not made of these sources, and cannot be written (${locked}). Build where it can be (npm run build), ` +
        'and bring sources and build here together.',
    );
  if (!packagesAreInstalled(forDevelopment || !isReady)) await installPackages(mayInstall);
  if (needsRedis(forTests) && !onPath('redis-server')) await installRedis(mayInstall);
  if (!isReady) await buildAll();
  if (forTests && !existsSync(TAP_STAMP)) await buildTap();
  if (forTests) await fetchPrograms(mayInstall);
  if (forTests && !onPath('chromium')) await installForTests('chromium', 'chromium fonts-dejavu-core', mayInstall);
  if (forTests && !onPath('python3')) await installForTests('python3', 'python3', mayInstall);
}

/**
 * `npm start -- --no-install` hands it over; `npm start --no-install` is a setting of npm's, which it passes to its
 * scripts.
 */
export function isNoInstall(args) {
  return args.includes('--no-install') || ['', 'false'].includes(process.env.npm_config_install);
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < NODE_MAJOR_MIN || minor < (NODE_MINOR_MIN[major] ?? 0))
    throw new SetupError(`Node.js 20.19, 22.13 or 24 or newer is needed, this is ${process.version}.`);
}

/**
 * Compares by content, not by time: a clone, a copy or a touched lock file must not set off an installation. One for
 * production (`npm ci --omit=dev --omit=optional`) is whole where nothing is to be built and a ClickHouse is given.
 */
function packagesAreInstalled(withDevelopment) {
  const installed = readJson('node_modules/.package-lock.json')?.packages;
  if (!installed) return false;
  if (needsEngine() && !installed[ENGINE]) return false;
  const mayLack = ({ dev, devOptional, optional }) => optional || (!withDevelopment && (dev || devOptional));
  return Object.entries(readJson('package-lock.json').packages).every(
    ([folder, wanted]) =>
      folder === '' || (installed[folder] ? installed[folder].version === wanted.version : mayLack(wanted)),
  );
}

/** The embedded engine, where there is one for this machine and no server is given. */
function needsEngine() {
  const hasOne = process.platform === 'linux' && process.arch === 'x64';
  return hasOne && !process.env.GATEHOUSE_CLICKHOUSE_URL;
}

async function installPackages(mayInstall) {
  const command = 'npm ci --include=dev --include=optional';
  if (!mayInstall)
    throw new SetupError(
      `the packages of package-lock.json are not installed, and --no-install forbids it. Type: ${command}`,
    );
  say(`the packages of package-lock.json are not installed: installing them into node_modules (${command}) …`);
  // Under `npm start` the very npm that runs us is used; development packages are needed, since they build.
  const npm = process.env.npm_execpath ? [process.execPath, process.env.npm_execpath] : ['npm'];
  await run([...npm, ...command.split(' ').slice(1)], 'npm ci failed; see its messages above.', FETCH_TRIES);
  prune(); // npm has done so, unless it is set to run no scripts
}

/** A service that is given its Redis by address needs no program of its own; the tests always do. */
function needsRedis(forTests) {
  return forTests || !process.env.GATEHOUSE_REDIS_URL;
}

/** Lines of a shell script. A list that cannot be brought up to date may still hold what is asked for. */
function aptInstall(packages) {
  return `export DEBIAN_FRONTEND=noninteractive
    apt-get -q -o DPkg::Lock::Timeout=120 update || true
    apt-get -q -o DPkg::Lock::Timeout=120 install -y --no-install-recommends ${packages}`;
}

/**
 * Where this runs as root, installs Debian's redis-server, for its program alone: policy-rc.d keeps the package from
 * starting a service, and the service is taken out of the next boot as well. A Redis that already runs is not touched.
 * Other users get the command to type.
 */
async function installRedis(mayInstall) {
  const orElse = 'or set GATEHOUSE_REDIS_URL to a Redis of yours.';
  if (!onPath('apt-get'))
    throw new SetupError(`redis-server is missing. Install version 7 or newer so that it is on the PATH, ${orElse}`);
  const asRoot = process.getuid?.() === 0;
  const command = `${asRoot ? '' : 'sudo '}apt-get install --no-install-recommends redis-server`;
  const byHand = `Type: ${command}   ${orElse}`;
  if (!mayInstall) throw new SetupError(`redis-server is missing, and --no-install forbids to install it. ${byHand}`);
  if (!asRoot)
    throw new SetupError(
      `redis-server is missing, and installing it takes root, which this does not run as. ${byHand}`,
    );
  say(
    `redis-server is missing and this runs as root: installing Debian's package with apt-get, its program alone, no service ` +
      '(--no-install refuses instead) …',
  );
  const script = `
    set -e
    if [ ! -e /usr/sbin/policy-rc.d ]; then
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
      trap 'exit 130' INT TERM
      printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
      chmod 755 /usr/sbin/policy-rc.d
    fi
    ${aptInstall('redis-server')}
    if [ -d /run/systemd/system ]; then systemctl disable redis-server.service || true
    else update-rc.d redis-server disable >/dev/null 2>&1 || true; fi`;
  await run(['sh', '-c', script], `apt-get could not install redis-server. ${byHand}`, FETCH_TRIES);
  if (!onPath('redis-server')) throw new SetupError(`redis-server is still not on the PATH. ${byHand}`);
}

async function buildAll() {
  say('building …');
  await run([process.execPath, 'scripts/build.mjs'], 'The build failed; see the messages above.');
}

/**
 * tap assembles its test class from its plugins; the first run after an installation fails unless that is done before.
 */
async function buildTap() {
  say('preparing the test runner …');
  await run(
    [process.execPath, 'node_modules/tap/dist/esm/run.mjs', 'build'],
    'tap build failed; see its messages above.',
  );
  writeFileSync(TAP_STAMP, '');
}

/** Tests do without them, so what fails here is said and ends nothing. */
async function fetchPrograms(mayInstall) {
  const names = missingPrograms();
  if (names.length === 0) return;
  const [listed, instead] = [names.join(', '), 'What tests need them for is left out.'];
  if (!mayInstall) return say(`missing, and --no-install forbids to fetch: ${listed}. ${instead}`);
  if (!['apt-get', 'dpkg', 'timeout'].every(onPath))
    return say(`missing, and there is no apt-get to fetch by: ${listed}. ${instead}`);
  say(
    `missing for the tests: ${listed}: taking them out of Debian's packages, which are downloaded and not installed …`,
  );
  await run(['sh', '-c', fetchScript(names)], `Not all of these could be fetched. ${instead}`).catch(sayOnly);
}

/** Debian's: the browser with the font that it draws with, Python for its client. No service is started. */
async function installForTests(program, packages, mayInstall) {
  const instead = 'What tests need it for is left out.';
  if (!mayInstall) return say(`${program} is missing, and --no-install forbids to install it. ${instead}`);
  if (process.getuid?.() !== 0 || !onPath('apt-get'))
    return say(`${program} is missing. ${instead} To have it: sudo apt-get install ${packages}`);
  say(`${program} is missing for the tests and this runs as root: installing Debian's package with apt-get …`);
  const script = `set -e; ${aptInstall(packages)}`;
  await run(['sh', '-c', script], `apt-get could not install ${program}. ${instead}`).catch(sayOnly);
}

/** For what can be done without. */
function sayOnly(error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
}

/** A signal that is meant for us is handed on: nothing that we started continues without us. */
async function run([program, ...args], sentence, tries = 1) {
  const child = spawn(program, args, { stdio: ['inherit', 2, 2] });
  const handOn = (signal) => {
    child.once('exit', () => process.exit(128 + os.constants.signals[signal]));
    child.kill(signal);
    // At the first npm begins to put back what it has installed, for minutes; at the second it ends at once.
    setInterval(() => child.kill(signal), SIGNAL_EVERY_MS).unref();
  };
  for (const signal of SIGNALS) process.on(signal, handOn);
  const [status, error] = await once(child, 'exit').catch((cause) => [null, cause]);
  for (const signal of SIGNALS) process.off(signal, handOn);
  if (status === 0) return;
  const isBroken = error instanceof Error;
  if (isBroken || tries === 1) throw new SetupError(isBroken ? `${sentence} (${error.message})` : sentence);
  say('that failed; once more in a moment …');
  await sleep(FETCH_PAUSE_MS);
  await run([program, ...args], sentence, tries - 1);
}

function read(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}

function readJson(file) {
  const text = read(file);
  return text === undefined ? undefined : JSON.parse(text);
}

/** Says it on standard error; standard output is the service's. */
export function say(text) {
  process.stderr.write(`setup: ${text}\n`);
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const args = process.argv.slice(2);
  const forTests = args.includes('--tests');
  const forDevelopment = forTests || args.includes('--dev');
  await setUp({ forTests, forDevelopment, mayInstall: !isNoInstall(args) }).catch((error) => {
    sayOnly(error);
    process.exitCode = 1;
  });
}
