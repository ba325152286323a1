// How two JSON texts differ, place by place, for people: two revisions of a policy, or a policy and its copy. Members of
// objects are compared one by one; anything else, arrays too, is shown whole, number by number as it is written
// (src/common/differences.ts does the same to what it keeps).
// Invariant: no differences between equal texts, whatever the order of the keys of their objects.
import type { RawJson } from './json.ts';
import { KIND, keyText, type Layout, layOut, lineOf, membersOf, valueAt } from './tokens.ts';

/** `path`: JSON Pointer. `before` left out: nothing was there; `after` left out: nothing is there any more. */
export type Difference = { path: string; before?: RawJson; after?: RawJson };

export function differencesOf(before: string, after: string): Difference[] {
  return between({ of: layOut(before), line: 0 }, { of: layOut(after), line: 0 }, '');
}

type Place = { of: Layout; line: number };

function between(before: Place | undefined, after: Place | undefined, path: string): Difference[] {
  const [old, now] = [before, after].map((place) => place && membersIn(place));
  if (old === undefined || now === undefined) {
    const [was, is] = [before, after].map((place) => place && { text: valueAt(place.of, place.line) });
    if (was?.text === is?.text || (before !== undefined && after !== undefined && isSameList(before, after))) return [];
    return [{ path, ...(was === undefined ? {} : { before: was }), ...(is === undefined ? {} : { after: is }) }];
  }
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((key) =>
    between(old.get(key), now.get(key), `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}

/** Item by item, since the keys of objects in it may be in another order. */
function isSameList(before: Place, after: Place): boolean {
  if ([before, after].some(({ of, line }) => of.text[lineOf(of, line).from] !== '[')) return false;
  const [old, now] = [membersOf(before.of, before.line), membersOf(after.of, after.line)];
  const places = old.map(
    (line, i) =>
      [
        { of: before.of, line },
        { of: after.of, line: now[i]! },
      ] as const,
  );
  return old.length === now.length && places.every(([was, is]) => between(was, is, '').length === 0);
}

/** undefined: it is no object. */
function membersIn({ of, line }: Place): Map<string, Place> | undefined {
  if (of.text[lineOf(of, line).from] !== '{') return undefined;
  if (lineOf(of, line).kind === KIND.empty) return new Map();
  return new Map(membersOf(of, line).map((member) => [keyText(of, member), { of, line: member }]));
}
