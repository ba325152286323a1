// Paths of conditions: `type`, `trace_id`, `agent_id`, `payload.…`; a bare name is looked up in the payload.
// Only own properties are looked at, so `__proto__` and `constructor` are plain data. A numeric segment indexes an array;
// any other segment that meets an array goes on into every element. A key that holds a dot cannot be named.

import type { Budget } from '../budget.ts';
import type { Step } from './pointer.ts';

type PathRoot = 'type' | 'trace_id' | 'agent_id' | 'payload';
type Visit = (value: unknown) => boolean;
export type Path = { root: PathRoot; segments: string[]; indexes: number[] };

const ROOTS: ReadonlySet<string> = new Set(['type', 'trace_id', 'agent_id', 'payload']);
/** Looking at one element of an array, about 60 ns. */
export const ITEM_UNITS = 20;
const SEGMENTS_MAX = 64; // no payload is nested deeper (JSON_DEPTH_MAX)

/** A sentence in place of a path says what is wrong with the text. */
export function parsePath(text: string): Path | string {
  const segments = text.split('.');
  if (segments.some((segment) => segment === '')) return 'must be a path without empty segments';
  if (segments.length > SEGMENTS_MAX) return `must have at most ${SEGMENTS_MAX} segments`;
  const first = segments[0]!;
  if (!ROOTS.has(first)) return path('payload', segments);
  if (first !== 'payload' && segments.length > 1)
    return `\`${first}\` is text; for the payload's own field write payload.${text}`;
  return path(first as PathRoot, segments.slice(1));
}

function path(root: PathRoot, segments: string[]): Path {
  return {
    root,
    segments,
    indexes: segments.map((segment) => (/^(0|[1-9]\d{0,6})$/.test(segment) ? Number(segment) : -1)),
  };
}

export function pathText(path: Path): string {
  return [path.root, ...path.segments].join('.');
}

/**
 * The values at a path, each given to `visit`; stops when it answers true. `trail` then holds the steps that lead there: it is
 * given where somebody asks for the place, and left out where only the answer counts.
 */
export function visitPath(
  value: unknown,
  path: Path,
  at: number,
  budget: Budget,
  visit: Visit,
  trail: Step[] | null = null,
): boolean {
  if (at === path.segments.length) return visit(value);
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) {
    const index = path.indexes[at]!;
    if (index >= 0) {
      if (index >= value.length) return false;
      trail?.push(index);
      if (visitPath(value[index], path, at + 1, budget, visit, trail)) return true;
      trail?.pop();
      return false;
    }
    budget.spend(ITEM_UNITS * value.length);
    for (let i = 0; i < value.length; i++) {
      if (typeof value[i] !== 'object') continue;
      trail?.push(i);
      if (visitPath(value[i], path, at, budget, visit, trail)) return true;
      trail?.pop();
    }
    return false;
  }
  const segment = path.segments[at]!;
  if (!Object.hasOwn(value, segment)) return false;
  trail?.push(segment);
  if (visitPath((value as Record<string, unknown>)[segment], path, at + 1, budget, visit, trail)) return true;
  trail?.pop();
  return false;
}
