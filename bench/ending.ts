// What has to be undone when a measurement is ended half-way: services and load tools that run, folders that were made.
// Each is noted when it comes to be and struck off when it is gone; on SIGINT, SIGTERM and SIGHUP what is still noted
// is ended, the newest first, and the suite leaves with the signal's status. Bounded: what does not end in
// ENDING_MS_MAX is left, and said.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** A service gives itself 25 s. */
const ENDING_MS_MAX = 40_000;

type Ending = () => unknown;
const endings = new Set<Ending>();
const last = new Set<Ending>();

/** `end` is called once at most: by a signal, or never, if what is returned was called before. */
export function whenEnded(end: Ending): () => void {
  endings.add(end);
  return () => endings.delete(end);
}

/** Behind all others. */
export function atTheVeryEnd(end: Ending): void {
  last.add(end);
}

/** Takes what a helper of the tests would end with its test. */
export class Teardowns {
  readonly #all: Ending[] = [];

  readonly teardown = (end: Ending): void => void this.#all.push(end);

  async run(): Promise<void> {
    for (const end of this.#all.toReversed()) await end();
  }
}

/** Runs `use`, and `end` behind it or by a signal, whichever comes first. */
export async function ended<T>(use: () => Promise<T>, end: Ending): Promise<T> {
  const strike = whenEnded(end);
  try {
    return await use();
  } finally {
    strike();
    await end();
  }
}

async function endAll(): Promise<boolean> {
  for (const end of [...endings].reverse()) await Promise.resolve(end()).catch(() => undefined);
  return true;
}

for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
  process.once(signal, async () => {
    process.stderr.write(`bench: ended by ${signal}: stopping what was started …\n`);
    const isWhole = await Promise.race([endAll(), sleep(ENDING_MS_MAX, false)]);
    if (!isWhole) process.stderr.write('bench: not everything could be stopped in time\n');
    for (const end of last) end();
    process.exit(128 + os.constants.signals[signal]);
  });
}
