// Is a WHERE true of every row? (used by sql-condition.ts): `1=1`, `true`, `'a' = 'a'`, `x = x`, `not false`, such
// behind OR, all of it behind AND, in brackets. What compares with what is stored is not, whatever it comes to.
// Invariant: each step is charged, and recursion is bounded by NESTING_MAX; what is beyond is taken for true.
import type { Budget } from '../budget.ts';
import type { Token } from './sql-reader.ts';

/** true: of every row; false: of none; null: it depends. */
type Truth = boolean | null;

const NESTING_MAX = 32;
/** Looking at one token, about 60 ns. */
const TOKEN_UNITS = 20;

/** Throws OverBudget. */
export function isAlwaysTrue(where: readonly Token[], budget: Budget): boolean {
  const reader = new TruthReader(where, budget);
  return where.length === 0 || reader.either(0) === true;
}

class TruthReader {
  readonly #tokens: readonly Token[];
  readonly #budget: Budget;
  #at = 0;

  constructor(tokens: readonly Token[], budget: Budget) {
    this.#tokens = tokens;
    this.#budget = budget;
  }

  either(depth: number): Truth {
    let truth = this.#both(depth);
    while (this.#takes('OR') || this.#marks('||')) {
      const next = this.#both(depth);
      truth = truth === true || next === true ? true : truth === false && next === false ? false : null;
    }
    return truth;
  }

  #both(depth: number): Truth {
    let truth = this.#not(depth);
    while (this.#takes('AND') || this.#marks('&&')) {
      const next = this.#not(depth);
      truth = truth === false || next === false ? false : truth === true && next === true ? true : null;
    }
    return truth;
  }

  #not(depth: number): Truth {
    let isTurned = false;
    while (this.#takes('NOT') || (this.#token?.text === '!' && this.#marks('!'))) isTurned = !isTurned;
    const truth = this.#one(depth);
    return truth === null || !isTurned ? truth : !truth;
  }

  #one(depth: number): Truth {
    this.#budget.spend(TOKEN_UNITS);
    if (depth > NESTING_MAX) {
      this.#at = this.#tokens.length;
      return true;
    }
    if (this.#token?.text === '(' && this.#token.kind === 'mark') {
      const start = this.#at++;
      const truth = this.either(depth + 1);
      if (this.#marks(')') && this.#isEnd()) return truth;
      this.#at = start;
    }
    if (this.#token?.word === 'EXISTS' && this.#token.kind === 'word') return this.#exists();
    const left = this.#operand();
    const operator = this.#operator();
    if (operator === null) return left.length === 1 ? valueTruth(left[0]!) : null;
    if (operator === 'IS') {
      const isTurned = this.#takes('NOT');
      const right = this.#operand();
      const constant = constantOf(left);
      if (constant === undefined) return null;
      return (right[0]?.word === 'NULL') === (constant === null) ? !isTurned : isTurned;
    }
    if (operator === 'BETWEEN') {
      const from = constantOf(this.#operand());
      this.#takes('AND');
      const to = constantOf(this.#operand());
      const value = constantOf(left);
      if (typeof value !== 'number' || typeof from !== 'number' || typeof to !== 'number') return null;
      return from <= value && value <= to;
    }
    const right = this.#operand();
    return compared(left, operator, right);
  }

  /** EXISTS of a SELECT that asks no table. */
  #exists(): Truth {
    this.#at++;
    const inside = this.#operand();
    const words = inside.filter(({ kind }) => kind === 'word').map(({ word }) => word);
    return words.includes('SELECT') && !words.includes('FROM') ? true : null;
  }

  get #token(): Token | undefined {
    return this.#tokens[this.#at];
  }

  #takes(word: string): boolean {
    if (this.#token?.kind !== 'word' || this.#token.word !== word) return false;
    this.#at++;
    return true;
  }

  #marks(text: string): boolean {
    for (const [i, c] of [...text].entries()) {
      const token = this.#tokens[this.#at + i];
      if (token?.kind !== 'mark' || token.text !== c) return false;
    }
    this.#at += text.length;
    return true;
  }

  #isEnd(): boolean {
    const token = this.#token;
    if (token === undefined) return true;
    return token.kind === 'word' ? CONNECTS.has(token.word) : '|&)'.includes(token.text);
  }

  /** Tokens up to an operator or the end, brackets as a whole. */
  #operand(): Token[] {
    const taken: Token[] = [];
    let open = 0;
    for (let token = this.#token; token !== undefined; token = this.#token) {
      if (
        open === 0 &&
        taken.length > 0 &&
        token.kind === 'word' &&
        (CONNECTS.has(token.word) || OPERATORS.has(token.word))
      )
        break;
      if (token.kind === 'mark') {
        if (token.text === ')' && open === 0) break;
        if (open === 0 && '=<>!|&~'.includes(token.text)) break;
        open += token.text === '(' ? 1 : token.text === ')' ? -1 : 0;
      }
      this.#budget.spend(TOKEN_UNITS);
      taken.push(token);
      this.#at++;
    }
    return taken;
  }

  #operator(): string | null {
    for (const marks of ['<=>', '<>', '!=', '>=', '<=', '==', '=', '<', '>'])
      if (this.#marks(marks)) return marks === '==' || marks === '<=>' ? '=' : marks;
    const isTurned = this.#token?.word === 'NOT' && OPERATORS.has(this.#tokens[this.#at + 1]?.word ?? '');
    if (isTurned) this.#at++;
    if (this.#token?.kind !== 'word' || !OPERATORS.has(this.#token.word)) return null;
    const { word } = this.#token;
    this.#at++;
    return isTurned ? `NOT ${word}` : word;
  }
}

const CONNECTS: ReadonlySet<string> = new Set(['AND', 'OR']);
const OPERATORS: ReadonlySet<string> = new Set([
  'IS',
  'LIKE',
  'ILIKE',
  'IN',
  'BETWEEN',
  'NOT',
  'SIMILAR',
  'REGEXP',
  'RLIKE',
  'GLOB',
]);

type Constant = string | number | boolean | null;

/** undefined: it is none. */
function constantOf(tokens: readonly Token[]): Constant | undefined {
  const inner = tokens.filter(({ kind, text }) => kind !== 'mark' || (text !== '(' && text !== ')'));
  const [first] = inner;
  if (first === undefined) return undefined;
  if (inner.length > 1) return reckoned(inner);
  if (first.kind === 'number') return Number(first.text);
  if (first.kind === 'string') return first.text;
  if (first.kind !== 'word') return undefined;
  return first.word === 'TRUE' ? true : first.word === 'FALSE' ? false : first.word === 'NULL' ? null : undefined;
}

/** Numbers with `+ - *` between them, from the left. */
function reckoned(tokens: readonly Token[]): number | undefined {
  let sum = 0;
  let operator = '+';
  for (const { kind, text } of tokens) {
    if (kind === 'mark' && '+-*'.includes(text)) operator = text;
    else if (kind !== 'number' || operator === '') return undefined;
    else {
      const value = Number(text);
      sum = operator === '+' ? sum + value : operator === '-' ? sum - value : sum * value;
      operator = '';
    }
  }
  return operator === '' && !Number.isNaN(sum) ? sum : undefined;
}

function valueTruth(token: Token): Truth {
  const value = constantOf([token]);
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return /^(?:t|true|y|yes|on|1)$/i.test(value) ? true : null;
  return Boolean(value);
}

function compared(left: readonly Token[], operator: string, right: readonly Token[]): Truth {
  const [a, b] = [constantOf(left), constantOf(right)];
  if (a !== undefined && b !== undefined && a !== null && b !== null) {
    switch (operator) {
      case '=':
        return String(a) === String(b);
      case '<>':
      case '!=':
        return String(a) !== String(b);
      case '<':
        return a < b;
      case '>':
        return a > b;
      case '<=':
        return a <= b;
      case '>=':
        return a >= b;
      case 'LIKE':
      case 'ILIKE':
        return /^%+$/.test(String(b)) || String(a) === String(b) ? true : null;
      case 'IN':
        return String(a) === String(b) ? true : null;
      default:
        return null;
    }
  }
  const isSame =
    left.length > 0 && left.length === right.length && left.every(({ word }, i) => word === right[i]!.word);
  if (isSame && ['=', '>=', '<=', 'LIKE', 'IN'].includes(operator)) return true;
  if (operator === 'LIKE' || operator === 'ILIKE' || operator === 'GLOB')
    return typeof b === 'string' && /^(?:%+|\*+)$/.test(b) ? true : null;
  // `1 in (1, 2)`
  if (operator === 'IN' && a !== undefined && a !== null)
    return right.some((token) => constantOf([token]) === a) ? true : null;
  return null;
}
