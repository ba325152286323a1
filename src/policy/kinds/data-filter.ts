// data_filter: matches when some string of the event matches one of its patterns or detectors. Inspected are all
// strings of the payload, decoded, and the keys of all objects (a secret must not slip through as a key; on 9,218
// recorded events this changed no count), whole numbers where a detector knows such, and `trace_id`; or what the paths
// in `fields` lead to. With `redact` the stored copy has the matches replaced; see redaction/. Blocks with `block`
// among its actions; `alert` alone notifies and lets pass.

import { DETECTOR_NAMES, type DetectorName } from '../../../schemas/closed-sets.ts';
import { PATTERNS_MAX } from '../../common/limits.ts';
import { type Path, parsePath } from '../conditions/path.ts';
import { DETECTORS, phoneIn } from '../detectors/detectors.ts';
import { REGIONS } from '../detectors/numbering-plans.ts';
import { below, type Mistakes, type PolicyReading } from '../policy-error.ts';
import type { Pattern } from '../text-search/program.ts';
import { detectorNeedle, type Needle, patternNeedle } from '../text-search/scanner.ts';
import type { PolicyConditions, PolicyKind } from './policy-kind.ts';

/**
 * `needles` are the patterns in their order, then the detectors in theirs. `fields`: of the payload; null: all of it.
 */
export type DataFilterTerms = {
  type: 'data_filter';
  needles: Needle[];
  patterns: number;
  fields: Path[] | null;
  /** Is `trace_id` inspected? */
  trace: boolean;
  redact: boolean;
};

const FIELDS_MAX = 50;
/** Each is asked about each row of digits. */
const REGIONS_MAX = 20;

export const dataFilter: PolicyKind<DataFilterTerms> = {
  reserved: ['patterns', 'detectors', 'regions', 'fields', 'redact'],
  compile(conditions, at, reading) {
    const { mistakes } = reading;
    const known = mistakes.details.length;
    const patterns = readPatterns(conditions['patterns'], below(at, 'patterns'), reading);
    const regions = readRegions(conditions, at, mistakes);
    const detectors = readDetectors(conditions['detectors'], { at: below(at, 'detectors'), regions }, mistakes);
    const paths = readFields(conditions['fields'], below(at, 'fields'), mistakes);
    const redact = conditions['redact'] ?? false;
    if (typeof redact !== 'boolean') mistakes.add(below(at, 'redact'), 'must be true or false');
    if (conditions['patterns'] === undefined && conditions['detectors'] === undefined) {
      mistakes.add(at, 'must have `patterns` or `detectors`: without either nothing could ever match');
    }
    if (mistakes.details.length > known) return undefined;
    const needles = [...patterns, ...detectors];
    const looked = {
      fields: paths?.filter(({ root }) => root === 'payload') ?? null,
      trace: paths === null || paths.some(({ root }) => root === 'trace_id'),
    };
    return { type: 'data_filter', needles, patterns: patterns.length, ...looked, redact: redact === true };
  },
};

/** The name of a needle in `detail`: the detector, or the pattern's place in `patterns`. */
export function needleDetail(terms: DataFilterTerms, index: number): { detector: DetectorName } | { pattern: number } {
  return index < terms.patterns ? { pattern: index } : { detector: terms.needles[index]!.detector!.name };
}

function readPatterns(value: unknown, at: string, { mistakes, patterns: allowance }: PolicyReading): Needle[] {
  const list = readList(value, at, PATTERNS_MAX, mistakes);
  const patterns: Pattern[] = [];
  list.forEach((source, i) => {
    const pattern = allowance.read(source);
    if (typeof pattern === 'string') mistakes.add(below(at, i), pattern);
    else patterns.push(pattern);
  });
  if (patterns.length < list.length) return [];
  return patterns.map(patternNeedle);
}

function readDetectors(
  value: unknown,
  { at, regions }: { at: string; regions: readonly string[] },
  mistakes: Mistakes,
): Needle[] {
  return readList(value, at, DETECTOR_NAMES.length, mistakes).flatMap((name, i) => {
    if (name === 'phone' && regions.length > 0) return [detectorNeedle(phoneIn(regions))];
    if (DETECTOR_NAMES.includes(name as DetectorName)) return [detectorNeedle(DETECTORS[name as DetectorName])];
    mistakes.add(below(at, i), `must be one of ${DETECTOR_NAMES.join(', ')}`);
    return [];
  });
}

/** Each once, in one order: the same countries are the same needle. */
function readRegions(conditions: PolicyConditions, at: string, mistakes: Mistakes): string[] {
  const value = conditions['regions'];
  const place = below(at, 'regions');
  if (value === undefined) return [];
  const detectors = conditions['detectors'];
  if (!Array.isArray(detectors) || !detectors.includes('phone'))
    mistakes.add(place, 'needs the detector `phone`: it names the countries whose national numbers that finds, too');
  const regions = readList(value, place, REGIONS_MAX, mistakes).flatMap((region, i) => {
    if (REGIONS.includes(region as string)) return [region as string];
    mistakes.add(below(place, i), 'must be the two capital letters of a country, such as FR (ISO 3166-1)');
    return [];
  });
  return [...new Set(regions)].sort();
}

function readFields(value: unknown, at: string, mistakes: Mistakes): Path[] | null {
  if (value === undefined) return null;
  const paths = readList(value, at, FIELDS_MAX, mistakes).flatMap((text, i) => {
    const path = typeof text === 'string' ? parsePath(text) : 'must be a path';
    if (typeof path === 'object' && (path.root === 'payload' || path.root === 'trace_id')) return [path];
    mistakes.add(below(at, i), typeof path === 'string' ? path : 'must lead into the payload, or be trace_id');
    return [];
  });
  return paths.some(({ root, segments }) => root === 'payload' && segments.length === 0) ? null : paths;
}

function readList(value: unknown, at: string, max: number, mistakes: Mistakes): PolicyConditions[string][] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length === 0) mistakes.add(at, 'must be an array of at least one value');
  else if (value.length > max) mistakes.add(at, `must hold at most ${max} values, holds ${value.length}`);
  else return value;
  return [];
}
