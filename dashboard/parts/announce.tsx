// One line for what has just happened, seen below and announced to screen readers.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { Literal } from './literal.tsx';

const said = signal<ComponentChildren>('');
let timer: ReturnType<typeof setTimeout> | undefined;

/** Names in it are drawn by `Literal`. */
export function announce(text: ComponentChildren): void {
  said.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (said.value = ''), 6_000);
}

export function Announcements() {
  return (
    <div class="toast" role="status" aria-live="polite" data-empty={said.value === ''}>
      {typeof said.value === 'string' ? <Literal text={said.value} /> : said.value}
    </div>
  );
}
