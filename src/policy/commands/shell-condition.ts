// The operator `shell` of a condition: does a text, or a list of words, do one of the things that its entries describe,
// when a shell runs it? Between conditions/field-condition.ts and shell-runs.ts. An entry is about a command with its
// flags and operands, about a file that output goes to, about output of commands that a shell or interpreter runs, or
// about a function that multiplies itself.
// Invariant: the same text gets the same answer, at a cost that follows from it alone and is charged; beyond the bounds
// of the readers OverBudget is thrown, and the engine counts it as a match.
// Text that stands where no command is (an operand, a comment, prose) is none.
import { COMMAND_ENTRIES_MAX } from '../../../schemas/condition.ts';
import { isLike } from '../../common/glob.ts';
import { COMMAND_TEXTS_MAX, COMMAND_WORDS_MAX } from '../../common/limits.ts';
import type { Budget } from '../budget.ts';
import { below, type Mistakes } from '../policy-error.ts';
import { formsOf } from '../texts/text-forms.ts';
import { alternativesOf, type Field, readEntries } from './entries.ts';
import { readCode } from './shell-calls.ts';
import { UNKNOWN } from './shell-expansions.ts';
import { readShell } from './shell-reader.ts';
import { type Observer, ShellRun } from './shell-runs.ts';
import { baseName, type Range, type SimpleCommand, type Word } from './shell-words.ts';
import { mayBeLike } from './wildcards.ts';

/** As a policy writes it; every text may hold several with `|` between them. */
type ShellEntry = {
  command?: string | string[];
  subcommand?: string | string[];
  flags?: string[];
  operands?: string[];
  last_operand?: string | string[];
  redirect_to?: string | string[];
  output_of?: string | string[];
  run_by?: string | string[];
  fork_bomb?: true;
};

const FIELDS: Readonly<Record<string, Field>> = {
  ...{ command: 'some', subcommand: 'some', flags: 'each', operands: 'each', last_operand: 'some' },
  ...{ redirect_to: 'some', output_of: 'some', run_by: 'some', fork_bomb: 'true' },
};
/** The fields of which an entry must have exactly one, and those that may be beside each. */
const FORMS: Readonly<Record<string, readonly string[]>> = {
  command: ['subcommand', 'flags', 'operands', 'last_operand'],
  redirect_to: [],
  output_of: ['run_by'],
  fork_bomb: [],
};

/** Adds the mistakes in an operand to `mistakes`, each with its place. */
export function checkShell(operand: unknown, at: string, mistakes: Mistakes): void {
  const limits = { entries: COMMAND_ENTRIES_MAX, texts: COMMAND_TEXTS_MAX };
  const before = mistakes.details.length;
  readEntries(operand, { at, fields: FIELDS, forms: FORMS, limits }, mistakes);
  if (mistakes.details.length > before) return;
  for (const [i, entry] of listOf(operand as ShellEntry).entries()) {
    const place = Array.isArray(operand) ? below(at, i) : at;
    if (entry.output_of !== undefined && entry.run_by === undefined)
      mistakes.add(place, 'must say with `run_by` what runs the output, such as "sh|bash"');
    for (const [k, flag] of (entry.flags ?? []).entries())
      if (alternativesOf(flag).some((name) => name.startsWith('-')))
        mistakes.add(
          below(below(place, 'flags'), k),
          `must be without its dashes; did you mean "${flag.replaceAll(/(^|\|)-+/g, '$1')}"?`,
        );
    for (const [k, command] of [entry.command ?? []].flat().entries())
      if (/[\s/]/.test(command))
        mistakes.add(
          Array.isArray(entry.command) ? below(below(place, 'command'), k) : below(place, 'command'),
          'must be the name of a command alone: its folder is left out, flags and operands have keys of their own',
        );
  }
}

function listOf<T>(operand: T | readonly T[]): readonly T[] {
  return Array.isArray(operand) ? operand : [operand as T];
}

/** An entry in the form in which it is asked. */
class Entry {
  readonly commands: readonly string[];
  readonly subcommands: readonly string[];
  readonly flags: readonly (readonly string[])[];
  readonly operands: readonly (readonly string[])[];
  readonly lasts: readonly string[];
  readonly targets: readonly string[];
  readonly sources: readonly string[];
  readonly runners: readonly string[];
  readonly isForkBomb: boolean;
  /** Numbers of commands whose output it is about. */
  seen: number[] = [];

  constructor(entry: ShellEntry) {
    this.commands = alternativesOf(entry.command);
    this.subcommands = alternativesOf(entry.subcommand);
    this.flags = (entry.flags ?? []).map((text) => alternativesOf(text));
    this.operands = (entry.operands ?? []).map((text) => alternativesOf(text));
    this.lasts = alternativesOf(entry.last_operand);
    this.targets = alternativesOf(entry.redirect_to);
    this.sources = alternativesOf(entry.output_of);
    this.runners = alternativesOf(entry.run_by);
    this.isForkBomb = entry.fork_bomb === true;
  }

  /** A command whose name is not known at all is one that is demanded if the rest of it is. */
  get isTelling(): boolean {
    return this.flags.length > 0 || this.subcommands.length > 0;
  }
}

const OUTPUT: ReadonlySet<string> = new Set(['>', '>>', '>|', '&>', '&>>', '>&', '<>']);
/** Where a name may come from that the text does not spell: expansions, globs of paths, what turns texts around. */
const DISGUISES =
  /`|\$[^\s\d]|\w\$\d|\$\d\w|\{[^\s{}]{0,200},|\/\S{0,64}[*?[]|\bbin\b[^*?[]{0,200}[*?[]|base64|xxd|printf|openssl|\brev\b|\btr\b/;
/** Within a word. */
const QUOTES = /(?<=\w)['"\\\0]+(?=\w)/g;
const BREAKS = /\\\r?\n/g;
/** In a text that is JSON the texts inside are read; what a shell expands in it is not JSON alone. */
const EXPANDS = /\$\(|[<>]\(|`/;
/** Asking one entry about one command, about 50 ns. */
const ENTRY_UNITS = 30;
/** A character of a name that is not known in all places, beside one name of an entry, about 100 ns. */
const UNSURE_UNITS = 40;

export class ShellCondition {
  readonly #entries: readonly Entry[];
  /** Pieces of names, one of which is in every text that is met and disguises nothing; and as words of their own. */
  readonly #pieces: readonly string[];
  readonly #words: RegExp;
  /** The names of files that output goes to. */
  readonly #targets: readonly string[];
  readonly #isForBombs: boolean;
  /** The place in the list of the entry that was met last. */
  met = 0;

  constructor(operand: unknown) {
    this.#entries = listOf(operand as ShellEntry).map((entry) => new Entry(entry));
    this.#pieces = [
      ...new Set(this.#entries.flatMap(({ commands, sources }) => [...commands, ...sources].map(longestPiece))),
    ];
    const words = this.#pieces.map((piece) => piece.replaceAll(/[\\^$.|?*+()[\]{}]/g, '\\$&'));
    this.#words = words.length === 0 ? NOTHING : new RegExp(`(?<![\\w-])(?:${words.join('|')})`);
    this.#targets = this.#entries.flatMap(({ targets }) => targets.map(baseName).map(longestPiece));
    this.#isForBombs = this.#entries.some(({ isForkBomb }) => isForkBomb);
  }

  /** Throws OverBudget. */
  test(text: string, budget: Budget): boolean {
    budget.spend(text.length >> 1);
    if (!this.#isPossible(text)) return false;
    if (formsOf(text).inner?.isExact === true && !EXPANDS.test(text)) return false;
    return this.#isMet(budget, (run) => {
      readShell(run, text);
      readCode(run, text);
    });
  }

  /** A list of texts as the words of a command, and a command with its words beside it. Throws OverBudget. */
  testWhole(value: object, budget: Budget): boolean {
    const words = Array.isArray(value) ? wordsOf(value) : wordsOfCall(value as Record<string, unknown>);
    return words !== null && this.#isMet(budget, (run) => run.runArguments(words));
  }

  #isPossible(text: string): boolean {
    if (this.#words.test(text) || DISGUISES.test(text)) return true;
    if (this.#isForBombs && /\(\s*\)|function/.test(text)) return true;
    if (text.includes('>') && this.#targets.some((piece) => text.includes(piece))) return true;
    const plain = text.replaceAll(BREAKS, '').replaceAll(QUOTES, '');
    return plain.length < text.length && this.#pieces.some((piece) => plain.includes(piece));
  }

  #isMet(budget: Budget, read: (run: ShellRun) => void): boolean {
    const observer = new Asking(this.#entries, budget);
    const run = new ShellRun(budget, observer);
    try {
      read(run);
    } catch (error) {
      if (error !== FOUND) throw error;
    }
    const met =
      observer.met >= 0 ? observer.met : run.hasForkBomb ? this.#entries.findIndex((entry) => entry.isForkBomb) : -1;
    if (met < 0) return false;
    this.met = met;
    return true;
  }
}

const NOTHING = /(?!)/;

/** Thrown when an entry is met: the rest need not be read. */
const FOUND = new Error('an entry is met');

/** Asks the entries about each command. */
class Asking implements Observer {
  met = -1;
  readonly #entries: readonly Entry[];
  readonly #budget: Budget;

  constructor(entries: readonly Entry[], budget: Budget) {
    this.#entries = entries;
    this.#budget = budget;
    for (const entry of entries) entry.seen = [];
  }

  onCommand(names: readonly string[], words: readonly Word[], from: number, command: SimpleCommand): void {
    this.#budget.spend(ENTRY_UNITS * this.#entries.length);
    const isOutside = names.length === 0;
    let options: Options | undefined;
    for (const [i, entry] of this.#entries.entries()) {
      if (isOutside) {
        if (entry.targets.length > 0 && this.#writes(entry, command)) this.#found(i);
        continue;
      }
      if (entry.sources.length > 0 && this.#isNamed(entry.sources, names, words[from]!, false))
        entry.seen.push(command.number);
      if (entry.commands.length === 0) continue;
      if (!this.#isNamed(entry.commands, names, words[from]!, entry.isTelling)) continue;
      options ??= this.#optionsOf(words, from);
      if (this.#fits(entry, options)) this.#found(i);
    }
  }

  onProgram(names: readonly string[], output: readonly Range[]): void {
    for (const [i, entry] of this.#entries.entries()) {
      if (entry.runners.length === 0) continue;
      const isRun = names.some((name) => ALWAYS_RUN.has(name) || entry.runners.some((glob) => isLike(name, glob)));
      if (isRun && output.some((range) => holdsAny(entry.seen, range))) this.#found(i);
    }
  }

  #found(entry: number): never {
    this.met = entry;
    throw FOUND;
  }

  #writes(entry: Entry, { redirects }: SimpleCommand): boolean {
    return redirects.some(
      ({ operator, target }) =>
        OUTPUT.has(operator) &&
        target.texts.some((text) => this.#isFile({ text, isGlob: target.hasGlob }, entry.targets)),
    );
  }

  #isNamed(globs: readonly string[], names: readonly string[], word: Word, mayBeAny: boolean): boolean {
    return names.some((name) => {
      const isUnknown = name.includes(UNKNOWN);
      this.#budget.spend(globs.length * (isUnknown || word.hasGlob ? UNSURE_UNITS * (1 + name.length) : 4));
      if (!isUnknown && !word.hasGlob) return globs.some((glob) => isLike(name, glob));
      // What may be anything says nothing; only where the rest tells is a name that is not known taken for it.
      const isBlank = !/[^\0*]/.test(name);
      if (isBlank && !(isUnknown && mayBeAny)) return false;
      return globs.some((glob) => !glob.includes('*') && mayBeLike(name, glob));
    });
  }

  /** By its path as it is written, and without what leads nowhere. */
  #isFile({ text, isGlob }: Operand, globs: readonly string[]): boolean {
    this.#budget.spend(2 * text.length * globs.length);
    const plain = plainPath(text);
    // What is known of it must say more than where files are.
    const isUnsure = (isGlob || text.includes(UNKNOWN)) && /[\w/=.-]{4}/.test(text);
    return globs.some((glob) => isLike(text, glob) || isLike(plain, glob) || (isUnsure && mayBeLike(plain, glob)));
  }

  #optionsOf(words: readonly Word[], from: number): Options {
    this.#budget.spend(2 * (words.length - from));
    const options: Options = { letters: new Set(), names: new Set(), words: new Set(), operands: [], leading: [] };
    let isOver = false;
    let isLeading = true;
    for (let i = from + 1; i < words.length; i++) {
      for (const text of words[i]!.texts) {
        if (!isOver && /^-./.test(text)) {
          if (text === '--') isOver = true;
          else addOption(options, text);
        } else {
          options.operands.push({ text, isGlob: words[i]!.hasGlob });
          if (isLeading) options.leading.push(text);
        }
      }
      const isOption = /^-/.test(words[i]!.texts[0]!);
      // The value of a global option, or the subcommand behind one that takes none.
      const isBehind = i > from + 1 && /^-/.test(words[i - 1]!.texts[0]!);
      if (!isOption && !isBehind) isLeading = false;
    }
    return options;
  }

  #fits(entry: Entry, options: Options): boolean {
    const { subcommands, flags, operands } = entry;
    if (subcommands.length > 0 && !options.leading.some((text) => subcommands.some((glob) => isLike(text, glob))))
      return false;
    for (const names of flags) if (!names.some((name) => hasFlag(options, name))) return false;
    for (const globs of operands) if (!options.operands.some((operand) => this.#isFile(operand, globs))) return false;
    const last = options.operands.at(-1);
    return entry.lasts.length === 0 || (last !== undefined && this.#isFile(last, entry.lasts));
  }
}

type Operand = { text: string; isGlob: boolean };
type Options = { letters: Set<string>; names: Set<string>; words: Set<string>; operands: Operand[]; leading: string[] };

function addOption({ letters, names, words }: Options, text: string): void {
  const value = text.indexOf('=');
  const whole = value < 0 ? text : text.slice(0, value);
  if (whole.startsWith('--')) names.add(whole.slice(2));
  else {
    words.add(whole.slice(1));
    for (const letter of whole.slice(1, 1 + CLUSTER_MAX)) letters.add(letter);
  }
}

/** More letters than options of any command. */
const CLUSTER_MAX = 64;

/** A long name may be cut, as GNU's commands take it. */
function hasFlag({ letters, names, words }: Options, name: string): boolean {
  if (name.length === 1) return letters.has(name);
  if (names.has(name) || words.has(name)) return true;
  for (const given of names) if (name.startsWith(given)) return true;
  return false;
}

const ALWAYS_RUN: ReadonlySet<string> = new Set(['eval', 'source', '.']);

/** Is one of the numbers, which rise, in the range? */
function holdsAny(numbers: readonly number[], { from, to }: Range): boolean {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle]! < from) low = middle + 1;
    else high = middle;
  }
  return low < numbers.length && numbers[low]! < to;
}

/** `of=//dev/./x/../sda` -> `of=/dev/sda` */
function plainPath(text: string): string {
  if (!/\/[./]/.test(text)) return text;
  const start = text.indexOf('/');
  const kept: string[] = [];
  for (const part of text.slice(start + 1).split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') kept.pop();
    else kept.push(part);
  }
  return `${text.slice(0, start)}/${kept.join('/')}`;
}

function longestPiece(glob: string): string {
  return glob.split(/[*?]/).reduce((best, piece) => (piece.length > best.length ? piece : best), '');
}

/** null: it is no list of texts. */
function wordsOf(items: readonly unknown[]): string[] | null {
  if (items.length === 0 || items.length > COMMAND_WORDS_MAX) return null;
  return items.every((item) => typeof item === 'string') ? (items as string[]) : null;
}

const COMMAND_KEYS = ['command', 'cmd', 'program', 'executable', 'exe', 'bin', 'binary', 'file', 'path', 'name'];
const ARGUMENT_KEYS = ['args', 'argv', 'arguments', 'params', 'parameters', 'flags', 'options'];

/** `{"command": "rm", "args": ["-rf", "/"]}` */
function wordsOfCall(value: Record<string, unknown>): string[] | null {
  const given = ARGUMENT_KEYS.find((key) => Object.hasOwn(value, key));
  if (given === undefined) return null;
  const name = COMMAND_KEYS.find((key) => Object.hasOwn(value, key) && typeof value[key] === 'string');
  if (name === undefined) return null;
  const args = value[given];
  const words =
    typeof args === 'string' ? args.split(/\s+/).filter(Boolean) : Array.isArray(args) ? wordsOf(args) : null;
  return words === null ? null : [value[name] as string, ...words];
}
