// The anomalies feed, and one of them open: the sentence, what was observed against what is usual, and the events
// behind it.
import { ANOMALY_KINDS, SEVERITIES } from '../../schemas/closed-sets.ts';
import { query } from '../core/api.ts';
import { useLive } from '../core/live.ts';
import { many } from '../core/plural.ts';
import { changed, useList, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { rangeOf } from '../core/time.ts';
import type { ListedAnomaly, Series } from '../core/types.ts';
import { CopyButton, EventLink, LiveButton, Severity, Time } from '../parts/buttons.tsx';
import { type Column, ListLine } from '../parts/columns.tsx';
import { ExportMenu } from '../parts/export.tsx';
import { Filters, shareUrl, TimeRange } from '../parts/filters.tsx';
import { useKeys } from '../parts/keys.ts';
import { Cut, Literal } from '../parts/literal.tsx';
import { AgentLink, AgentName } from '../parts/named.tsx';
import { SeriesChart } from '../parts/series-chart.tsx';
import { NARROW_ROW_PX, narrow, Side } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { ViewMenu } from '../parts/view-menu.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

/** Half of the stretch of events that is linked to around an anomaly. */
const AROUND_MS = 300_000;

const COLUMNS: readonly Column<ListedAnomaly>[] = [
  {
    ...{ name: 'event', label: 'Event', width: 'minmax(0, 2fr)' },
    cell: ({ summary = '' }) => summary !== null && summary !== '' && <Cut text={summary} />,
  },
  {
    ...{ name: 'agent', label: 'Agent', width: 'minmax(0, 1fr)' },
    cell: ({ agent_id: id }) => (
      <span class="cut">
        <AgentName id={id} />
      </span>
    ),
  },
];

export function Anomalies() {
  const { params } = place.value;
  const filters = Object.fromEntries(
    ['kind', 'severity', 'agent_id', 'policy_id'].map((name) => [name, params.getAll(name)]),
  );
  const asked = query({ ...filters, ...rangeOf(params) });
  const list = useList<ListedAnomaly>(`v1/anomalies${query({ ...filters, ...rangeOf(params), expand: 'summary' })}`);
  const isAway = useLive(params.has('live') ? 'topics=anomalies' : undefined, {
    onRow: () => changed('v1/anomalies'),
    onGap: () => changed('v1/anomalies'),
  });
  const open = list.items.findIndex(({ id }) => id === params.get('id'));
  const show = (index: number) => {
    const next = list.items[index];
    if (next !== undefined) setParams({ id: next.id }, { replace: params.has('id') });
  };
  useKeys({
    j: { does: 'Next anomaly', run: () => show(open + 1) },
    k: { does: 'Previous anomaly', run: () => show(Math.max(0, open - 1)) },
    Escape: { does: 'Close the anomaly', run: () => setParams({ id: undefined }) },
  });
  const values = (all: readonly string[]) => all.map((value) => ({ value }));
  return (
    <div class={`screen ${params.has('id') ? 'split' : ''}`}>
      <section class="main" aria-label="Anomalies">
        <header class="bar">
          <h1 class="grow">Anomalies</h1>
          <TimeRange />
          <LiveButton isAway={isAway} />
          <ExportMenu path={`v1/anomalies/export${asked}`} name="anomalies" />
          <CopyButton text={shareUrl} label="Share" />
        </header>
        <div class="bar">
          <Filters
            specs={[
              { name: 'kind', label: 'Kind', choices: values(ANOMALY_KINDS) },
              { name: 'severity', label: 'Severity', choices: values(SEVERITIES) },
              { name: 'agent_id', label: 'Agent', choices: [], found: 'agents' },
            ]}
            chipsFor={['policy_id']}
          />
          <ViewMenu screen="anomalies" />
        </div>
        <Reading
          of={list}
          empty={
            list.items.length === 0 && (
              <Empty title="Nothing unusual">
                <p>
                  Token use, error rates and volumes are learned for each agent by themselves; what leaves the usual,
                  and every blocked event, is shown here.
                </p>
              </Empty>
            )
          }
        >
          <p class="quiet">{many(list.total, 'anomaly', 'anomalies')}</p>
          <VirtualRows
            label="Anomalies, newest first"
            remembers
            count={list.items.length}
            rowPx={narrow.value ? NARROW_ROW_PX : 36}
            {...(open >= 0 ? { showIndex: open } : {})}
            onEnd={list.more}
            row={(index) => {
              const anomaly = list.items[index]!;
              const next = new URLSearchParams(params);
              next.set('id', anomaly.id);
              return (
                <ListLine
                  row={anomaly}
                  href={hrefOf('anomalies', next)}
                  isOpen={index === open}
                  leadWidths="150px 70px"
                  lead={
                    <>
                      <Time at={anomaly.timestamp} />
                      <Severity severity={anomaly.severity} />
                    </>
                  }
                  said={<Cut text={anomaly.message} />}
                  columns={COLUMNS}
                />
              );
            }}
          />
        </Reading>
      </section>
      {params.has('id') && (
        <Side label="Open anomaly" of={params.get('id')!} onClose={() => setParams({ id: undefined })}>
          <One id={params.get('id')!} />
        </Side>
      )}
    </div>
  );
}

function One({ id }: { id: string }) {
  const series = useRead<Series>(`v1/anomalies/${encodeURIComponent(id)}/series`);
  return <Reading of={series}>{series.value !== undefined && <Shown series={series.value} />}</Reading>;
}

function Shown({ series }: { series: Series }) {
  const { anomaly } = series;
  const at = Date.parse(anomaly.timestamp);
  return (
    <>
      <h2>
        <Literal text={anomaly.message} />
      </h2>
      <dl class="facts">
        <dt>Kind</dt>
        <dd>
          {anomaly.kind} <Severity severity={anomaly.severity} />
        </dd>
        <dt>Agent</dt>
        <dd>
          <AgentLink id={anomaly.agent_id} />
        </dd>
        <dt>At</dt>
        <dd>
          <Time at={anomaly.timestamp} millis />
        </dd>
        {anomaly.observed !== null && (
          <>
            <dt>Observed</dt>
            <dd>{anomaly.observed.toLocaleString('en')}</dd>
          </>
        )}
        {anomaly.baseline !== null && (
          <>
            <dt>Usual</dt>
            <dd>{anomaly.baseline.toLocaleString('en')}</dd>
          </>
        )}
        {anomaly.score !== null && (
          <>
            <dt>Score</dt>
            <dd>{anomaly.score.toFixed(1)}</dd>
          </>
        )}
      </dl>
      {series.points.length > 0 && <SeriesChart series={series} />}
      <p>
        {anomaly.event_id !== null && (
          <>
            <EventLink agentId={anomaly.agent_id} id={anomaly.event_id}>
              The event
            </EventLink>{' '}
            ·{' '}
          </>
        )}
        <a
          href={hrefOf('events', {
            agent_id: anomaly.agent_id,
            from: new Date(at - AROUND_MS).toISOString(),
            to: new Date(at + AROUND_MS).toISOString(),
          })}
        >
          Events around it
        </a>
        {anomaly.policy_id !== null && (
          <>
            {' '}
            · <a href={hrefOf('policies', { id: anomaly.policy_id })}>The policy</a>
          </>
        )}
      </p>
    </>
  );
}
