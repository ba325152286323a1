// Reads words as a shell does: quotes, `$name`, `${…}`, `$(…)`, backquotes, `$((…))`, `<(…)`, braces; each word with
// the values that the text itself gives it. Holds the place in the text; between shell-reader.ts, which reads
// commands, and shell-expansions.ts, which says what expansions come to. Commands inside of words are read by what it
// was given.
// Invariant: every step moves on in the text or ends; nothing throws but OverBudget. A quote that is not closed opens
// nothing: what is behind it is read as words, and as a text of its own.
import { SHELL_DEPTH_MAX, SHELL_WORD_FORMS_MAX } from '../../common/limits.ts';
import { OVER_BUDGET } from '../budget.ts';
import { ansiC, closingBrace, parameterValue, readAt, splitAlternatives, UNKNOWN } from './shell-expansions.ts';
import {
  addQuoted,
  addText,
  addWord,
  isEmpty,
  joined,
  literal,
  newBuilder,
  type Range,
  type ShellReading,
  spendOnForms,
  type Word,
  type WordBuilder,
} from './shell-words.ts';

/** Reads the commands that stand inside of words. */
export type InnerCommands = {
  /** A text of its own. */
  text(reading: ShellReading, text: string, depth: number): void;
  /** Commands at the place of `words`, which is behind their `)` then. */
  substitution(words: ShellWordReader): void;
};

/** Reading a character, about 40 ns. */
export const CHARACTER_UNITS = 16;
/** Reading a character again, where braces are searched for. */
const LOOK_UNITS = 2;

const PLAIN = /[^\s'"\\$`{}()<>|&;*?[\0]+/y;
const BLANKS = /[ \t\r]+/y;
const NAME = /[A-Za-z_]\w*|[@*#?$!0-9-]/y;
const QUOTED_PLAIN = /[^"\\$`]+/y;
const PARAMETER = /([!#]?)([A-Za-z_]\w*|[@*#?$!0-9-]+)(?:\[[^\]]{0,64}\])?/y;
const OPERATOR = /:?[-=+?]|##?|%%?|\/[/#%]?|\^\^?|,,?|:|@/y;
const OPERAND_PLAIN = /[^}$`\\"']+/y;
/** `@`, `name[@]`: as many words as there are values, also in quotes. */
const LIST_OF_VALUES = /"(?:\$@|\$\{(?:@|\w{1,64}\[@\])\})"/y;
const BRACES_LOOKED_AT_MAX = 200;
const ARITHMETIC_CHARACTERS_MAX = 500;
const PRESET: ReadonlyMap<string, string> = new Map([
  ['IFS', ' \t\n'],
  ['SHELL', '/bin/sh'],
  ['BASH', '/bin/bash'],
  ['HOME', '~'],
  ['PWD', '.'],
  ['@', ''],
  ['*', ''],
]);
const NO_WORDS: readonly Word[] = Object.freeze([]);

export class ShellWordReader {
  readonly reading: ShellReading;
  readonly text: string;
  readonly #inner: InnerCommands;
  /** How deep texts and substitutions lie inside of others. */
  depth: number;
  /** Where in the text. */
  at = 0;

  constructor(reading: ShellReading, text: string, depth: number, inner: InnerCommands) {
    this.reading = reading;
    this.text = text;
    this.depth = depth;
    this.#inner = inner;
  }

  /** The character behind blanks. */
  peek(): string | undefined {
    this.skipBlanks();
    return this.text[this.at];
  }

  skipBlanks(): void {
    for (;;) {
      BLANKS.lastIndex = this.at;
      if (BLANKS.test(this.text)) this.at = BLANKS.lastIndex;
      const c = this.text[this.at];
      if (c === '\0') this.at++;
      else if (c === '\\' && this.text[this.at + 1] === '\n') this.at += 2;
      else if (c === '\\' && this.text.startsWith('\r\n', this.at + 1)) this.at += 3;
      else return;
    }
  }

  skipLine(): void {
    const end = this.text.indexOf('\n', this.at);
    this.at = end < 0 ? this.text.length : end;
  }

  /** The match of a sticky pattern at this place; moves behind it. */
  take(pattern: RegExp): RegExpExecArray | null {
    const found = readAt(pattern, this.text, this.at);
    if (found !== null) this.at += found[0].length;
    return found;
  }

  /** The words that the next word expands to: none, one or several. Moves on, whatever is there. */
  split(): Word[] {
    const before = this.at;
    const words = this.#words(false);
    if (this.at === before) this.at++;
    return words;
  }

  /** The next word, which is not split (a value, a target); undefined: none is there. */
  whole(): Word | undefined {
    return this.#words(true)[0];
  }

  /** A text in which only `$`, backquotes and `\` mean something, such as a here-document. */
  expanded(text: string): Word {
    if (!/[$`\\]/.test(text)) return literal(text);
    this.reading.budget.spend(CHARACTER_UNITS * text.length);
    const builder = newBuilder();
    this.#readerOf(text, this.#deeper()).#quoted(builder, '');
    return { ...builder, isBare: false };
  }

  #readerOf(text: string, depth: number): ShellWordReader {
    return new ShellWordReader(this.reading, text, depth, this.#inner);
  }

  #deeper(): number {
    if (this.depth >= SHELL_DEPTH_MAX) throw OVER_BUDGET;
    return this.depth + 1;
  }

  #words(isWhole: boolean): Word[] {
    const builders: WordBuilder[] = [newBuilder()];
    const done: Word[] = [];
    const start = this.at;
    while (this.at < this.text.length) {
      const c = this.text[this.at]!;
      const plain = this.take(PLAIN)?.[0];
      if (plain !== undefined) {
        for (const builder of builders) {
          if (builders.length > 1 || builder.texts.length > 1) spendOnForms(this.reading.budget, builder.texts, 1);
          addText(builder, plain);
        }
      } else if (' \t\r\n|&;()'.includes(c)) break;
      else if ((c === '<' || c === '>') && this.text[this.at + 1] !== '(') break;
      else done.push(...this.#piece(c, builders, isWhole));
    }
    if (this.at === start) return done;
    // What was expanded to nothing is no word; what was quoted is one.
    const kept = builders.filter((builder) => builder.texts.some((text) => text !== '') || !builder.isBare);
    for (const builder of isWhole ? builders : kept) done.push(builder);
    return done;
  }

  /** Reads the piece that begins with `c`; returns the words that it completes. */
  #piece(c: string, builders: WordBuilder[], isWhole: boolean): readonly Word[] {
    switch (c) {
      case '$':
        return this.#dollar(builders, !isWhole);
      case '`':
        return this.#backquoted(builders, !isWhole);
      case '"':
        return this.#doubleQuoted(builders, isWhole);
      case "'": {
        const text = this.#singleQuoted();
        for (const builder of builders) addQuoted(builder, text);
        return NO_WORDS;
      }
      case '\\': {
        const next = this.text[this.at + 1] ?? '';
        for (const builder of builders) addQuoted(builder, next === '\n' ? '' : next);
        this.at += 2;
        return NO_WORDS;
      }
      case '<':
      case '>':
        this.#processSubstitution(builders);
        return NO_WORDS;
      case '{':
        if (!isWhole && this.#braces(builders)) return NO_WORDS;
    }
    if (c === '*' || c === '?' || c === '[') for (const builder of builders) builder.hasGlob = true;
    if (c !== '\0') for (const builder of builders) addText(builder, c);
    this.at++;
    return NO_WORDS;
  }

  #processSubstitution(builders: readonly WordBuilder[]): void {
    this.at += 2;
    const output = this.#substitution();
    for (const builder of builders) {
      addText(builder, UNKNOWN);
      builder.output = joined(builder.output, output);
      builder.isProcess = true;
    }
  }

  #singleQuoted(): string {
    const end = this.text.indexOf("'", this.at + 1);
    const text = end < 0 ? '' : this.text.slice(this.at + 1, end).replaceAll('\0', '');
    this.at = end < 0 ? this.at + 1 : end + 1;
    return text;
  }

  #doubleQuoted(builders: WordBuilder[], isWhole: boolean): readonly Word[] {
    const isList = readAt(LIST_OF_VALUES, this.text, this.at) !== null;
    const start = ++this.at;
    if (isList) {
      const words = this.#dollar(builders, !isWhole);
      this.at++;
      return words;
    }
    const inner = newBuilder();
    const isClosed = this.#quoted(inner, '"');
    for (const builder of builders) {
      builder.isBare = false;
      addWord(builder, inner);
    }
    if (!isClosed && this.depth < SHELL_DEPTH_MAX)
      this.#inner.text(this.reading, this.text.slice(start), this.depth + 1);
    return NO_WORDS;
  }

  /** Inside double quotes, to `close`; '': to the end. Is it reached? */
  #quoted(builder: WordBuilder, close: string): boolean {
    while (this.at < this.text.length) {
      const c = this.text[this.at]!;
      if (c === close) {
        this.at++;
        return true;
      }
      if (c === '\\') {
        const next = this.text[this.at + 1] ?? '';
        addText(builder, next === '\n' ? '' : '$`"\\'.includes(next) ? next : `\\${next}`);
        this.at += 2;
      } else if (c === '$') this.#dollar([builder], false, true);
      else if (c === '`') this.#backquoted([builder], false);
      else {
        const text = this.take(QUOTED_PLAIN)?.[0];
        if (text === undefined) this.at++;
        addText(builder, (text ?? c).replaceAll('\0', ''));
      }
    }
    return false;
  }

  /** `{a,b}`: makes what was read so far end with each. false: these are none, and nothing has been read. */
  #braces(builders: WordBuilder[]): boolean {
    const limit = Math.min(this.text.length, this.at + BRACES_LOOKED_AT_MAX);
    const end = closingBrace(this.text, this.at, limit);
    this.reading.budget.spend(LOOK_UNITS * ((end < 0 ? limit : end) - this.at));
    const alternatives = end < 0 ? null : splitAlternatives(this.text.slice(this.at + 1, end));
    if (alternatives === null) return false;
    const expanded: WordBuilder[] = [];
    const depth = this.#deeper();
    for (const source of alternatives) {
      const words: readonly Word[] = this.#readerOf(source, depth).#words(false);
      for (const builder of builders)
        for (const word of words.length === 0 ? [newBuilder()] : words) {
          const copy = { ...builder, texts: [...builder.texts], isBare: false };
          addWord(copy, word);
          expanded.push(copy);
          if (expanded.length > SHELL_WORD_FORMS_MAX) throw OVER_BUDGET;
        }
    }
    builders.splice(0, builders.length, ...expanded);
    this.at = end + 1;
    return true;
  }

  /** Commands up to a closing parenthesis, which `at` is behind then. */
  #substitution(): Range {
    const { commands } = this.reading;
    const from = commands.length;
    const before = this.depth;
    this.depth = this.#deeper();
    this.#inner.substitution(this);
    this.depth = before;
    return { from, to: commands.length };
  }

  /** An expansion at `$`; the words that it completes, where it is split. `isQuoted`: in double quotes. */
  #dollar(builders: WordBuilder[], isSplit: boolean, isQuoted = false): readonly Word[] {
    const next = this.text[this.at + 1];
    if (next === "'" && !isQuoted) {
      const { text, end } = ansiC(this.text, this.at + 2);
      for (const builder of builders) addQuoted(builder, text.replaceAll('\0', ''));
      this.at = end;
      return NO_WORDS;
    }
    if (next === '"' && !isQuoted) {
      this.at++;
      return NO_WORDS;
    }
    if (next === '(') {
      if (this.text[this.at + 2] === '(' && this.arithmetic(this.at + 3)) {
        for (const builder of builders) addQuoted(builder, UNKNOWN);
        return NO_WORDS;
      }
      this.at += 2;
      return this.#put(builders, printedBy(this.reading, this.#substitution()), isSplit);
    }
    if (next === '{') {
      this.at += 2;
      return this.#put(builders, this.#parameter(), isSplit);
    }
    this.at++;
    const name = this.take(NAME)?.[0];
    if (name !== undefined) return this.#put(builders, this.#valueOf(name), isSplit);
    for (const builder of builders) addText(builder, '$');
    return NO_WORDS;
  }

  #backquoted(builders: WordBuilder[], isSplit: boolean): readonly Word[] {
    let end = this.at + 1;
    while (end < this.text.length && this.text[end] !== '`') end += this.text[end] === '\\' ? 2 : 1;
    const source = this.text.slice(this.at + 1, end).replaceAll(/\\([\\`$])/g, '$1');
    this.at = Math.min(this.text.length, end + 1);
    const { commands } = this.reading;
    const from = commands.length;
    this.#inner.text(this.reading, source, this.depth + 1);
    return this.#put(builders, printedBy(this.reading, { from, to: commands.length }), isSplit);
  }

  #valueOf(name: string): Word {
    return this.reading.variables.get(name) ?? literal(PRESET.get(name) ?? UNKNOWN);
  }

  /** Behind `${`, to behind its `}`. */
  #parameter(): Word {
    const found = this.take(PARAMETER);
    const operator = this.take(OPERATOR)?.[0] ?? '';
    const operand = this.#untilBrace();
    if (found === null) return { ...operand, texts: [UNKNOWN] };
    const [, prefix, name] = found;
    const value = this.#valueOf(name!);
    if (prefix === '!') return value.texts[0] === UNKNOWN ? value : this.#valueOf(value.texts[0]!);
    const output = joined(value.output, operand.output);
    if (prefix === '#') return { ...value, texts: [UNKNOWN], output };
    return { ...value, output, texts: parameterValue(value.texts, operator, operand.texts[0]!) };
  }

  /** The rest of `${…}`, expanded. */
  #untilBrace(): Word {
    const builder = newBuilder();
    while (this.at < this.text.length) {
      const c = this.text[this.at]!;
      if (c === '}') {
        this.at++;
        break;
      }
      if (c === '$') {
        const before = this.depth;
        this.depth = this.#deeper();
        this.#dollar([builder], false, true);
        this.depth = before;
      } else if (c === '`') this.#backquoted([builder], false);
      else if (c === '\\') {
        addText(builder, this.text[this.at + 1] ?? '');
        this.at += 2;
      } else if (c === '"') this.at++;
      else if (c === "'") addText(builder, this.#singleQuoted());
      else addText(builder, this.take(OPERAND_PLAIN)![0]);
    }
    return builder;
  }

  /** `((…))`: goes behind it, its substitutions read. false: it is none, and nothing has been read. */
  arithmetic(start: number): boolean {
    let open = 0;
    const limit = Math.min(this.text.length, start + ARITHMETIC_CHARACTERS_MAX);
    for (let i = start; i < limit; i++) {
      const c = this.text[i];
      if (c === '(') open++;
      else if (c === ')' && open > 0) open--;
      else if (c === ')') {
        if (this.text[i + 1] !== ')') return false;
        this.reading.budget.spend(LOOK_UNITS * (i - start));
        const inner = this.text.slice(start, i);
        this.at = i + 2;
        if (/[$`]/.test(inner)) this.expanded(inner);
        return true;
      }
    }
    this.reading.budget.spend(LOOK_UNITS * (limit - start));
    return false;
  }

  /** Puts a value into what is being read; without quotes it is split into words. */
  #put(builders: WordBuilder[], value: Word, mayBeSplit: boolean): readonly Word[] {
    for (const builder of builders) spendOnForms(this.reading.budget, value.texts, builder.texts.length);
    const separators = this.#separators();
    for (const builder of builders) {
      builder.isBare &&= mayBeSplit && value.texts.every((text) => text === '');
      builder.output = joined(builder.output, value.output);
      builder.isProcess ||= value.isProcess;
    }
    if (!mayBeSplit || !value.texts.some((text) => separators.test(text))) {
      for (const builder of builders) addWord(builder, value);
      return NO_WORDS;
    }
    const done: Word[] = [];
    for (const [i, part] of value.texts.at(-1)!.split(separators).entries()) {
      if (i > 0) {
        for (const builder of builders) if (builder.texts.some((text) => text !== '')) done.push({ ...builder });
        builders.splice(0, builders.length, { ...newBuilder(), output: value.output });
      }
      for (const builder of builders) {
        addText(builder, part);
        if (part !== '') builder.isBare = false;
      }
    }
    return done;
  }

  #separators(): RegExp {
    const set = this.reading.variables.get('IFS')?.texts.at(-1);
    if (set === undefined || set === UNKNOWN || set === '') return /[ \t\n]+/;
    return new RegExp(`[${set.slice(0, 16).replaceAll(/[\\\]^-]/g, '\\$&')}]+`);
  }
}

/** The text that commands print together, as far as it is known: of one pipe that of its last command. */
function printedBy({ commands }: ShellReading, range: Range): Word {
  if (isEmpty(range)) return literal('');
  const last = commands[range.to - 1]!;
  const isOne = range.to - range.from === 1 || (!isEmpty(last.piped) && last.piped.from === range.from);
  const text = isOne && last.printed !== null ? last.printed.replace(/\n+$/, '') : UNKNOWN;
  return { ...literal(text), output: range };
}
