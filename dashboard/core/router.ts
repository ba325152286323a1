// The address is the state: which screen is shown, and everything that it shows it by (filters, range, selection).
// Screens are one segment deep, `ui/events?outcome=blocked`, so every address of the service is `../` from all of them.
// Invariant: whatever a person can set on a screen and would miss after a reload is in the query.
import { signal } from '@preact/signals';

export type Place = { screen: string; params: URLSearchParams };

export const place = signal<Place>(read());

addEventListener('popstate', () => (place.value = read()));

function read(): Place {
  const screen = location.pathname.slice(location.pathname.lastIndexOf('/') + 1) || 'events';
  return { screen, params: new URLSearchParams(location.search) };
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
  if (replace) history.replaceState(null, '', href);
  else history.pushState(null, '', href);
  place.value = read();
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
  if (link === null || href === null || href === undefined || !href.startsWith('./') || link.hasAttribute('download'))
    return;
  event.preventDefault();
  go(href);
}
