// What is in flight, against a Set: whatever is added and removed in whatever order, both hold the same.
import fc from 'fast-check';
import t from 'tap';
import { InFlight, type Placed } from '../../src/http/in-flight.ts';
import { SEED } from '../support/seed.ts';

t.test('it holds what a Set would', (t) => {
  // A number n removes one of those that are there, by n; null adds one.
  const steps = fc.array(fc.option(fc.nat(), { freq: 2 }), { maxLength: 200 });
  fc.assert(
    fc.property(steps, (steps) => {
      const inFlight = new InFlight<Placed>();
      const expected = new Set<Placed>();
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
    { seed: SEED, numRuns: 300 },
  );
  t.pass('300 orders');
  t.end();
});

t.test('what is removed while they are gone through disturbs nobody', (t) => {
  const inFlight = new InFlight<Placed>();
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
