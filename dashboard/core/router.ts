// The address is the state: which screen is shown, and everything that it shows it by (filters, range, selection).
// Screens are one segment deep, `ui/events?outcome=blocked`, so every address of the service is `../` from all of them.
// Invariant: whatever a person can set on a screen and would miss after a reload is in the query. A form with something
// in it is left only by a person who says so (unsaved.ts).
import { signal } from '@preact/signals';
import { mayLeave } from './unsaved.ts';

/** `asOf`: the moment that a relative range is counted back from; 0: it is fixed when it is asked for. */
type Place = { screen: string; params: URLSearchParams; asOf: number };
/** An entry of the history. `at`: its place among those of this tab. */
type Entry = { at: number; asOf?: number };

let at = (history.state as Entry | null)?.at ?? 0;
/** A reload asks again. */
history.replaceState({ at }, '');
let isReturning = false;

export const place = signal<Place>(placeOf(location, 0));

addEventListener('popstate', () => {
  const entry = history.state as Entry | null;
  if (entry === null) history.replaceState({ at: at + 1 }, ''); // a fragment of this page
  const to = entry?.at ?? at + 1;
  if (isReturning || entry === null || to === at || mayLeave()) {
    at = to;
    if (!isReturning) place.value = placeOf(location, entry?.asOf ?? 0);
    isReturning = false;
    return;
  }
  isReturning = true;
  history.go(at - to);
});

function placeOf({ pathname, search }: Pick<URL, 'pathname' | 'search'>, asOf: number): Place {
  const screen = pathname.slice(pathname.lastIndexOf('/') + 1) || 'overview';
  return { screen, params: new URLSearchParams(search), asOf };
}

/** As many lists are remembered, the oldest forgotten first. */
const SCROLLED_MAX = 200;
/** How far lists were scrolled, by the entry of the history and their label: what is gone back to stands as it was. */
const scrolled = new Map<string, number>();

/** Asks for the place that is shown now. `keep`: remembers another distance. */
export function scrolledIn(label: string): { px: number; keep: (px: number) => void } {
  const key = `${at} ${label}`;
  const keep = (px: number) => {
    scrolled.delete(key);
    scrolled.set(key, px);
    if (scrolled.size > SCROLLED_MAX) scrolled.delete(scrolled.keys().next().value!);
  };
  return { px: scrolled.get(key) ?? 0, keep };
}

/** An entry takes the place of another that one has gone back from. */
function forgetScrolled(): void {
  for (const key of scrolled.keys()) if (key.startsWith(`${at} `)) scrolled.delete(key);
}

/** The moment of this place, or `nowMs`, which is the moment from then on. */
export function momentOf(nowMs: number): number {
  const here = place.value;
  if (here.asOf === 0) {
    here.asOf = nowMs;
    history.replaceState({ at, asOf: nowMs }, '');
  }
  return here.asOf;
}

/** Relative ranges are counted back from `nowMs`. */
export function moveMoment(nowMs: number): void {
  history.replaceState({ at, asOf: nowMs }, '');
  place.value = { ...place.peek(), asOf: nowMs };
}

export function hrefOf(screen: string, params: Record<string, string | undefined> | URLSearchParams = {}): string {
  const query =
    params instanceof URLSearchParams
      ? params
      : new URLSearchParams(
          Object.entries(params).filter((entry): entry is [string, string] => (entry[1] ?? '') !== ''),
        );
  const text = query.toString();
  return `./${screen}${text === '' ? '' : `?${text}`}`;
}

/** `replace`: what was there before is not worth going back to. */
export function go(href: string, { replace = false } = {}): void {
  if (!mayLeave()) return;
  const before = place.peek();
  const next = placeOf(new URL(href, location.href), 0);
  // The range that was chosen goes on meaning the same.
  if (next.screen === before.screen && next.params.get('range') === before.params.get('range')) next.asOf = before.asOf;
  if (replace) history.replaceState({ at, asOf: next.asOf }, '', href);
  else {
    history.pushState({ at: ++at, asOf: next.asOf }, '', href);
    forgetScrolled();
  }
  place.value = next;
}

/** Sets parameters of this screen; undefined takes one away, a list repeats it. */
export function setParams(
  values: Record<string, string | readonly string[] | undefined>,
  options: { replace?: boolean } = {},
): void {
  const params = new URLSearchParams(place.value.params);
  for (const [name, value] of Object.entries(values)) {
    params.delete(name);
    for (const one of value === undefined || value === '' ? [] : [value].flat()) params.append(name, one);
  }
  go(hrefOf(place.value.screen, params), options);
}

/** A click on a link of ours stays on the page; with a key held down it is the browser's. */
export function onLinkClick(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element).closest('a');
  const href = link?.getAttribute('href');
  if (link === null || href === null || href === undefined || !href.startsWith('./')) return;
  if (link.hasAttribute('download') || link.target !== '') return;
  event.preventDefault();
  go(href);
}
