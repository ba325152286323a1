// One line for what has just happened, seen below and announced to screen readers.
import { signal } from '@preact/signals';

const said = signal('');
let timer: ReturnType<typeof setTimeout> | undefined;

export function announce(text: string): void {
  said.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => (said.value = ''), 6_000);
}

export function Announcements() {
  return (
    <div class="toast" role="status" aria-live="polite" data-empty={said.value === ''}>
      {said.value}
    </div>
  );
}
