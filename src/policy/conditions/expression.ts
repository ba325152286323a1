// The `expression` of conditions: CEL over `event` and `agent`, compiled when the policy is created, of type bool.
// An expression that errors on an event (a key that is not there, a wrong type) counts as a match, with
// `detail.reason` `expression_error`: `has()` is there to ask first. Numbers of a payload are doubles, as CEL has it
// for JSON; those that a double does not hold are ints, or decimals, which compare as they are written. Beside CEL's
// own operators, `+ - * /` also take numbers of two of these types together, and `json(text)` reads text inside text.
// What bounds the work: limits on the expression's form, and a meter in every node of its syntax tree. A node charges
// its evaluation to the event's budget, functions and operators also the size of what they read, and before they make
// it the size of what they make, so that the budget bounds memory as well as time; over it the evaluation is ended and
// counts as a match. A function that is not listed here with what it makes is refused. `matches()` takes an RE2 literal
// and runs on our automaton, never on RegExp. The library's interpreter keeps its state in the tree: one expression
// must not be evaluated inside another, and is not.
import { Environment } from '@marcbachmann/cel-js';
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { Json, JsonObject } from '../../../schemas/common.ts';
import { mayHoldLongNumber } from '../../common/exact-json.ts';
import { compareNumbers, type ExactNumber, exactNumber, LongNumber } from '../../common/exact-number.ts';
import { exactValue } from '../../common/inner-json.ts';
import { lazily } from '../../common/lazily.ts';
import { type Budget, OVER_BUDGET, OverBudget } from '../budget.ts';
import type { Sought } from '../sought.ts';
import type { PatternAllowance } from '../text-search/pattern-allowance.ts';
import { textPatternOf } from '../text-search/text-pattern.ts';
import { demandsOfExpression, type ExpressionDemands } from './expression-demands.ts';
import { perPayload } from './per-payload.ts';

const CHARACTERS_MAX = 4_096;
const LIMITS = { maxAstNodes: 500, maxDepth: 32, maxListElements: 200, maxMapEntries: 50, maxCallArguments: 8 };

/** One evaluation of one node: about 200 ns. */
const NODE_UNITS = 80;
/** Functions that ask the time zone database: up to 1 ms. */
const TIME_ZONE_UNITS = 250_000;
/** Functions that search one text in another. V8's search is linear for texts up to 250 characters, naive beyond. */
const SEARCHES: ReadonlySet<string> = new Set(['contains', 'indexOf', 'split']);
const SEARCH_LINEAR_MAX = 250;
const SEARCH_UNITS = 6;
/** The library reads a duration in quadratic time. */
const DURATION_CHARACTERS_MAX = 100;
/** Every piece is a value of its own. */
const PIECE_UNITS = 20;

type Makes = (operands: readonly unknown[]) => number;
const nothing: Makes = () => 0;
const characters = (value: unknown) => (typeof value === 'string' ? value.length : 0);
/**
 * Units for what a function makes, beyond what it reads: a unit for a character or byte. Text in capitals may have
 * three times as many.
 */
const MAKES: ReadonlyMap<string, Makes> = new Map<string, Makes>([
  ...['bool', 'contains', 'double', 'duration', 'dyn', 'endsWith', 'indexOf', 'int', 'size', 'startsWith'].map(none),
  ...['at', 'substring', 'timestamp', 'trim', 'type', 'uint', 'matches'].map(none),
  ...['Date', 'DayOfMonth', 'DayOfWeek', 'DayOfYear', 'FullYear', 'Hours'].map((part) => none(`get${part}`)),
  ...['Milliseconds', 'Minutes', 'Month', 'Seconds'].map((part) => none(`get${part}`)),
  // Macros: each step of theirs is charged as a node of its own.
  ...['all', 'bind', 'exists', 'exists_one', 'filter', 'has', 'map'].map(none),
  ['string', ([value]) => (value instanceof Uint8Array ? value.length : 0)],
  ['bytes', ([text]) => 3 * characters(text)],
  ['hex', ([bytes]) => 2 * (bytes as Uint8Array).length],
  ['base64', ([bytes]) => 2 * (bytes as Uint8Array).length],
  // What it makes of a text takes up to six times as much.
  ['json', ([text]) => 6 * characters(text)],
  ['lowerAscii', ([text]) => characters(text)],
  ['upperAscii', ([text]) => 3 * characters(text)],
  ['split', ([text, by]) => PIECE_UNITS * (1 + Math.floor(characters(text) / Math.max(1, characters(by))))],
  ['join', ([list, by]) => joinedCharacters(list as readonly unknown[], characters(by))],
]);

function none(name: string): [string, Makes] {
  return [name, nothing];
}

function joinedCharacters(list: readonly unknown[], by: number): number {
  let sum = by * Math.max(0, list.length - 1);
  for (const item of list) sum += characters(item);
  return sum;
}

type ExpressionEvent = {
  type: string;
  trace_id: string | undefined;
  agent_id: string;
  timestamp: string;
  payload: JsonObject;
  payloadText: string;
  agent: AgentRecord;
};

export class ExpressionError extends Error {
  override name = 'ExpressionError';
}

/** The fields of the library's syntax tree that the meter touches. Pinned with its version; a test notices moves. */
type Node = {
  op: string;
  args: unknown;
  meta: Record<string, unknown>;
  setMeta(key: string, value: unknown): Node;
};
type Evaluate = (evaluator: { run(node: Node, context: unknown): unknown }, node: Node, context: unknown) => unknown;

/** The parts of a comprehension's node that the meter uses: `condition` says whether to continue. */
type Comprehension = { iterable: Node; condition: ((soFar: unknown) => boolean) | undefined };

export class Expression {
  readonly #evaluate: (context: Record<string, unknown>) => unknown;
  readonly #root: Node;
  readonly #meter: Meter;

  /** Throws ExpressionError with a sentence for the author. */
  constructor(source: unknown, patterns: PatternAllowance) {
    this.#meter = new Meter(patterns);
    if (typeof source !== 'string' || source.trim() === '') throw new ExpressionError('must be a CEL expression');
    if (source.length > CHARACTERS_MAX) throw new ExpressionError(`must have at most ${CHARACTERS_MAX} characters`);
    ({ evaluate: this.#evaluate, root: this.#root } = compile(source, this.#meter));
  }

  /** The demands of the expression on an event (demands.ts). */
  demands(sought: Sought): ExpressionDemands {
    return demandsOfExpression(this.#root, sought);
  }

  /** True if the event matches. Throws OverBudget, or whatever the expression's evaluation ended in. */
  test(event: ExpressionEvent, budget: Budget): boolean {
    this.#meter.begin(budget);
    const result = this.#evaluateOrFail(event);
    // `||`, `&&`, `exists` and `all` swallow the errors of their parts: over budget is over budget all the same.
    if (budget.isOver || result instanceof OverBudget) throw OVER_BUDGET;
    if (typeof result !== 'boolean') throw new ExpressionError('did not come to true or false');
    return result;
  }

  #evaluateOrFail(event: ExpressionEvent): unknown {
    try {
      return this.#evaluate({ event: eventValue(event), agent: agentValue(event.agent) });
    } catch (error) {
      return error;
    }
  }
}

type Compiled = { evaluate: (context: Record<string, unknown>) => unknown; root: Node };

function compile(source: string, meter: Meter): Compiled {
  try {
    const parsed = environment().parse(source);
    const checked = parsed.check();
    if (!checked.valid) throw checked.error;
    if (checked.type !== 'bool')
      throw new ExpressionError(`must be of type bool, is ${checked.type}; compare it with something`);
    const root = parsed.ast as unknown as Node;
    meter.attach(root);
    return { evaluate: parsed as Compiled['evaluate'], root };
  } catch (error) {
    if (error instanceof ExpressionError) throw error;
    throw new ExpressionError(`is not a CEL expression: ${(error as Error).message.split('\n')[0]}`);
  }
}

/** `uint` is an object of the library's, which Number() reads. */
type CelNumber = number | bigint | LongNumber | { valueOf(): bigint };
const ARITHMETIC: readonly (readonly [string, (a: number, b: number) => number])[] = [
  ['+', (a, b) => a + b],
  ['-', (a, b) => a - b],
  ['*', (a, b) => a * b],
  ['/', (a, b) => a / b],
];
const COMPARISONS: readonly (readonly [string, (order: number) => boolean])[] = [
  ['==', (order) => order === 0],
  ['<', (order) => order < 0],
  ['<=', (order) => order <= 0],
  ['>', (order) => order > 0],
  ['>=', (order) => order >= 0],
];

function exactOf(value: CelNumber): ExactNumber {
  return typeof value === 'number' || value instanceof LongNumber ? value : exactNumber(String(value.valueOf()));
}

/** Costs some milliseconds and holds no state of expressions: made when the first one is compiled. */
const environment = lazily((): Environment => {
  const made = new Environment({ limits: LIMITS });
  made.registerVariable('event', 'map');
  made.registerVariable('agent', 'map');
  made.registerType('decimal', LongNumber);
  for (const [left, right] of [
    ['double', 'int'],
    ['int', 'double'],
    ...['int', 'double', 'uint'].flatMap((other) => [
      ['decimal', other],
      [other, 'decimal'],
    ]),
    ['decimal', 'decimal'],
  ] as const) {
    for (const [operator, calculate] of ARITHMETIC)
      made.registerOperator(`${left} ${operator} ${right}: double`, (a: CelNumber, b: CelNumber) =>
        calculate(Number(a), Number(b)),
      );
    if (left !== 'decimal' && right !== 'decimal') continue;
    for (const [operator, holds] of COMPARISONS) {
      if (operator === '==' && left !== 'decimal') continue; // the library turns it round
      made.registerOperator(`${left} ${operator} ${right}: bool`, (a: CelNumber, b: CelNumber) =>
        holds(compareNumbers(exactOf(a), exactOf(b))),
      );
    }
  }
  made.registerFunction('string(decimal): string', (value: LongNumber) => value.text);
  made.registerFunction('json(string): dyn', (text: string) => celValue(jsonOf(text), text));
  made.registerFunction('double(decimal): double', (value: LongNumber) => Number(value));
  return made;
});

/** Throws SyntaxError at what is not JSON, or not the same to every reader: a key twice, too deep. */
function jsonOf(text: string): Json {
  const value = exactValue(text);
  if (value === undefined) throw new SyntaxError('not JSON');
  return value;
}

/** Counts the work of an expression, node by node. */
class Meter {
  readonly #patterns: PatternAllowance;
  #budget!: Budget;

  constructor(patterns: PatternAllowance) {
    this.#patterns = patterns;
  }

  begin(budget: Budget): void {
    this.#budget = budget;
  }

  /**
   * Puts itself in front of every node's evaluation. Must come after the type check, which chooses some evaluations.
   */
  attach(root: Node): void {
    const seen = new Set<unknown>();
    const visit = (value: unknown): void => {
      if (typeof value !== 'object' || value === null || seen.has(value)) return;
      seen.add(value);
      if (Array.isArray(value)) value.forEach(visit);
      else if (isNode(value)) {
        visit(value.args);
        visit(value.meta['alternate']);
        visit(value.meta['macro']);
        this.#meterNode(value);
      } else if (Object.getPrototypeOf(value) === Object.prototype) Object.values(value).forEach(visit);
    };
    visit(root);
  }

  #meterNode(node: Node): void {
    const evaluate = node.meta['evaluate'] as Evaluate;
    const parts = node.args as unknown[];
    let fixed = NODE_UNITS;
    if (isCall(node) && parts[0] === 'matches') {
      this.#meterMatches(node);
      return;
    }
    if (isCall(node)) fixed = this.#meterCall(node);
    else if (OPERATORS_THAT_READ.has(node.op)) for (const operand of parts) this.#weighResult(operand as Node, weigh);
    else if (node.op === 'comprehension') this.#meterComprehension(node.args as Comprehension);
    node.setMeta('evaluate', ((evaluator, self, context) => {
      this.#budget.spend(fixed);
      return evaluate(evaluator, self, context);
    }) satisfies Evaluate);
  }

  /** `matches` with a literal RE2 pattern: a pattern out of a payload could be anything. */
  #meterMatches(node: Node): void {
    const parts = node.args as unknown[];
    const [receiver, literal] =
      node.op === 'rcall' ? [parts[1] as Node, (parts[2] as Node[])[0]] : [undefined, undefined];
    if (receiver === undefined || literal?.op !== 'value')
      throw new ExpressionError('matches() must be given a pattern in quotes');
    const pattern = textPatternOf(this.#patterns.pattern(literal.args, 'exact'));
    node.setMeta('evaluate', ((evaluator, _self, context) => {
      this.#budget.spend(NODE_UNITS);
      const text = evaluator.run(receiver, context);
      if (typeof text !== 'string') throw new ExpressionError('matches() needs a string');
      return pattern.test(text, this.#budget);
    }) satisfies Evaluate);
  }

  /** `exists` and `all` pass over errors and would try every further item: over budget the loop itself must end. */
  #meterComprehension(comprehension: Comprehension): void {
    const { iterable, condition } = comprehension;
    this.#weighResult(iterable, weighKeys);
    comprehension.condition = (soFar) => !this.#budget.isOver && (condition === undefined || condition(soFar));
  }

  /** Functions read their arguments as a whole. */
  #meterCall(node: Node): number {
    const [name, second, third] = node.args as [string, unknown, unknown];
    const makes = MAKES.get(name);
    // The library's own json() takes bytes, and makes maps of its own.
    if (makes === undefined || (name === 'json' && node.op === 'rcall'))
      throw new ExpressionError(`${name}() is not offered`);
    const operands = (node.op === 'rcall' ? [second, ...(third as unknown[])] : (second as unknown[])).filter(isNode);
    const search = SEARCHES.has(name);
    let longest = 0;
    const values: unknown[] = [];
    // Evaluated last to first: the texts to search for before the text to search in.
    operands.forEach((operand, i) => {
      this.#weighResult(operand, (value, budget) => {
        weigh(value, budget);
        values[i] = value;
        if (i === 0) budget.spend(makes(values));
        if (name === 'duration' && typeof value === 'string' && value.length > DURATION_CHARACTERS_MAX) {
          throw new ExpressionError('duration() needs a short text');
        }
        if (!search || typeof value !== 'string') return;
        if (i > 0) longest = value.length;
        else budget.spend(value.length * (longest > SEARCH_LINEAR_MAX ? longest : SEARCH_UNITS));
      });
    });
    return /^get[A-Z]/.test(name) && operands.length > 1 ? TIME_ZONE_UNITS : NODE_UNITS;
  }

  /** Weighs what a node comes to, wherever the library keeps its evaluation. */
  #weighResult(node: Node, weighing: (value: unknown, budget: Budget) => void): void {
    const { alternate, macro } = node.meta;
    if (isNode(alternate)) {
      this.#weighResult(alternate, weighing);
      return;
    }
    const holder = macro as { evaluate: Evaluate } | undefined;
    const evaluate = holder?.evaluate ?? (node.meta['evaluate'] as Evaluate);
    const weighed: Evaluate = (evaluator, self, context) => {
      const value = evaluate(evaluator, self, context);
      weighing(value, this.#budget);
      return value;
    };
    if (holder === undefined) node.setMeta('evaluate', weighed);
    else holder.evaluate = weighed;
  }
}

/** Operators whose work grows with their operands: equality and membership go deep, `+` copies. */
const OPERATORS_THAT_READ: ReadonlySet<string> = new Set(['==', '!=', 'in', '+', '<', '<=', '>', '>=']);

/** Charges the keys of a map: a comprehension lists them before it begins. */
function weighKeys(value: unknown, budget: Budget): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  if (value instanceof Map) budget.spend(20 * value.size);
  else for (const _ in value) budget.spend(20);
}

/** Charges the whole size of a value. */
function weigh(value: unknown, budget: Budget): void {
  if (typeof value === 'string') budget.spend(value.length >> 1);
  else if (typeof value === 'object' && value !== null) {
    if (value instanceof Uint8Array) budget.spend(value.length);
    else if (Array.isArray(value)) {
      budget.spend(20 * value.length);
      for (const item of value) if (typeof item === 'object' || typeof item === 'string') weigh(item, budget);
    } else if (value instanceof Map) {
      budget.spend(20 * value.size);
      for (const item of value.values()) weigh(item, budget);
    } else {
      for (const key in value) {
        budget.spend(20);
        weigh((value as Record<string, unknown>)[key], budget);
      }
    }
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).setMeta === 'function';
}

function isCall(node: Node): boolean {
  return node.op === 'call' || node.op === 'rcall';
}

function eventValue(event: ExpressionEvent): Record<string, unknown> {
  const value: Record<string, unknown> = {
    type: event.type,
    agent_id: event.agent_id,
    timestamp: event.timestamp,
    payload: celPayload(event),
  };
  if (event.trace_id !== undefined) value['trace_id'] = event.trace_id;
  return value;
}

function agentValue({ id, name, description, framework, metadata, status }: AgentRecord): Record<string, unknown> {
  const value: Record<string, unknown> = { id, name, metadata: withoutConstructor(metadata), status };
  if (description !== undefined) value['description'] = description;
  if (framework !== undefined) value['framework'] = framework;
  return value;
}

const celPayload = perPayload(({ payload, payloadText }: ExpressionEvent): unknown => celValue(payload, payloadText));

/**
 * The value that was parsed of a text, as CEL takes it. The library recognizes maps by their `constructor`, which a
 * payload may have as a key of its own: such objects go in as a Map.
 */
function celValue(value: unknown, text: string): unknown {
  const plain = text.includes('constructor') || text.includes('\\u') ? withoutConstructor(value) : value;
  return mayHoldLongNumber(text) ? withInts(plain) : plain;
}

/** Whole numbers of a length that CEL's int has become ints, for all that it offers for them. */
function withInts(value: unknown): unknown {
  if (value instanceof LongNumber) return value.integer(INT_DIGITS_MAX) ?? value;
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(withInts);
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [key, withInts(item)]));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withInts(item)]));
}

const INT_DIGITS_MAX = 19;

function withoutConstructor(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !holdsConstructor(value)) return value;
  if (Array.isArray(value)) return value.map(withoutConstructor);
  return new Map(Object.entries(value).map(([key, item]) => [key, withoutConstructor(item)]));
}

function holdsConstructor(value: object): boolean {
  if (!Array.isArray(value) && Object.hasOwn(value, 'constructor')) return true;
  return Object.values(value).some((item) => typeof item === 'object' && item !== null && holdsConstructor(item));
}
