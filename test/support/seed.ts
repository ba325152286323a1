// Where tests of random cases begin: the same place each time, so that a run which fails fails again, and one that passed passes.
// GATEHOUSE_TEST_SEED begins elsewhere (`random`: anywhere), which is how faults that nobody thought of are looked for.
const given = process.env.GATEHOUSE_TEST_SEED;

export const SEED = given === 'random' ? Date.now() % 2 ** 31 : Number(given ?? 20_261_121);
