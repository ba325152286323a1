// What is open beside a list; above it where there is no room beside it, and then the page goes there when it is opened.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** One column that scrolls as a whole: phones, and any screen at a large zoom. style.css asks the same. */
const query = matchMedia('(max-width: 900px), (max-height: 480px)');
export const narrow = signal(query.matches);
query.addEventListener('change', () => (narrow.value = query.matches));

/** Rows of a list in one column: what stands side by side elsewhere takes up to four lines. */
export const NARROW_ROW_PX = 92;

type SideProps = { label: string; of: string; onClose: () => void; children: ComponentChildren };

/** `of`: what is open. */
export function Side({ label, of, onClose, children }: SideProps) {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (narrow.peek()) box.current?.scrollIntoView();
  }, [of]);
  return (
    <aside ref={box} class="side first" aria-label={label}>
      <div class="bar end">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {children}
    </aside>
  );
}
