// Phone numbers as they are dialled inside a country (`regions` of a data filter), and the numbering plans behind all
// phone numbers, which are held against the package that they come from.
import fc from 'fast-check';
import { getCountryCallingCode, isValidPhoneNumber, parsePhoneNumber } from 'libphonenumber-js/core';
import examples from 'libphonenumber-js/examples.mobile.json';
import metadata from 'libphonenumber-js/metadata.max.json';
import t from 'tap';
import { Budget } from '../../src/policy/budget.ts';
import { phoneIn } from '../../src/policy/detectors/detectors.ts';
import { isInternationalNumber, isNationalNumber, REGIONS } from '../../src/policy/detectors/numbering-plans.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { mistakesOf } from '../../src/policy/policy-work.ts';
import { patternOf } from '../../src/policy/text-search/scanner.ts';
import { runs, SEED } from '../support/seed.ts';
import { cpuMs, decideOn, event, policy } from './support.ts';

function findings(regions: string[], text: string): string[] {
  const budget = new Budget(1e9);
  const found = new Set<string>();
  for (const find of phoneIn(regions).finds)
    for (let span = find(text, 0, budget); span !== null; span = find(text, span.end, budget))
      found.add(text.slice(span.start, span.end));
  return [...found];
}

/** Regions, text, and what is to be found. */
const FOUND: [string[], string, ...string[]][] = [
  [['FR'], 'appelez le 06 12 34 56 78.', '06 12 34 56 78'],
  [['FR'], 'tel:0612345678', '0612345678'],
  [['FR'], '01.42.68.53.00, 01-42-68-53-00', '01.42.68.53.00', '01-42-68-53-00'],
  [['DE'], 'Büro 030/901820 oder (030) 90 18 20', '030/901820', '(030) 90 18 20'],
  [['DE'], 'am 0151 23456789 2026-11-25', '0151 23456789'],
  [['GB'], 'ring 020 7946 0958', '020 7946 0958'],
  [['ES'], 'móvil 612 345 678', '612 345 678'],
  [['CN'], '手机 138 1234 5678', '138 1234 5678'],
  [['BR'], 'ligue (11) 91234-5678', '(11) 91234-5678'],
  [['RU'], '8 (912) 345-67-89', '8 (912) 345-67-89'],
  [['NO', 'SE'], 'ring 22 22 55 55 eller 08-505 930 00', '22 22 55 55', '08-505 930 00'],
  [['FR'], 'and +44 20 7946 0958 or (415) 555-2671', '+44 20 7946 0958', '(415) 555-2671'],
];
const CLEAN: [string[], string][] = [
  [['FR'], '030/901820 and 612 345 678'],
  [['FR', 'ES', 'NO', 'DK', 'SG'], 'in 2020-2024, on 2026-11-25, 25.11.2026 and 25/11/2026'],
  [['NO', 'DK'], 'server 82.168.100.14, ratio 2345.6789, 22225555 rows, 22,225,555 rows'],
  [['ES'], '612 345 678 901 234 567'],
  [['FR'], 'id 00612345678, sha 0612345678ab, x0612345678, 1,0612345678, +0612345678'],
  [['NO'], '2 2 2 2 5 5 5 5'],
  [['DE'], '110bcd25-0151-2345-6789-1297901ea002'],
];

t.test('finds what is dialled inside the countries that the policy names, and nothing of others', async (t) => {
  for (const [regions, text, ...found] of FOUND) t.strictSame(findings(regions, text).sort(), found.sort(), text);
  for (const [regions, text] of CLEAN) t.strictSame(findings(regions, text), [], text);
  for (const [, text, found] of FOUND.slice(0, 11)) t.notOk(findings([], text).includes(found!), text);
});

t.test("every country's own example is found in its national form, where it has seven digits", async (t) => {
  let tried = 0;
  for (const region of REGIONS) {
    const example = (examples as Record<string, string>)[region];
    if (example === undefined) continue;
    const form = parsePhoneNumber(example, region as 'FR', metadata).formatNational();
    if (form.replace(/\D/g, '').length < 7 || !/^0|\D/.test(form)) continue;
    tried++;
    t.strictSame(findings([region], `call ${form}, or`), [form], `${region} ${form}`);
  }
  t.ok(tried > 180, `${tried} countries`);
});

t.test('what is a number here is one for the package', async (t) => {
  const codes = Object.keys(metadata.country_calling_codes);
  const digits = fc.stringMatching(/^[1-9][0-9]{6,12}$/);
  let valid = 0;
  fc.assert(
    fc.property(fc.constantFrom(...codes), digits, (code, rest) => {
      if (!isInternationalNumber(code + rest)) return true;
      valid++;
      return isValidPhoneNumber(`+${code}${rest}`, metadata);
    }),
    { seed: SEED, numRuns: runs(20_000) },
  );
  t.ok(valid > runs(20_000) / 200, `${valid} international numbers`);
  valid = 0;
  fc.assert(
    fc.property(fc.constantFrom(...REGIONS), fc.constantFrom('', '0'), digits, (region, zero, rest) => {
      if (!isNationalNumber(zero + rest, region)) return true;
      valid++;
      // Countries that share a calling code share plans, and the package says which one it is.
      return isValidPhoneNumber(zero + rest, region as 'FR', metadata) || sharesCode(region);
    }),
    { seed: SEED, numRuns: runs(20_000) },
  );
  t.ok(valid > runs(20_000) / 200, `${valid} national numbers`);
});

function sharesCode(region: string): boolean {
  return metadata.country_calling_codes[getCountryCallingCode(region as 'FR', metadata)]!.length > 1;
}

t.test('whatever is found, the candidate pattern finds first', async () => {
  const samples = FOUND.map(([, text]) => text);
  const pieces = fc.array(fc.oneof(fc.constantFrom(...samples), fc.stringMatching(/^[0-9 ()./-]{0,9}$/)), {
    maxLength: 4,
  });
  const regions = ['FR', 'DE', 'NO', 'ES'];
  const candidate = new RegExp(patternOf({ key: '', pattern: null, detector: phoneIn(regions) }).source);
  fc.assert(
    fc.property(pieces, (parts) => findings(regions, parts.join('')).length === 0 || candidate.test(parts.join(''))),
    { seed: SEED, numRuns: runs(2_000) },
  );
});

t.test('policies with different regions do not share what they find, and redact it', async (t) => {
  const of = (name: string, conditions: object) => policy('data_filter', conditions, ['log'], { name });
  const rules = new RuleSet([
    of('fr', { detectors: ['phone'], regions: ['FR'], redact: true }),
    of('de', { detectors: ['phone'], regions: ['DE'] }),
    of('none', { detectors: ['phone'] }),
  ]);
  const named = (text: string) => decideOn(rules, event('prompt', { text })).matches.map(({ name }) => name);
  t.strictSame(named('01 42 68 53 00'), ['fr']);
  t.strictSame(named('030/901820'), ['de']);
  t.strictSame(named('+33 1 42 68 53 00').sort(), ['de', 'fr', 'none']);
  const { redacted } = decideOn(rules, event('prompt', { text: 'au 06 12 34 56 78 !' }));
  t.equal(redacted?.payloadText, '{"text":"au [redacted:phone] !"}');
});

t.test('regions are refused where they mean nothing', async (t) => {
  const refused = (conditions: object, pattern: RegExp) => {
    const [mistake] = mistakesOf({ type: 'data_filter', conditions: conditions as never, actions: ['block'] });
    t.match(mistake?.message, pattern);
  };
  refused({ detectors: ['email'], regions: ['FR'] }, /needs the detector `phone`/);
  refused({ detectors: ['phone'], regions: ['fr'] }, /must be the two capital letters of a country/);
  refused({ detectors: ['phone'], regions: ['XX'] }, /must be the two capital letters of a country/);
  refused({ detectors: ['phone'], regions: REGIONS.slice(0, 21) }, /at most 20/);
});

t.test('64 KiB of nothing but rows of digits take less than 50 ms under 20 regions', async (t) => {
  const regions = REGIONS.slice(0, 20);
  const rules = new RuleSet([policy('data_filter', { detectors: ['phone'], regions })]);
  for (const part of [
    '12 34 56 78\n',
    '0612345678,',
    '06 12 34 56 78 901 ',
    '(((((0-0',
    '1 ',
    '0',
    '030/9018 2026-11-25 ',
  ]) {
    const text = part.repeat(Math.ceil((64 * 1024) / part.length));
    decideOn(rules, event('prompt', { text }));
    const ms = cpuMs(1, () => decideOn(rules, event('prompt', { text })));
    t.ok(ms < 50, `${ms.toFixed(1)} ms: ${part}`);
  }
});
