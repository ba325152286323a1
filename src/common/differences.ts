// How two JSON values differ, place by place, for people: what a revision of a policy changed, and what a plan will.
// Members of objects are compared one by one; anything else, arrays too, is shown whole. Numbers count as written.
// Invariant: no differences exactly where both values have the same JSON, whatever the order of their keys.

import { entryOf } from './entry.ts';
import { exactJson } from './exact-json.ts';
import { isObject } from './exact-number.ts';
import { pointerKey } from './validation.ts';

/** `path`: JSON Pointer. `before` left out: nothing was there; `after` left out: nothing is there any more. */
export type Difference = { path: string; before?: unknown; after?: unknown };

export function differencesOf(before: unknown, after: unknown, path = ''): Difference[] {
  if (!isObject(before) || !isObject(after)) return isSame(before, after) ? [] : [difference(path, before, after)];
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) =>
    differencesOf(entryOf(before, key), entryOf(after, key), `${path}/${pointerKey(key)}`),
  );
}

function difference(path: string, before: unknown, after: unknown): Difference {
  return { path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
}

function isSame(before: unknown, after: unknown): boolean {
  if (!Array.isArray(before) || !Array.isArray(after)) return exactJson(before) === exactJson(after);
  return before.length === after.length && before.every((item, i) => differencesOf(item, after[i]).length === 0);
}
