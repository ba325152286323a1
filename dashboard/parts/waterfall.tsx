// A trace as the tree of its spans, each with a bar by its beginning and its length. What came of no span stands among
// the roots in the order of time, as a point: it has no length, and none is drawn.
// Arrows go through it as in a tree: up and down, right unfolds, left folds or goes to the parent; Enter opens.
import { useMemo, useState } from 'preact/hooks';
import type { List } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { type SpanPlace, type SpanRow, spanRowsOf } from '../core/span-tree.ts';
import { useSpans } from '../core/spans-of-trace.ts';
import { spanText } from '../core/time.ts';
import type { EventRow } from '../core/types.ts';
import { Outcome } from './buttons.tsx';
import { type KeyTable, useKeys } from './keys.ts';
import { Cut } from './literal.tsx';
import { narrow } from './side.tsx';
import { Problem } from './states.tsx';
import { VirtualRows } from './virtual-rows.tsx';

const ROW_PX = 34;
const NARROW_PX = 56;
/** Deeper ones stand no further in. */
const INDENT_LEVELS_MAX = 12;
const INDENT_PX = 14;

type WaterfallProps = { trace: string; list: List<EventRow>; openId: string | null };

export function Waterfall({ trace, list, openId }: WaterfallProps) {
  const { places, isWhole, error, retry } = useSpans(trace, list);
  const events = useMemo(() => list.items.filter(({ id }) => places.has(id)), [places, list.items.length]);
  const rows = useMemo(() => rowsOf(events, places), [events]);
  const [folded, setFolded] = useState<ReadonlySet<SpanRow>>(new Set());
  const shown = useMemo(() => rows.filter(({ within }) => !within.some((one) => folded.has(one))), [rows, folded]);
  const opened = shown.findIndex((row) => row.events.some((one) => events[one]!.id === openId));
  const [at, setAt] = useState(0);
  const current = Math.min(at, Math.max(0, shown.length - 1));
  const span = useMemo(() => rangeOf(rows), [rows]);
  const go = (to: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, to));
    setAt(next);
    document.querySelector<HTMLElement>(`.waterfall [data-row="${next}"]`)?.focus({ preventScroll: true });
    if (opened >= 0) show(events, shown[next]);
  };
  const fold = (row: SpanRow, isFolded: boolean) => {
    const next = new Set(folded);
    if (isFolded) next.add(row);
    else next.delete(row);
    setFolded(next);
  };
  /** Not while something is open beside it, which is scrolled by them. */
  const arrows: KeyTable = {
    ArrowDown: { does: 'Next row', run: () => go(current + 1) },
    ArrowUp: { does: 'Previous row', run: () => go(current - 1) },
    ArrowRight: { does: 'Unfold', run: () => shown[current] !== undefined && fold(shown[current], false) },
    ArrowLeft: {
      does: 'Fold, or go to what it stands in',
      run: () => {
        const row = shown[current];
        if (row === undefined) return;
        if (row.isParent && !folded.has(row)) fold(row, true);
        else if (row.level > 0) go(shown.indexOf(row.within.at(-1)!));
      },
    },
  };
  useKeys({
    j: { does: 'Next row', run: () => go(current + 1) },
    k: { does: 'Previous row', run: () => go(current - 1) },
    ...(openId === null ? arrows : {}),
    Enter: { does: 'Open the event', run: () => show(events, shown[current]) },
    o: { does: 'Open the event', run: () => show(events, shown[current]) },
  });
  return (
    <>
      {error !== undefined && <Problem error={error} retry={retry} />}
      <p class="quiet" role="status">
        {saying(rows, places.size, list.items.length, isWhole)}
      </p>
      <div class="waterfall">
        <VirtualRows
          label="Tree of the trace"
          count={shown.length}
          rowPx={narrow.value ? NARROW_PX : ROW_PX}
          showIndex={opened >= 0 ? opened : current}
          row={(index) => (
            <Row
              row={shown[index]!}
              index={index}
              events={events}
              span={span}
              isOpen={index === opened}
              isCurrent={index === current}
              isFolded={folded.has(shown[index]!)}
            />
          )}
        />
      </div>
    </>
  );
}

function rowsOf(events: readonly EventRow[], places: ReadonlyMap<string, SpanPlace>): SpanRow[] {
  return spanRowsOf(
    events.map(({ id, timestamp, type }) => ({ atMs: Date.parse(timestamp), type, place: places.get(id)! })),
  );
}

function show(events: readonly EventRow[], row: SpanRow | undefined): void {
  const event = row === undefined ? undefined : events[row.events[0]!];
  if (event === undefined) return;
  setParams({ event: event.id, of: event.agent_id }, { replace: place.peek().params.has('event') });
}

function saying(rows: readonly SpanRow[], read: number, all: number, isWhole: boolean): string {
  if (read === 0) return 'Reading the spans …';
  const spans = rows.filter(({ within, isParent }) => within.length > 0 || isParent).length;
  const of = isWhole ? '' : `, of the first ${read.toLocaleString('en')} of ${all.toLocaleString('en')} events`;
  return spans === 0
    ? `No event names a parent${of}: they stand in the order of time.`
    : `${rows.length.toLocaleString('en')} rows, ${spans.toLocaleString('en')} of them in a tree${of}.`;
}

type Range = { fromMs: number; lengthMs: number };

function rangeOf(rows: readonly SpanRow[]): Range {
  let fromMs = Number.POSITIVE_INFINITY;
  let toMs = 0;
  for (const { startMs, endMs } of rows) {
    fromMs = Math.min(fromMs, startMs);
    toMs = Math.max(toMs, endMs);
  }
  return { fromMs, lengthMs: Math.max(1, toMs - fromMs) };
}

type RowProps = {
  row: SpanRow;
  index: number;
  events: readonly EventRow[];
  span: Range;
  isOpen: boolean;
  isCurrent: boolean;
  isFolded: boolean;
};

function Row({ row, index, events: all, span, isOpen, isCurrent, isFolded }: RowProps) {
  const events = row.events.map((one) => all[one]!);
  const [event] = events;
  const next = new URLSearchParams(place.value.params);
  next.set('event', event!.id);
  next.set('of', event!.agent_id);
  const stopped = events.find(({ policy_result: { outcome } }) => outcome !== 'allowed');
  const lengthMs = row.endMs - row.startMs;
  const left = (100 * (row.startMs - span.fromMs)) / span.lengthMs;
  return (
    <a
      class={`span-line ${isOpen ? 'open' : ''} ${isCurrent ? 'current' : ''}`}
      href={hrefOf('trace', next)}
      aria-current={isOpen ? 'true' : undefined}
      data-row={index}
    >
      <span class="span-name" style={{ paddingLeft: `${Math.min(row.level, INDENT_LEVELS_MAX) * INDENT_PX}px` }}>
        <span class="span-fold" aria-hidden="true">
          {row.isParent ? (isFolded ? '+' : '−') : ''}
        </span>
        <Cut text={row.name} />
        <span class="hidden">
          , level {row.level + 1}
          {isFolded ? ', folded' : ''}
        </span>
        <span class="quiet">{events.map(({ type }) => type).join(' · ')}</span>
        {stopped !== undefined && <Outcome outcome={stopped.policy_result.outcome} />}
      </span>
      <span class="span-time">{lengthMs > 0 ? spanText(lengthMs) : ''}</span>
      <span class="span-track">
        <span
          class={`span-bar ${stopped === undefined ? '' : stopped.policy_result.outcome}`}
          style={{ left: `${left}%`, width: `${(100 * lengthMs) / span.lengthMs}%` }}
        />
      </span>
    </a>
  );
}
