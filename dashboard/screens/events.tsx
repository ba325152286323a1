// The timeline: events of the account, newest first, with what there is of each kind over time, and one of them open
// beside the list.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { query } from '../core/api.ts';
import { type Kind, useNames } from '../core/by-id.ts';
import { nowMs } from '../core/clock.ts';
import { eventList, FACETS, filtersOf, MORE } from '../core/event-list.ts';
import { useLive } from '../core/live.ts';
import { many } from '../core/plural.ts';
import { client, useList, useRead } from '../core/queries.ts';
import { hrefOf, moveMoment, place, setParams } from '../core/router.ts';
import { rangeOf, zone, zoneName } from '../core/time.ts';
import type { EventFacets, EventHistogram, EventRow } from '../core/types.ts';
import { announce } from '../parts/announce.tsx';
import { CopyButton, LiveButton } from '../parts/buttons.tsx';
import { ColumnMenu, chosenColumns } from '../parts/columns.tsx';
import { EventLine, eventColumns, eventRowPx } from '../parts/event-rows.tsx';
import { EventView } from '../parts/event-view.tsx';
import { ExportMenu } from '../parts/export.tsx';
import { type FilterSpec, Filters, Search, shareUrl, TimeRange } from '../parts/filters.tsx';
import { type Counted, Histogram } from '../parts/histogram.tsx';
import { useKeys } from '../parts/keys.ts';
import { NoEvents } from '../parts/no-events.tsx';
import { Side } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { ViewMenu } from '../parts/view-menu.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

/** Takes the room of what is to come, so that nothing moves when it is there. */
const NO_COUNTS: Counted = { by: 'outcome', from: null, bucket_ms: 0, values: [], buckets: [] };

const LABELS: Record<(typeof FACETS)[number], string> = {
  outcome: 'Outcome',
  type: 'Type',
  agent_id: 'Agent',
  model: 'Model',
  policy_id: 'Policy',
};
/** The facets that can be searched, since they have more values than are counted one by one. */
const FOUND: Partial<Record<(typeof FACETS)[number], Kind>> = { agent_id: 'agents', policy_id: 'policies' };
/** Rows that came while the list was not at its top; past this the list is read again. */
const NEW_MAX = 1_000;
const GAP_EVERY_MS = 5_000;
/** How often a relative range moves on with what comes in: the chart and the counts are read again by it. */
const MOVE_EVERY_MS = 10_000;

export function Events() {
  const { params } = place.value;
  const range = rangeOf(params);
  const filter = query({ ...filtersOf(params), ...range });
  const list = useList<EventRow>(eventList(params), { keeps: true });
  const by = params.get('by') ?? 'outcome';
  const counted = { behind: true, keeps: true };
  const histogram = useRead<EventHistogram>(
    `v1/events/histogram${query({ ...filtersOf(params), ...range, by, zone: zone.value === 'utc' ? undefined : zoneName() })}`,
    counted,
  );
  const facets = useRead<EventFacets>(`v1/events/facets${filter}`, counted);
  const [isTop, setTop] = useState(true);
  const live = useLiveRows(params, list.items, isTop);
  const { rows } = live;
  const nameOf = useNames(
    'agents',
    rows.map((row) => row.agent_id),
  );
  const columns = eventColumns(nameOf);
  const shown = chosenColumns(columns);
  const open = rows.findIndex(({ id }) => id === params.get('id'));
  const show = (index: number) => {
    const row = rows[index];
    if (row !== undefined) setParams({ id: row.id, of: row.agent_id }, { replace: params.has('id') });
  };
  useKeys({
    j: { does: 'Next event', run: () => show(open + 1) },
    k: { does: 'Previous event', run: () => show(Math.max(0, open - 1)) },
    Escape: { does: 'Close the event', run: () => setParams({ id: undefined, of: undefined }) },
    l: { does: 'Follow what comes in', run: () => setParams({ live: params.has('live') ? undefined : '1' }) },
  });
  const hasFilters = filter !== '';
  const isEmpty = histogram.waiting ? !list.waiting && rows.length === 0 : !histogram.value?.buckets.length;
  return (
    <div class={`screen ${params.has('id') ? 'split' : ''}`}>
      <section class="main" aria-label="Events">
        <header class="bar">
          <h1 class="grow">Events</h1>
          <Search label="Words in the payload" />
          <TimeRange />
          <LiveButton isAway={live.isAway} />
          <ExportMenu path={`v1/events/export${filter}`} name="events" />
          <CopyButton text={shareUrl} label="Share" />
        </header>
        <div class="bar">
          <Filters specs={specsOf(facets.value)} chipsFor={MORE} />
          <ColumnMenu columns={columns} />
          <ViewMenu screen="events" />
        </div>
        {!isEmpty && (
          <Histogram
            data={histogram.value ?? NO_COUNTS}
            onRange={(from, to) => setParams({ from, to, range: undefined, id: undefined })}
          >
            <label class="by">
              Coloured by{' '}
              <select
                value={by}
                onChange={({ currentTarget }) =>
                  setParams({ by: currentTarget.value === 'outcome' ? undefined : currentTarget.value })
                }
              >
                {FACETS.map((name) => (
                  <option key={name} value={name}>
                    {LABELS[name].toLowerCase()}
                  </option>
                ))}
              </select>
            </label>
          </Histogram>
        )}
        <Reading of={list} empty={rows.length === 0 && (hasFilters ? <NothingFits /> : <NoEvents />)}>
          <div class="bar counted">
            <p class="quiet" aria-live="polite">
              {many(facets.value?.total ?? list.total, 'event')}
            </p>
            {live.waiting > 0 && (
              <button type="button" class="primary" onClick={live.take}>
                {live.waiting.toLocaleString('en')} new
              </button>
            )}
          </div>
          <VirtualRows
            label="Events, newest first"
            remembers
            count={rows.length}
            rowPx={eventRowPx()}
            {...(open >= 0 ? { showIndex: open } : {})}
            onEnd={list.more}
            onTop={setTop}
            row={(index) => {
              const event = rows[index]!;
              const next = new URLSearchParams(params);
              next.set('id', event.id);
              next.set('of', event.agent_id);
              return <EventLine event={event} href={hrefOf('events', next)} isOpen={index === open} columns={shown} />;
            }}
          />
        </Reading>
      </section>
      {params.has('id') && (
        <Side label="Open event" of={params.get('id')!} onClose={() => setParams({ id: undefined, of: undefined })}>
          <EventView key={params.get('id')} id={params.get('id')!} agentId={params.get('of') ?? ''} />
        </Side>
      )}
    </div>
  );
}

function specsOf(facets: EventFacets | undefined): FilterSpec[] {
  return FACETS.map((name) => ({
    ...{ name, label: LABELS[name], choices: facets?.[name].values ?? [], other: facets?.[name].other ?? 0 },
    found: FOUND[name],
  }));
}

/** The list with what has come in since. It does not move while the person has scrolled, or has an event open. */
function useLiveRows(params: URLSearchParams, items: readonly EventRow[], isTop: boolean) {
  const isLive = params.has('live');
  const filter = query(filtersOf(params));
  const [come, setCome] = useState<EventRow[]>([]);
  const [held, setHeld] = useState<EventRow[]>([]);
  const gapAt = useRef(Number.NEGATIVE_INFINITY);
  const isFrozen = !isTop || params.has('id');
  useEffect(() => {
    setCome([]);
    setHeld([]);
  }, [filter, isLive, items[0]?.id]);
  const moveOn = () => {
    const now = nowMs();
    if (!isFrozen && params.has('range') && now - place.peek().asOf > MOVE_EVERY_MS) moveMoment(now);
  };
  const again = () => {
    void client.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[1] ?? '').startsWith('v1/events') });
  };
  const isAway = useLive(
    isLive ? `topics=events&payload=none${filter === '' ? '' : `&${filter.slice(1)}`}` : undefined,
    {
      onRow: (_topic, row) => {
        const event = row as EventRow;
        moveOn();
        (isFrozen ? setHeld : setCome)((rows) => [event, ...rows].slice(0, NEW_MAX));
      },
      onReady: again,
      onGap: () => {
        // Under a flood there is a gap twice a second, and reading again is work for the stores.
        if (performance.now() - gapAt.current < GAP_EVERY_MS) return;
        gapAt.current = performance.now();
        announce('More came in than is shown one by one: the list is read again.');
        again();
      },
    },
  );
  const rows = useMemo(() => {
    const known = new Set(items.map(({ id }) => id));
    return [...come.filter(({ id }) => !known.has(id)), ...items];
  }, [come, items]);
  return {
    rows,
    isAway,
    waiting: held.length,
    take: () => {
      setCome((before) => [...held, ...before]);
      setHeld([]);
      setParams({ id: undefined, of: undefined });
      document.querySelector('.rows')?.scrollTo({ top: 0 });
    },
  };
}

function NothingFits() {
  return (
    <Empty title="Nothing fits these filters">
      <p>Remove one, or choose a longer time.</p>
    </Empty>
  );
}
