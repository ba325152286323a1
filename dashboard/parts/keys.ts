// Keys that act on a screen. Nothing happens while somebody writes into a field, or a dialog is open.
import { useEffect, useRef } from 'preact/hooks';

export type KeyTable = Record<string, { does: string; run: () => void }>;

/** Every screen's keys that are in force, for the list of keys (`?`). */
export const inForce = new Set<KeyTable>();

export function useKeys(keys: KeyTable): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const table: KeyTable = new Proxy(
      {},
      {
        get: (_t, key) => latest.current[key as string],
        ownKeys: () => Object.keys(latest.current),
        getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
      },
    );
    inForce.add(table);
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isWriting(event.target)) return;
      const key = latest.current[event.key];
      if (key === undefined) return;
      event.preventDefault();
      key.run();
    };
    addEventListener('keydown', onKey);
    return () => {
      inForce.delete(table);
      removeEventListener('keydown', onKey);
    };
  }, []);
}

function isWriting(target: EventTarget | null): boolean {
  if (document.querySelector('dialog[open]') !== null) return true;
  return target instanceof Element && target.closest('input, textarea, select, [contenteditable]') !== null;
}
