// `npm start`: sets up what is missing (setup.mjs), then continues as `gatehouse start` in this very process.
// One process, and package.json starts it with `exec`: so npm's child is the supervisor itself and no shell is in
// between. A signal that npm passes on (SIGTERM, SIGINT) reaches it, and the person who ends the process that `npm
// start &` printed ends it all.
// Invariant: it does not outlive the npm that started it. A killed npm (`kill -9`, SIGHUP) passes nothing on, so the
// parent is inspected every second; when it is another one, this process ends as by SIGTERM. Where no npm stands
// above (`node build/service/cli.js start`) there is no such check: a parent that has gone is then usual.
// Failure: a step of the set-up that fails ends it with a sentence and status 1.
import { isNoInstall, SetupError, say, setUp } from './setup.mjs';

const PARENT_EVERY_MS = 1_000;
const NO_INSTALL = '--no-install';

leaveWithNpm();
const args = process.argv.slice(2);
try {
  await setUp({ mayInstall: !isNoInstall(args) });
} catch (error) {
  if (!(error instanceof SetupError)) throw error;
  say(error.message);
  process.exit(1);
}
process.argv.splice(2, args.length, 'start', ...args.filter((arg) => arg !== NO_INSTALL));
await import('../build/service/cli.js');

function leaveWithNpm() {
  if (process.env.npm_lifecycle_event !== 'start') return;
  const npm = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === npm) return;
    clearInterval(timer);
    process.stderr.write('start: the npm that started this is gone; leaving as by SIGTERM\n');
    process.kill(process.pid, 'SIGTERM');
  }, PARENT_EVERY_MS);
  timer.unref();
}
