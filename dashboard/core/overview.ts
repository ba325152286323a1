// The overview of today: where it is read, and what its counts lead to.
import { query } from './api.ts';
import { hrefOf } from './router.ts';
import { zone, zoneName } from './time.ts';
import type { Overview } from './types.ts';

/** By the clock that times are shown in. */
export function overviewPath(agentId?: string): string {
  return `v1/overview${query({ zone: zone.value === 'utc' ? undefined : zoneName(), agent_id: agentId })}`;
}

/** The events behind a count: those of the very window that was counted. */
export function eventsOf(
  { window: { from, to } }: Pick<Overview, 'window'>,
  filter: Record<string, string | undefined> = {},
): string {
  return hrefOf('events', { ...filter, from, to });
}
