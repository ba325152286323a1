// Words and simple commands of a shell: what a reading (shell-word-reader.ts, shell-reader.ts) hands to those who ask
// what commands run (shell-runs.ts) and do (shell-condition.ts). A word may have several values; what the text does not
// say is UNKNOWN in it.
// Invariant: values of one word, and of one variable, are few and short (common/limits.ts); over that they are UNKNOWN.
import { SHELL_VALUE_CHARACTERS_MAX, SHELL_WORD_FORMS_MAX } from '../../common/limits.ts';
import type { Budget } from '../budget.ts';
import { UNKNOWN } from './shell-expansions.ts';

/** Commands from the first to before the last, by number. */
export type Range = { from: number; to: number };
export const NONE: Range = Object.freeze({ from: 0, to: 0 });

/** `texts`: what it may be. `output`: the commands whose output is in it. */
export type Word = {
  texts: readonly string[];
  output: Range;
  /** Nothing of it is quoted or expanded. */
  isBare: boolean;
  /** A `*`, `?` or `[` that is not quoted is in it. */
  hasGlob: boolean;
  /** It is a process substitution. */
  isProcess: boolean;
};

/** A command with its words, and where its input comes from. */
export type SimpleCommand = {
  number: number;
  words: readonly Word[];
  redirects: readonly { operator: string; target: Word }[];
  /** Commands whose output it reads. */
  piped: Range;
  /** The text of a here-document or here-string. */
  input: Word | null;
  /** The function in whose body it stands. */
  inside: string | null;
  isInBackground: boolean;
  /** Where it is the first of its text: it ends there. */
  end: number;
  /** The text that it prints; null: unknown. */
  printed: string | null;
  /** Commands whose output is in what it reads, and in that or its words. */
  said: Range;
  output: Range;
};

/** The state of reading one text, with all that it runs. */
export type ShellReading = {
  budget: Budget;
  commands: SimpleCommand[];
  variables: Map<string, Word>;
  /** `depth`: of texts inside texts. */
  run(command: SimpleCommand, depth: number): void;
  /** A function calls itself in a pipe, or in the background. */
  hasForkBomb: boolean;
};

export const VALUES_MAX = 8;
/** Making one value of a word, or looking at it, about 100 ns; and a character of it. */
const FORM_UNITS = 40;
const FORM_CHARACTER_UNITS = 1;

/** Charged for each value that is made or looked at; `times`: how often. */
export function spendOnForms(budget: Budget, texts: readonly string[], times: number): void {
  let characters = 0;
  for (const text of texts) characters += text.length;
  budget.spend(times * (FORM_UNITS * texts.length + FORM_CHARACTER_UNITS * characters));
}

/** A command that nothing is known of but its words. */
export function simpleCommand(number: number, words: readonly Word[]): SimpleCommand {
  // One literal: two that are spread into one take ten times as long.
  return {
    number,
    words,
    redirects: [],
    piped: NONE,
    input: null,
    inside: null,
    isInBackground: false,
    end: 0,
    printed: null,
    said: NONE,
    output: NONE,
  };
}

export function literal(text: string): Word {
  return { texts: [text], output: NONE, isBare: false, hasGlob: false, isProcess: false };
}

export function isEmpty({ from, to }: Range): boolean {
  return to === from;
}

/** Both, and what is between them. */
export function joined(a: Range, b: Range): Range {
  if (isEmpty(a)) return b;
  if (isEmpty(b)) return a;
  return { from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) };
}

export function outputOf(words: readonly Word[]): Range {
  return words.reduce<Range>((sum, { output }) => joined(sum, output), NONE);
}

/** Without its folder and the ending of Windows. */
export function baseName(text: string): string {
  return text.slice(text.lastIndexOf('/') + 1).replace(/\.exe$/i, '');
}

/** Assigns a variable. Earlier values are kept (but for IFS): which assignment is made, only the run decides. */
export function setVariable(variables: Map<string, Word>, name: string, value: Word): void {
  const before = variables.get(name);
  const texts = before === undefined || name === 'IFS' ? value.texts : [...new Set([...before.texts, ...value.texts])];
  const isLong = texts.some((text) => text.length > SHELL_VALUE_CHARACTERS_MAX);
  variables.set(name, {
    ...value,
    texts: isLong || texts.length > VALUES_MAX || texts.length === 0 ? [UNKNOWN] : texts,
    output: before === undefined ? value.output : joined(before.output, value.output),
  });
}

/** A word while it is read. */
export type WordBuilder = { texts: string[]; output: Range; isBare: boolean; hasGlob: boolean; isProcess: boolean };

export function newBuilder(): WordBuilder {
  return { texts: [''], output: NONE, isBare: true, hasGlob: false, isProcess: false };
}

/** Adds a text to the word; what is quoted or expanded is no bare word any more. */
export function addQuoted(builder: WordBuilder, text: string): void {
  builder.isBare = false;
  addText(builder, text);
}

export function addText(builder: WordBuilder, text: string): void {
  if (text === '') return;
  if (builder.texts.length === 1) builder.texts[0] += text;
  else builder.texts = builder.texts.map((before) => before + text);
}

export function addWord(builder: WordBuilder, word: Word): void {
  if (word.texts.length === 1) addText(builder, word.texts[0]!);
  else if (builder.texts.length * word.texts.length > SHELL_WORD_FORMS_MAX) addText(builder, UNKNOWN);
  else builder.texts = builder.texts.flatMap((before) => word.texts.map((text) => before + text));
  builder.output = joined(builder.output, word.output);
  builder.hasGlob ||= word.hasGlob;
  builder.isProcess ||= word.isProcess;
}
