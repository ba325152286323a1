// Removes from node_modules what this machine has no use for: binaries for other systems and other Node.js versions,
// sources that were compiled elsewhere, source maps, command-line tools that are never called. npm has no way to leave
// them out. npm runs it after `npm ci` and `npm install` (postinstall of this package alone), setup.mjs after an
// installation, and by hand as `npm run prune`. It fetches and makes nothing.
// Invariant: what it removes is named here with its reason; whatever is not there is passed over, so it can run any
// number of times. Failure: a file that cannot be removed is said and left; that is no reason for an installation to
// fail.
import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const MODULES = fileURLToPath(new URL('../node_modules', import.meta.url));

/** Binary interfaces of Node.js 20, 22 and 24: changing between them must not take another installation. */
const SUPPORTED_ABIS = ['115', '127', '137'];

/** Folder in node_modules -> which of its files and folders go. 230 MB of 257, 81 of 94, 7 of 24. */
const REMOVED = [
  { folder: 'uWebSockets.js', names: (name) => /^uws_.*\.node$/.test(name) && !isForUs(name) },
  { folder: 'uWebSockets.js', names: among('docs', 'examples', 'misc', 'mvp', 'scripts', 'src', 'tests') },
  // The compiler needs the library, index.js; these are its tools, 10 MB each.
  { folder: 'binaryen', names: among('bin') },
  // The service needs the core and one set of data, tests the examples; these are other forms of the same.
  {
    folder: 'libphonenumber-js',
    names: among('build', 'bundle', 'es6-modern', 'max', 'min', 'mobile', 'source'),
  },
  { folder: 'lucide/dist', names: among('cjs', 'umd') },
  // C of add-ons that are compiled only on request; without them the same in JavaScript.
  ...foldersIn('@stdlib').map((folder) => ({ folder, names: among('src', 'include') })),
];

export function prune() {
  for (const { folder, names } of REMOVED) {
    for (const name of namesIn(folder).filter(names)) remove(path.join(folder, name));
  }
  for (const name of readdirSync(MODULES, { recursive: true })) if (isSourceMap(name)) remove(name);
}

/** Says whether an add-on is for this system and processor, and for a Node.js that is supported or running. */
function isForUs(name) {
  const abis = new Set([...SUPPORTED_ABIS, process.versions.modules]);
  return [...abis].some((abi) => name === `uws_${process.platform}_${process.arch}_${abi}.node`);
}

function isSourceMap(name) {
  return /\.[cm]?[jt]s\.map$/.test(name);
}

function among(...wanted) {
  return (name) => wanted.includes(name);
}

function foldersIn(scope) {
  return namesIn(scope).map((name) => path.join(scope, name));
}

function namesIn(folder) {
  const whole = path.join(MODULES, folder);
  return existsSync(whole) ? readdirSync(whole) : [];
}

function remove(name) {
  try {
    rmSync(path.join(MODULES, name), { recursive: true, force: true });
  } catch (error) {
    process.stderr.write(`prune: ${name} stays: ${error.message}\n`);
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href && existsSync(MODULES)) prune();
