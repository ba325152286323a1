// Lists and objects in attributes, for the dialects. Pure.
import { type Attributes, type AttributeValue, isObject } from '../span.ts';

export type JsonValues = { [key: string]: AttributeValue };

/** The value under a name of an object, or undefined. */
export function member(value: AttributeValue | undefined, name: string): AttributeValue | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

export function textMember(value: AttributeValue | undefined, ...names: readonly string[]): string | undefined {
  for (const name of names) {
    const text = member(value, name);
    if (typeof text === 'string' && text !== '') return text;
  }
  return undefined;
}

/** Nothing is said by it. */
export function isEmpty(value: AttributeValue | undefined): boolean {
  if (typeof value !== 'object') return value === undefined || value === '';
  if (Array.isArray(value)) return value.length === 0;
  if (!isObject(value)) return value === null;
  for (const _name in value) return false;
  return true;
}

/** Members but those, and but those that say nothing. */
export function othersOf(value: JsonValues, known: (name: string) => boolean): JsonValues {
  const others: JsonValues = {};
  for (const name of Object.keys(value)) {
    const of = value[name]!;
    if (known(name) || isEmpty(of)) continue;
    if (name !== '__proto__') others[name] = of;
    else Object.defineProperty(others, name, { value: of, writable: true, enumerable: true, configurable: true });
  }
  return others;
}

/**
 * Attributes that stand for a list, as `<prefix>0.role`, `<prefix>0.tool_calls.1.name`. Places that are skipped are
 * left out.
 */
export function listUnder(attributes: Attributes, prefix: string): AttributeValue[] | undefined {
  const root: Tree = new Map();
  for (const [name, value] of attributes) {
    if (!name.startsWith(prefix)) continue;
    const steps = name.slice(prefix.length).split('.');
    if (steps.length <= STEPS_MAX) put(root, steps, value);
  }
  if (root.size === 0) return undefined;
  const list = jsonOfTree(root);
  return Array.isArray(list) ? list : undefined;
}

type Tree = Map<string, Tree | AttributeValue>;
/** `messages.0.message.tool_calls.0.tool_call.function.name` has 6. */
const STEPS_MAX = 12;

function put(tree: Tree, [step, ...rest]: readonly string[], value: AttributeValue): void {
  if (rest.length === 0) {
    if (!(tree.get(step!) instanceof Map)) tree.set(step!, value);
    return;
  }
  const known = tree.get(step!);
  const inner: Tree = known instanceof Map ? known : new Map();
  tree.set(step!, inner);
  put(inner, rest, value);
}

function jsonOfTree(tree: Tree | AttributeValue): AttributeValue {
  if (!(tree instanceof Map)) return tree;
  const steps = [...tree.keys()];
  if (steps.every((step) => /^\d{1,4}$/.test(step)))
    return steps.sort((a, b) => Number(a) - Number(b)).map((step) => jsonOfTree(tree.get(step)!));
  return Object.fromEntries(steps.map((step) => [step, jsonOfTree(tree.get(step)!)]));
}
