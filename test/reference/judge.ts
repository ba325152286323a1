// Judges an event by policies the plain way, for the reference: a loop over all policies, one condition after the
// other, as docs/policy-reference.md says it; no index, no gates, no automata, no budgets. Shares no code with
// src/policy. Expressions come with their meaning beside them (`MEANINGS` of the test), schemas are given to
// ajv as it is.
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { JsonObject } from '../../schemas/common.ts';
import type { PolicyMatch } from '../../schemas/event.ts';
import type { Policy } from '../../schemas/policy.ts';
import { foldedOf, textsOf } from './forms.ts';
import { Written, writtenJson } from './json.ts';
import { detected, detectedNumber, mayHold, occurs } from './patterns.ts';

/** `written`: the payload with its numbers as they are written; left out where it has none that a double changes. */
type Sent = {
  type: string;
  trace_id: string | undefined;
  agent_id: string;
  payload: JsonObject;
  written?: unknown;
};
/** The value of an expression for an event; throws where its evaluation ends in an error. */
export type Meaning = (event: Sent) => boolean;
/** Events that each counter has seen. */
type Counters = Map<string, number>;

export type Verdict = {
  outcome: 'allowed' | 'blocked' | 'pending';
  deciding: Policy | null;
  matches: PolicyMatch[];
  /** Matched filters that redact. */
  redacting: Policy[];
  /** Was any counter asked? */
  counted: boolean;
};

type Detail = Record<string, unknown>;
type Found = { policy: Policy; detail: Detail };

export class Judge {
  readonly #policies: readonly Policy[];
  readonly #meanings: ReadonlyMap<string, Meaning>;
  readonly #ajv = new Ajv2020({ strict: false, ownProperties: true, logger: false });

  constructor(policies: readonly Policy[], meanings: ReadonlyMap<string, Meaning>) {
    this.#policies = policies;
    this.#meanings = meanings;
  }

  judge(event: Sent, counters: Counters): Verdict {
    const found: Found[] = [];
    const limits: Found[] = [];
    const counting: Found[] = [];
    for (const policy of this.#policies) {
      if (policy.status !== 'active' || (policy.agent_id !== null && policy.agent_id !== event.agent_id)) continue;
      const detail = this.#matches(policy, event);
      if (detail === null) continue;
      if (policy.type === 'rate_limit') counting.push({ policy, detail });
      else found.push({ policy, detail });
    }
    // What is blocked anyway is not counted.
    const counted = counting.length > 0 && !found.some(({ policy }) => meant(policy) === 'blocked');
    for (const { policy, detail } of counted ? counting : []) {
      const over = overLimit(policy, event, counters);
      if (over !== null) limits.push({ policy, detail: { ...over, ...detail } });
    }
    // Counters are named by text of the payload: left out where a filter found something; that there is none says
    // nothing of it. Nor are keys inside.
    const isSecret = found.some(({ policy }) => policy.type === 'data_filter');
    if (isSecret) for (const { detail } of limits) if (detail['value'] !== null) delete detail['value'];
    for (const { policy, detail } of [...found, ...limits]) this.#explain(policy, event, detail, isSecret);
    const all = [...found, ...limits].sort((a, b) => (a.policy.id < b.policy.id ? -1 : 1));
    const deciding =
      all.find(({ policy }) => meant(policy) === 'blocked') ?? all.find(({ policy }) => meant(policy) === 'pending');
    return {
      outcome: deciding === undefined ? 'allowed' : meant(deciding.policy),
      deciding: deciding?.policy ?? null,
      matches: all.map(({ policy, detail }) => {
        const { id, revision, name, type, actions, severity, description } = policy;
        const match = { policy_id: id, revision, name, type, actions, severity };
        const told = policy === deciding?.policy && description ? { description } : {};
        return { ...match, detail: detail as PolicyMatch['detail'], ...told };
      }),
      redacting: found.map(({ policy }) => policy).filter(({ conditions }) => conditions['redact'] === true),
      counted,
    };
  }

  /** null: it does not match. */
  #matches(policy: Policy, event: Sent): Detail | null {
    const { conditions } = policy;
    for (const [key, value] of Object.entries(conditions)) {
      if (!RESERVED[policy.type].includes(key) && !fieldHolds(key, value, event)) return null;
    }
    const schema = conditions['payload_schema'];
    if (schema !== undefined && this.#ajv.validate(schema as object, event.payload)) return null;
    const expression = conditions['expression'];
    if (expression !== undefined) {
      let holds: boolean;
      try {
        holds = this.#meanings.get(expression as string)!(event);
      } catch {
        return { reason: 'expression_error', condition: 'expression' };
      }
      if (!holds) return null;
    }
    return policy.type === 'data_filter' ? this.#filter(policy, event) : {};
  }

  /** Adds which conditions held, and where. */
  #explain({ type, conditions }: Policy, event: Sent, detail: Detail, isSecret: boolean): void {
    if (detail['reason'] !== undefined) return;
    const held: Detail[] = Object.entries(conditions)
      .filter(([key]) => !RESERVED[type].includes(key))
      .flatMap(([key, value]) => heldAt(key, value, event, isSecret));
    const schema = conditions['payload_schema'];
    if (schema !== undefined) {
      this.#ajv.validate(schema as object, event.payload);
      const { instancePath, keyword } = this.#ajv.errors!.at(-1)!;
      const steps = instancePath.split('/').slice(1);
      const path = pointer(
        steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')),
        [],
      );
      held.push(isSecret ? { condition: 'payload_schema', keyword } : { condition: 'payload_schema', path, keyword });
    }
    if (conditions['expression'] !== undefined) held.push({ condition: 'expression' });
    const isForText = Object.entries(conditions).some(
      ([key, value]) => !RESERVED[type].includes(key) && isForNoNumber(key, value, event),
    );
    const isOwn = type === 'block_action' || type === 'require_approval';
    const reason = isForText ? { reason: 'not_a_number' } : {};
    if (!isOwn && held.length > 0) Object.assign(detail, { conditions: held, ...reason });
    if (isOwn && held.length === 0) detail['every_event'] = true;
    if (!isOwn || held.length === 0) return;
    Object.assign(detail, held.filter(({ path }) => path !== undefined).at(-1) ?? held.at(-1));
    Object.assign(detail, held.length > 1 ? { conditions: held } : {}, reason);
  }

  #filter({ conditions }: Policy, event: Sent): Detail | null {
    const fields = fieldsOf(conditions);
    const hidden = needlesOf(
      fields === null
        ? this.#policies.filter((other) => other.type === 'data_filter' && fieldsOf(other.conditions) === null)
        : [{ conditions }],
    );
    for (const needle of needlesOf([{ conditions }])) {
      const found = 'pattern' in needle ? { pattern: needle.number } : { detector: needle.detector };
      for (const { text, trail, isKey } of stringsOf(event.payload, fields)) {
        if (!holds(needle, text)) continue;
        return { ...found, path: pointer(trail, hidden), ...(isKey ? { key: true } : {}) };
      }
      const { trace_id: trace } = event;
      if (looksAtTrace(fields) && trace !== undefined && holds(needle, trace)) return { ...found, field: 'trace_id' };
    }
    return null;
  }
}

/** Sequences have a reference of their own (sequences.ts). */
const RESERVED: Record<Policy['type'], string[]> = {
  sequence: [],
  block_action: ['expression', 'payload_schema'],
  require_approval: ['expression', 'payload_schema', 'timeout', 'on_timeout'],
  rate_limit: ['expression', 'payload_schema', 'threshold', 'window', 'per'],
  data_filter: ['expression', 'payload_schema', 'patterns', 'detectors', 'fields', 'redact'],
  external_check: [
    ...['expression', 'payload_schema', 'check', 'fields', 'when', 'on_timeout', 'on_error', 'on_overload'],
  ],
  // Policies of this type are not generated.
  budget: [],
};

/** The outcome that a match of a policy gives the event. */
function meant({ type, actions }: Policy): Verdict['outcome'] {
  if (actions.every((action) => action === 'log')) return 'allowed';
  if (type === 'require_approval') return 'pending';
  return actions.includes('block') ? 'blocked' : 'allowed';
}

// -- fields

type Step = string | number;
type At = { value: unknown; trail: Step[] };

/** One condition on a field: `key` as policies name it. */
export function fieldHolds(key: string, wanted: unknown, event: Sent): boolean {
  const at = valuesAt(key, event);
  const { exists, ...others } = operatorsOf(wanted);
  if (exists !== undefined && exists !== at.length > 0) return false;
  const names = Object.entries(others);
  if (names.length === 0) return true;
  const values = at.flatMap((one) => candidates(one, Object.keys(others)));
  if (values.length === 0) return names.every(([name]) => name === 'ne' || name === 'not_in');
  return values.some(({ value }) => names.every(([name, operand]) => operatorHolds(name, operand, value)));
}

function operatorsOf(wanted: unknown): Record<string, unknown> {
  if (Array.isArray(wanted)) return { in: wanted };
  return typeof wanted === 'object' && wanted !== null ? (wanted as Record<string, unknown>) : { eq: wanted };
}

/** Where a condition that holds does so, once for each of its operators. */
function heldAt(key: string, wanted: unknown, event: Sent, isSecret: boolean): Detail[] {
  const operators = operatorsOf(wanted);
  const { exists: _exists, ...others } = operators;
  const names = Object.entries(others);
  const found = valuesAt(key, event);
  const at =
    names.length === 0
      ? found[0]
      : found
          .flatMap((one) => candidates(one, Object.keys(others)))
          .find(({ value }) => names.every(([name, operand]) => operatorHolds(name, operand, value)));
  const [root, ...segments] = segmentsOf(key);
  return Object.entries(operators).map(([operator, operand]) => {
    const entry = { condition: key, operator };
    if (at === undefined)
      return { ...entry, ...(root === 'payload' ? { path: pointer(segments, []) } : {}), absent: true };
    if (root !== 'payload') return entry;
    const texts =
      TEXT_OPERATORS.includes(operator) && !isSecret ? textsAt(at.value, at.trail, operator === 'matches') : [];
    const text = texts.find(({ value }) => operatorHolds(operator, operand, value));
    const inside = (text?.trail ?? []).slice(at.trail.length).map((step) => {
      const isShown =
        typeof step === 'number' ||
        !names.some(([name, one]) => TEXT_OPERATORS.includes(name) && operatorHolds(name, one, step));
      return isShown ? step : '[redacted]';
    });
    return { ...entry, path: pointer([...at.trail, ...inside], []) };
  });
}

const TEXT_OPERATORS = ['contains', 'starts_with', 'ends_with', 'matches', 'glob'];

/** Strings inside a value, and keys, which are at their object. */
function textsAt(value: unknown, trail: Step[], withKeys: boolean): At[] {
  if (typeof value === 'string') return [{ value, trail }];
  if (typeof value !== 'object' || value === null || value instanceof Written) return [];
  if (Array.isArray(value)) return value.flatMap((item, i) => textsAt(item, [...trail, i], withKeys));
  return Object.entries(value).flatMap(([key, item]) => [
    ...(withKeys ? [{ value: key, trail }] : []),
    ...textsAt(item, [...trail, key], withKeys),
  ]);
}

function segmentsOf(key: string): string[] {
  const segments = key.split('.');
  return ['type', 'trace_id', 'agent_id', 'payload'].includes(segments[0]!) ? segments : ['payload', ...segments];
}

/** The values that a path leads to: none, one, or several where it met arrays. */
function valuesAt(key: string, event: Sent): At[] {
  const [root, ...segments] = segmentsOf(key);
  const value = root === 'payload' ? (event.written ?? event.payload) : event[root as keyof Sent];
  return value === undefined ? [] : follow({ value, trail: [] }, segments);
}

function follow({ value, trail }: At, segments: readonly string[]): At[] {
  const [first, ...rest] = segments;
  if (first === undefined) return [{ value, trail }];
  if (typeof value !== 'object' || value === null || value instanceof Written) return [];
  if (!Array.isArray(value)) {
    return keysNamed(Object.keys(value), first).flatMap((key) =>
      follow({ value: (value as JsonObject)[key], trail: [...trail, key] }, rest),
    );
  }
  if (!isIndex(first)) return value.flatMap((item, i) => follow({ value: item, trail: [...trail, i] }, segments));
  const index = Number(first);
  return index < value.length ? follow({ value: value[index], trail: [...trail, index] }, rest) : [];
}

/** The key that is written so, then those that are folded to it. */
export function keysNamed(keys: readonly string[], name: string): string[] {
  const others = keys.filter((key) => key !== name && foldedOf(key).text === foldedOf(name).text);
  return keys.includes(name) ? [name, ...others] : others;
}

export function isIndex(segment: string): boolean {
  return /^(0|[1-9]\d{0,6})$/.test(segment);
}

function flattened({ value, trail }: At): At[] {
  if (!Array.isArray(value)) return [{ value, trail }];
  return value.flatMap((item, i) => flattened({ value: item, trail: [...trail, i] }));
}

const ORDERS = ['gt', 'gte', 'lt', 'lte'];
/** Stands for an array of which the order is asked and that holds no number. */
const NO_NUMBER = 'no number';

/**
 * The values that operators inspect: of an array its elements, and where an order is asked those that are numbers, if
 * any are.
 */
function candidates(at: At, operators: readonly string[]): At[] {
  const items = flattened(at);
  if (!Array.isArray(at.value) || !operators.some((name) => ORDERS.includes(name))) return items;
  const numbers = items.filter(({ value }) => numberIn(value) !== undefined);
  if (numbers.length > 0) return numbers;
  return operators.every((name) => ORDERS.includes(name)) ? [{ value: NO_NUMBER, trail: at.trail }] : items;
}

/** How many 10^-500 a number is, or the number that a text is. */
function numberIn(value: unknown): bigint | undefined {
  if (value instanceof Written) return value.scaled;
  if (typeof value === 'number') return new Written(String(value)).scaled;
  const found = typeof value === 'string' ? /^\s*\+?(-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*$/.exec(value) : null;
  return found === null ? undefined : new Written(found[1]!).scaled;
}

function isSame(value: unknown, operand: unknown): boolean {
  return value instanceof Written
    ? typeof operand === 'number' && value.scaled === numberIn(operand)
    : value === operand;
}

function inOrder(value: unknown, holds: (number: bigint) => boolean): boolean {
  const number = numberIn(value);
  return number === undefined ? value !== null : holds(number);
}

/** Does a condition hold for what is no number, although it asks for an order? */
function isForNoNumber(key: string, wanted: unknown, event: Sent): boolean {
  const { exists: _exists, ...others } = operatorsOf(wanted);
  const names = Object.entries(others);
  const at = valuesAt(key, event)
    .flatMap((one) => candidates(one, Object.keys(others)))
    .find(({ value }) => names.every(([name, operand]) => operatorHolds(name, operand, value)));
  return names.some(([name]) => ORDERS.includes(name)) && at !== undefined && numberIn(at.value) === undefined;
}

function operatorHolds(name: string, operand: unknown, value: unknown): boolean {
  const someText = (test: (text: string, wanted: string) => boolean) =>
    textsIn(value).some((text) => {
      const [, folded] = textsOf(text);
      if (test(text, operand as string)) return true;
      return folded !== undefined && test(folded, foldedOf(operand as string).text);
    });
  switch (name) {
    case 'eq':
      return isSame(value, operand);
    case 'ne':
      return !isSame(value, operand);
    case 'in':
      return (operand as unknown[]).some((one) => isSame(value, one));
    case 'not_in':
      return !(operand as unknown[]).some((one) => isSame(value, one));
    case 'gt':
      return inOrder(value, (number) => number > numberIn(operand)!);
    case 'gte':
      return inOrder(value, (number) => number >= numberIn(operand)!);
    case 'lt':
      return inOrder(value, (number) => number < numberIn(operand)!);
    case 'lte':
      return inOrder(value, (number) => number <= numberIn(operand)!);
    case 'contains':
      return someText((text, wanted) => spaced(text).includes(spaced(wanted)));
    case 'starts_with':
      return someText((text, wanted) => spaced(text).startsWith(spaced(wanted)));
    case 'ends_with':
      return someText((text, wanted) => spaced(text).endsWith(spaced(wanted)));
    case 'glob':
      return someText((text, wanted) => isGlob(wanted, text) || isGlob(wanted, spaced(text)));
    case 'matches':
      return textsIn(value, true).some((text) => textsOf(text).some((form) => occurs(operand as string, form)));
  }
  throw new Error(`no operator ${name}`);
}

/** To a policy a blank is any blank. */
function spaced(text: string): string {
  return text.replaceAll(/[\t\n\v\f\r]/g, ' ');
}

/** By hand: a star is every length that is left. */
function isGlob(glob: string, text: string): boolean {
  if (glob === '') return text === '';
  const [first] = glob;
  const [character = ''] = text;
  if (first === '*') return isGlob(glob.slice(1), text) || (text !== '' && isGlob(glob, text.slice(character.length)));
  return (
    text !== '' &&
    (first === '?' || first === character) &&
    isGlob(glob.slice(first!.length), text.slice(character.length))
  );
}

function textsIn(value: unknown, withKeys = false): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null || value instanceof Written) return [];
  const keys = withKeys && !Array.isArray(value) ? Object.keys(value) : [];
  return [...keys, ...Object.values(value).flatMap((item) => textsIn(item, withKeys))];
}

// -- filters

/** null: the whole payload. */
function fieldsOf(conditions: Policy['conditions']): string[] | null {
  const fields = conditions['fields'] as string[] | undefined;
  return fields === undefined || fields.includes('payload') ? null : fields;
}

type NeedleOrder = { pattern: string; number: number } | { detector: string };

/** Patterns in their order, then detectors in theirs. */
export function needlesOf(policies: readonly Pick<Policy, 'conditions'>[]): NeedleOrder[] {
  return policies.flatMap(({ conditions }) => [
    ...((conditions['patterns'] as string[] | undefined) ?? []).map((pattern, number) => ({ pattern, number })),
    ...((conditions['detectors'] as string[] | undefined) ?? []).map((detector) => ({ detector })),
  ]);
}

function holds(needle: NeedleOrder, text: string | number): boolean {
  if (typeof text === 'number') return 'detector' in needle && detectedNumber(needle.detector, text);
  return textsOf(text).some((form) =>
    'pattern' in needle ? occurs(needle.pattern, form) : detected(needle.detector, form).length > 0,
  );
}

/** Without `fields`, or with it among them. */
export function looksAtTrace(fields: readonly string[] | null | undefined): boolean {
  return fields === null || fields === undefined || fields.includes('payload') || fields.includes('trace_id');
}

type Place = { text: string | number; trail: Step[]; isKey: boolean };

/** All keys, strings and numbers, or those inside of what the fields lead to. */
function stringsOf(payload: JsonObject, fields: readonly string[] | null): Place[] {
  if (fields === null) return stringsIn(payload, []);
  return fields.flatMap((field) => {
    if (field === 'trace_id') return [];
    const segments = field.split('.');
    return stringsUnder(payload, segments[0] === 'payload' ? segments.slice(1) : segments, []);
  });
}

function stringsUnder(value: unknown, segments: readonly string[], trail: Step[]): Place[] {
  const [first, ...rest] = segments;
  if (first === undefined) return stringsIn(value, trail);
  if (typeof value !== 'object' || value === null) return [];
  if (!Array.isArray(value))
    return keysNamed(Object.keys(value), first).flatMap((key) =>
      stringsUnder((value as JsonObject)[key], rest, [...trail, key]),
    );
  return value.flatMap((item, i) => {
    if (isIndex(first)) return i === Number(first) ? stringsUnder(item, rest, [...trail, i]) : [];
    return stringsUnder(item, segments, [...trail, i]);
  });
}

function stringsIn(value: unknown, trail: Step[]): Place[] {
  if (typeof value === 'string' || typeof value === 'number') return [{ text: value, trail, isKey: false }];
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((item, i) => stringsIn(item, [...trail, i]));
  return Object.entries(value).flatMap(([key, item]) => [
    { text: key, trail, isKey: true },
    ...stringsIn(item, [...trail, key]),
  ]);
}

/** A key that may itself be what is searched for is not shown. */
function pointer(trail: readonly Step[], hidden: readonly NeedleOrder[]): string {
  const steps = trail.map((step) => {
    if (typeof step === 'number') return String(step);
    const isSecret = hidden.some((needle) =>
      textsOf(step).some((form) =>
        'pattern' in needle ? occurs(needle.pattern, form) : mayHold(needle.detector, form),
      ),
    );
    const shown = isSecret ? '[redacted]' : step.slice(0, 100).toWellFormed();
    return shown.replaceAll('~', '~0').replaceAll('/', '~1');
  });
  return steps
    .map((step) => `/${step}`)
    .join('')
    .slice(0, 500);
}

// -- limits

/** Counts the event; what is said of it if it is one too many. No time passes between the events of a test. */
function overLimit({ id, conditions, actions }: Policy, event: Sent, counters: Counters): Detail | null {
  const { threshold, window, per = 'agent' } = conditions as { threshold: number; window: string; per?: string };
  const byPath = per !== 'agent' && per !== 'account';
  const values = byPath
    ? valuesAt(per, event)
        .flatMap(flattened)
        .map(({ value }) => countedAs(value))
    : [];
  const [value] = values;
  const isOne = value !== undefined && value !== null && values.every((other) => other === value);
  const name = writtenJson([id, isOne, isOne ? value : null]);
  const before = counters.get(name) ?? 0;
  if (before < threshold || !actions.includes('block')) counters.set(name, before + 1);
  if (before < threshold) return null;
  const seconds = Number.parseInt(window, 10) * { s: 1, m: 60, h: 3600, d: 86_400 }[window.at(-1) as 's']!;
  const named = byPath && !/^(type|trace_id|agent_id|payload)(\.|$)/.test(per) ? `payload.${per}` : per;
  // All events come at one moment, and the first leaves the window when the window is over.
  const detail: Detail = { threshold, window_seconds: seconds, per: named, retry_after_seconds: seconds };
  if (!byPath) return detail;
  if (!isOne) return { ...detail, value: null };
  const text = value.slice(1);
  return { ...detail, value: text.length > 100 ? `${text.slice(0, 100)}…` : text };
}

/** The name of a value's counter, after a mark of the value's kind; null: it has none of its own. */
function countedAs(value: unknown): string | null {
  if (typeof value !== 'string')
    return typeof value === 'object' && value !== null && !(value instanceof Written) ? null : `n${writtenJson(value)}`;
  const text = foldedOf(value).text.trim();
  return `${numberIn(text) !== undefined && writtenJson(new Written(text)) === text ? 'n' : 't'}${text}`;
}
