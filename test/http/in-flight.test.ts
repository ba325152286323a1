// What is in flight, against a Set: whatever is added and removed in whatever order, both hold the same. But what is
// over does not outlive the next collections, as it does with a Set.
import v8 from 'node:v8';
import vm from 'node:vm';
import fc from 'fast-check';
import t from 'tap';
import { type Indexed, InFlight } from '../../src/http/admission/in-flight.ts';
import { runs, SEED } from '../support/seed.ts';

t.test('it holds what a Set would', (t) => {
  // A number n removes one of those that are there, by n; null adds one.
  const steps = fc.array(fc.option(fc.nat(), { freq: 2 }), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (steps) => {
      const inFlight = new InFlight<Indexed>();
      const expected = new Set<Indexed>();
      for (const step of steps) {
        if (step === null || expected.size === 0) {
          const exchange = { place: -1 };
          inFlight.add(exchange);
          expected.add(exchange);
        } else {
          const exchange = [...expected][step % expected.size]!;
          inFlight.remove(exchange);
          expected.delete(exchange);
          if (exchange.place !== -1) return false;
        }
        if (inFlight.size !== expected.size) return false;
      }
      return [...inFlight].every((exchange) => expected.has(exchange)) && new Set(inFlight).size === expected.size;
    }),
    { seed: SEED, numRuns: runs(300) },
  );
  t.pass('300 orders');
  t.end();
});

t.test('a removal during iteration does not disturb it', (t) => {
  const inFlight = new InFlight<Indexed>();
  for (let i = 0; i < 10; i++) inFlight.add({ place: -1 });
  let met = 0;
  for (const exchange of inFlight) {
    met++;
    inFlight.remove(exchange);
  }
  t.equal(met, 10);
  t.equal(inFlight.size, 0);
  t.end();
});

t.test('what is over is gone with the next minor collection', (t) => {
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc') as (options?: { type: 'minor' }) => void;
  collect();
  const before = oldBytes();
  const inFlight = new InFlight<Indexed & { held: number[] }>();
  let flying: (Indexed & { held: number[] })[] = [];
  const fly = (rounds: number) => {
    for (let round = 0; round < rounds; round++) {
      const next = Array.from({ length: 32 }, () => ({ place: -1, held: new Array<number>(100).fill(round) }));
      for (const exchange of next) inFlight.add(exchange);
      for (const exchange of flying) inFlight.remove(exchange);
      flying = next;
    }
  };
  // Two collections make old what is in flight; each later one comes when all that the last one met is over.
  fly(10);
  collect({ type: 'minor' });
  for (let i = 0; i < 40; i++) {
    collect({ type: 'minor' });
    fly(50);
  }
  collect({ type: 'minor' });
  const made = 32 * (10 + 40 * 50);
  const kept = oldBytes() - before;
  const share = kept / (made * 100 * 8);
  t.ok(
    share < 0.02,
    `${Math.round(kept / 1024)} KB of all that was in flight were kept, ${(share * 100).toFixed(1)} %`,
  );
  t.end();
});

function oldBytes(): number {
  const spaces = v8.getHeapSpaceStatistics().filter(({ space_name }) => space_name.startsWith('old'));
  return spaces.reduce((bytes, { space_used_size }) => bytes + space_used_size, 0);
}
