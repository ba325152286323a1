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

/** `+12 %` of what it was before; nothing can be said where there was nothing. */
export function changeText(now: number, before: number): string {
  if (before === 0 || now === before) return '';
  const share = Math.round(((now - before) / before) * 100);
  if (share === 0) return '';
  return `${share > 0 ? '+' : '−'}${Math.abs(share).toLocaleString('en')} %`;
}

/** `12 %`, `0.4 %`. `0 %` of none alone, `100 %` of all alone. */
export function shareText(part: number, whole: number): string {
  if (part === 0) return '0 %';
  const percent = (part / whole) * 100;
  if (percent < 0.1) return '< 0.1 %';
  const shown = percent < 10 ? Math.round(percent * 10) / 10 : Math.round(percent);
  return `${part < whole ? Math.min(99, shown) : 100} %`;
}

/** `12,345` or, where that is long, `1.2 M`. */
export function shortNumber(n: number): string {
  return n < 1_000_000
    ? n.toLocaleString('en')
    : Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
        .format(n)
        .replace(/([A-Z])$/, ' $1');
}
