// The address of the list of events, by what a page's address filters by: asked for by the first script of a page that
// opens there, and by the screen itself.
import { query } from './api.ts';
import { place } from './router.ts';
import { rangeOf } from './time.ts';

export const FACETS = ['outcome', 'type', 'agent_id', 'model', 'policy_id'] as const;
/** Filters without counts; they are in addresses that other screens link to. */
export const MORE = ['trace_id', 'severity', 'detector', 'reason'] as const;

export function filtersOf(params: URLSearchParams): Record<string, string | string[] | undefined> {
  const names = [...FACETS, ...MORE];
  return { ...Object.fromEntries(names.map((name) => [name, params.getAll(name)])), q: params.get('q') ?? undefined };
}

export function eventList(params: URLSearchParams): string {
  return `v1/events${query({ ...filtersOf(params), ...rangeOf(params), payload: 'none' })}`;
}

/** undefined: it cannot be said yet, for a relative range needs the service's time, which its first answer tells. */
export function eventListAtOnce(): string | undefined {
  const { params } = place.peek();
  return params.has('range') ? undefined : eventList(params);
}
