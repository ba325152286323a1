// Which rows of digits are phone numbers by a country's numbering plan. The plans are the package's (libphonenumber's
// data); they are compiled here, once for a plan and when it is first needed, since the package compiles them again for
// each number: 20 to 70 µs, of which a text can ask for thousands. Used by find-phones.ts. Pure.
// Invariant: what is valid here is valid for the package, in the form that it was written in (national-phones.test.ts).
import { Metadata } from 'libphonenumber-js/core';
import metadata from 'libphonenumber-js/metadata.max.json';
import { getOrMake } from '../../common/maps.ts';

/** The package's classes have this, which its types leave out. */
type PlanData = {
  nationalNumberPattern(): string;
  possibleLengths(): number[];
  /** The empty ones of both are `0`, `null` or left out. */
  nationalPrefixForParsing(): string | 0 | null | undefined;
  nationalPrefixTransformRule(): string | 0 | null | undefined;
  type(name: string): { pattern(): string; possibleLengths(): number[] | undefined } | undefined;
  formats(): {
    pattern(): string;
    leadingDigitsPatterns(): string[];
    nationalPrefixIsMandatoryWhenFormattingInNationalFormat(): boolean;
  }[];
};
type Plans = { countries: Record<string, unknown>; country_calling_codes: Record<string, string[]> };

const DATA = metadata as unknown as Plans;
const TYPES = 'FIXED_LINE MOBILE PREMIUM_RATE TOLL_FREE SHARED_COST VOIP PERSONAL_NUMBER PAGER UAN VOICEMAIL'.split(
  ' ',
);
const CALLING_CODE_DIGITS_MAX = 3;

/** ISO 3166 codes of the countries and territories that have a numbering plan. */
export const REGIONS: readonly string[] = Object.keys(DATA.countries);

class NumberingPlan {
  readonly lengths: readonly number[];
  readonly #whole: RegExp;
  readonly #types: { pattern: RegExp; lengths: readonly number[] | undefined }[];
  readonly #trunk: RegExp | undefined;
  readonly #withoutTrunk: string;
  readonly #formats: { pattern: RegExp; begin: RegExp; needsTrunk: boolean }[];

  constructor(plan: PlanData) {
    const trunk = plan.nationalPrefixForParsing();
    this.lengths = plan.possibleLengths();
    this.#whole = whole(plan.nationalNumberPattern());
    this.#types = TYPES.map((name) => plan.type(name))
      .filter((type) => type !== undefined && type.pattern() !== '')
      .map((type) => ({ pattern: whole(type!.pattern()), lengths: type!.possibleLengths() }));
    this.#trunk = trunk ? beginning(trunk) : undefined;
    this.#withoutTrunk = plan.nationalPrefixTransformRule() || '';
    this.#formats = plan.formats().map((format) => ({
      pattern: whole(format.pattern()),
      // The last one says most.
      begin: beginning(format.leadingDigitsPatterns().at(-1) ?? ''),
      needsTrunk: format.nationalPrefixIsMandatoryWhenFormattingInNationalFormat(),
    }));
  }

  /** `digits`: without the country's code and without the prefix that is dialled inside the country. */
  has(digits: string): boolean {
    if (!this.#whole.test(digits)) return false;
    return this.#types.some(
      ({ pattern, lengths }) => (lengths?.includes(digits.length) ?? true) && pattern.test(digits),
    );
  }

  /** `digits`: as they are dialled inside the country. */
  hasNational(digits: string): boolean {
    if (this.has(digits) && !this.#needsTrunk(digits)) return true;
    const without = this.#dialled(digits);
    return without !== digits && this.has(without);
  }

  /** Is the number's first digit the `0` that is dialled inside the country only? */
  dials0(digits: string): boolean {
    return this.#trunk?.exec(digits)?.[0] === '0';
  }

  #needsTrunk(digits: string): boolean {
    const format = this.#formats.find(({ begin, pattern }) => begin.test(digits) && pattern.test(digits));
    return format?.needsTrunk ?? false;
  }

  /** Without the prefix. A rule puts back what belongs to the number. */
  #dialled(digits: string): string {
    const found = this.#trunk?.exec(digits);
    if (!found) return digits;
    const isKept = found.length > 1 && found.at(-1) !== undefined;
    return digits.replace(this.#trunk!, isKept ? this.#withoutTrunk : '');
  }
}

function whole(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`);
}

function beginning(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})`);
}

const plans = new Map<string, NumberingPlan>();

/** The plan of a country, or of a calling code that belongs to none (`800`). */
function planOf(name: string): NumberingPlan {
  return getOrMake(plans, name, () => {
    const selected = new Metadata(metadata);
    selected.selectNumberingPlan(name as never);
    return new NumberingPlan(selected.numberingPlan as unknown as PlanData);
  });
}

/** The countries that share a calling code. `lengths`: of their numbers without it. */
type Sharing = { plans: NumberingPlan[]; lengths: ReadonlySet<number> };

const sharing = new Map<string, Sharing>();

function sharingOf(code: string): Sharing | undefined {
  const known = sharing.get(code);
  const countries = DATA.country_calling_codes[code];
  if (known !== undefined || countries === undefined) return known;
  // What belongs to no country has its plan under its calling code.
  const plans = countries.map((country) => planOf(country === '001' ? code : country));
  const made = { plans, lengths: new Set(plans.flatMap(({ lengths }) => lengths)) };
  sharing.set(code, made);
  return made;
}

/**
 * `digits`: from the country's code on. A `0` that is dialled inside the country may follow it: `44 (0)20 7946 0958`.
 */
export function isInternationalNumber(digits: string): boolean {
  for (let length = 1; length <= CALLING_CODE_DIGITS_MAX; length++) {
    const found = sharingOf(digits.slice(0, length));
    if (found === undefined) continue;
    const rest = digits.slice(length);
    if (found.lengths.has(rest.length) && found.plans.some((plan) => plan.has(rest))) return true;
    if (rest[0] !== '0' || !found.lengths.has(rest.length - 1)) return false;
    return found.plans.some((plan) => plan.dials0(rest) && plan.has(rest.slice(1)));
  }
  return false;
}

/** `digits`: as they are dialled inside the country. `region`: of REGIONS. */
export function isNationalNumber(digits: string, region: string): boolean {
  return planOf(region).hasNational(digits);
}
