// Patterns and detectors the plain way, for the reference: JavaScript's own RegExp, tried at every place, and a list of
// texts that detectors are known to find. Good for the patterns and texts that tests make; not for every RE2 pattern.

/** An RE2 pattern of the kinds that the tests make, in JavaScript's words. */
function translated(re2: string): { source: string; flags: string } {
  const named = /^\(\?([is]+)\)/.exec(re2);
  const dot = named?.[1]?.includes('s') ? '[\\s\\S]' : '[^\\n]';
  const source = re2.slice(named?.[0].length ?? 0).replace(/\\[\s\S]|\[(?:\\[\s\S]|[^\]])*\]|[. ]/gu, (token) => {
    if (token === ' ') return '[\\t-\\r ]'; // to a policy a blank is any blank
    return token === '.' ? dot : token === '\\s' ? '[\\t\\n\\f\\r ]' : token;
  });
  return { source, flags: named?.[1]?.includes('i') ? 'iu' : 'u' };
}

const known = new Map<string, RegExp>();

function expression(source: string, flags: string): RegExp {
  const key = `${flags} ${source}`;
  let made = known.get(key);
  if (made === undefined) {
    if (known.size > 10_000) known.clear();
    made = new RegExp(source, flags);
    known.set(key, made);
  }
  return made;
}

export function occurs(re2: string, text: string): boolean {
  const { source, flags } = translated(re2);
  return expression(source, flags).test(text);
}

export type Place = { start: number; end: number };

/** From left to right, without overlaps, the longest from each start; empty ones are left out. */
export function placesOf(re2: string, text: string): Place[] {
  const { source, flags } = translated(re2);
  const borders = [0];
  for (const character of text) borders.push(borders.at(-1)! + character.length);
  const found: Place[] = [];
  for (let from = 0; from < borders.length; ) {
    let to = borders.length - 1;
    for (; to > from; to--) {
      const rest = borders.length - 1 - to;
      const whole = expression(`(?:${source})(?=[\\s\\S]{${rest}}$)`, `${flags}y`);
      whole.lastIndex = borders[from]!;
      if (whole.test(text)) break;
    }
    if (to > from) found.push({ start: borders[from]!, end: borders[to]! });
    from = Math.max(to, from + 1);
  }
  return found;
}

/** The text that each detector finds between `see ` and ` now`: nothing else that the tests make is found by any. */
export const FINDINGS: Record<string, string> = {
  email: 'jay@example.com',
  phone: '415-555-2671',
  credit_card: '4111 1111 1111 1111',
  iban: 'DE89370400440532013000',
  ssn: '078-05-1120',
  ip_address: '10.1.2.3',
  api_key: 'sk-abcdefghij0123456789',
  jwt: 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln',
  private_key: '-----BEGIN PRIVATE KEY-----ab-----END PRIVATE KEY-----',
};

/** The one number that is found without a frame. */
export const CARD_NUMBER = 4111111111111111;

export function detectedNumber(detector: string, value: number): boolean {
  return detector === 'credit_card' && value === CARD_NUMBER;
}

/** A key that may hold such a thing is not shown; these are the signs of it. */
const SIGNS: Record<string, RegExp> = {
  email: /@|%(25)?40|u0040|&#|&commat/,
  private_key: /PRIVATE KEY/,
  jwt: /e(yJ|yA|wo|w0|wk)[\w-]{2}/,
  ssn: /\d{3}[^\d]{1,3}\d\d[^\d]{1,3}\d{4}/,
  phone: /\d{3}-\d{3}-\d{4}|%2[Bb]/,
  credit_card: /(\d[^\d]{0,3}){12}\d/,
  iban: /[A-Za-z]{2}[ -]?\d\d[^A-Za-z0-9]{0,3}[A-Za-z0-9]{2}/,
  ip_address: /\d\.\d{1,3}\.\d{1,3}\.\d|[0-9A-Fa-f]?::[0-9A-Fa-f]|[0-9A-Fa-f]::/,
  api_key: /sk-[\w-]{20}/,
};

/** Whether a text may hold a finding without its frame, or with something put into it: a flaw can make one. */
export function hasBrokenFinding(text: string): boolean {
  return Object.entries(FINDINGS).some(([detector, finding]) =>
    mayHold(detector, text.replaceAll(`see ${finding} now`, '')),
  );
}

export function mayHold(detector: string, key: string): boolean {
  return SIGNS[detector]!.test(key);
}

export function detected(detector: string, text: string): Place[] {
  const found: Place[] = [];
  const framed = `see ${FINDINGS[detector]} now`;
  for (let at = text.indexOf(framed); at >= 0; at = text.indexOf(framed, at + 1))
    found.push({ start: at + 4, end: at + framed.length - 4 });
  return found;
}
