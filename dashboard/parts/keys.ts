// Keys that act on a screen. Nothing happens while a person writes into a field, or a dialog is open.
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';

export type KeyTable = Record<string, { does: string; run: () => void }>;

/** Every screen's keys that are in force, for the list of keys (`?`). */
export const inForce = signal<readonly KeyTable[]>([]);

export function useKeys(keys: KeyTable): void {
  const latest = useRef(keys);
  latest.current = keys;
  // with the first picture of the screen, not after it: a person who sees it may press a key
  useLayoutEffect(() => {
    const table: KeyTable = new Proxy(
      {},
      {
        get: (_t, key) => latest.current[key as string],
        ownKeys: () => Object.keys(latest.current),
        getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
      },
    );
    inForce.value = [...inForce.peek(), table];
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isWriting(event.target)) return;
      const key = latest.current[event.key];
      if (key === undefined || (event.key === 'Enter' && isControl(event.target))) return;
      event.preventDefault();
      key.run();
    };
    addEventListener('keydown', onKey);
    return () => {
      inForce.value = inForce.peek().filter((other) => other !== table);
      removeEventListener('keydown', onKey);
    };
  }, []);
}

/** Enter is its own there. */
function isControl(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest('a, button, summary') !== null;
}

function isWriting(target: EventTarget | null): boolean {
  if (document.querySelector('dialog[open]') !== null) return true;
  const field = target instanceof Element ? target.closest('input, textarea, select, [contenteditable]') : null;
  // a dialog that was just closed keeps the focus until the next picture
  return field !== null && field.closest('dialog:not([open])') === null;
}
