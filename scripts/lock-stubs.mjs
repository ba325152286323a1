// Completes package-lock.json after `npm install` has changed it, so that `npm ci` accepts it (CONTRIBUTING.md).
// Some packages name optional packages for platforms that a registry may lack (chdb, biome, the compiler). npm then
// leaves them out of the lock file, and `npm ci` refuses the lock file for being incomplete. A stub entry that says
// which platform the package is for keeps `npm ci` content, and on that platform it is fetched like any other. Registry
// addresses are taken out as well: a lock file is for every registry. Run it by hand (`npm run lock`) and commit the
// result; it changes nothing when nothing is missing.
import { readFileSync, writeFileSync } from 'node:fs';

const FILE = new URL('../package-lock.json', import.meta.url);

/** Adds what is missing to a parsed lock file, in place. Returns the names of the added packages. */
export function completeLock(lock) {
  const added = [];
  for (const [folder, entry] of Object.entries({ ...lock.packages })) {
    delete lock.packages[folder].resolved;
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const own = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
      if (lock.packages[own] || lock.packages[`node_modules/${name}`]) continue;
      lock.packages[`node_modules/${name}`] = { version, optional: true, ...platformOf(name) };
      added.push(name);
    }
  }
  return added;
}

/** The fields that npm compares with the machine; a name that says no system is taken for none that exists. */
function platformOf(name) {
  const os = /(aix|android|darwin|freebsd|linux|netbsd|openbsd|sunos|win32)/.exec(name)?.[1] ?? 'none';
  const cpu = /-(arm64|arm|x64|ia32|loong64|ppc64|riscv64|s390x|mips64el)(?:-|$)/.exec(name)?.[1];
  const libc = name.endsWith('musl') ? 'musl' : name.endsWith('gnu') ? 'glibc' : undefined;
  return { os: [os], ...(cpu && { cpu: [cpu] }), ...(libc && { libc: [libc] }) };
}

if (process.argv[1] && import.meta.url === new URL(process.argv[1], 'file:').href) {
  const before = readFileSync(FILE, 'utf8');
  const lock = JSON.parse(before);
  const added = completeLock(lock);
  const after = `${JSON.stringify(lock, null, 2)}\n`;
  if (after !== before) writeFileSync(FILE, after);
  console.log(added.length === 0 ? 'package-lock.json is complete' : `package-lock.json: added ${added.join(', ')}`);
}
