// Rows in a box that scrolls (@tanstack/virtual-core), of one height or as high as what is in them: only those in view
// are in the page.
// The box can be reached and scrolled by keys, and says how many rows there are to those who cannot see it.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { scrolledIn } from '../core/router.ts';

type VirtualRowsProps = {
  count: number;
  rowPx: number;
  label: string;
  /** undefined: as high as there is room. Of rows that wrap: at most. */
  heightPx?: number;
  /** Rows are as high as what is in them, `rowPx` or more. */
  wraps?: boolean;
  /** Scrolled to when it changes. */
  showIndex?: number;
  /** Who comes back to it finds it scrolled as it was left. */
  remembers?: boolean;
  row: (index: number) => ComponentChildren;
  /** The last row is near. */
  onEnd?: () => void;
  /** Is the first row in view? Called when that changes. */
  onTop?: (atTop: boolean) => void;
};

const OVERSCAN = 8;

export function VirtualRows(props: VirtualRowsProps) {
  const { count, rowPx, label, heightPx, wraps = false, showIndex, remembers = false, row, onEnd, onTop } = props;
  const box = useRef<HTMLElement>(null);
  const [, again] = useState(0);
  const { px, keep } = scrolledIn(label);
  const rows = useMemo(
    () =>
      new Virtualizer<HTMLElement, HTMLElement>({
        count,
        getScrollElement: () => box.current,
        estimateSize: () => rowPx,
        overscan: OVERSCAN,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        initialOffset: remembers ? px : 0,
        initialRect: { width: 800, height: heightPx ?? 800 },
        useAnimationFrameWithResizeObserver: true,
        onChange: () => again((n) => n + 1),
      }),
    [],
  );
  rows.setOptions({ ...rows.options, count, estimateSize: () => rowPx });
  useLayoutEffect(() => {
    const stop = rows._didMount();
    rows._willUpdate();
    return stop;
  }, [rows]);
  useLayoutEffect(() => rows._willUpdate());
  useLayoutEffect(() => {
    if (!wraps) rows.measure();
  }, [count, rowPx]);
  useEffect(() => {
    if (showIndex !== undefined && showIndex < count) rows.scrollToIndex(showIndex, { align: 'auto' });
  }, [showIndex, count]);
  useLayoutEffect(() => {
    if (remembers) keep(box.current!.scrollTop);
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= count - OVERSCAN * 2) onEnd?.();
  }, [last, count]);
  const all = rows.getTotalSize();
  const atTop = (rows.scrollOffset ?? 0) < rowPx;
  useEffect(() => onTop?.(atTop), [atTop]);
  return (
    <section
      ref={box}
      class="rows"
      aria-label={label}
      tabIndex={0}
      style={heightPx === undefined ? {} : { height: `${(wraps ? Math.min(all, heightPx) : heightPx) + 2}px` }}
    >
      <ul style={{ height: `${all}px` }}>
        {shown.map(({ index, start }) => (
          <li
            key={index}
            data-index={index}
            ref={wraps ? rows.measureElement : null}
            aria-setsize={count}
            aria-posinset={index + 1}
            style={{ transform: `translateY(${start}px)`, ...(wraps ? {} : { height: `${rowPx}px` }) }}
          >
            {row(index)}
          </li>
        ))}
      </ul>
    </section>
  );
}
