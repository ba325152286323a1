// A fixed piece of work of the kind that tests do: a process starts, makes, prints, parses, searches, hashes and keeps
// values. `npm test` runs it now and then, and measures itself in it (scripts/test-runs.mjs), since seconds of one
// machine are not those of another. Prints the milliseconds of processor time that it took. A change of it changes
// what TIMES_REFERENCE_MAX means.
import { createHash } from 'node:crypto';

const kept = [];
for (let round = 0; round < 60; round++) {
  const events = Array.from({ length: 500 }, (_, i) => ({
    id: `event-${round}-${i}`,
    payload: { text: `a word ${'and another '.repeat(i % 40)}`, numbers: [i, round, i * round], inner: { depth: i } },
  }));
  const text = JSON.stringify(events);
  kept.push(new Map(JSON.parse(text).map((event) => [event.id, event])));
  if (kept.length > 20) kept.shift();
  createHash('sha256')
    .update(`${text.match(/\bevent-(\d+)-\1\b/g)}${text}`)
    .digest();
}
const { user, system } = process.cpuUsage();
process.stdout.write(String((user + system) / 1000));
