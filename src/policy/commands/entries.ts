// Reads the operand of `shell` and `sql`: one entry, or a list of which any must be met. What is wrong is said with its
// place and a way to mend it (part of compiling a policy).
import { isObject } from '../../common/exact-number.ts';
import { meant, shownValue } from '../conditions/did-you-mean.ts';
import { below, type Mistakes } from '../policy-error.ts';

/** `some`: a text or a list of texts, any of which; `each`: a list of texts, all of which; `one`: one of these. */
export type Field = 'some' | 'each' | 'true' | readonly string[];

type How = {
  at: string;
  fields: Readonly<Record<string, Field>>;
  /** Keys of which an entry must have exactly one, and for each those that may be beside it. */
  forms: Readonly<Record<string, readonly string[]>>;
  limits: { entries: number; texts: number };
};

/** The alternatives in the texts: the parts between `|`. */
export function alternativesOf(texts: string | readonly string[] = []): string[] {
  return [texts].flat().flatMap((text) => text.split('|'));
}

export function readEntries(operand: unknown, how: How, mistakes: Mistakes): void {
  const { at, limits } = how;
  const isList = Array.isArray(operand);
  if (!isList && !isObject(operand)) {
    mistakes.add(at, `must be an object such as ${exampleOf(how)}, or a list of such${hint(operand, how)}`);
    return;
  }
  const entries = isList ? operand : [operand];
  if (entries.length === 0 || entries.length > limits.entries) {
    mistakes.add(at, `must hold 1 to ${limits.entries} entries, holds ${entries.length}`);
    return;
  }
  let texts = 0;
  for (const [i, entry] of entries.entries()) texts += readEntry(entry, isList ? below(at, i) : at, how, mistakes);
  if (texts > limits.texts) mistakes.add(at, `must hold at most ${limits.texts} texts, holds ${texts}`);
}

function exampleOf({ forms }: How): string {
  return `{"${Object.keys(forms)[0]}": "…"}`;
}

function hint(operand: unknown, { forms }: How): string {
  return typeof operand === 'string' ? `; did you mean {"${Object.keys(forms)[0]}": ${shownValue(operand)}}?` : '';
}

/** How many texts it holds. */
function readEntry(entry: unknown, at: string, how: How, mistakes: Mistakes): number {
  if (!isObject(entry)) {
    mistakes.add(at, `must be an object such as ${exampleOf(how)}${hint(entry, how)}`);
    return 0;
  }
  const { fields, forms } = how;
  const given = Object.keys(entry);
  const heads = Object.keys(forms);
  const head = given.find((key) => heads.includes(key));
  let texts = 0;
  for (const key of given) {
    if (!Object.hasOwn(fields, key)) {
      const near = meant(key, Object.keys(fields));
      mistakes.add(
        below(at, key),
        `is unknown; must be one of ${Object.keys(fields).join(', ')}${near === undefined ? '' : `; did you mean \`${near}\`?`}`,
      );
    } else if (head !== undefined && key !== head && !forms[head]!.includes(key))
      mistakes.add(below(at, key), `cannot stand beside \`${head}\`; write two entries`);
    else texts += readField(entry[key], below(at, key), fields[key]!, mistakes);
  }
  if (head === undefined) mistakes.add(at, `must have one of ${heads.join(', ')}`);
  return texts;
}

function readField(value: unknown, at: string, field: Field, mistakes: Mistakes): number {
  if (field === 'true') {
    if (value !== true) mistakes.add(at, 'must be true, or left out');
    return 1;
  }
  if (typeof field !== 'string') {
    if (!field.includes(value as string))
      mistakes.add(at, `must be one of ${field.join(', ')}, is ${shownValue(value)}`);
    return 1;
  }
  if (field === 'some' && typeof value === 'string') {
    readText(value, at, mistakes);
    return value.split('|').length;
  }
  if (!Array.isArray(value) || value.length === 0) {
    const single = typeof value === 'string' ? `; did you mean ${shownValue([value])}?` : '';
    mistakes.add(at, `must be ${field === 'some' ? 'a text or ' : ''}a list of at least one text${single}`);
    return 0;
  }
  for (const [i, text] of value.entries()) readText(text, below(at, i), mistakes);
  return value.reduce((sum: number, text) => sum + String(text).split('|').length, 0);
}

const TEXT_CHARACTERS_MAX = 500;

function readText(text: unknown, at: string, mistakes: Mistakes): void {
  if (typeof text !== 'string') mistakes.add(at, `must be a text, is ${shownValue(text)}`);
  else if (text.length > TEXT_CHARACTERS_MAX) mistakes.add(at, `must have at most ${TEXT_CHARACTERS_MAX} characters`);
  else if (text.split('|').some((part) => part === '')) mistakes.add(at, 'must have a text on both sides of each `|`');
}
