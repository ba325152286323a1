// The operator `sql` of a condition: does a text hold a statement of SQL that one of the entries describes? Between
// conditions/field-condition.ts and sql-reader.ts. A text may be a query, a program or a command line; of the last the
// words are read, too, as a shell puts them together.
// Invariant: the same text gets the same answer, at a cost that follows from it alone and is charged. Statements in
// strings of a query are data, unless it executes texts; words of commands that only search and say (`grep`, `git
// commit -m`) are no statements.
import { COMMAND_ENTRIES_MAX } from '../../../schemas/condition.ts';
import { isLike } from '../../common/glob.ts';
import { COMMAND_TEXTS_MAX, COMMAND_WORDS_MAX } from '../../common/limits.ts';
import type { Budget } from '../budget.ts';
import type { Mistakes } from '../policy-error.ts';
import { formsOf } from '../texts/text-forms.ts';
import { alternativesOf, type Field, readEntries } from './entries.ts';
import { readShell } from './shell-reader.ts';
import { ShellRun } from './shell-runs.ts';
import { isEmpty } from './shell-words.ts';
import { DIALECTS, type SqlStatement, statementsOf, type Token, tokensOf } from './sql-reader.ts';
import { isAlwaysTrue } from './sql-truth.ts';

/** As a policy writes it; every text may hold several with `|` between them, in any case. */
type SqlEntry = {
  statement: string | string[];
  object?: string | string[];
  name?: string | string[];
  action?: string | string[];
  where?: 'none';
};

const FIELDS: Readonly<Record<string, Field>> = {
  ...{ statement: 'some', object: 'some', name: 'some', action: 'some', where: ['none'] },
};
const FORMS = { statement: ['object', 'name', 'action', 'where'] };
const STATEMENTS = ['drop', 'truncate', 'delete', 'update', 'alter'];

/** Adds the mistakes in an operand to `mistakes`, each with its place. */
export function checkSql(operand: unknown, at: string, mistakes: Mistakes): void {
  const before = mistakes.details.length;
  const limits = { entries: COMMAND_ENTRIES_MAX, texts: COMMAND_TEXTS_MAX };
  readEntries(operand, { at, fields: FIELDS, forms: FORMS, limits }, mistakes);
  if (mistakes.details.length > before) return;
  const entries = (Array.isArray(operand) ? operand : [operand]) as SqlEntry[];
  for (const [i, { statement, where, action }] of entries.entries()) {
    const place = Array.isArray(operand) ? `${at}/${i}` : at;
    const verbs = alternativesOf(statement).map(lower);
    for (const verb of verbs)
      if (!STATEMENTS.includes(verb))
        mistakes.add(`${place}/statement`, `must be of ${STATEMENTS.join(', ')}, is "${verb}"`);
    if (where !== undefined && !verbs.every((verb) => verb === 'delete' || verb === 'update'))
      mistakes.add(`${place}/where`, 'is for `delete` and `update` alone');
    if (action !== undefined && !verbs.every((verb) => verb === 'alter'))
      mistakes.add(`${place}/action`, 'is for `alter` alone: what it does to a table, such as "drop column"');
  }
}

function lower(text: string): string {
  return text.toLowerCase();
}

class Entry {
  readonly verbs: readonly string[];
  readonly objects: readonly string[];
  readonly names: readonly string[];
  readonly actions: readonly string[];
  readonly isForAll: boolean;

  constructor({ statement, object, name, action, where }: SqlEntry) {
    this.verbs = alternativesOf(statement).map(lower);
    this.objects = alternativesOf(object).map(lower);
    this.names = alternativesOf(name).map(lower);
    this.actions = alternativesOf(action).map(lower);
    this.isForAll = where === 'none';
  }

  fits({ verb, object, name, action, where, isPartial }: SqlStatement, budget: Budget): boolean {
    if (!this.verbs.includes(verb.toLowerCase())) return false;
    if (this.objects.length > 0 && !this.objects.some((glob) => isLike(object.toLowerCase(), glob))) return false;
    if (this.actions.length > 0 && !this.actions.some((glob) => isLike(action.toLowerCase(), glob))) return false;
    if (this.names.length > 0 && !this.names.some((glob) => isLike(name.toLowerCase(), glob))) return false;
    return !this.isForAll || (!isPartial && (where === null || isAlwaysTrue(where, budget)));
  }
}

/** Reading a text by one dialect, about 40 ns a character. */
const CHARACTER_UNITS = 16;
const QUOTES = /['"\\`\0+|\s]/g;
/** A query that executes texts. */
const EXECUTES = /\b(?:exec|execute|sp_executesql|prepare|immediate)\b/i;
const QUERY = new Set(
  'SELECT INSERT UPDATE DELETE WITH CREATE ALTER DROP TRUNCATE BEGIN EXPLAIN SET MERGE REPLACE DECLARE GRANT REVOKE CALL USE START COMMENT'.split(
    ' ',
  ),
);
const NESTING_MAX = 4;
/** A comment may be before the first word. */
const BEGINNING_MAX = 2_000;

/** Does it begin as a query does, and not as a command line (`set -e`)? */
function isQuery(tokens: readonly Token[]): boolean {
  const first = tokens.findIndex(({ kind }) => kind === 'word');
  return first >= 0 && QUERY.has(tokens[first]!.word) && tokens[first + 1]?.text !== '-';
}

/** Commands that search and say: their words are no statements. */
const SAYS: ReadonlySet<string> = new Set(
  'grep egrep fgrep zgrep rg ag ack git echo printf man apropos gh jq sed awk less diff touch ls cd pwd wc sort uniq head tail cut tr nl'.split(
    ' ',
  ),
);

export class SqlCondition {
  readonly #entries: readonly Entry[];
  readonly #verbs: RegExp;
  /** The place in the list of the entry that was met last. */
  met = 0;

  constructor(operand: unknown) {
    this.#entries = [operand].flat().map((entry) => new Entry(entry as SqlEntry));
    const verbs = [...new Set(this.#entries.flatMap((entry) => entry.verbs))];
    this.#verbs = new RegExp(verbs.join('|'), 'i');
  }

  /** Throws OverBudget. */
  test(text: string, budget: Budget): boolean {
    budget.spend(text.length >> 1);
    if (!this.#isPossible(text) || formsOf(text).inner?.isExact === true) return false;
    if (isQuery(tokensOf(text.slice(0, BEGINNING_MAX), 'backslashes'))) return this.#holds(text, budget, 0);
    const { rest, words } = this.#asShell(text, budget);
    return this.#holds(rest, budget, 0) || words.some((word) => this.#isPossible(word) && this.#holds(word, budget, 0));
  }

  /** A list of texts as the words of a command. Throws OverBudget. */
  testWhole(value: object, budget: Budget): boolean {
    if (!Array.isArray(value) || value.length < 2 || value.length > COMMAND_WORDS_MAX) return false;
    if (!value.every((item) => typeof item === 'string')) return false;
    // A statement that was split at its blanks.
    return this.test(value.join(' '), budget);
  }

  #isPossible(text: string): boolean {
    return this.#verbs.test(text) || (text.search(QUOTES) >= 0 && this.#verbs.test(text.replaceAll(QUOTES, '')));
  }

  #holds(text: string, budget: Budget, level: number): boolean {
    budget.spend(DIALECTS.length * CHARACTER_UNITS * text.length);
    for (const dialect of DIALECTS) {
      const tokens = tokensOf(text, dialect);
      for (const statement of statementsOf(tokens, budget)) {
        const met = this.#entries.findIndex((entry) => entry.fits(statement, budget));
        if (met < 0) continue;
        this.met = met;
        return true;
      }
      if (level < NESTING_MAX && this.#holdsInside(tokens, text, budget, level)) return true;
    }
    return false;
  }

  /** In the strings of a program, or of a query that executes texts. */
  #holdsInside(tokens: readonly Token[], text: string, budget: Budget, level: number): boolean {
    if (isQuery(tokens) && !EXECUTES.test(text)) return false;
    return stringsOf(tokens).some((inner) => this.#isPossible(inner) && this.#holds(inner, budget, level + 1));
  }

  /** The parts of a command line that may be a statement: all but what only searches and says, and its quoted words. */
  #asShell(text: string, budget: Budget): { rest: string; words: string[] } {
    if (!/['"\\$`|<]/.test(text) && !/^\s*\w+\s/.test(text)) return { rest: text, words: [] };
    const words: string[] = [];
    let start = 0;
    let isSaying = true;
    const run = new ShellRun(budget, {
      onCommand: (names, given, from, command) => {
        if (names.length > 0 && from === 0) {
          const says = names.some((name) => SAYS.has(name));
          const isTop = command.end <= text.length && given === command.words;
          if (says && isSaying && isTop) start = Math.max(start, command.end);
          else isSaying = false;
          if (!says) for (const word of given.slice(1)) add(word.texts);
        }
        if (command.input !== null) add(command.input.texts);
        if (names.length > 0 && !isEmpty(command.piped) && !names.some((name) => SAYS.has(name))) {
          const said = run.commands[command.piped.to - 1]?.printed;
          if (said != null) words.push(said);
        }
      },
      onProgram: () => undefined,
    });
    const add = (texts: readonly string[]) => {
      for (const word of texts) if (/\s|\/\*/.test(word)) words.push(word);
    };
    readShell(run, text);
    return { rest: text.slice(start), words };
  }
}

/** The quotes that are left of a quote of three. */
const TRIPLED = /^["'`]{2}|["'`]{2}$/g;

/** Strings, joined where `+` or `||` joins them. */
function stringsOf(tokens: readonly Token[]): string[] {
  const strings: string[] = [];
  let isJoined = false;
  for (const { kind, text } of tokens) {
    if (kind === 'string' || kind === 'name') {
      if (isJoined && strings.length > 0) strings.push(strings.pop()! + text);
      else strings.push(text.replaceAll(TRIPLED, ''));
      isJoined = false;
    } else isJoined = kind === 'mark' && '+|'.includes(text);
  }
  return strings;
}
