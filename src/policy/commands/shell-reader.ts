// Reads a text as a shell does, without running it: words, quotes, expansions, pipes, substitutions, here-documents,
// groups. Between the condition `shell` (shell-condition.ts) and the table of commands that run others (shell-runs.ts).
// Each simple command is given to `run` in the order in which a shell would come to it, its words expanded as far as
// the text itself says: variables that it sets, braces, $'…', and what `echo`, `printf` and the like print.
// Invariant: one pass over each text, no matter what is in it; nothing throws but OverBudget, for depth or breadth
// beyond the bounds below (what cannot be read counts as met). A text that is broken (a quote that is not closed) is
// read on behind the break, since what follows may run elsewhere.
import { SHELL_DEPTH_MAX, SHELL_VALUE_CHARACTERS_MAX, SHELL_WORD_FORMS_MAX } from '../../common/limits.ts';
import { type Budget, OVER_BUDGET } from '../budget.ts';
import { ansiC, closingBrace, parameterValue, readAt, splitAlternatives } from './shell-expansions.ts';

/** Stands in a word for what the text does not say; no word of a shell holds this character. */
export const UNKNOWN = '\0';

/** Commands from the first to before the last, by number. */
export type Range = { from: number; to: number };
const NONE: Range = Object.freeze({ from: 0, to: 0 });

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
export type Redirect = { operator: string; target: Word };

/** A command with its words, and where its input comes from. */
export type SimpleCommand = {
  number: number;
  words: readonly Word[];
  redirects: readonly Redirect[];
  /** Commands whose output it reads. */
  piped: Range;
  /** Of a here-document or here-string. */
  input: Word | null;
  /** The function in whose body it stands. */
  inside: string | null;
  isInBackground: boolean;
  /** Where it is the first of its text: it ends there. */
  end: number;
  /** What it prints; null: unknown. */
  printed: string | null;
  /** Commands whose output is in what it reads, and in that or its words. */
  said: Range;
  output: Range;
};

/** What one text, with all that it runs, has come to. */
export type Reading = {
  budget: Budget;
  commands: SimpleCommand[];
  variables: Map<string, Word>;
  /** `depth`: of texts inside texts. */
  run(command: SimpleCommand, depth: number): void;
  /** A function calls itself in a pipe, or in the background. */
  hasForkBomb: boolean;
};

/** Reading a character, about 40 ns. */
const CHARACTER_UNITS = 16;
/** Reading a character again, where braces are searched for. */
const LOOK_UNITS = 2;
/** A character of a value that is put in place of its name. */
const VALUE_UNITS = 4;

const PLAIN = /[^\s'"\\$`{}()<>|&;*?[\0]+/y;
const BLANKS = /[ \t\r]+/y;
const ASSIGNMENT = /([A-Za-z_]\w*)(?:\[[^\]\s]{0,64}\])?\+?=/y;
const NAME = /[A-Za-z_]\w*|[@*#?$!0-9-]/y;
const DESCRIPTOR = /(?:\d{1,4}|\{[A-Za-z_]\w*\})(?=[<>])/y;
const REDIRECT = /&>>|&>|<<<|<<-|<<|<>|<&|>\||>>|>&|>|</y;
const EMPTY_PARENTHESES = /\([ \t]*\)/y;
const HEAD_WORD = /[^\s(){};|&<>]+/y;
const IN = /in(?=\s)/y;
const DELIMITER = /(?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\<>|&;()])+/y;
const QUOTED_PLAIN = /[^"\\$`]+/y;
const PARAMETER = /([!#]?)([A-Za-z_]\w*|[@*#?$!0-9-]+)(?:\[[^\]]{0,64}\])?/y;
const OPERATOR = /:?[-=+?]|##?|%%?|\/[/#%]?|\^\^?|,,?|:|@/y;
const OPERAND_PLAIN = /[^}$`\\"']+/y;
/** `@`, `name[@]`: as many words as there are values, also in quotes. */
const LIST_OF_VALUES = /"(?:\$@|\$\{(?:@|\w{1,64}\[@\])\})"/y;
const HEREDOC = new Set(['<<', '<<-']);
const OPENS = new Set(['if', 'while', 'until', '{', 'for', 'select', 'case']);
const GOES_ON = new Set(['then', 'do', 'else', 'elif', '!']);
const CLOSES = new Set(['fi', 'done', 'esac', '}']);
const BRACES_LOOKED_AT_MAX = 200;
const ARITHMETIC_CHARACTERS_MAX = 500;
const VALUES_MAX = 8;
const PRESET: ReadonlyMap<string, string> = new Map([
  ['IFS', ' \t\n'],
  ['SHELL', '/bin/sh'],
  ['BASH', '/bin/bash'],
  ['HOME', '~'],
  ['PWD', '.'],
  ['@', ''],
  ['*', ''],
]);

export function literal(text: string): Word {
  return { texts: [text], output: NONE, isBare: false, hasGlob: false, isProcess: false };
}

/** Both, and what is between them. */
export function joined(a: Range, b: Range): Range {
  if (a.to === a.from) return b;
  if (b.to === b.from) return a;
  return { from: Math.min(a.from, b.from), to: Math.max(a.to, b.to) };
}

/** Reads a text that is run. `piped`: the input of all its commands. Throws OverBudget. */
export function readShell(reading: Reading, text: string, depth = 0, piped: Range = NONE): void {
  if (depth > SHELL_DEPTH_MAX) throw OVER_BUDGET;
  reading.budget.spend(CHARACTER_UNITS * text.length + CHARACTER_UNITS);
  const reader = new ShellReader(reading, text, depth);
  reader.script('', piped);
}

/** A stretch of commands: a group, a loop, the whole. */
type Frame = { start: number; up: Range; input: Range; name: string | null; isCase: boolean };
type Builder = { texts: string[]; output: Range; isBare: boolean; hasGlob: boolean; isProcess: boolean };
type Heredoc = { command: SimpleCommand; delimiter: string; isQuoted: boolean; isIndented: boolean };

class ShellReader {
  readonly #reading: Reading;
  readonly #text: string;
  #depth: number;
  #at = 0;
  #heredocs: Heredoc[] = [];
  /** Commands of the line that wait for here-documents. */
  #waiting: SimpleCommand[] = [];

  constructor(reading: Reading, text: string, depth: number) {
    this.#reading = reading;
    this.#text = text;
    this.#depth = depth;
  }

  /** Reads commands to `close` (`)` of a substitution; '': to the end). */
  script(close: string, piped: Range): void {
    const { commands } = this.#reading;
    const frames: Frame[] = [{ start: commands.length, up: NONE, input: piped, name: null, isCase: false }];
    let pending: string | null = null;
    let isAfterPipe = false;
    const open = (isCase = false) => {
      const { up, input, name } = frames.at(-1)!;
      frames.push({
        start: commands.length,
        up: NONE,
        input: up.to > up.from ? up : input,
        name: pending ?? name,
        isCase,
      });
      pending = null;
    };
    const shut = () => {
      if (frames.length > 1) frames.pop();
    };
    while (this.#at < this.#text.length) {
      this.#skipBlanks();
      const c = this.#text[this.#at];
      if (c === undefined) break;
      const frame = frames.at(-1)!;
      if (c === '#') {
        this.#skipLine();
        continue;
      }
      if (c === '\n') {
        this.#at++;
        this.#readHeredocs();
        if (!isAfterPipe) part(frame, commands.length);
        continue;
      } else if (c === ';') {
        this.#at++;
        part(frame, commands.length);
      } else if (c === '&' && this.#text[this.#at + 1] !== '>') {
        const isBackground = this.#text[this.#at + 1] !== '&';
        this.#at += isBackground ? 1 : 2;
        if (isBackground) this.#noteBackground(frame.start);
        part(frame, commands.length);
      } else if (c === '|') {
        const next = this.#text[this.#at + 1];
        this.#at += next === '|' || next === '&' ? 2 : 1;
        if (next === '|') part(frame, commands.length);
        else {
          frame.up = { from: frame.start, to: commands.length };
          isAfterPipe = true;
          continue;
        }
      } else if (c === '(') {
        if (this.#text[this.#at + 1] === '(' && this.#arithmetic(this.#at + 2)) continue;
        this.#at++;
        open();
      } else if (c === ')') {
        this.#at++;
        if (frames.length === 1 && close === ')') {
          this.#readHeredocs();
          return;
        }
        // What ends a pattern of `case` ends nothing else.
        if (!frame.isCase) shut();
      } else {
        const name = this.#command(frame);
        if (name === null) {
          isAfterPipe = false;
          continue;
        }
        if (name.isFunction) {
          pending = name.word;
          if (this.#peek() === '{') {
            this.#at++;
            open();
          }
        } else if (OPENS.has(name.word)) open(name.word === 'case');
        else if (CLOSES.has(name.word)) shut();
      }
      isAfterPipe = false;
    }
    this.#readHeredocs();
  }

  #noteBackground(from: number): void {
    const { commands } = this.#reading;
    for (let i = from; i < commands.length; i++) {
      const command = commands[i]!;
      command.isInBackground = true;
      this.#noteBomb(command);
    }
  }

  #noteBomb({ words, inside, piped, isInBackground }: SimpleCommand): void {
    if (inside !== null && words[0]?.texts[0] === inside && (isInBackground || piped.to > piped.from))
      this.#reading.hasForkBomb = true;
  }

  /** Reads one command; what opens or closes a group, or names a function, is answered. */
  #command(frame: Frame): { word: string; isFunction: boolean } | null {
    const words: Word[] = [];
    const redirects: Redirect[] = [];
    const heredocs: Omit<Heredoc, 'command'>[] = [];
    let input: Word | null = null;
    let isAssigned = false;
    for (;;) {
      this.#skipBlanks();
      const c = this.#text[this.#at];
      if (c === undefined || c === '\n' || c === ';' || c === '|' || c === ')') break;
      if (c === '#' && words.length > 0) {
        this.#skipLine();
        break;
      }
      DESCRIPTOR.lastIndex = this.#at;
      const descriptor = DESCRIPTOR.exec(this.#text)?.[0].length ?? 0;
      REDIRECT.lastIndex = this.#at + descriptor;
      const operator = REDIRECT.exec(this.#text)?.[0];
      const isProcess = operator !== undefined && operator.length === 1 && this.#text[REDIRECT.lastIndex] === '(';
      if (operator !== undefined && !isProcess) {
        this.#at = REDIRECT.lastIndex;
        this.#skipBlanks();
        if (HEREDOC.has(operator)) {
          const heredoc = this.#delimiter(operator);
          if (heredoc !== null) heredocs.push(heredoc);
          continue;
        }
        const target = this.#words(true)[0];
        if (target === undefined) continue;
        if (operator === '<<<') input = target;
        else if (operator === '<') {
          if (target.output.to > target.output.from) input = { ...target, texts: [UNKNOWN] };
        } else redirects.push({ operator, target });
        continue;
      }
      if (c === '&') break;
      if (c === '(') {
        if (words.length === 1 && this.#isFunctionHead()) return { word: words[0]!.texts[0]!, isFunction: true };
        break;
      }
      ASSIGNMENT.lastIndex = this.#at;
      const assignment = words.length === 0 ? ASSIGNMENT.exec(this.#text) : null;
      if (assignment !== null) {
        this.#assign(assignment[1]!, assignment[0]);
        isAssigned = true;
        continue;
      }
      const before = this.#at;
      const found = this.#words(false);
      // No character begins a word that is not read above, but an end must be reached whatever comes.
      if (this.#at === before) {
        this.#at++;
        continue;
      }
      if (words.length === 0 && found.length === 1 && found[0]!.isBare && !isAssigned) {
        const word = found[0]!.texts[0]!;
        if (GOES_ON.has(word)) {
          if (word !== '!') part(frame, this.#reading.commands.length);
          continue;
        }
        if (word === 'function') {
          const name = this.#headWord();
          if (this.#peek() === '(') this.#isFunctionHead();
          return { word: name, isFunction: true };
        }
        if (OPENS.has(word) || CLOSES.has(word)) {
          if (word === 'for' || word === 'select') this.#loopVariable();
          else if (word === 'case') this.#caseWord();
          return { word, isFunction: false };
        }
      }
      for (const one of found) words.push(one);
    }
    if (words.length > 0 || redirects.length > 0 || heredocs.length > 0 || input !== null) {
      const { commands } = this.#reading;
      const command: SimpleCommand = {
        number: commands.length,
        words,
        redirects,
        piped: frame.up.to > frame.up.from ? frame.up : frame.input,
        input,
        inside: frame.name,
        isInBackground: false,
        end: this.#at,
        printed: null,
        said: NONE,
        output: NONE,
      };
      commands.push(command);
      for (const heredoc of heredocs) this.#heredocs.push({ ...heredoc, command });
      // Its own input is still to come, or that of a command before it in the pipe.
      if (this.#heredocs.length === 0) this.#finish(command);
      else this.#waiting.push(command);
    }
    return null;
  }

  #finish(command: SimpleCommand): void {
    this.#noteBomb(command);
    this.#reading.run(command, this.#depth);
  }

  #peek(): string | undefined {
    this.#skipBlanks();
    return this.#text[this.#at];
  }

  #skipBlanks(): void {
    for (;;) {
      BLANKS.lastIndex = this.#at;
      if (BLANKS.test(this.#text)) this.#at = BLANKS.lastIndex;
      const c = this.#text[this.#at];
      if (c === '\0') this.#at++;
      else if (c === '\\' && this.#text[this.#at + 1] === '\n') this.#at += 2;
      else if (c === '\\' && this.#text.startsWith('\r\n', this.#at + 1)) this.#at += 3;
      else return;
    }
  }

  #skipLine(): void {
    const end = this.#text.indexOf('\n', this.#at);
    this.#at = end < 0 ? this.#text.length : end;
  }

  /** `()` behind a name. */
  #isFunctionHead(): boolean {
    const found = readAt(EMPTY_PARENTHESES, this.#text, this.#at);
    if (found === null) return false;
    this.#at += found[0].length;
    return true;
  }

  #headWord(): string {
    this.#skipBlanks();
    const found = readAt(HEAD_WORD, this.#text, this.#at);
    this.#at += found?.[0].length ?? 0;
    return found?.[0] ?? '';
  }

  /** `for x in a b`: what the variable may be. */
  #loopVariable(): void {
    const name = this.#headWord();
    this.#skipBlanks();
    const found = readAt(IN, this.#text, this.#at);
    if (found === null) return;
    this.#at += 2;
    const values: Word[] = [];
    for (let c = this.#peek(); c !== undefined && !'\n;|&()<>'.includes(c); c = this.#peek()) {
      const before = this.#at;
      values.push(...this.#words(false));
      if (this.#at === before) this.#at++;
    }
    const texts = values.flatMap((word) => word.texts);
    const output = values.reduce((sum, word) => joined(sum, word.output), NONE);
    this.#set(name, { ...literal(''), texts: texts.length > VALUES_MAX ? [UNKNOWN] : texts, output });
  }

  #caseWord(): void {
    this.#skipBlanks();
    this.#words(true);
    this.#skipBlanks();
    const found = readAt(IN, this.#text, this.#at);
    if (found !== null) this.#at += 2;
  }

  #assign(name: string, head: string): void {
    this.#at += head.length;
    let value: Word;
    if (this.#text[this.#at] === '(') {
      this.#at++;
      const items: Word[] = [];
      for (let c = this.#peek(); c !== undefined && c !== ')'; c = this.#peek()) {
        const before = this.#at;
        items.push(...this.#words(false));
        if (this.#at === before) this.#at++;
      }
      this.#at++;
      value = {
        ...literal(items.map((word) => word.texts[0]).join(' ')),
        output: items.reduce((sum, word) => joined(sum, word.output), NONE),
      };
    } else value = this.#words(true)[0] ?? literal('');
    const before = head.endsWith('+=') ? this.#reading.variables.get(name) : undefined;
    this.#set(name, before === undefined ? value : { ...value, texts: [`${before.texts[0]}${value.texts[0]}`] });
  }

  /** What a variable was is kept: which of two assignments is made, only the run decides. */
  #set(name: string, value: Word): void {
    setVariable(this.#reading.variables, name, value);
  }

  #delimiter(operator: string): Omit<Heredoc, 'command'> | null {
    const start = this.#at;
    const found = readAt(DELIMITER, this.#text, start);
    if (found === null) return null;
    this.#at += found[0].length;
    const delimiter = found[0].replaceAll(/['"]|\\(?=.)/g, '');
    return { delimiter, isQuoted: delimiter !== found[0], isIndented: operator === '<<-' };
  }

  #readHeredocs(): void {
    if (this.#heredocs.length === 0) return;
    const pending = this.#heredocs;
    this.#heredocs = [];
    for (const { command, delimiter, isQuoted, isIndented } of pending) {
      const start = this.#at;
      const end = this.#heredocEnd(delimiter, isIndented);
      const isOpen = end < 0;
      const bodyEnd = isOpen ? this.#text.length : end;
      const body = this.#text.slice(start, bodyEnd);
      const line = this.#text.indexOf('\n', bodyEnd);
      this.#at = isOpen || line < 0 ? this.#text.length : line + 1;
      command.input = isQuoted ? literal(body) : this.#expanded(body);
      if (isOpen && this.#depth < SHELL_DEPTH_MAX) readShell(this.#reading, body, this.#depth + 1);
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const command of waiting) this.#finish(command);
  }

  /** Where the line of the delimiter begins; -1: there is none. */
  #heredocEnd(delimiter: string, isIndented: boolean): number {
    for (let at = this.#at; at < this.#text.length; ) {
      const newline = this.#text.indexOf('\n', at);
      const end = newline < 0 ? this.#text.length : newline;
      const line = this.#text.slice(at, end).replace(/\r$/, '');
      if ((isIndented ? line.replace(/^\t+/, '') : line) === delimiter) return at;
      // What closes a substitution may stand right behind the delimiter.
      if (line.startsWith(delimiter) && /^[)`"']/.test(line.slice(delimiter.length))) return at;
      at = end + 1;
    }
    return -1;
  }

  /** A text in which only `$` and backquotes mean something. */
  #expanded(text: string): Word {
    if (!/[$`\\]/.test(text)) return literal(text);
    this.#reading.budget.spend(CHARACTER_UNITS * text.length);
    const inner = new ShellReader(this.#reading, text, this.#deeper());
    return inner.quotedWord('');
  }

  #deeper(): number {
    if (this.#depth >= SHELL_DEPTH_MAX) throw OVER_BUDGET;
    return this.#depth + 1;
  }

  /** Inside double quotes, to `close`; '': to the end. */
  quotedWord(close: string): Word {
    const builder = fresh();
    this.#quoted(builder, close);
    return { ...builder, isBare: false };
  }

  /** Is `close` reached? */
  #quoted(builder: Builder, close: string): boolean {
    while (this.#at < this.#text.length) {
      const c = this.#text[this.#at]!;
      if (c === close) {
        this.#at++;
        return true;
      }
      if (c === '\\') {
        const next = this.#text[this.#at + 1] ?? '';
        add(builder, next === '\n' ? '' : '$`"\\'.includes(next) ? next : `\\${next}`);
        this.#at += 2;
      } else if (c === '$') this.#dollar([builder], false, true);
      else if (c === '`') this.#backquoted([builder], false);
      else {
        const found = readAt(QUOTED_PLAIN, this.#text, this.#at);
        const text = found?.[0] ?? c;
        add(builder, text.includes('\0') ? text.replaceAll('\0', '') : text);
        this.#at += text.length;
      }
    }
    return false;
  }

  /** One word as it is expanded: none, one or several. `isWhole`: it is not split (a value, a target). */
  #words(isWhole: boolean): Word[] {
    let builders: Builder[] = [fresh()];
    const done: Word[] = [];
    let isThere = false;
    while (this.#at < this.#text.length) {
      const c = this.#text[this.#at]!;
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.#text)?.[0];
      if (plain !== undefined) {
        if (builders.length > 1) this.#reading.budget.spend(builders.length * plain.length);
        for (const builder of builders) add(builder, plain);
        this.#at += plain.length;
      } else if (' \t\r\n|&;()'.includes(c)) break;
      else if (c === '<' || c === '>') {
        if (this.#text[this.#at + 1] !== '(') break;
        this.#at += 2;
        const { from } = this.#nested();
        for (const builder of builders) {
          add(builder, UNKNOWN);
          builder.output = joined(builder.output, { from, to: this.#reading.commands.length });
          builder.isProcess = true;
        }
      } else if (c === '\\') {
        const next = this.#text[this.#at + 1] ?? '';
        for (const builder of builders) add(quote(builder), next === '\n' ? '' : next);
        this.#at += 2;
      } else if (c === "'") {
        const end = this.#text.indexOf("'", this.#at + 1);
        const text = end < 0 ? '' : this.#text.slice(this.#at + 1, end).replaceAll('\0', '');
        for (const builder of builders) add(quote(builder), text);
        this.#at = end < 0 ? this.#at + 1 : end + 1;
      } else if (c === '"' && readAt(LIST_OF_VALUES, this.#text, this.#at) !== null) {
        this.#at++;
        done.push(...this.#dollar(builders, !isWhole));
        this.#at++;
      } else if (c === '"') {
        const start = ++this.#at;
        const inner = fresh();
        const isClosed = this.#quoted(inner, '"');
        for (const builder of builders) append(quote(builder), inner);
        if (!isClosed && this.#depth < SHELL_DEPTH_MAX)
          readShell(this.#reading, this.#text.slice(start), this.#depth + 1);
      } else if (c === '$') done.push(...this.#dollar(builders, !isWhole));
      else if (c === '`') done.push(...this.#backquoted(builders, !isWhole));
      else if (c === '{' && !isWhole) {
        const expanded = this.#braces(builders);
        if (expanded === null) {
          for (const builder of builders) add(builder, c);
          this.#at++;
        } else builders = expanded;
      } else {
        if (c === '*' || c === '?' || c === '[') for (const builder of builders) builder.hasGlob = true;
        if (c !== '\0') for (const builder of builders) add(builder, c);
        this.#at++;
      }
      isThere = true;
    }
    if (!isThere) return done;
    // What was expanded to nothing is no word; what was quoted is one.
    const kept = builders.filter((builder) => builder.texts.some((text) => text !== '') || !builder.isBare);
    for (const builder of isWhole ? builders : kept) done.push(builder);
    return done;
  }

  /** `{a,b}`: what was read so far with each; null: these are none. */
  #braces(builders: readonly Builder[]): Builder[] | null {
    const limit = Math.min(this.#text.length, this.#at + BRACES_LOOKED_AT_MAX);
    const end = closingBrace(this.#text, this.#at, limit);
    this.#reading.budget.spend(LOOK_UNITS * ((end < 0 ? limit : end) - this.#at));
    if (end < 0) return null;
    const alternatives = splitAlternatives(this.#text.slice(this.#at + 1, end));
    if (alternatives === null) return null;
    const expanded: Builder[] = [];
    const depth = this.#deeper();
    for (const source of alternatives) {
      const words = source === '' ? [fresh()] : new ShellReader(this.#reading, source, depth).#words(false);
      for (const builder of builders)
        for (const word of words.length === 0 ? [fresh()] : words) {
          const copy = { ...builder, texts: [...builder.texts], isBare: false };
          append(copy, word);
          expanded.push(copy);
          if (expanded.length > SHELL_WORD_FORMS_MAX) throw OVER_BUDGET;
        }
    }
    this.#at = end + 1;
    return expanded;
  }

  /** Commands up to a closing parenthesis, which `#at` is behind then. */
  #nested(): Range {
    const from = this.#reading.commands.length;
    const before = this.#depth;
    this.#depth = this.#deeper();
    const [heredocs, waiting] = [this.#heredocs, this.#waiting];
    [this.#heredocs, this.#waiting] = [[], []];
    this.script(')', NONE);
    this.#depth = before;
    [this.#heredocs, this.#waiting] = [heredocs, waiting];
    return { from, to: this.#reading.commands.length };
  }

  /** An expansion at `$`; the words that it completes, where it is split. `isQuoted`: in double quotes. */
  #dollar(builders: Builder[], isSplit: boolean, isQuoted = false): Word[] {
    const next = this.#text[this.#at + 1];
    if (next === "'" && !isQuoted) return this.#ansiC(builders);
    if (next === '"' && !isQuoted) {
      this.#at++;
      return [];
    }
    if (next === '(') {
      if (this.#text[this.#at + 2] === '(' && this.#arithmetic(this.#at + 3)) {
        for (const builder of builders) add(quote(builder), UNKNOWN);
        return [];
      }
      this.#at += 2;
      return this.#put(builders, printedBy(this.#reading, this.#nested()), isSplit);
    }
    if (next === '{') {
      this.#at += 2;
      return this.#put(builders, this.#parameter(), isSplit);
    }
    NAME.lastIndex = this.#at + 1;
    const name = NAME.exec(this.#text)?.[0];
    if (name === undefined) {
      for (const builder of builders) add(builder, '$');
      this.#at++;
      return [];
    }
    this.#at += 1 + name.length;
    return this.#put(builders, this.#valueOf(name), isSplit);
  }

  #ansiC(builders: readonly Builder[]): Word[] {
    const { text, end } = ansiC(this.#text, this.#at + 2);
    for (const builder of builders) add(quote(builder), text.replaceAll('\0', ''));
    this.#at = end;
    return [];
  }

  #backquoted(builders: Builder[], isSplit: boolean): Word[] {
    let end = this.#at + 1;
    while (end < this.#text.length && this.#text[end] !== '`') end += this.#text[end] === '\\' ? 2 : 1;
    const source = this.#text.slice(this.#at + 1, end).replaceAll(/\\([\\`$])/g, '$1');
    this.#at = Math.min(this.#text.length, end + 1);
    const from = this.#reading.commands.length;
    readShell(this.#reading, source, this.#depth + 1);
    return this.#put(builders, printedBy(this.#reading, { from, to: this.#reading.commands.length }), isSplit);
  }

  #valueOf(name: string): Word {
    const known = this.#reading.variables.get(name) ?? PRESET.get(name);
    if (known === undefined) return literal(UNKNOWN);
    return typeof known === 'string' ? literal(known) : known;
  }

  /** Behind `${`, to behind its `}`. */
  #parameter(): Word {
    const found = readAt(PARAMETER, this.#text, this.#at);
    this.#at += found?.[0].length ?? 0;
    const operator = readAt(OPERATOR, this.#text, this.#at)?.[0] ?? '';
    this.#at += operator.length;
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
    const builder = fresh();
    while (this.#at < this.#text.length) {
      const c = this.#text[this.#at]!;
      if (c === '}') {
        this.#at++;
        break;
      }
      if (c === '$') {
        const before = this.#depth;
        this.#depth = this.#deeper();
        this.#dollar([builder], false, true);
        this.#depth = before;
      } else if (c === '`') this.#backquoted([builder], false);
      else if (c === '\\') {
        add(builder, this.#text[this.#at + 1] ?? '');
        this.#at += 2;
      } else if (c === '"') this.#at++;
      else if (c === "'") {
        const end = this.#text.indexOf("'", this.#at + 1);
        add(builder, end < 0 ? '' : this.#text.slice(this.#at + 1, end));
        this.#at = end < 0 ? this.#at + 1 : end + 1;
      } else {
        const text = readAt(OPERAND_PLAIN, this.#text, this.#at)?.[0] ?? c;
        add(builder, text);
        this.#at += text.length;
      }
    }
    return builder;
  }

  /** `((…))`: goes behind it, its substitutions read. false: it is none, and nothing has been read. */
  #arithmetic(start: number): boolean {
    let open = 0;
    const limit = Math.min(this.#text.length, start + ARITHMETIC_CHARACTERS_MAX);
    for (let i = start; i < limit; i++) {
      const c = this.#text[i];
      if (c === '(') open++;
      else if (c === ')' && open > 0) open--;
      else if (c === ')') {
        if (this.#text[i + 1] !== ')') return false;
        this.#reading.budget.spend(LOOK_UNITS * (i - start));
        const inner = this.#text.slice(start, i);
        this.#at = i + 2;
        if (/[$`]/.test(inner)) this.#expanded(inner);
        return true;
      }
    }
    this.#reading.budget.spend(LOOK_UNITS * (limit - start));
    return false;
  }

  /** Puts a value into what is being read; without quotes it is split into words. */
  #put(builders: Builder[], value: Word, mayBeSplit: boolean): Word[] {
    const done: Word[] = [];
    for (const text of value.texts) this.#reading.budget.spend(VALUE_UNITS * builders.length * text.length);
    const separators = this.#separators();
    const isSplit = mayBeSplit && value.texts.some((text) => separators.test(text));
    const source = isSplit ? value.texts.at(-1)! : null;
    for (const builder of builders) {
      builder.isBare &&= mayBeSplit && value.texts.every((text) => text === '');
      builder.output = joined(builder.output, value.output);
      builder.isProcess ||= value.isProcess;
    }
    if (source === null) {
      for (const builder of builders) append(builder, value);
      return done;
    }
    const parts = source.split(separators);
    for (const [i, part] of parts.entries()) {
      if (i > 0) {
        for (const builder of builders) if (builder.texts.some((text) => text !== '')) done.push({ ...builder });
        builders.length = 1;
        builders[0] = { ...fresh(), isBare: true, output: value.output };
      }
      for (const builder of builders) {
        add(builder, part);
        if (part !== '') builder.isBare = false;
      }
    }
    return done;
  }

  #separators(): RegExp {
    const set = this.#reading.variables.get('IFS')?.texts.at(-1);
    if (set === undefined || set === UNKNOWN || set === '') return /[ \t\n]+/;
    return new RegExp(`[${set.slice(0, 16).replaceAll(/[\\\]^-]/g, '\\$&')}]+`);
  }
}

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

function part(frame: Frame, commands: number): void {
  frame.start = commands;
  frame.up = NONE;
}

function fresh(): Builder {
  return { texts: [''], output: NONE, isBare: true, hasGlob: false, isProcess: false };
}

function quote(builder: Builder): Builder {
  builder.isBare = false;
  return builder;
}

function add(builder: Builder, text: string): void {
  if (text === '') return;
  if (builder.texts.length === 1) builder.texts[0] += text;
  else builder.texts = builder.texts.map((before) => before + text);
}

function append(builder: Builder, word: Pick<Word, 'texts' | 'output' | 'hasGlob' | 'isProcess'>): void {
  if (word.texts.length === 1) add(builder, word.texts[0]!);
  else if (builder.texts.length * word.texts.length > SHELL_WORD_FORMS_MAX) add(builder, UNKNOWN);
  else builder.texts = builder.texts.flatMap((before) => word.texts.map((text) => before + text));
  builder.output = joined(builder.output, word.output);
  builder.hasGlob ||= word.hasGlob;
  builder.isProcess ||= word.isProcess;
}

/** What commands print together, as far as it is known: of one pipe what its last command does. */
function printedBy({ commands }: Reading, range: Range): Word {
  const output = range.to > range.from ? range : NONE;
  if (range.to === range.from) return literal('');
  const last = commands[range.to - 1]!;
  const isOne = range.to - range.from === 1 || (last.piped.to > last.piped.from && last.piped.from === range.from);
  const text = isOne && last.printed !== null ? last.printed.replace(/\n+$/, '') : UNKNOWN;
  return { ...literal(text), output };
}
