// Decides whether one field condition holds for an event: a path, and a scalar (equal), an array (any of
// them) or an object of operators, all of which must hold for one and the same value.
// Where the path meets an array any element will do; a text operator on an object or array inspects every string value
// inside. Text is compared decoded and case-sensitive; numbers exactly as they are written, whatever their length. `gt
// gte lt lte` take a text that is a number for one; where something is there that is none, they count as met, and the
// match says `not_a_number`. Where the path or an operator leads into a text that begins like JSON and cannot be read,
// the condition counts as met, and the match says `not_json`. `matches` inspects keys, too.
// A path that leads nowhere equals nothing, so `ne` and `not_in` hold for it: a policy against everything but a list
// also catches the event that leaves the field out (fail closed). `exists` distinguishes the two.
// Work is counted against the event's budget; OverBudget passes through, and the engine counts it as a match.
import { OPERATORS, type Operator } from '../../../schemas/condition.ts';
import { compareNumbers, type ExactNumber, isNumber, LongNumber, numberOfText } from '../../common/exact-number.ts';
import type { Budget } from '../budget.ts';
import { checkShell, ShellCondition } from '../commands/shell-condition.ts';
import { checkSql, SqlCondition } from '../commands/sql-condition.ts';
import { below, type PolicyReading } from '../policy-error.ts';
import { LiteralSearch } from '../text-search/literal-search.ts';
import type { PatternAllowance } from '../text-search/pattern-allowance.ts';
import { textPatternOf } from '../text-search/text-pattern.ts';
import { withSpaces } from '../texts/blanks.ts';
import { foldedText } from '../texts/folded.ts';
import { FOLDING_UNITS, formsOf, innerOf } from '../texts/text-forms.ts';
import { type ConditionSigns, signsOfCondition } from './condition-signs.ts';
import { globPattern, HOLD_FOR_NOTHING, isScalar, mistakeIn, type Scalar } from './operands.ts';
import { ITEM_UNITS, type Path, visitPath } from './path.ts';
import { REDACTED_KEY, type Step } from './pointer.ts';

/** The parts of an event that the paths can reach. */
export type Fields = { type: string; trace_id: string | undefined; agent_id: string; payload: object };

/** Why a condition counts as met for a value that it cannot judge. */
export type Unjudged = 'not_a_number' | 'not_json';
type Predicate = (value: unknown, budget: Budget) => boolean | Unjudged;
/** `whole`: also asked of lists and objects as such. `met`: the place of the entry for which it held last. */
type TextTest = ((text: string, budget: Budget) => boolean) & {
  whole?: (value: object, budget: Budget) => boolean;
  met?: () => number;
};

export class FieldCondition {
  /** As the policy writes it. */
  readonly key: string;
  readonly path: Path;
  readonly operators: ReadonlyMap<Operator, unknown>;
  /** Written as a scalar or an array instead of an object of operators. */
  readonly isShort: boolean;
  /** The texts that this condition demands one of, if it does nothing else: what rules are indexed by. */
  readonly texts: readonly string[] | null;
  /** The signs in the bytes of an event for which it holds. */
  readonly signs: ConditionSigns;
  readonly #predicates: readonly Predicate[];
  /** The test of a string by each of the text operators. */
  readonly #texts: ReadonlyMap<Operator, TextTest>;
  readonly #exists: boolean | null;
  readonly #holdsForNothing: boolean;
  /** Is one of them asked of lists and objects as such? */
  readonly #asksWhole: boolean;
  /** Operators that order numbers, and are there no others? */
  readonly #orders: boolean;
  readonly #onlyOrders: boolean;
  // State of one test. Tests are synchronous and do not nest.
  #budget!: Budget;
  #isThere = false;
  #hasValue = false;
  /** In an array that holds numbers, nothing else is asked for its order. */
  #onlyNumbers = false;
  /** Why it counts as met for something that it cannot judge; undefined: it holds, or does not. */
  unjudged: Unjudged | undefined;
  /** Where the caller asks for the path: the steps that lead to the current value. */
  #trail: Step[] | null = null;
  readonly #visit = (value: unknown) => {
    this.#isThere = true;
    if (typeof value === 'string') {
      if (this.#accepts(value)) return true;
      const inner = innerOf(value, 0, this.#budget);
      if (inner === undefined) return false;
      if (inner.value === undefined) return this.#countsAsMet('not_json');
      return (Array.isArray(inner.value) || typeof inner.value === 'string') && this.#accepts(inner.value);
    }
    if (!this.#orders || !Array.isArray(value)) return this.#accepts(value);
    this.#onlyNumbers = holdsNumber(value, this.#budget);
    if (!this.#onlyNumbers && this.#onlyOrders) return this.#countsAsMet('not_a_number');
    const isAccepted = this.#accepts(value);
    this.#onlyNumbers = false;
    return isAccepted;
  };
  readonly #unreadable = () => this.#countsAsMet('not_json');

  constructor(
    { key, path, operators, isShort }: Pick<FieldCondition, 'key' | 'path' | 'operators' | 'isShort'>,
    patterns: PatternAllowance,
  ) {
    this.key = key;
    this.path = path;
    this.operators = operators;
    this.isShort = isShort;
    const names = [...operators.keys()].filter((name) => name !== 'exists');
    this.#exists = (operators.get('exists') as boolean | undefined) ?? null;
    this.#texts = textTestsOf(operators, patterns);
    this.#asksWhole = [...this.#texts.values()].some(({ whole }) => whole !== undefined);
    this.#predicates = names.map((name) => predicate(name, operators.get(name), this.#texts));
    const orders = names.filter((name) => ORDERS.has(name));
    this.#orders = orders.length > 0;
    this.#onlyOrders = orders.length === names.length;
    this.#holdsForNothing = names.length > 0 && names.every((name) => HOLD_FOR_NOTHING.has(name));
    this.texts = operators.size === 1 ? textsOf(operators) : null;
    this.signs = signsOfCondition(path, operators, patterns);
  }

  test(fields: Fields, budget: Budget): boolean {
    return this.#holds(this.#findsValue(fields, budget));
  }

  /** The same where it is known what alone stands at its path; undefined: nothing does. */
  testValue(value: unknown, budget: Budget): boolean {
    this.#begin(budget);
    return this.#holds(value !== undefined && this.#visit(value));
  }

  #holds(found: boolean): boolean {
    if (this.unjudged === 'not_json') return true;
    if (this.#exists !== null && this.#isThere !== this.#exists) return false;
    return found || this.#exists === false || (!this.#hasValue && this.#holdsForNothing);
  }

  /**
   * The steps that lead to the value for which it holds, to be asked where `test` says that it does; null: it holds
   * because nothing is there. Throws OverBudget.
   */
  place(fields: Fields, budget: Budget): Step[] | null {
    const trail: Step[] = [];
    this.#trail = trail;
    try {
      return this.#findsValue(fields, budget) ? trail : null;
    } finally {
      this.#trail = null;
    }
  }

  /**
   * The steps from the value at `steps` to the string for which a text operator holds; none where it is the value
   * itself. Keys that hold what a text operator searches are left out. Throws OverBudget.
   */
  placeInside(operator: Operator, payload: object, steps: readonly Step[], budget: Budget): Step[] {
    const test = this.#texts.get(operator);
    if (test === undefined) return [];
    const trail: Step[] = [];
    findText(valueAt(payload, steps), { test, withKeys: operator === 'matches', unjudged: false }, budget, trail);
    return trail.map((step) => (typeof step === 'string' && this.#isLookedFor(step, budget) ? REDACTED_KEY : step));
  }

  /** The place of the entry that was met, right after an operator with a list of entries held. */
  entryMet(operator: Operator): number | undefined {
    return Array.isArray(this.operators.get(operator)) ? this.#texts.get(operator)?.met?.() : undefined;
  }

  /** Is there a value for which all operators hold? */
  #findsValue(fields: Fields, budget: Budget): boolean {
    this.#begin(budget);
    const root = fields[this.path.root];
    if (root === undefined) return false;
    const how = { budget, visit: this.#visit, unreadable: this.#unreadable, trail: this.#trail };
    return visitPath(root, this.path, how);
  }

  #begin(budget: Budget): void {
    this.#budget = budget;
    this.#isThere = false;
    this.#hasValue = false;
    this.#onlyNumbers = false;
    this.unjudged = undefined;
  }

  /** Arrays are looked into, however deep; anything else is one value. */
  #accepts(value: unknown): boolean {
    if (Array.isArray(value) && this.#predicates.length > 0) {
      if (this.#asksWhole && this.#predicates.every((holds) => holds(value, this.#budget) === true)) return true;
      this.#budget.spend(ITEM_UNITS * value.length);
      for (let i = 0; i < value.length; i++) {
        this.#trail?.push(i);
        if (this.#accepts(value[i])) return true;
        this.#trail?.pop();
      }
      return false;
    }
    this.#hasValue = true;
    if (this.#onlyNumbers && numberOf(value) === undefined) return false;
    let unjudged: Unjudged | undefined;
    for (const holds of this.#predicates) {
      const answer = holds(value, this.#budget);
      if (answer === false) return false;
      if (answer !== true) unjudged = answer;
    }
    return unjudged === undefined ? true : this.#countsAsMet(unjudged);
  }

  #countsAsMet(unjudged: Unjudged): true {
    this.#hasValue = true;
    this.unjudged = unjudged;
    return true;
  }

  #isLookedFor(key: string, budget: Budget): boolean {
    return [...this.#texts.values()].some((test) => test(key, budget));
  }
}

/** The value at these steps, through texts inside texts; undefined: nothing. */
function valueAt(payload: object, steps: readonly Step[]): unknown {
  return steps.reduce<unknown>((value, step) => {
    let holder = value;
    while (typeof holder === 'string') holder = formsOf(holder).inner?.value;
    return (holder as Record<Step, unknown> | null | undefined)?.[step];
  }, payload);
}

/** The test of the strings inside a value, with keys or without; whether one of them cannot be read. */
type TextSearch = { test: TextTest; withKeys: boolean; unjudged: false | 'not_json' };

/**
 * Is there a string inside a value, in any of its forms, that passes? `trail` takes the steps to it, of a key those to
 * its object. `level`: texts that the value is inside of.
 */
function findText(value: unknown, search: TextSearch, budget: Budget, trail: Step[] | null, level = 0): boolean {
  budget.spend(6);
  if (typeof value === 'string') {
    const inner = innerOf(value, level, budget);
    if (inner !== undefined && inner.value === undefined) search.unjudged = 'not_json';
    else if (inner !== undefined && findText(inner.value, search, budget, trail, level + 1)) return true;
    return search.test(value, budget);
  }
  if (typeof value !== 'object' || value === null) return false;
  if (search.test.whole?.(value, budget)) return true;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) if (step(i, value[i])) return true;
    return false;
  }
  for (const key in value) {
    if (search.withKeys && search.test(key, budget)) return true;
    if (step(key, (value as Record<string, unknown>)[key])) return true;
  }
  return false;

  function step(key: Step, item: unknown): boolean {
    trail?.push(key);
    if (findText(item, search, budget, trail, level)) return true;
    trail?.pop();
    return false;
  }
}

function textsOf(operators: ReadonlyMap<Operator, unknown>): readonly string[] | null {
  const wanted = operators.has('eq') ? [operators.get('eq')] : operators.get('in');
  return Array.isArray(wanted) && wanted.every((text) => typeof text === 'string') ? wanted : null;
}

function predicate(name: Operator, operand: unknown, texts: ReadonlyMap<Operator, TextTest>): Predicate {
  switch (name) {
    case 'eq':
      return oneOf([operand as Scalar], true);
    case 'ne':
      return oneOf([operand as Scalar], false);
    case 'in':
      return oneOf(operand as Scalar[], true);
    case 'not_in':
      return oneOf(operand as Scalar[], false);
    case 'gt':
      return ordered(operand as ExactNumber, (order) => order > 0);
    case 'gte':
      return ordered(operand as ExactNumber, (order) => order >= 0);
    case 'lt':
      return ordered(operand as ExactNumber, (order) => order < 0);
    case 'lte':
      return ordered(operand as ExactNumber, (order) => order <= 0);
    case 'contains':
    case 'starts_with':
    case 'ends_with':
      return overText(texts.get(name)!, false);
    case 'glob':
    case 'shell':
    case 'sql':
      return overText(texts.get(name)!, false);
    case 'matches':
      return overText(texts.get(name)!, true);
    case 'exists':
      return () => true; // inspected by the condition itself
  }
}

function textTestsOf(
  operators: ReadonlyMap<Operator, unknown>,
  patterns: PatternAllowance,
): ReadonlyMap<Operator, TextTest> {
  const tests = new Map<Operator, TextTest>();
  for (const [name, operand] of operators) {
    const test = textTest(name, operand, patterns);
    if (test !== null) tests.set(name, test);
  }
  return tests.size === 0 ? NO_TEXTS : tests;
}

const NO_TEXTS: ReadonlyMap<Operator, TextTest> = new Map();

/**
 * null: not a text operator. What is asked of a text as it was sent is asked of its folded form, too; a blank is any
 * blank.
 */
function textTest(name: Operator, operand: unknown, patterns: PatternAllowance): TextTest | null {
  switch (name) {
    case 'contains':
    case 'starts_with':
    case 'ends_with': {
      const asSent = literalTest(name, operand as string);
      const inFolded = literalTest(name, foldedText(operand as string));
      return (text, budget) => asSent(text, budget) || isInFolded(inFolded, text, budget);
    }
    case 'glob': {
      const asSent = patternTest(patterns, globPattern(operand as string));
      const inFolded = patternTest(patterns, globPattern(foldedText(operand as string)));
      return (text, budget) => asSent(text, budget) || isInFolded(inFolded, text, budget);
    }
    case 'matches': {
      const test = patternTest(patterns, operand);
      return (text, budget) => test(text, budget) || isInFolded(test, text, budget);
    }
    case 'shell':
      return commandTest(new ShellCondition(operand));
    case 'sql':
      return commandTest(new SqlCondition(operand));
    default:
      return null;
  }
}

function commandTest(condition: ShellCondition | SqlCondition): TextTest {
  const asSent = (text: string, budget: Budget) => condition.test(text, budget);
  return Object.assign((text: string, budget: Budget) => asSent(text, budget) || isInFolded(asSent, text, budget), {
    whole: (value: object, budget: Budget) => condition.testWhole(value, budget),
    met: () => condition.met,
  });
}

function isInFolded(test: TextTest, text: string, budget: Budget): boolean {
  const { folded } = formsOf(text);
  if (folded === undefined) return false;
  budget.spend(FOLDING_UNITS * text.length);
  return test(folded.text, budget);
}

function patternTest(patterns: PatternAllowance, source: unknown): TextTest {
  const pattern = textPatternOf(patterns.pattern(source));
  return (text, budget) => pattern.test(text, budget);
}

function literalTest(name: 'contains' | 'starts_with' | 'ends_with', text: string): TextTest {
  const wanted = withSpaces(text);
  const test = plainTest(name, wanted);
  if (!wanted.includes(' ')) return test;
  return (text, budget) => {
    budget.spend(text.length);
    return test(withSpaces(text), budget);
  };
}

function plainTest(name: 'contains' | 'starts_with' | 'ends_with', wanted: string): TextTest {
  if (name === 'starts_with') return (text) => text.startsWith(wanted);
  if (name === 'ends_with') return (text) => text.endsWith(wanted);
  const literal = new LiteralSearch(wanted);
  return (text, budget) => literal.isIn(text, budget);
}

/** Equal is what is the same: a number the same number, whatever it is written like. */
function oneOf(operands: Scalar[], wanted: boolean): Predicate {
  if (operands.length === 1 && !(operands[0] instanceof LongNumber)) {
    const [only] = operands;
    return (value) => (value === only) === wanted;
  }
  const set = new Set<unknown>(operands.filter((operand) => !(operand instanceof LongNumber)));
  const long = new Set(operands.filter((operand) => operand instanceof LongNumber).map(String));
  return (value, budget) => {
    if (!(value instanceof LongNumber)) return set.has(value) === wanted;
    if (long.size === 0) return !wanted;
    budget.spend(value.text.length);
    return long.has(String(value)) === wanted;
  };
}

const ORDERS: ReadonlySet<string> = new Set(['gt', 'gte', 'lt', 'lte']);

function ordered(operand: ExactNumber, holds: (order: number) => boolean): Predicate {
  return (value, budget) => {
    if (typeof value === 'number' && typeof operand === 'number')
      return holds(value < operand ? -1 : value > operand ? 1 : 0);
    if (value === null) return false;
    if (typeof value === 'string') budget.spend(value.length >> 2);
    if (value instanceof LongNumber) budget.spend(value.text.length);
    const number = numberOf(value);
    return number === undefined ? 'not_a_number' : holds(compareNumbers(number, operand));
  };
}

function numberOf(value: unknown): ExactNumber | undefined {
  return typeof value === 'string' ? numberOfText(value) : isNumber(value) ? value : undefined;
}

/** Does an array hold a number, however deep in further arrays? */
function holdsNumber(items: readonly unknown[], budget: Budget): boolean {
  budget.spend(ITEM_UNITS * items.length);
  return items.some((item) => (Array.isArray(item) ? holdsNumber(item, budget) : numberOf(item) !== undefined));
}

function overText(test: TextTest, withKeys: boolean): Predicate {
  const search: TextSearch = { test, withKeys, unjudged: false };
  return (value, budget) => {
    search.unjudged = false;
    return findText(value, search, budget, null) || search.unjudged;
  };
}

/**
 * Reads the right-hand side of the condition `key`; what is wrong with it goes to `mistakes`, and nothing is answered.
 */
export function compileCondition(
  { key, path }: Pick<FieldCondition, 'key' | 'path'>,
  value: unknown,
  at: string,
  { mistakes, patterns }: PolicyReading,
): FieldCondition | undefined {
  const before = mistakes.details.length;
  const operators = new Map<Operator, unknown>();
  const isShort = isScalar(value) || Array.isArray(value);
  if (isScalar(value)) operators.set('eq', value);
  else if (Array.isArray(value)) operators.set('in', value);
  else for (const [name, operand] of Object.entries(value as object)) operators.set(name as Operator, operand);
  if (operators.size === 0) mistakes.add(at, `must hold at least one operator of ${OPERATORS.join(', ')}`);
  for (const [name, operand] of operators) {
    if (name === 'shell' || name === 'sql') {
      (name === 'shell' ? checkShell : checkSql)(operand, isShort ? at : below(at, name), mistakes);
      continue;
    }
    const sentence = mistakeIn(name, operand, { field: key, isAlone: operators.size === 1, patterns });
    if (sentence !== null) mistakes.add(isShort ? at : below(at, name), sentence);
  }
  return mistakes.details.length === before
    ? new FieldCondition({ key, path, operators, isShort }, patterns)
    : undefined;
}
