// What an expression demands of an event before anything of it is evaluated (of demands.ts): its parts that are parted
// by `&&`, from the left, as long as they are of forms that are understood: comparisons of `event.type` and of one
// value of the payload with a constant, `has`, and what `||` and `!` make of these.
// Invariant: a part is called false only where its evaluation comes to false; CEL has `false && error` and `error &&
// false` be false. Parts in front of it are evaluated, too, and must not go over the budget: comparisons weigh what
// they compare, so behind them a payload has to be small.

import { isShown, type Sought, UNKNOWN } from '../sought.ts';
import { anySigns, signsOfText } from '../text-search/signs.ts';
import { type Demand, OPEN, type Pivot, QUOTE, STANDS, type Stands, type TextView } from '../text-view.ts';

/** A node of the library's syntax tree. */
type Syntax = { op: string; args: unknown };

/** The facts known of a part of an expression; `pivot` and `types` as of a rule (judgement.ts). */
type Part = {
  mayBeTrue: Demand;
  /** Comparisons of values in it. */
  weighs: number;
  /** No part of it is left out. */
  isWhole: boolean;
  pivot: Pivot | null;
  types: readonly string[] | null;
  /** Where something must stand (`has`), unless the holder is no object. */
  has: readonly Places[];
  /** It compares this text, and is true only where the bit shows. */
  text: { place: number; bit: number } | null;
};

const NOT_KNOWN = { pivot: null, types: null, has: [], text: null } as const;

/** A comparison weighs up to 16 units a byte; of 2,000,000 (budget.ts, `expressionUnits`). */
const SMALL_BYTES = 16 * 1024;
const WEIGHINGS_MAX = 6;

export type ExpressionDemands = { mayBeTrue: Demand | null; pivot: Pivot | null; types: readonly string[] | null };

export function demandsOfExpression(root: Syntax, sought: Sought): ExpressionDemands {
  return partOf(root, sought) ?? { mayBeTrue: null, pivot: null, types: null };
}

/** null: nothing is known of it. */
function partOf({ op, args }: Syntax, sought: Sought): Part | null {
  switch (op) {
    case '&&':
      return both(args as [Syntax, Syntax], sought);
    case '||':
      return either(args as [Syntax, Syntax], sought);
    case '!_':
      return notThere(args as Syntax, sought);
    case 'call':
      return there(args as [string, Syntax[]], sought);
    case 'rcall':
      return search(args as [string, Syntax, Syntax[]], sought);
    default:
      return COMPARES.has(op) ? comparison(op, args as [Syntax, Syntax], sought) : null;
  }
}

function both([left, right]: [Syntax, Syntax], sought: Sought): Part | null {
  const first = partOf(left, sought);
  if (first === null || !first.isWhole || first.weighs > WEIGHINGS_MAX) return first && { ...first, isWhole: false };
  const second = partOf(right, sought);
  if (second === null) return { ...first, isWhole: false };
  const bytesMax = first.weighs > 0 ? SMALL_BYTES : Number.POSITIVE_INFINITY;
  // of a large event the second part is not asked then
  const sure = first.weighs > 0 ? { ...second, ...NOT_KNOWN } : second;
  return {
    pivot: guardedPivot(first, sure) ?? first.pivot ?? sure.pivot,
    types: first.types ?? sure.types,
    has: [...first.has, ...sure.has],
    text: null,
    mayBeTrue: (event) => first.mayBeTrue(event) && (event.bytes > bytesMax || second.mayBeTrue(event)),
    weighs: first.weighs + second.weighs,
    isWhole: second.isWhole,
  };
}

/** The pivot of `has(x) && x == "text"`: the text is rarer than what stands at x. */
function guardedPivot({ has }: Part, { text }: Part): Pivot | null {
  const guard = text === null ? undefined : has.find(({ place }) => place === text.place);
  if (text === null || guard === undefined) return null;
  return { bits: [text.bit], stands: [{ path: text.place, what: STANDS.otherThanText }, ...withoutHolder(guard)] };
}

/** Where a member is asked of what is no object, its evaluation fails. */
function withoutHolder({ holder }: Places): Stands[] {
  return holder === null ? [] : [{ path: holder, what: STANDS.notObject }];
}

function either([left, right]: [Syntax, Syntax], sought: Sought): Part | null {
  const first = partOf(left, sought);
  const second = first && partOf(right, sought);
  if (first === null || second === null) return null;
  return {
    mayBeTrue: (event) => first.mayBeTrue(event) || second.mayBeTrue(event),
    weighs: first.weighs + second.weighs,
    isWhole: first.isWhole && second.isWhole,
    ...NOT_KNOWN,
    pivot: first.pivot && second.pivot && joined(first.pivot, second.pivot),
    types: first.types && second.types && [...first.types, ...second.types],
  };
}

function joined(a: Pivot, b: Pivot): Pivot {
  return { bits: [...a.bits, ...b.bits], stands: [...a.stands, ...b.stands] };
}

function there([name, [argument]]: [string, Syntax[]], sought: Sought): Part | null {
  const path = name === 'has' && argument !== undefined ? placesOf(argument, sought) : null;
  if (path === null) return null;
  const { place, holder } = path;
  return {
    mayBeTrue: (event) => event.firstAt(place) !== 0 || (holder !== null && event.firstAt(holder) !== OPEN),
    weighs: 0,
    isWhole: true,
    ...NOT_KNOWN,
    pivot: { bits: [], stands: [{ path: place, what: STANDS.there }, ...withoutHolder(path)] },
    has: [path],
  };
}

function notThere({ op, args }: Syntax, sought: Sought): Part | null {
  const [name, [argument]] = (op === 'call' ? args : ['', []]) as [string, Syntax[]];
  const path = name === 'has' && argument !== undefined ? placesOf(argument, sought) : null;
  if (path === null) return null;
  return { mayBeTrue: (event) => event.firstAt(path.place) === 0, weighs: 0, isWhole: true, ...NOT_KNOWN };
}

/** The places of a value of the payload as it is. `holder`: of the object that it is a member of; null: the payload. */
type Places = { place: number; holder: number | null };

/** null: it is something else, or it is not watched. */
function placesOf(syntax: Syntax, sought: Sought): Places | null {
  const keys = keysOf(syntax);
  if (keys === null || keys[0] !== 'payload' || keys.length < 2) return null;
  const segments = keys.slice(1);
  const place = sought.member(segments);
  const holder = segments.length === 1 ? null : sought.member(segments.slice(0, -1));
  return place === null || (holder === null && segments.length > 1) ? null : { place, holder };
}

/** `event.a.b`, `event["a"].b` -> `a`, `b`. */
function keysOf({ op, args }: Syntax): string[] | null {
  if (op === 'id') return args === 'event' ? [] : null;
  if (op !== '.' && op !== '[]') return null;
  const [of, key] = args as [Syntax, string | Syntax];
  const name = typeof key === 'string' ? key : constantOf(key);
  const keys = typeof name === 'string' ? keysOf(of) : null;
  return keys === null ? null : [...keys, name as string];
}

/** undefined: it is none. */
function constantOf({ op, args }: Syntax): unknown {
  return op === 'value' ? args : undefined;
}

type Compares = (value: string, constant: string) => boolean;

const SEARCHES: ReadonlyMap<string, Compares> = new Map<string, Compares>([
  ['startsWith', (value, constant) => value.startsWith(constant)],
  ['endsWith', (value, constant) => value.endsWith(constant)],
  ['contains', (value, constant) => value.includes(constant)],
]);

function search([name, receiver, [argument, ...rest]]: [string, Syntax, Syntax[]], sought: Sought): Part | null {
  const holds = SEARCHES.get(name);
  const constant = argument === undefined || rest.length > 0 ? undefined : constantOf(argument);
  if (holds === undefined || typeof constant !== 'string') return null;
  return textPart(receiver, [constant], (value) => holds(value, constant), sought);
}

const COMPARES: ReadonlySet<string> = new Set(['==', '!=', 'in', '<', '<=', '>', '>=']);

function comparison(op: string, [left, right]: [Syntax, Syntax], sought: Sought): Part | null {
  const constants = op === 'in' && right.op === 'list' ? (right.args as Syntax[]).map(constantOf) : [constantOf(right)];
  if (constants.every((constant) => typeof constant === 'string')) {
    if (op === '==' || op === 'in') return textPart(left, constants, (value) => constants.includes(value), sought);
    return op === '!=' ? textPart(left, null, (value) => !constants.includes(value), sought) : null;
  }
  const [constant] = constants;
  const isNumber = typeof constant === 'number' || typeof constant === 'bigint';
  if (op === 'in' || !isNumber || !Number.isSafeInteger(Math.trunc(Number(constant)))) return null;
  const path = placesOf(left, sought);
  if (path === null) return null;
  const holds = ORDERS[op as '<']!;
  return valuePart(path, (value) => typeof value !== 'number' || holds(value, Number(constant)));
}

const ORDERS = {
  '==': (a: number, b: number) => a === b,
  '!=': (a: number, b: number) => a !== b,
  '<': (a: number, b: number) => a < b,
  '<=': (a: number, b: number) => a <= b,
  '>': (a: number, b: number) => a > b,
  '>=': (a: number, b: number) => a >= b,
};

/** The part that a text has. `wanted`: texts of which it must hold one; null: it need not. */
function textPart(
  left: Syntax,
  wanted: readonly string[] | null,
  holds: (value: string) => boolean,
  sought: Sought,
): Part | null {
  const keys = keysOf(left);
  if (keys?.length === 1 && (keys[0] === 'type' || keys[0] === 'agent_id')) {
    const field = keys[0];
    const types = field === 'type' ? wanted : null;
    return { mayBeTrue: (event) => holds(event[field]), weighs: 0, isWhole: true, ...NOT_KNOWN, types };
  }
  const path = placesOf(left, sought);
  if (path === null) return null;
  const { place } = path;
  const bit = wanted && sought.bitOf(anySigns(wanted.map((text) => signsOfText(text))));
  const isThere = bit === null ? () => true : isShown(bit);
  const part = valuePart(path, (value, event) => {
    if (typeof value === 'string') return holds(value);
    return value !== UNKNOWN || event.firstAt(place) !== QUOTE || isThere(event);
  });
  if (bit === null) return part;
  return { ...part, pivot: { bits: [bit], stands: [{ path: place, what: STANDS.notText }] }, text: { place, bit } };
}

function valuePart({ place }: Places, mayHold: (value: unknown, event: TextView) => boolean): Part {
  return { mayBeTrue: (event) => mayHold(event.at(place), event), weighs: 1, isWhole: true, ...NOT_KNOWN };
}
