// The inputs that fuzzing begins with and what it has found: each is taken or refused, and none takes long (fuzz.ts,
// targets.ts).
import t from 'tap';
import { cpuMsOf } from '../support/own-time.ts';
import { corpusOf } from './fuzz.ts';
import { STALL_MS, TARGETS } from './targets.ts';

for (const kind of Object.keys(TARGETS) as (keyof typeof TARGETS)[]) {
  t.test(kind, async (t) => {
    const inputs = corpusOf(kind);
    t.ok(inputs.length >= 5);
    for (const input of inputs) {
      TARGETS[kind](input);
      t.ok(cpuMsOf(() => TARGETS[kind](input)) < 3 * STALL_MS, JSON.stringify(input.slice(0, 80)));
    }
  });
}
