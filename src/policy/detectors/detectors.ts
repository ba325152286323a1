// Finds personal data and secrets in a text: the `detectors` of data filters.
// Each detector has a `candidate`, a pattern (or plain text) that every finding contains and that the scanner's
// automaton searches for along with everything else, and `finds` (find-*.ts) that are run only on texts with a
// candidate and settle it: checksums, lengths, ranges, and what is next to it. So that ordinary numbers and identifiers
// raise no alarm, a finding must not touch further letters or digits, and numbers must pass their checksum or carry
// their usual separators. All are linear: every search moves forwards, a failed try costs a bounded number of
// characters. No expression here has nested or adjacent unbounded repeats.

import type { DetectorName } from '../../../schemas/closed-sets.ts';
import { type Find, FOREIGN_DIGIT, inAnyScript, inFolded, type Span } from './detector-search.ts';
import { AT_SIGN, findEmail, findIpv4, findIpv6 } from './find-contacts.ts';
import {
  CARD_CANDIDATE,
  findCard,
  findIban,
  findNamedSsn,
  findSsn,
  findSsnByName,
  IBAN_CANDIDATE,
  isCardNumber,
  isNamedSsn,
  SSN_CANDIDATE,
} from './find-numbers.ts';
import { findInternationalPhone, findLocalPhone, NATIONAL_CANDIDATE, nationalPhoneFinder } from './find-phones.ts';
import { findIssuedKey, findJwt, findKeyByName, findNamedKey, findPrivateKey, JWT_BEGINS } from './find-secrets.ts';
import { ISSUED_CANDIDATE, KEY_NAME } from './issued-keys.ts';

/** Several ways to find are apart, so that each goes over a text once, however much the others find. */
export type Detector = {
  name: DetectorName;
  /** Set where a policy has made it its own: what it finds besides. */
  regions?: readonly string[];
  candidate: string;
  /** The characters that move the candidate's automaton: it shares one with those of its kind. */
  looksAt: 'digits' | 'letters';
  finds: readonly Find[];
  /**
   * Where it finds whole numbers, too. `key`: of the member that holds the number, itself or in arrays; '' for none.
   */
  findsNumber?: (digits: string, key: string) => boolean;
  /** Where a value is found by what it is called: by its key, or by the `name` or `key` beside a `value`. */
  findsNamed?: (name: string, value: string) => Span | null;
  /**
   * Where a finding may be spread over the members of one array or object, line by line: texts of which each finding
   * holds one.
   */
  ofLines?: readonly string[];
};

/** Digits of the whole numbers that detectors inspect. */
export const NUMBER_DIGITS = { min: 9, max: 19 };

export const DETECTORS: Record<DetectorName, Detector> = {
  email: {
    name: 'email',
    candidate: AT_SIGN,
    looksAt: 'letters',
    finds: [findEmail],
  },
  phone: {
    name: 'phone',
    candidate: `(?:\\+|%2[Bb])\\(?[1-9][0-9 ().\\/_%-]|00[1-9][0-9]{0,3}[ ().-]|[2-9][0-9]{2}\\)[ .-]?[2-9]|[2-9][0-9]{2}[.-][2-9][0-9]{2}[ .-]|${FOREIGN_DIGIT}`,
    looksAt: 'digits',
    finds: [findLocalPhone, findInternationalPhone].map(inAnyScript),
  },
  credit_card: {
    name: 'credit_card',
    candidate: `${CARD_CANDIDATE}|${FOREIGN_DIGIT}`,
    looksAt: 'digits',
    finds: [inAnyScript(findCard)],
    findsNumber: isCardNumber,
  },
  iban: {
    name: 'iban',
    candidate: `${IBAN_CANDIDATE}|${FOREIGN_DIGIT}`,
    looksAt: 'letters',
    finds: [inAnyScript(findIban)],
  },
  ssn: {
    name: 'ssn',
    candidate: `${SSN_CANDIDATE}|${FOREIGN_DIGIT}`,
    looksAt: 'digits',
    finds: [findSsn, findNamedSsn].map(inAnyScript),
    findsNumber: isNamedSsn,
    findsNamed: inFolded(findSsnByName),
  },
  ip_address: {
    name: 'ip_address',
    candidate:
      '[0-9]\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]|[0-9A-Fa-f]?::[0-9A-Fa-f]|[0-9A-Fa-f]::|(?:[0-9A-Fa-f]{1,4}:){6}',
    looksAt: 'digits',
    finds: [findIpv4, findIpv6],
  },
  api_key: {
    name: 'api_key',
    candidate: `${ISSUED_CANDIDATE}|(?i:${KEY_NAME}|authorization|bearer\\s)`,
    looksAt: 'letters',
    finds: [findIssuedKey, findNamedKey],
    findsNamed: inFolded(findKeyByName),
  },
  jwt: {
    name: 'jwt',
    candidate: `(?:${JWT_BEGINS.join('|')})[A-Za-z0-9_-]{2}`,
    looksAt: 'letters',
    finds: [findJwt],
  },
  private_key: {
    name: 'private_key',
    candidate: 'PRIVATE(?: |%20|\\+)KEY|PuTTY-User-Key-File-[0-9]|AGE-SECRET-KEY-1[A-Z0-9]{8}',
    looksAt: 'letters',
    finds: [findPrivateKey],
    ofLines: ['PRIVATE KEY', 'PRIVATE%20KEY', 'PRIVATE+KEY', 'PuTTY-User-Key-File-', 'AGE-SECRET-KEY-1'],
  },
};

/** The detector for phone numbers, with those that are dialled inside these countries. */
export function phoneIn(regions: readonly string[]): Detector {
  const { phone } = DETECTORS;
  return {
    ...phone,
    regions,
    candidate: `${phone.candidate}|${NATIONAL_CANDIDATE}`,
    finds: [...phone.finds, nationalPhoneFinder(regions)],
  };
}
