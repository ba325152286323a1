// Times as they are shown: in local time or UTC, always labelled, and ranges, relative (`24h`) or fixed.
// Invariant: two times that differ are not shown alike, and a range that is changed in one part keeps the others.
import { signal } from '@preact/signals';
import { nowMs } from './clock.ts';
import { momentOf } from './router.ts';

const KEPT = 'gatehouse-zone';
type Zone = 'local' | 'utc';

export const zone = signal<Zone>(localStorage.getItem(KEPT) === 'utc' ? 'utc' : 'local');

export function switchZone(): void {
  zone.value = zone.value === 'utc' ? 'local' : 'utc';
  localStorage.setItem(KEPT, zone.value);
}

/** `UTC`, or the name of the browser's zone. */
export function zoneName(): string {
  return zone.value === 'utc' ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

const two = (n: number, width = 2) => String(n).padStart(width, '0');

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** The milliseconds that are added to UTC at that time. */
function offsetMs(at: number): number {
  return zone.value === 'utc' ? 0 : -new Date(at).getTimezoneOffset() * MINUTE_MS;
}

/** `2026-11-25 18:04:05.123`, as a clock on the wall shows it; of what is no time nothing. */
function wallText(at: number): string {
  if (Number.isNaN(at)) return '';
  return new Date(at + offsetMs(at)).toISOString().replace('T', ' ').slice(0, -1);
}

/** Both times at which a clock shows the same, where it was set back; else the one. `wallMs`: what it shows, as UTC. */
function instantsOf(wallMs: number): number[] {
  const offsets = new Set([wallMs - DAY_MS, wallMs + DAY_MS].map(offsetMs));
  return [...offsets].map((offset) => wallMs - offset).filter((at) => at + offsetMs(at) === wallMs);
}

/** `-04:00` */
function offsetText(at: number): string {
  const minutes = offsetMs(at) / MINUTE_MS;
  const whole = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${two(Math.floor(whole / 60))}:${two(whole % 60)}`;
}

/** `2026-11-25 18:04:05.123` in the zone that is switched to; in an hour that comes twice, with the offset. */
export function timeText(iso: string | number, { millis = true } = {}): string {
  const at = new Date(iso).getTime();
  const text = millis ? wallText(at) : wallText(at).slice(0, -4);
  return instantsOf(at + offsetMs(at)).length > 1 ? `${text} ${offsetText(at)}` : text;
}

/** The day after today, by that clock: `2026-11-26`. */
export function tomorrow(): string {
  return new Date(Date.parse(`${wallText(nowMs()).slice(0, 10)}T00:00Z`) + DAY_MS).toISOString().slice(0, 10);
}

/** `today 18:04`, `tomorrow 00:00`, or the date; seconds where there are some. */
export function dayText(iso: string): string {
  const [date = '', clock = '', ...offset] = timeText(iso, { millis: false }).split(' ');
  const names: Record<string, string> = { [wallText(nowMs()).slice(0, 10)]: 'today', [tomorrow()]: 'tomorrow' };
  return [names[date] ?? date, clock.replace(/:00$/, ''), ...offset].join(' ');
}

/** In full, with the zone and its offset at that time. */
export function exactText(iso: string): string {
  const at = Date.parse(iso);
  return zone.value === 'utc' ? `${wallText(at)} UTC` : `${wallText(at)} ${offsetText(at)} (${zoneName()})`;
}

/** Units, each with the next smaller one, to which it is rounded. */
const UNITS = [
  ['d', DAY_MS, 'h', HOUR_MS],
  ['h', HOUR_MS, 'min', MINUTE_MS],
  ['min', MINUTE_MS, 's', 1_000],
] as const;

/** `2 h 5 min`, `1 min 59 s`, `2.0 s`, `340 ms`: rounded to the last that is shown. */
export function spanText(ms: number): string {
  const span = Math.abs(ms);
  for (const [name, length, smaller, part] of UNITS) {
    const parts = Math.round(span / part);
    const perUnit = length / part;
    if (parts < perUnit) continue;
    const rest = parts % perUnit;
    return `${Math.floor(parts / perUnit)} ${name}${rest === 0 ? '' : ` ${rest} ${smaller}`}`;
  }
  return Math.round(span) < 1_000 ? `${Math.round(span)} ms` : `${(span / 1_000).toFixed(1)} s`;
}

export function agoText(iso: string): string {
  const ms = nowMs() - Date.parse(iso);
  if (Math.abs(ms) < 1_000) return 'just now';
  const unit = Math.abs(ms) < MINUTE_MS ? 1_000 : MINUTE_MS; // what is smaller passes while it is read
  const text = spanText(Math.round(ms / unit) * unit).replace('.0 s', ' s');
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

/** `12:05` until then; `0:00` when it is over. */
export function countdownText(iso: string, atMs: number): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(iso) - atMs) / 1000));
  const hours = Math.floor(seconds / 3600);
  const rest = `${two(Math.floor((seconds % 3600) / 60))}:${two(seconds % 60)}`;
  return hours > 0 ? `${hours}:${rest}` : rest;
}

export const RANGES: Record<string, number> = {
  '15m': 900_000,
  '1h': 3_600_000,
  '24h': 86_400_000,
  '7d': 604_800_000,
  '30d': 2_592_000_000,
};

/**
 * `range` (relative) or `from` and `to`. A relative one is counted back from the moment at which it was chosen, and
 * moves on by `refresh` alone: what a person reads does not move under them.
 */
export function rangeOf(params: URLSearchParams): { from?: string; to?: string } {
  const range = RANGES[params.get('range') ?? ''];
  if (range !== undefined) return { from: new Date(momentOf(nowMs()) - range).toISOString() };
  const from = params.get('from');
  const to = params.get('to');
  return { ...(from === null ? {} : { from }), ...(to === null ? {} : { to }) };
}

/** For `<input type="datetime-local">`, in the zone that is switched to. */
export function inputOf(iso: string): string {
  return wallText(Date.parse(iso)).slice(0, -4).replace(' ', 'T');
}

/**
 * Reads the time that stands in the input. `before`: what stood there. Where two times look alike on the clock it takes
 * the one with the same offset, and what is smaller than a second stays where the second does.
 */
export function ofInput(text: string, before?: string): string | undefined {
  const wallMs = Date.parse(`${text}Z`);
  if (text === '' || Number.isNaN(wallMs)) return undefined;
  const was = before === undefined ? undefined : Date.parse(before);
  const instants = instantsOf(wallMs);
  const same = was === undefined ? undefined : instants.find((at) => offsetMs(at) === offsetMs(was));
  // A time that the clock leaves out is taken as it would be without that.
  const at = same ?? instants[0] ?? wallMs - offsetMs(wallMs - DAY_MS);
  const iso = new Date(at).toISOString();
  if (before === undefined || new Date(was!).getUTCSeconds() !== new Date(at).getUTCSeconds()) return iso;
  return `${iso.slice(0, 19)}${/\.\d+/.exec(before)?.[0] ?? '.000'}Z`;
}
