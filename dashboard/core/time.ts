// Times as they are shown: in local time or UTC, always labelled, and ranges, relative (`24h`) or fixed.
import { signal } from '@preact/signals';

const KEPT = 'gatehouse-zone';
export type Zone = 'local' | 'utc';

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

/** `2026-11-25 18:04:05.123` in the zone that is switched to. */
export function timeText(iso: string | number, { millis = true } = {}): string {
  const date = new Date(iso);
  const shifted = zone.value === 'utc' ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  const text = shifted.toISOString().replace('T', ' ').slice(0, -1);
  return millis ? text : text.slice(0, -4);
}

const UNITS: [string, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
];

/** Of a chart's axis: the time of day, and the day where one begins or where a day is all that counts. */
export function axisText(seconds: number, stepSeconds: number): string {
  const [day, clock] = timeText(seconds * 1000, { millis: false }).split(' ') as [string, string];
  if (stepSeconds >= 86_400 || clock === '00:00:00') return day.slice(5);
  return stepSeconds < 60 ? clock : clock.slice(0, 5);
}

/** `3 min`, the largest unit of which there is one; below a second in ms. */
export function spanText(ms: number): string {
  for (const [name, length] of UNITS) if (Math.abs(ms) >= length) return `${Math.floor(Math.abs(ms) / length)} ${name}`;
  return `${Math.round(Math.abs(ms))} ms`;
}

export function agoText(iso: string, nowMs = Date.now()): string {
  const ms = nowMs - Date.parse(iso);
  return ms < 1_000 ? 'just now' : `${spanText(ms)} ago`;
}

/** `12:05` until then; `0:00` when it is over. */
export function countdownText(iso: string, nowMs: number): string {
  const seconds = Math.max(0, Math.ceil((Date.parse(iso) - nowMs) / 1000));
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

/** `range` (relative) or `from` and `to`; relative ones are cut to 10 s so that the same question is asked once. */
export function rangeOf(params: URLSearchParams, nowMs = Date.now()): { from?: string; to?: string } {
  const range = RANGES[params.get('range') ?? ''];
  if (range !== undefined) return { from: new Date(Math.floor((nowMs - range) / 10_000) * 10_000).toISOString() };
  const from = params.get('from');
  const to = params.get('to');
  return { ...(from === null ? {} : { from }), ...(to === null ? {} : { to }) };
}

/** For `<input type="datetime-local">`, in the zone that is switched to. */
export function inputOf(iso: string): string {
  return timeText(iso, { millis: false }).replace(' ', 'T');
}

export function ofInput(text: string): string | undefined {
  if (text === '') return undefined;
  const date = new Date(zone.value === 'utc' ? `${text}Z` : text);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
