// Reads a text as a shell does, without running it: commands, pipes, groups, loops, functions, assignments,
// redirections, here-documents. Between the condition `shell` (shell-condition.ts) and the table of commands that run
// others (shell-runs.ts); words are read by shell-word-reader.ts.
// Each simple command is given to `run` in the order in which a shell would come to it, its words expanded as far as
// the text itself says: variables that it sets, braces, $'…', and what `echo`, `printf` and the like print.
// Invariant: one pass over each text, no matter what is in it; nothing throws but OverBudget, for depth or breadth
// beyond the bounds (what cannot be read counts as met). A text that is broken (a quote that is not closed) is read on
// behind the break, since what follows may run elsewhere.
import { SHELL_DEPTH_MAX } from '../../common/limits.ts';
import { OVER_BUDGET } from '../budget.ts';
import { readAt, UNKNOWN } from './shell-expansions.ts';
import { CHARACTER_UNITS, type InnerCommands, ShellWordReader } from './shell-word-reader.ts';
import {
  isEmpty,
  literal,
  NONE,
  outputOf,
  type Range,
  type ShellReading,
  type SimpleCommand,
  setVariable,
  simpleCommand,
  spendOnForms,
  VALUES_MAX,
  type Word,
} from './shell-words.ts';

const ASSIGNMENT = /([A-Za-z_]\w*)(?:\[[^\]\s]{0,64}\])?\+?=/y;
const DESCRIPTOR = /(?:\d{1,4}|\{[A-Za-z_]\w*\})(?=[<>])/y;
const REDIRECT = /&>>|&>|<<<|<<-|<<|<>|<&|>\||>>|>&|>|</y;
const EMPTY_PARENTHESES = /\([ \t]*\)/y;
const HEAD_WORD = /[^\s(){};|&<>]+/y;
const IN = /in(?=\s)/y;
const DELIMITER = /(?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\<>|&;()])+/y;
const HEREDOC = new Set(['<<', '<<-']);
const OPENS = new Set(['if', 'while', 'until', '{', 'for', 'select', 'case']);
const GOES_ON = new Set(['then', 'do', 'else', 'elif', '!']);
const CLOSES = new Set(['fi', 'done', 'esac', '}']);

/** Making one command, about 0.5 µs. */
const COMMAND_UNITS = 200;

/** Reads a text that is run. `piped`: the input of all its commands. Throws OverBudget. */
export function readShell(reading: ShellReading, text: string, depth = 0, piped: Range = NONE): void {
  if (depth > SHELL_DEPTH_MAX) throw OVER_BUDGET;
  reading.budget.spend(CHARACTER_UNITS * text.length + CHARACTER_UNITS);
  new ShellReader(new ShellWordReader(reading, text, depth, INNER), '', piped).read();
}

const INNER: InnerCommands = {
  text: readShell,
  substitution: (words) => new ShellReader(words, ')', NONE).read(),
};

/** A stretch of commands: a group, a loop, the whole. `start`: of what a pipe would take in. */
type Frame = { start: number; up: Range; input: Range; name: string | null; isCase: boolean };
type Heredoc = { delimiter: string; isQuoted: boolean; isIndented: boolean };
/** A word that opens or closes a group, or names a function. */
type Head = { word: string; isFunction: boolean };
/** A command while it is read. */
type Draft = {
  words: Word[];
  redirects: { operator: string; target: Word }[];
  heredocs: Heredoc[];
  input: Word | null;
};

class ShellReader {
  readonly #reading: ShellReading;
  readonly #words: ShellWordReader;
  readonly #close: string;
  readonly #frames: Frame[];
  /** The name of a function whose body is to come. */
  #pending: string | null = null;
  #isAfterPipe = false;
  #heredocs: { heredoc: Heredoc; command: SimpleCommand }[] = [];
  /** Commands of the line that wait for here-documents. */
  #waiting: SimpleCommand[] = [];

  /** Commands at the place of `words`, to `close` (`)` of a substitution; '': to the end). */
  constructor(words: ShellWordReader, close: string, piped: Range) {
    this.#reading = words.reading;
    this.#words = words;
    this.#close = close;
    this.#frames = [{ start: this.#reading.commands.length, up: NONE, input: piped, name: null, isCase: false }];
  }

  read(): void {
    const words = this.#words;
    for (let c = words.peek(); c !== undefined; c = words.peek()) {
      if (c === '#') words.skipLine();
      else if (c === ')' && this.#frames.length === 1 && this.#close === ')') {
        words.at++;
        break;
      } else this.#isAfterPipe = this.#readPart(c, this.#frames.at(-1)!);
    }
    this.#readHeredocs();
  }

  /** Reads the part that begins with `c`. Says whether the place after it, or the unchanged place, is behind a pipe. */
  #readPart(c: string, frame: Frame): boolean {
    const words = this.#words;
    const next = words.text[words.at + 1];
    if (c === '\n') {
      words.at++;
      this.#readHeredocs();
      if (!this.#isAfterPipe) this.#part(frame);
      return this.#isAfterPipe;
    }
    if (c === '(' && next === '(' && words.arithmetic(words.at + 2)) return this.#isAfterPipe;
    if (c === '|' && next !== '|') {
      words.at += next === '&' ? 2 : 1;
      frame.up = { from: frame.start, to: this.#reading.commands.length };
      return true;
    }
    if (c === ';' || c === '|' || (c === '&' && next !== '>')) {
      words.at += c !== ';' && next === c ? 2 : 1;
      if (c === '&' && next !== '&') this.#noteBackground(frame.start);
      this.#part(frame);
    } else if (c === '(') {
      words.at++;
      this.#open();
    } else if (c === ')') {
      words.at++;
      // What ends a pattern of `case` ends nothing else.
      if (!frame.isCase) this.#shut();
    } else this.#readCommand(frame);
    return false;
  }

  #readCommand(frame: Frame): void {
    const head = this.#command(frame);
    if (head === null) return;
    if (head.isFunction) {
      this.#pending = head.word;
      if (this.#words.peek() === '{') {
        this.#words.at++;
        this.#open();
      }
    } else if (OPENS.has(head.word)) this.#open(head.word === 'case');
    else this.#shut();
  }

  #open(isCase = false): void {
    const { up, input, name } = this.#frames.at(-1)!;
    const start = this.#reading.commands.length;
    this.#frames.push({ start, up: NONE, input: isEmpty(up) ? input : up, name: this.#pending ?? name, isCase });
    this.#pending = null;
  }

  #shut(): void {
    if (this.#frames.length > 1) this.#frames.pop();
  }

  /** Ends the pipe: later commands take no input from earlier ones. */
  #part(frame: Frame): void {
    frame.start = this.#reading.commands.length;
    frame.up = NONE;
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
    if (inside !== null && words[0]?.texts[0] === inside && (isInBackground || !isEmpty(piped)))
      this.#reading.hasForkBomb = true;
  }

  /** Reads one command; what opens or closes a group, or names a function, is answered. */
  #command(frame: Frame): Head | null {
    const words = this.#words;
    const draft: Draft = { words: [], redirects: [], heredocs: [], input: null };
    let isAssigned = false;
    for (let c = words.peek(); c !== undefined && !'\n;|)'.includes(c); c = words.peek()) {
      const isFirst = draft.words.length === 0;
      if (c === '#' && !isFirst) {
        words.skipLine();
        break;
      }
      if (this.#redirect(draft)) continue;
      if (c === '&') break;
      if (c === '(') {
        if (draft.words.length === 1 && words.take(EMPTY_PARENTHESES) !== null)
          return { word: draft.words[0]!.texts[0]!, isFunction: true };
        break;
      }
      const assignment = isFirst ? words.take(ASSIGNMENT) : null;
      if (assignment !== null) {
        this.#assign(assignment[1]!, assignment[0].endsWith('+='));
        isAssigned = true;
        continue;
      }
      const found = words.split();
      // Behind an assignment or a redirection no word is a keyword.
      const mayOpen = isFirst && !isAssigned && draft.redirects.length === 0;
      const keyword = mayOpen && found.length === 1 && found[0]!.isBare ? found[0]!.texts[0]! : '';
      if (GOES_ON.has(keyword)) {
        if (keyword !== '!') this.#part(frame);
        continue;
      }
      const head = this.#head(keyword);
      if (head !== null) return head;
      for (const word of found) draft.words.push(word);
    }
    this.#put(draft, frame);
    return null;
  }

  #head(keyword: string): Head | null {
    if (keyword === 'function') {
      const word = this.#headWord();
      if (this.#words.peek() === '(') this.#words.take(EMPTY_PARENTHESES);
      return { word, isFunction: true };
    }
    if (!OPENS.has(keyword) && !CLOSES.has(keyword)) return null;
    if (keyword === 'for' || keyword === 'select') this.#loopVariable();
    else if (keyword === 'case') this.#caseWord();
    return { word: keyword, isFunction: false };
  }

  /** A redirection with its target, if one is here. */
  #redirect(draft: Draft): boolean {
    const words = this.#words;
    const { text } = words;
    const operatorAt = words.at + (readAt(DESCRIPTOR, text, words.at)?.[0].length ?? 0);
    const operator = readAt(REDIRECT, text, operatorAt)?.[0];
    if (operator === undefined) return false;
    const end = operatorAt + operator.length;
    const isProcess = operator.length === 1 && text[end] === '(';
    if (isProcess) return false;
    words.at = end;
    words.skipBlanks();
    if (HEREDOC.has(operator)) {
      const found = words.take(DELIMITER)?.[0];
      if (found === undefined) return true;
      const delimiter = found.replaceAll(/['"]|\\(?=.)/g, '');
      draft.heredocs.push({ delimiter, isQuoted: delimiter !== found, isIndented: operator === '<<-' });
      return true;
    }
    const target = words.whole();
    if (target === undefined) return true;
    if (operator === '<<<') draft.input = target;
    else if (operator !== '<') draft.redirects.push({ operator, target });
    else if (!isEmpty(target.output)) draft.input = { ...target, texts: [UNKNOWN] };
    return true;
  }

  #put({ words, redirects, heredocs, input }: Draft, frame: Frame): void {
    if (words.length === 0 && redirects.length === 0 && heredocs.length === 0 && input === null) return;
    const { commands } = this.#reading;
    const piped = isEmpty(frame.up) ? frame.input : frame.up;
    this.#reading.budget.spend(COMMAND_UNITS);
    const command = simpleCommand(commands.length, words);
    Object.assign(command, { redirects, piped, input, inside: frame.name, end: this.#words.at });
    commands.push(command);
    for (const heredoc of heredocs) this.#heredocs.push({ heredoc, command });
    // Its own input is still to come, or that of a command before it in the pipe.
    if (this.#heredocs.length === 0) this.#finish(command);
    else this.#waiting.push(command);
  }

  #finish(command: SimpleCommand): void {
    this.#noteBomb(command);
    this.#reading.run(command, this.#words.depth);
  }

  #headWord(): string {
    this.#words.skipBlanks();
    return this.#words.take(HEAD_WORD)?.[0] ?? '';
  }

  /** `for x in a b`: what the variable may be. */
  #loopVariable(): void {
    const name = this.#headWord();
    this.#words.skipBlanks();
    if (this.#words.take(IN) === null) return;
    const values = this.#wordsBefore('\n;|&()<>');
    const texts = values.flatMap((word) => word.texts);
    this.#set(name, {
      ...literal(''),
      ...{ texts: texts.length > VALUES_MAX ? [UNKNOWN] : texts, output: outputOf(values) },
    });
  }

  #wordsBefore(ends: string): Word[] {
    const found: Word[] = [];
    for (let c = this.#words.peek(); c !== undefined && !ends.includes(c); c = this.#words.peek())
      found.push(...this.#words.split());
    return found;
  }

  #caseWord(): void {
    this.#words.skipBlanks();
    this.#words.whole();
    this.#words.skipBlanks();
    this.#words.take(IN);
  }

  /** Behind `name=`. */
  #assign(name: string, isAdded: boolean): void {
    const words = this.#words;
    let value: Word;
    if (words.text[words.at] === '(') {
      words.at++;
      const items = this.#wordsBefore(')');
      words.at++;
      value = { ...literal(items.map((word) => word.texts[0]).join(' ')), output: outputOf(items) };
    } else value = words.whole() ?? literal('');
    const before = isAdded ? this.#reading.variables.get(name) : undefined;
    this.#set(name, before === undefined ? value : { ...value, texts: [`${before.texts[0]}${value.texts[0]}`] });
  }

  #set(name: string, value: Word): void {
    const { budget, variables } = this.#reading;
    spendOnForms(budget, value.texts, 1);
    spendOnForms(budget, variables.get(name)?.texts ?? [], 1);
    setVariable(variables, name, value);
  }

  #readHeredocs(): void {
    if (this.#heredocs.length === 0) return;
    const words = this.#words;
    const { text } = words;
    const pending = this.#heredocs;
    this.#heredocs = [];
    for (const { command, heredoc } of pending) {
      const start = words.at;
      const end = this.#heredocEnd(heredoc);
      const isOpen = end < 0;
      const bodyEnd = isOpen ? text.length : end;
      const body = text.slice(start, bodyEnd);
      const line = text.indexOf('\n', bodyEnd);
      words.at = isOpen || line < 0 ? text.length : line + 1;
      command.input = heredoc.isQuoted ? literal(body) : words.expanded(body);
      if (isOpen && words.depth < SHELL_DEPTH_MAX) readShell(this.#reading, body, words.depth + 1);
    }
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const command of waiting) this.#finish(command);
  }

  /** Where the line of the delimiter begins; -1: there is none. */
  #heredocEnd({ delimiter, isIndented }: Heredoc): number {
    const { text } = this.#words;
    for (let at = this.#words.at; at < text.length; ) {
      const newline = text.indexOf('\n', at);
      const end = newline < 0 ? text.length : newline;
      const line = text.slice(at, end).replace(/\r$/, '');
      if ((isIndented ? line.replace(/^\t+/, '') : line) === delimiter) return at;
      // What closes a substitution may stand right behind the delimiter.
      if (line.startsWith(delimiter) && /^[)`"']/.test(line.slice(delimiter.length))) return at;
      at = end + 1;
    }
    return -1;
  }
}
