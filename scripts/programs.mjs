// Programs of others that tests run: Prometheus's checker, proxies, load tools (for setup.mjs and
// test/support/programs.ts). They are taken out of Debian's packages into node_modules/.debian: that installs nothing,
// takes no root, and starts no service. Where the machine's own lists of packages do not name them, lists are fetched
// into a folder that is removed again.
// Invariant: a program has its place only when it is whole; each step has a bound in time.
// Failure: what cannot be fetched is left out; the test that needs it says so and does without.
import { accessSync, constants, existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const PROGRAMS_FOLDER = 'node_modules/.debian';

/** Program -> its packages, with the libraries that not every machine has, and where it is in them. */
export const PROGRAMS = {
  promtool: { packages: ['prometheus'], file: 'usr/bin/promtool' },
  nginx: { packages: ['nginx'], file: 'usr/sbin/nginx' },
  haproxy: {
    packages: ['haproxy', 'liblua5.3-0', 'libopentracing-c-wrapper0', 'libopentracing1'],
    file: 'usr/sbin/haproxy',
  },
  caddy: { packages: ['caddy'], file: 'usr/bin/caddy' },
  wrk: { packages: ['wrk', 'libluajit-5.1-2'], file: 'usr/bin/wrk' },
  hey: { packages: ['hey'], file: 'usr/bin/hey' },
};

/** Names of those that are neither on the PATH nor fetched. */
export function missingPrograms() {
  return Object.keys(PROGRAMS).filter((name) => programPath(name) === undefined);
}

/** Absolute, of the one that was fetched, else of one on the PATH. undefined: there is none. */
export function programPath(name) {
  const fetched = path.join(ROOT, PROGRAMS_FOLDER, PROGRAMS[name].file);
  return existsSync(fetched) ? fetched : onPath(name);
}

/** Where a fetched program finds its libraries: for LD_LIBRARY_PATH. */
export function librariesPath() {
  return path.join(ROOT, PROGRAMS_FOLDER, 'usr/lib');
}

/** undefined: it is not on the PATH. */
export function onPath(program) {
  return (process.env.PATH ?? '')
    .split(path.delimiter)
    .map((folder) => path.join(folder, program))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/**
 * For `sh`, in the project's folder. Ends with 1 where a package could not be had; the others are there all the same.
 */
export function fetchScript(names) {
  const packages = names.flatMap((name) => PROGRAMS[name].packages);
  const files = names.map((name) => PROGRAMS[name].file);
  return `
    folder=$(mktemp -d -p node_modules .debian-XXXXXX) || exit 1
    trap 'rm -rf "$OLDPWD/$folder"' EXIT
    trap 'exit 130' INT TERM
    cd "$folder"
    options='-q -o APT::Sandbox::User=root'
    if ! timeout 120 apt-get $options download ${packages.join(' ')}; then
      mkdir -p state/lists/partial cache/archives/partial
      options="$options -o Dir::State=$PWD/state -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache=$PWD/cache"
      timeout 120 apt-get $options update
      for package in ${packages.join(' ')}; do timeout 120 apt-get $options download $package; done
    fi
    for package in *.deb; do timeout 60 dpkg -x "$package" unpacked || exit 1; done
    mkdir -p ../.debian/usr/lib
    find unpacked/usr/lib unpacked/lib -name 'lib*.so*' -exec mv {} ../.debian/usr/lib/ ';' 2>/dev/null
    failed=0
    for file in ${files.join(' ')}; do
      mkdir -p "../.debian/$(dirname $file)"
      mv "unpacked/$file" "../.debian/$file" || failed=1
    done
    exit $failed`;
}
