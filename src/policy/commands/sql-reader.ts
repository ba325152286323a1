// Finds the statements of SQL in a text that change what is stored, whatever is around them: a query, a program, a
// command line (used by sql-condition.ts). By tokens: comments, strings, quoted names, `;`.
// A statement must begin where one can (the beginning of the text or a line, behind `;`, a bracket, a quote, BEGIN …)
// and be followed by what may follow it, so that prose ("please drop table reservations for tonight") is none.
// Invariant: one pass over the text a dialect, then over each statement, which is charged. Dialects differ in what is a
// comment and where a string ends; a text is read by each (DIALECTS), since it is the database that decides.

import type { Budget } from '../budget.ts';

export type Token = {
  kind: 'word' | 'name' | 'string' | 'number' | 'mark';
  /** The text of a string or name is what is inside. */
  text: string;
  /** A word in capitals; of others it is `text`. */
  word: string;
  at: number;
  isFirstOfLine: boolean;
};

/** `where`: the tokens of the condition of a DELETE or UPDATE; null: there is none. */
export type SqlStatement = {
  verb: string;
  /** TABLE, DATABASE, …; of ALTER TABLE what is done: DROP COLUMN, TRUNCATE PARTITION. '': nothing is named. */
  object: string;
  action: string;
  /** Without its quotes, as it is written. */
  name: string;
  where: readonly Token[] | null;
  /** Only some rows, by LIMIT or TOP. */
  isPartial: boolean;
};

/**
 * As MySQL reads: `#` begins a comment, `--` only before a blank, `\` escapes in strings. Without it as the standard
 * has it.
 */
type SqlDialect = 'backslashes' | 'standard';
export const DIALECTS: readonly SqlDialect[] = ['backslashes', 'standard'];

const WORD = /[\p{L}_@$][\p{L}\p{N}_@$]*/uy;
const NUMBER = /\d[\w.]*/y;
/** Taking one token of a statement, about 60 ns. */
const TOKEN_UNITS = 20;
const SPACE = /[ \t\r\f\v]+/y;
const DOLLAR = /\$(?:[A-Za-z_]\w*)?\$/y;
const CONDITIONAL = /\/\*M?!\d{0,6}/y;

/** Throws nothing; what is not closed goes to the end. */
export function tokensOf(text: string, dialect: SqlDialect): Token[] {
  const tokens: Token[] = [];
  const isStandard = dialect === 'standard';
  let isFirstOfLine = true;
  const unclosed = new Set<string>();
  const push = (kind: Token['kind'], at: number, end: number, inner = text.slice(at, end)) => {
    tokens.push({ kind, text: inner, word: kind === 'word' ? inner.toUpperCase() : inner, at, isFirstOfLine });
    isFirstOfLine = false;
    return end;
  };
  for (let at = 0; at < text.length; ) {
    const c = text[at]!;
    if (c === '\n') {
      isFirstOfLine = true;
      at++;
    } else if (matches(SPACE, text, at)) at = SPACE.lastIndex;
    else if (c === '/' && text[at + 1] === '*') {
      // What MySQL runs in spite of the comment around it.
      if (matches(CONDITIONAL, text, at)) at = CONDITIONAL.lastIndex;
      else at = behind(text, '*/', at + 2);
    } else if (c === '*' && text[at + 1] === '/') at += 2;
    else if (c === '-' && text[at + 1] === '-' && (isStandard || /\s|^$/.test(text[at + 2] ?? '')))
      at = lineEnd(text, at);
    else if (c === '#' && !isStandard) at = lineEnd(text, at);
    else if (c === "'" || c === '"' || c === '`') {
      const end = unclosed.has(c) ? -1 : stringEnd(text, at, c, !isStandard && c !== '`');
      // A quote that is not closed opens nothing: a piece that is put into a query begins so.
      if (end < 0) {
        unclosed.add(c);
        at = push('mark', at, at + 1);
      } else at = push(c === "'" ? 'string' : 'name', at, end, text.slice(at + 1, Math.max(at + 1, end - 1)));
    } else if (c === '[' && /[\p{L}_]/u.test(text[at + 1] ?? '')) {
      const end = behind(text, ']', at + 1);
      at = push('name', at, end, text.slice(at + 1, end - 1));
    } else if (c === '$' && matches(DOLLAR, text, at)) at = DOLLAR.lastIndex;
    else if (matches(NUMBER, text, at)) at = push('number', at, NUMBER.lastIndex);
    else if (matches(WORD, text, at)) at = push('word', at, WORD.lastIndex);
    else at = push('mark', at, at + 1);
  }
  return tokens;
}

function matches(pattern: RegExp, text: string, at: number): boolean {
  pattern.lastIndex = at;
  return pattern.test(text);
}

function behind(text: string, end: string, from: number): number {
  const found = text.indexOf(end, from);
  return found < 0 ? text.length : found + end.length;
}

function lineEnd(text: string, from: number): number {
  const found = text.indexOf('\n', from);
  return found < 0 ? text.length : found;
}

/** Behind the quote that closes; one that is written twice does not. -1: none does. */
function stringEnd(text: string, at: number, quote: string, hasEscapes: boolean): number {
  for (let i = at + 1; i < text.length; i++) {
    const c = text[i];
    if (c === '\\' && hasEscapes) i++;
    else if (c === quote) {
      if (text[i + 1] !== quote) return i + 1;
      i++;
    }
  }
  return -1;
}

/** Behind these a statement may begin. */
const BEFORE: ReadonlySet<string> = new Set(
  'BEGIN THEN ELSE DO AS GO ANALYZE VERBOSE TRAN TRANSACTION WORK LOOP END IMMEDIATE ATOMIC EXPLAIN IF DECLARE PREPARE COMMIT NULL EXISTS'.split(
    ' ',
  ),
);
const OBJECTS: ReadonlySet<string> = new Set(
  'TABLE TABLES DATABASE SCHEMA VIEW INDEX SEQUENCE TYPE FUNCTION PROCEDURE TRIGGER USER ROLE KEYSPACE TABLESPACE COLLECTION DOMAIN EXTENSION OWNED POLICY SERVER DICTIONARY COLUMN'.split(
    ' ',
  ),
);
const BEFORE_OBJECT: ReadonlySet<string> = new Set(
  'TEMPORARY TEMP EXTERNAL FOREIGN MATERIALIZED UNLOGGED GLOBAL LOCAL PUBLIC PLUGGABLE SNAPSHOT VIRTUAL ICEBERG'.split(
    ' ',
  ),
);
/** May follow the names of what is dropped or emptied. */
const BEHIND_NAME: ReadonlySet<string> = new Set(
  'CASCADE RESTRICT PURGE FORCE SYNC NO ON WITH CONSTRAINTS RESTART CONTINUE IDENTITY REUSE DROP STORAGE PARTITION GO INCLUDING KEEP IMMEDIATE SETTINGS END DELETE TRUNCATE ALTER SELECT INSERT UPDATE CREATE COMMIT BEGIN EOF SQL IF EXEC PRINT USE'.split(
    ' ',
  ),
);
const VERBS: ReadonlySet<string> = new Set(['DROP', 'TRUNCATE', 'DELETE', 'UPDATE', 'ALTER']);

/** Throws OverBudget: where nothing parts statements, each is read to the end. */
export function statementsOf(tokens: readonly Token[], budget: Budget): SqlStatement[] {
  const found: SqlStatement[] = [];
  for (const [i, token] of tokens.entries()) {
    if (token.kind !== 'word' || !VERBS.has(token.word) || !mayBegin(tokens, i)) continue;
    const reader = new StatementReader(tokens, i);
    const statement = reader.read();
    budget.spend(TOKEN_UNITS * (reader.at - i));
    if (statement !== null) found.push(statement);
  }
  return found;
}

function mayBegin(tokens: readonly Token[], i: number): boolean {
  const before = tokens[i - 1];
  if (before === undefined || tokens[i]!.isFirstOfLine) return true;
  if (before.kind === 'word') return BEFORE.has(before.word);
  return before.kind !== 'mark' || !'.=<>+-,:@%&*/\\'.includes(before.text);
}

class StatementReader {
  readonly #tokens: readonly Token[];
  #at: number;

  constructor(tokens: readonly Token[], at: number) {
    this.#tokens = tokens;
    this.#at = at;
  }

  get at(): number {
    return this.#at;
  }

  read(): SqlStatement | null {
    const verb = this.#tokens[this.#at++]!.word;
    if (verb === 'DROP') return this.#drop();
    if (verb === 'TRUNCATE') return this.#truncate();
    if (verb === 'DELETE') return this.#delete();
    if (verb === 'UPDATE') return this.#update();
    return this.#alter();
  }

  get #token(): Token | undefined {
    return this.#tokens[this.#at];
  }

  #takes(...words: string[]): boolean {
    if (this.#token?.kind !== 'word' || !words.includes(this.#token.word)) return false;
    this.#at++;
    return true;
  }

  #mark(text: string): boolean {
    if (this.#token?.kind !== 'mark' || this.#token.text !== text) return false;
    this.#at++;
    return true;
  }

  /** `a.b."c"`; null: there is none. */
  #name(): string | null {
    const parts: string[] = [];
    for (;;) {
      const token = this.#token;
      if (token === undefined || (token.kind !== 'word' && token.kind !== 'name' && token.kind !== 'string')) break;
      parts.push(token.text);
      this.#at++;
      if (!this.#mark('.')) return parts.join('.');
      this.#mark('.');
    }
    // A place that a program fills in: `{table}`, `%s`, `$1`, `?`.
    const token = this.#token;
    if (parts.length === 0 && token?.kind === 'mark' && '{%?:<'.includes(token.text)) {
      this.#at++;
      while (this.#token !== undefined && /^(?:\w+|[{}%<>])$/.test(this.#token.text) && !this.#token.isFirstOfLine) {
        const isClosed = '}>'.includes(this.#token.text);
        this.#at++;
        if (isClosed || token.text === '%' || token.text === ':') break;
      }
      return '?';
    }
    return parts.length === 0 ? null : parts.join('.');
  }

  #ifExists(): void {
    if (this.#takes('IF')) {
      this.#takes('NOT');
      this.#takes('EXISTS');
    }
  }

  /** Is nothing there that cannot be: prose goes on with a word. */
  #ends(): boolean {
    const token = this.#token;
    if (token === undefined || token.isFirstOfLine || token.kind === 'string' || token.kind === 'name') return true;
    if (token.kind === 'number') return false;
    return token.kind === 'mark' ? !'=<>:-+/!?@#%&'.includes(token.text) : BEHIND_NAME.has(token.word);
  }

  #drop(): SqlStatement | null {
    while (this.#takes(...BEFORE_OBJECT));
    const object = this.#token;
    if (object?.kind !== 'word' || !OBJECTS.has(object.word)) return null;
    this.#at++;
    if (object.word === 'OWNED') this.#takes('BY');
    this.#takes('CONCURRENTLY');
    this.#ifExists();
    const name = this.#names();
    return name === null || !this.#ends() ? null : statement('DROP', { object: object.word, name });
  }

  #names(): string | null {
    const name = this.#name();
    while (name !== null && this.#mark(',')) this.#name();
    return name;
  }

  #truncate(): SqlStatement | null {
    const isTable = this.#takes('TABLE');
    this.#ifExists();
    this.#takes('ONLY');
    const isPlain = this.#token?.kind === 'word' || this.#token?.kind === 'name';
    if (!isTable && !isPlain) return null;
    const name = this.#names();
    if (name === null) return null;
    this.#mark('*');
    if (!isTable && this.#token?.text === '(') return null;
    return this.#ends() ? statement('TRUNCATE', { object: 'TABLE', name }) : null;
  }

  #delete(): SqlStatement | null {
    let isPartial = false;
    while (this.#takes('LOW_PRIORITY', 'QUICK', 'IGNORE'));
    if (this.#takes('TOP')) {
      isPartial = true;
      while (this.#token !== undefined && /^(?:\(|\)|\d+|PERCENT)$/.test(this.#token.word)) this.#at++;
    }
    let isFrom = this.#takes('FROM');
    this.#takes('ONLY');
    const name = this.#names();
    if (name === null) return null;
    this.#mark('*');
    if (!isFrom) {
      // T-SQL and MySQL leave FROM out, or have it behind the name; so does prose.
      isFrom = this.#takes('FROM');
      if (isFrom) this.#names();
      else if (this.#token === undefined || !(this.#token.text === ';' || /^(?:WHERE|OUTPUT)$/.test(this.#token.word)))
        return null;
    }
    return this.#rows('DELETE', name, isPartial);
  }

  #update(): SqlStatement | null {
    while (this.#takes('LOW_PRIORITY', 'IGNORE', 'ONLY', 'OR', 'REPLACE', 'ROLLBACK', 'ABORT'));
    const name = this.#names();
    if (name === null) return null;
    if (this.#token?.word !== 'SET') this.#takes('AS');
    if (this.#token?.word !== 'SET') this.#name();
    return this.#takes('SET') ? this.#rows('UPDATE', name, false) : null;
  }

  /** Up to the end of the statement: which rows it is about. */
  #rows(verb: string, name: string, isPartial: boolean): SqlStatement | null {
    // An alias, and what may come before WHERE.
    const isSet = verb === 'UPDATE';
    let words = 0;
    let where: Token[] | null = null;
    let open = 0;
    for (let token = this.#token; token !== undefined; token = this.#token) {
      if (token.kind === 'mark') {
        if (token.text === ';') break;
        if (token.text === '(') open++;
        else if (token.text === ')' && --open < 0) break;
      }
      if (token.kind === 'word' && open === 0) {
        if (token.word === 'GO' && token.isFirstOfLine) break;
        if (/^(?:RETURNING|SETTINGS|OPTION)$/.test(token.word) && where !== null) break;
        if (token.word === 'LIMIT' || token.word === 'FETCH') {
          isPartial = true;
          break;
        }
        if (token.word === 'ORDER' && where !== null) {
          this.#at++;
          continue;
        }
        // Another statement, which no `;` parts from this one.
        if (token.isFirstOfLine && STARTS.has(token.word)) break;
        if (token.word === 'WHERE' && where === null) {
          where = [];
          this.#at++;
          continue;
        }
      }
      if (where !== null) where.push(token);
      else if (token.kind === 'word' && !AROUND_ROWS.has(token.word) && open === 0) words++;
      else if (!isSet && token.kind === 'mark' && where === null && '=<>!?'.includes(token.text)) return null;
      this.#at++;
    }
    if (!isSet && where === null && words > ALIAS_WORDS_MAX) return null;
    return statement(verb, { object: 'TABLE', name, where, isPartial });
  }

  #alter(): SqlStatement | null {
    if (!this.#takes('TABLE')) return null;
    this.#ifExists();
    this.#takes('ONLY');
    const name = this.#name();
    if (name === null) return null;
    let open = 0;
    let best: SqlStatement | null = null;
    for (let token = this.#token; token !== undefined && token.text !== ';'; token = this.#token) {
      this.#at++;
      if (token.text === '(') open++;
      else if (token.text === ')' && --open < 0) break;
      if (token.kind !== 'word' || open > 0) continue;
      const next = this.#token;
      if (token.word === 'DROP' || token.word === 'TRUNCATE' || token.word === 'DELETE') {
        if (next?.kind !== 'word' && next?.kind !== 'name') continue;
        const isNamed = next.kind === 'word' && NOT_A_COLUMN.has(next.word);
        const done = isNamed ? next.word : 'COLUMN';
        // What loses data is what the statement is about, wherever in it that stands.
        if (best === null || done === 'COLUMN' || done === 'PARTITION')
          best = statement('ALTER', { object: 'TABLE', name, action: `${token.word} ${done}` });
      }
    }
    return best ?? statement('ALTER', { object: 'TABLE', name });
  }
}

/** Words that ALTER TABLE … DROP may go on with; any other is a column. */
const NOT_A_COLUMN: ReadonlySet<string> = new Set(
  'COLUMN PARTITION CONSTRAINT INDEX KEY PRIMARY FOREIGN CHECK DEFAULT NOT IDENTITY EXPRESSION TRIGGER POLICY PROJECTION STATISTICS UNIQUE SUBPARTITION'.split(
    ' ',
  ),
);
const STARTS: ReadonlySet<string> = new Set(
  'SELECT INSERT UPDATE DELETE DROP CREATE ALTER TRUNCATE WITH GRANT REVOKE BEGIN COMMIT ROLLBACK EXEC EXECUTE DECLARE USE PRINT IF END EOF SQL'.split(
    ' ',
  ),
);
const ALIAS_WORDS_MAX = 1;
const AROUND_ROWS: ReadonlySet<string> = new Set(
  'AS USING JOIN INNER LEFT RIGHT OUTER CROSS ON NATURAL RETURNING OUTPUT DELETED INTO FROM WITH TABLOCK TABLOCKX OPTION CASCADE SETTINGS ALLOW FILTERING ORDER BY'.split(
    ' ',
  ),
);

function statement(
  verb: string,
  { object, name, ...rest }: { object: string; name: string } & Partial<SqlStatement>,
): SqlStatement {
  return { verb, object, name, action: '', where: null, isPartial: false, ...rest };
}
