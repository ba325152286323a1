// What a schema demands of an event before its payload is made into values (of demands.ts): that it may not be
// satisfied. Of schemas of objects with `required` and `properties`, down to values by `type`, `enum`, `const`, lengths
// and bounds: the form of most that people write for the arguments of tools.
// Invariant: a schema is called satisfied only where each of its keywords is known to be. One that has any other
// keyword is asked by the engine.

import { isObject } from '../../common/exact-number.ts';
import type { Sought } from '../sought.ts';
import { type Demand, OPEN, QUOTE, type TextView } from '../text-view.ts';

type Schema = Readonly<Record<string, unknown>>;

/** Say nothing of a value. */
const SILENT: ReadonlySet<string> = new Set([
  ...['title', 'description', '$comment', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$schema'],
]);

/** `bytesMax`: of a payload whose validation cannot go over its budget. */
export function demandsOfSchema(schema: unknown, bytesMax: number, sought: Sought): Demand[] {
  const isSatisfied = ofObject(schema, [], sought);
  return isSatisfied === null ? [] : [(event) => event.bytes > bytesMax || !isSatisfied(event)];
}

/** The demand of an object at these keys; null: it has a keyword that is not understood. */
function ofObject(schema: unknown, keys: readonly string[], sought: Sought): Demand | null {
  if (!isObject(schema)) return null;
  const parts: Demand[] = [];
  for (const [keyword, wanted] of Object.entries(schema)) {
    if (SILENT.has(keyword) || (keyword === 'type' && typesOf(wanted).includes('object'))) continue;
    if (keyword === 'required') {
      for (const key of wanted as string[]) {
        const place = sought.member([...keys, key]);
        if (place === null) return null;
        parts.push((event) => event.firstAt(place) !== 0);
      }
    } else if (keyword === 'properties') {
      for (const [key, property] of Object.entries(wanted as Schema)) {
        const part = ofProperty(property, [...keys, key], sought);
        if (part === null) return null;
        parts.push(part);
      }
    } else return null;
  }
  return (event) => parts.every((part) => part(event));
}

function ofProperty(schema: unknown, keys: readonly string[], sought: Sought): Demand | null {
  const place = sought.member(keys);
  if (place === null || !isObject(schema)) return null;
  const inner = 'properties' in schema || 'required' in schema ? ofObject(schema, keys, sought) : null;
  if (inner === null && ('properties' in schema || 'required' in schema)) return null;
  const isValue = inner === null ? ofValue(schema, place) : null;
  if (inner === null && isValue === null) return null;
  return (event) => {
    const first = event.firstAt(place);
    if (first === 0) return true;
    return inner === null ? isValue!(event) : first === OPEN && inner(event);
  };
}

/** The demand of a value that stands there. */
function ofValue(schema: Schema, place: number): Demand | null {
  const parts: ((value: unknown, event: TextView) => boolean)[] = [];
  for (const [keyword, wanted] of Object.entries(schema)) {
    if (SILENT.has(keyword)) continue;
    const part = ofKeyword(keyword, wanted, place);
    if (part === null) return null;
    parts.push(part);
  }
  return (event) => {
    const value = event.at(place);
    return parts.every((part) => part(value, event));
  };
}

function ofKeyword(
  keyword: string,
  wanted: unknown,
  place: number,
): ((value: unknown, event: TextView) => boolean) | null {
  switch (keyword) {
    case 'type':
      return (value, event) => isOfType(typesOf(wanted), typeAt(event, place), value);
    case 'enum':
      return (value) => isText(value) && (wanted as unknown[]).includes(value);
    case 'const':
      return (value) => isText(value) && value === wanted;
    case 'maxLength':
      // A character takes a byte at least, and the text two quotes.
      return (value, event) =>
        !isTextAt(event, place) ||
        event.lengthAt(place) - 2 <= (wanted as number) ||
        lengthOf(value) <= (wanted as number);
    case 'minLength':
      return (value, event) => !isTextAt(event, place) || lengthOf(value) >= (wanted as number);
    case 'minimum':
      return (value) => typeof value === 'number' && typeof wanted === 'number' && value >= wanted;
    case 'maximum':
      return (value) => typeof value === 'number' && typeof wanted === 'number' && value <= wanted;
    default:
      return null;
  }
}

function isText(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'boolean' || value === null;
}

function isTextAt(event: TextView, place: number): boolean {
  return event.firstAt(place) === QUOTE;
}

/** The length of a value. What is not known is NaN, which is neither more nor less than anything. */
function lengthOf(value: unknown): number {
  return typeof value === 'string' ? [...value].length : Number.NaN;
}

function typesOf(wanted: unknown): readonly unknown[] {
  return Array.isArray(wanted) ? wanted : [wanted];
}

function isOfType(types: readonly unknown[], type: string, value: unknown): boolean {
  return types.includes(type) || (types.includes('integer') && Number.isInteger(value));
}

/** By its first byte. */
function typeAt(event: TextView, place: number): string {
  switch (event.firstAt(place)) {
    case QUOTE:
      return 'string';
    case OPEN:
      return 'object';
    case 0x5b:
      return 'array';
    case 0x74:
    case 0x66:
      return 'boolean';
    case 0x6e:
      return 'null';
    default:
      return 'number';
  }
}
