// Where tests of random cases begin: the same place each time, so that a run which fails fails again, and one that
// passed passes. GATEHOUSE_TEST_SEED begins elsewhere (`random`: anywhere, which is said), which is how unexpected
// faults are searched for.
const given = process.env.GATEHOUSE_TEST_SEED;

export const SEED = given === 'random' ? Date.now() % 2 ** 31 : Number(given ?? 20_261_121);
if (given === 'random') process.stdout.write(`# seed ${SEED}\n`);

/** The share of random cases that is run: `npm run test:unit` runs a tenth. */
const share = Number(process.env.GATEHOUSE_TEST_SHARE ?? 1);

/** How many random cases a test runs, of those that it has by itself. */
export function runs(cases: number): number {
  return Math.max(1, Math.ceil(cases * share));
}

/** Are all cases run? Counts of what is rare are asked for of all alone: a share need not have any. */
export const areAllRun = share >= 1;

/** From 0 to below 1. Mulberry32: the same numbers for the same seed. */
export function randomFrom(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), seed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
