// The definition of the search, read a second time, character by character: whether a question finds a payload. It
// shares nothing with the service but case folding, which is held against ClickHouse's own (search.clickhouse.test.ts),
// and is far too slow for anything but tests.
import { folded } from '../../src/common/search/words.ts';

type Kind = 'whole' | 'part' | 'hangul' | 'symbol';
type ReferenceWord = { kind: Kind; text: string };

const SCRIPTS = ['Han', 'Hiragana', 'Katakana', 'Thai', 'Lao', 'Khmer', 'Myanmar'];
const WITHOUT_SPACES = SCRIPTS.map((script) => new RegExp(`^\\p{Script=${script}}$`, 'u'));
/** Used by those scripts alone, and counted to none by Unicode. */
const THEIRS = new Set('〆〱〲〳〴〵〼ー\u3099\u309a\u302a\u302b\u302c\u302d');

export function referenceWords(text: string): ReferenceWord[] {
  const words: ReferenceWord[] = [];
  let isOpen = false;
  for (const character of folded(withoutColours(text))) {
    const kind = kindOf(character);
    const last = words.at(-1);
    if (kind === undefined) isOpen = false;
    else if (kind === 'symbol') {
      words.push({ kind, text: character });
      isOpen = false;
    } else if (isOpen && (last!.kind === kind || (/^\p{M}$/u.test(character) && kind === 'whole')))
      last!.text += character;
    else {
      words.push({ kind, text: character });
      isOpen = true;
    }
  }
  return words;
}

/** undefined: it ends a word and is none. */
function kindOf(character: string): Kind | undefined {
  if (/^[\p{S}\p{Me}]$/u.test(character)) return 'symbol';
  if (/^[\p{P}\p{Z}\p{Cc}]$/u.test(character)) return undefined;
  if (THEIRS.has(character) || WITHOUT_SPACES.some((script) => script.test(character))) return 'part';
  return /^\p{Script=Hangul}$/u.test(character) && /^\p{L}$/u.test(character) ? 'hangul' : 'whole';
}

/** Colours vanish, what else a terminal is sent leaves a blank. */
function withoutColours(text: string): string {
  let shown = '';
  for (let i = 0; i < text.length; i++) {
    const lead = text[i] === '\u009b' ? 1 : text.startsWith('\u001b[', i) ? 2 : 0;
    if (text[i] === '\u001b' && '()'.includes(text[i + 1] ?? ' ') && /[0-9A-Z]/.test(text[i + 2] ?? '')) i += 2;
    else if (lead === 0) shown += text[i];
    else {
      let end = i + lead;
      while (/[0-?]/.test(text[end] ?? '')) end++;
      const isColour = text[end] === 'm' && /^[\d;:]*$/.test(text.slice(i + lead, end));
      while (!isColour && /[ -/]/.test(text[end] ?? '')) end++;
      if (isColour) i = end;
      else if (/[@-~]/.test(text[end] ?? '')) {
        shown += ' ';
        i = end;
      } else shown += text[i];
    }
  }
  return shown;
}

/** Strings, keys, numbers and literals of a JSON text, as they come; of text inside text what it holds. */
export function textsOf(json: string, level = 0): string[] {
  const texts: string[] = [];
  for (const [token] of json.matchAll(/"(?:\\.|[^"\\])*"|[^\s{}[\],:"]+/g)) {
    if (!token.startsWith('"')) texts.push(token);
    else {
      const text = JSON.parse(token) as string;
      if (level < 3 && /^[ \t\n\r]*[{[]/.test(text) && isJson(text)) texts.push(...textsOf(text, level + 1));
      else texts.push(text);
    }
  }
  return texts;
}

function isJson(text: string): boolean {
  try {
    return depthOf(JSON.parse(text)) <= 64;
  } catch {
    return false;
  }
}

function depthOf(value: unknown): number {
  return typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
}

/** Words that are there for themselves: with and without a symbol that stands for letters. */
function besides(text: string): ReferenceWord[] {
  let apart = '';
  for (const run of text.match(/[\p{S}\p{No}]+|[^\p{S}\p{No}]+/gu) ?? []) {
    const plain = run.normalize('NFKC');
    apart += /^[\p{S}\p{No}]/u.test(run) && plain !== run && /[\p{L}\p{N}]/u.test(plain) ? ` ${run} ` : run;
  }
  return apart === text ? [] : referenceWords(apart);
}

/** undefined: there is nothing in the question that could be looked for. */
export function referenceFinds(payload: string, question: string): boolean | undefined {
  const texts = textsOf(payload);
  const words = texts.flatMap(referenceWords);
  const alone = texts.flatMap(besides);
  const terms = [...question.matchAll(/"([^"]*)"?|([^\s"]+)/gu)]
    .map(([, phrase, word]) => referenceWords(phrase ?? word ?? ''))
    .filter((term) => term.length > 0);
  if (terms.length === 0) return undefined;
  return terms.every(
    (term) =>
      words.some((_, at) => isAt(words.slice(at, at + term.length), term)) ||
      (term.length === 1 && alone.some((word) => isAt([word], term))),
  );
}

function isAt(words: readonly ReferenceWord[], term: readonly ReferenceWord[]): boolean {
  return (
    words.length === term.length &&
    term.every(({ kind, text }, i) => {
      const word = words[i]!;
      if (word.kind !== kind) return false;
      if (kind === 'hangul') return word.text.startsWith(text);
      if (kind !== 'part') return word.text === text;
      const [isFirst, isLast] = [i === 0, i === term.length - 1];
      if (isFirst && isLast) return word.text.includes(text);
      if (isFirst) return word.text.endsWith(text);
      return isLast ? word.text.startsWith(text) : word.text === text;
    })
  );
}
