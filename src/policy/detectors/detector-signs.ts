// The signs of the detectors (text-search/signs.ts): what stands in the bytes of an event wherever one finds something.
// Written out beside the searches that settle (find-*.ts), and held to them by test/ingest/signs.test.ts.
import type { DetectorName } from '../../../schemas/closed-sets.ts';
import { getOrMake } from '../../common/maps.ts';
import { compileCandidate } from '../text-search/program.ts';
import {
  anySigns,
  CHECK,
  type Check,
  classOf,
  ELEMENT,
  elementOf,
  type Sign,
  signsOfPattern,
} from '../text-search/signs.ts';
import type { Detector } from './detectors.ts';
import { IBAN_LENGTHS } from './find-numbers.ts';
import { JWT_BEGINS } from './find-secrets.ts';
import { ISSUED_HEADS, KEY_NAMES } from './issued-keys.ts';

const ALNUM = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'];
const DIGIT = classNamed([...'0123456789']);
const CAPITAL = classNamed(ALNUM.slice(0, 26));
const URL_SAFE = classNamed([...ALNUM, '_', '-']);
/** The rest of any key; a slash may be written with a backslash. */
const TAIL = classNamed([...ALNUM, ...'_-.+=~/\\']);
/** Characters of a tail that are compared. */
const TAIL_MAX = 20;

function classNamed(characters: readonly string[]): number {
  return classOf(characters.map((character) => character.charCodeAt(0)))!;
}

function exact(text: string): number[] {
  return [...text].map((character) => elementOf(character.charCodeAt(0))!);
}

function anyCase(text: string): number[] {
  return [...text].map((letter) => ELEMENT.anyCase | letter.toLowerCase().charCodeAt(0));
}

function times(element: number, count: number): number[] {
  return Array.from({ length: count }, () => element);
}

function sign(check: Check, ...parts: readonly (readonly number[])[]): Sign {
  return { elements: parts.flat(), check };
}

/** The signs of a pattern in RE2's syntax. */
function of(source: string, check: Check = CHECK.none): Sign[] {
  const signs = signsOfPattern(compileCandidate(source));
  if (signs === null) throw new Error(`no signs of ${source}`);
  return signs.map(({ elements }) => ({ elements, check }));
}

const SIGNS: Record<DetectorName, () => Sign[]> = {
  // Written as an escape it is read by the engine in any case.
  email: () => of('@|%(?:25)?40|&(?:#(?:64|x40)|commat);', CHECK.email),
  phone: () => [
    ...of('\\+\\(?[1-9]', CHECK.sevenDigits),
    ...of('%2[Bb]\\(?[1-9]'),
    ...of('00[1-9]', CHECK.dialledDigits),
    ...of('\\([2-9][0-9]{2}\\)(?: |[.-])?[2-9][0-9]{2}(?: |[.-])[0-9]{4}'),
    ...of('[2-9][0-9]{2}[.-]', CHECK.dialledDigits),
  ],
  credit_card: () => [...of('[2-6][0-9]{11}', CHECK.card), ...of('[2-6][0-9]{3}', CHECK.twelveInGroups)],
  iban: () => [
    ...[...IBAN_LENGTHS.keys()].map((country) => sign(CHECK.iban, anyCase(country), [DIGIT, DIGIT])),
    sign(CHECK.iban, [CAPITAL, CAPITAL, ELEMENT.blanks, DIGIT, DIGIT]),
    sign(CHECK.iban, [CAPITAL, CAPITAL], exact('-'), [DIGIT, DIGIT]),
  ],
  ssn: () => [
    ...of('[0-8][0-9]{2}', CHECK.nineInGroups),
    sign(CHECK.nineDigits, anyCase('ssn')),
    sign(CHECK.nineDigits, anyCase('soc')),
  ],
  ip_address: () => [
    ...of('[0-9]\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]'),
    ...of('::[0-9A-Fa-f]'),
    ...of('[0-9A-Fa-f]::'),
    ...of('[0-9A-Fa-f]:[0-9A-Fa-f]', CHECK.sixGroups),
  ],
  api_key: () => [
    ...ISSUED_HEADS.map(({ head, least }) => sign(CHECK.border, exact(head), times(TAIL, Math.min(TAIL_MAX, least)))),
    ...of('hooks\\.slack\\.com/services/T'),
    sign(CHECK.none, [DIGIT], exact(':AA'), times(URL_SAFE, TAIL_MAX)),
    ...KEY_NAMES.flatMap((words) => namesOf(words)),
    sign(CHECK.randomValue, anyCase('authorization')),
    sign(CHECK.randomValue, anyCase('bearer')),
  ],
  jwt: () => JWT_BEGINS.map((begin) => sign(CHECK.none, exact(begin), times(URL_SAFE, 10))),
  private_key: () => of('PRIVATE(?: |%20|\\+)KEY|PuTTY-User-Key-File-[0-9]|AGE-SECRET-KEY-1[A-Z0-9]{8}'),
};

const BETWEEN = classNamed([...'_.-']);

/** Words of a name, with nothing or a separator between each. */
function namesOf(words: readonly string[]): Sign[] {
  let rows: number[][] = [anyCase(words[0]!)];
  for (const word of words.slice(1))
    rows = rows.flatMap((row) => [[], [BETWEEN], [ELEMENT.blanks]].map((by) => [...row, ...by, ...anyCase(word)]));
  return rows.map((row) => sign(CHECK.randomValue, row));
}

const known = new Map<DetectorName, readonly Sign[]>();

/** null: it reads everything, as numbers that are dialled inside a country have no sign. */
export function signsOfDetector({ name, regions }: Pick<Detector, 'name' | 'regions'>): readonly Sign[] | null {
  if (regions !== undefined) return null;
  return getOrMake(known, name, () => anySigns([SIGNS[name]()])!);
}
