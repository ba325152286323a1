// The overview, which is the first page: what needs a person, how today compares with yesterday and a week ago, what
// each agent did, cost, tokens and policies. All of it is one answer of the service.
import { shareText } from '../core/amounts.ts';
import { eventsOf, overviewPath } from '../core/overview.ts';
import { useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { zoneName } from '../core/time.ts';
import type { Overview as Whole } from '../core/types.ts';
import { Time } from '../parts/buttons.tsx';
import { CostFigure, Costs } from '../parts/costs.tsx';
import { Literal } from '../parts/literal.tsx';
import { NoEvents } from '../parts/no-events.tsx';
import { Attention, Figures, Policies, Tokens, Unknown } from '../parts/overview-parts.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { Reading } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';

const EVERY_MS = 30_000;

export function Overview() {
  const reading = useRead<Whole>(overviewPath(), { everyMs: EVERY_MS, keeps: true });
  const overview = reading.value;
  return (
    <div class="screen scrolls overview">
      <header class="bar">
        <h1>Overview</h1>
        <span class="quiet compared grow">
          Today until now in {zoneName()}, beside the same time yesterday and a week ago
        </span>
        <button type="button" onClick={reading.retry} disabled={reading.busy}>
          Refresh
        </button>
      </header>
      <Reading of={reading} empty={overview !== undefined && isNew(overview) && <NoEvents />}>
        {overview !== undefined && (
          <>
            <Attention overview={overview} />
            <Figures overview={overview}>
              <CostFigure overview={overview} />
            </Figures>
            <div class="columns">
              <Agents overview={overview} />
              <div>
                <Policies overview={overview} />
                <Costs overview={overview} />
                <Tokens overview={overview} />
              </div>
            </div>
          </>
        )}
      </Reading>
    </div>
  );
}

/** No agent has ever been heard. */
function isNew({ agents, figures }: Whole): boolean {
  if (agents === null || figures === null || agents.total > agents.items.length) return false;
  return figures.events.now === 0 && agents.items.every(({ last_seen_at: seen }) => seen === null);
}

function Agents({ overview }: { overview: Whole }) {
  const { agents } = overview;
  return (
    <section class="card" aria-label="Agents">
      <h2>Agents</h2>
      {agents === null && <Unknown />}
      {agents !== null && (
        <Table
          head={['Agent', 'Last sign of life', 'Today', 'Blocked', 'Events', 'Errors', 'Anomalies']}
          numbers={['Blocked', 'Events', 'Errors', 'Anomalies']}
          isWhole={agents.total <= agents.items.length}
          rows={agents.items.map(({ id, name, status, last_seen_at: seen, parts, ...counts }) => ({
            key: id,
            by: {
              ...{ Agent: name, 'Last sign of life': seen === null ? null : Date.parse(seen), Events: counts.events },
              ...{ Blocked: counts.blocked / (counts.events || 1), Errors: counts.errors, Anomalies: counts.anomalies },
            },
            cells: [
              <>
                <a href={hrefOf('agent', { id })}>
                  <Literal text={name} />
                </a>{' '}
                {status !== 'active' && <span class={`badge ${status}`}>{status}</span>}
              </>,
              seen === null ? 'never' : <Time at={seen} ago />,
              <Sparkline hourly={parts} label={`${counts.events} events today`} />,
              <Share of={counts} href={eventsOf(overview, { agent_id: id, outcome: 'blocked' })} />,
              numberOf(counts.events, eventsOf(overview, { agent_id: id })),
              numberOf(counts.errors, eventsOf(overview, { agent_id: id, type: 'error' })),
              numberOf(counts.anomalies, hrefOf('anomalies', { agent_id: id, ...overview.window })),
            ],
          }))}
        />
      )}
      {agents !== null && agents.total > agents.items.length && (
        <p>
          <a href={hrefOf('agents')}>All {agents.total.toLocaleString('en')} agents</a>
        </p>
      )}
    </section>
  );
}

/** The share of its events that was blocked, with their number. */
function Share({ of: { blocked, events }, href }: { of: { blocked: number; events: number }; href: string }) {
  if (blocked === 0) return <span class="quiet">0 %</span>;
  return (
    <a href={href}>
      {shareText(blocked, events)} <span class="quiet">({blocked.toLocaleString('en')})</span>
    </a>
  );
}

function numberOf(n: number, href: string) {
  return n === 0 ? <span class="quiet">0</span> : <a href={href}>{n.toLocaleString('en')}</a>;
}
