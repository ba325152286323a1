// Paths of conditions: `type`, `trace_id`, `agent_id`, `payload.…`; a bare name is looked up in the payload. A key with
// dots is written `payload["gen_ai.tool.name"]`; a JSON Pointer into the payload (`/messages/0/content`, as
// `detail.path` has it) is a path, too. Only own properties are inspected, so `__proto__` and `constructor` are plain
// data. A numeric segment indexes an array; any other segment that meets an array continues into every element. A path
// goes on into a text that holds JSON (texts/text-forms.ts); one that leads into text that cannot be read says so.

import type { Budget } from '../budget.ts';
import { foldedText, isFoldable } from '../texts/folded.ts';
import { innerOf } from '../texts/text-forms.ts';
import type { Step } from './pointer.ts';

type PathRoot = 'type' | 'trace_id' | 'agent_id' | 'payload';
type Visit = (value: unknown) => boolean;
/** `folded`: of the segments, as keys that are written otherwise are compared. */
export type Path = { root: PathRoot; segments: string[]; folded: string[]; indexes: number[] };

const ROOTS: ReadonlySet<string> = new Set(['type', 'trace_id', 'agent_id', 'payload']);
/** Looking at one element of an array, about 60 ns. */
export const ITEM_UNITS = 20;
const SEGMENTS_MAX = 64; // no payload is nested deeper (JSON_DEPTH_MAX)

/** A sentence in place of a path says what is wrong with the text. */
export function parsePath(text: string): Path | string {
  const isPointer = text.startsWith('/');
  const segments = isPointer ? text.slice(1).split('/').map(unescaped) : segmentsOf(text);
  if (segments === null)
    return 'must have its keys in brackets as JSON strings, ["like.this"], parted by dots or nothing';
  if (segments.length > SEGMENTS_MAX) return `must have at most ${SEGMENTS_MAX} segments`;
  if (isPointer) return path('payload', segments);
  if (segments.some((segment) => segment === '')) return 'must be a path without empty segments';
  const first = segments[0]!;
  if (!ROOTS.has(first) || text.startsWith('[')) return path('payload', segments);
  if (first !== 'payload' && segments.length > 1)
    return `\`${first}\` is text; for the payload's own field write payload.${text}`;
  return path(first as PathRoot, segments.slice(1));
}

function path(root: PathRoot, segments: string[]): Path {
  return {
    root,
    segments,
    folded: segments.map(foldedText),
    indexes: segments.map((segment) => (/^(0|[1-9]\d{0,6})$/.test(segment) ? Number(segment) : -1)),
  };
}

/** null: a bracket is not closed, or what is inside it is no JSON string. */
function segmentsOf(text: string): string[] | null {
  if (!text.includes('["')) return text.split('.');
  const segments: string[] = [];
  for (let at = 0; at < text.length; ) {
    PART.lastIndex = at;
    const found = PART.exec(text);
    if (found === null) return null;
    const [whole, plain, quoted] = found;
    segments.push(quoted === undefined ? plain! : (JSON.parse(quoted) as string));
    at += whole.length;
    if (text[at] === '.' && at + 1 < text.length) at++;
    else if (at < text.length && text[at] !== '[') return null;
  }
  return segments;
}

/** A name, or a key in brackets. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON writes these as escapes
const PART = /([^.["\]]+)|\[("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")\]/y;

function unescaped(segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~');
}

/**
 * The mistake in a path that is written in another notation and would never match: a sentence that says how to write
 * it; null: none.
 */
export function pathMistake(text: string): string | null {
  if (text.startsWith('/'))
    return /~(?![01])/.test(text) ? 'is a JSON Pointer; write `~` in a key as ~0 and `/` as ~1' : null;
  const outside = text.replaceAll(/\["(?:[^"\\]|\\.)*"\]/g, '');
  if (outside.startsWith('$')) return `is JSONPath; write ${text.replace(/^\$\.?/, '') || 'payload'}`;
  if (/^event\./.test(outside)) return `must be written without \`event.\`: ${text.slice('event.'.length)}`;
  if (/^payload[.[]/i.test(text) && !text.startsWith('payload'))
    return `did you mean payload${text.slice('payload'.length)}?`;
  if (/^\s|\s$|\s\.|\.\s/.test(outside)) return 'has a blank at an end; a key that has one is written ["…"]';
  if (/\[\d+\]/.test(outside)) return `has an index in brackets; write ${text.replaceAll(/\[(\d+)\]/g, '.$1')}`;
  if (/\[\*\]|(?:^|\.)\*(?:\.|$)/.test(outside))
    return `must be written without \`*\`: a path goes on into every element of an array by itself (${text.replaceAll(/\[\*\]|(?<=^|\.)\*\.|\.\*$/g, '')})`;
  return /[[\]]/.test(outside) ? 'has a bracket; a key in brackets is written ["…"]' : null;
}

export function pathText(path: Path): string {
  return path.segments.reduce(
    (text, segment) => (/^[^.["\]\s]+$/.test(segment) ? `${text}.${segment}` : `${text}[${JSON.stringify(segment)}]`),
    path.root as string,
  );
}

/**
 * How a path is followed: what it costs; what is asked of each value, and of each text that the path leads into and
 * that cannot be read (`unreadable`); where the steps go that lead to the value (null: they are not asked for).
 */
type Following = { budget: Budget; visit: Visit; unreadable: () => boolean; trail: Step[] | null };

/**
 * The values at a path, each given to `visit`; stops when it answers true, or `unreadable` does. `trail` then holds the
 * steps that lead there: it is given where the caller asks for the path, and left out where only the answer counts.
 */
export function visitPath(
  value: unknown,
  path: Path,
  { budget, visit, unreadable, trail = null }: Omit<Following, 'trail'> & { trail?: Step[] | null },
): boolean {
  return follow(value, path, 0, { budget, visit, unreadable, trail }, 0);
}

/** `level`: texts that the value is inside of. */
function follow(value: unknown, path: Path, at: number, how: Following, level: number): boolean {
  if (at === path.segments.length) return how.visit(value);
  if (typeof value === 'string') {
    const inner = innerOf(value, level, how.budget);
    if (inner === undefined) return false;
    return inner.value === undefined ? how.unreadable() : follow(inner.value, path, at, how, level + 1);
  }
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return followItems(value, path, at, how, level);
  const segment = path.segments[at]!;
  const members = value as Record<string, unknown>;
  if (Object.hasOwn(value, segment) && followMember(members, segment, path, at, how, level)) return true;
  for (const key of otherKeys(value, path, at)) if (followMember(members, key, path, at, how, level)) return true;
  return false;
}

function followMember(
  members: Record<string, unknown>,
  key: string,
  path: Path,
  at: number,
  how: Following,
  level: number,
): boolean {
  how.trail?.push(key);
  if (follow(members[key], path, at + 1, how, level)) return true;
  how.trail?.pop();
  return false;
}

const NO_KEYS: readonly string[] = [];
const NONE: ReadonlyMap<string, string[]> = new Map();
/** Keeps for objects that were looked into what each of their keys that has a folded form is folded to. */
const foldedKeys = new WeakMap<object, ReadonlyMap<string, string[]>>();

/** The keys of an object that a segment of a path means beside the one that is written so: they are folded to it. */
export function otherKeys(value: object, { segments, folded }: Path, at: number): readonly string[] {
  let known = foldedKeys.get(value);
  if (known === undefined) {
    known = foldedKeysOf(value);
    foldedKeys.set(value, known);
  }
  return known.get(folded[at]!)?.filter((key) => key !== segments[at]) ?? NO_KEYS;
}

function foldedKeysOf(value: object): ReadonlyMap<string, string[]> {
  let keys: Map<string, string[]> | undefined;
  for (const key in value) {
    if (!isFoldable(key)) continue;
    const folded = foldedText(key);
    keys ??= new Map();
    const same = keys.get(folded);
    if (same === undefined) keys.set(folded, [key]);
    else same.push(key);
  }
  return keys ?? NONE;
}

function followItems(items: readonly unknown[], path: Path, at: number, how: Following, level: number): boolean {
  const index = path.indexes[at]!;
  if (index >= items.length) return false;
  if (index < 0) how.budget.spend(ITEM_UNITS * items.length);
  const [from, to] = index < 0 ? [0, items.length] : [index, index + 1];
  for (let i = from; i < to; i++) {
    if (index < 0 && typeof items[i] !== 'object' && typeof items[i] !== 'string') continue;
    how.trail?.push(i);
    if (follow(items[i], path, index < 0 ? at : at + 1, how, level)) return true;
    how.trail?.pop();
  }
  return false;
}
