// What events cost, on the overview of an account and of one agent: the figure of today, and who spent it. Nothing where
// the account has no prices. What is not known is said, never shown as nothing.
import { amountOf, changeText, shortAmount } from '../core/amounts.ts';
import { eventsOf } from '../core/overview.ts';
import type { Overview } from '../core/types.ts';
import { Literal } from './literal.tsx';
import { Ranking, Unknown } from './overview-parts.tsx';

type Of = { overview: Overview; agentId?: string | undefined };

/** A figure beside the others (overview-parts.tsx). */
export function CostFigure({ overview, agentId }: Of) {
  const { cost } = overview;
  if (cost === undefined) return null;
  return (
    <div>
      <dt>Cost</dt>
      {cost === null ? (
        <dd class="quiet">not known now</dd>
      ) : (
        <>
          <dd class="number" title={cost.total.now ?? 'No event has a known cost'}>
            <a href={eventsOf(overview, { agent_id: agentId, by: 'model' })}>{shown(cost.total.now)}</a>
          </dd>
          <dd>
            <Before name="yesterday" now={cost.total.now} before={cost.total.day_before} />
          </dd>
          <dd>
            <Before name="a week ago" now={cost.total.now} before={cost.total.week_before} />
          </dd>
        </>
      )}
    </div>
  );
}

function shown(amount: string | null): string {
  return amount === null ? '–' : shortAmount(amount);
}

function Before({ name, now, before }: { name: string; now: string | null; before: string | null }) {
  const change = now === null || before === null ? '' : changeText(amountOf(now), amountOf(before), 0);
  return (
    <>
      <span class="quiet">{name}</span> {shown(before)} {change !== '' && <span class="change">{change}</span>}
    </>
  );
}

export function Costs({ overview, agentId }: Of) {
  const { cost } = overview;
  if (cost === undefined) return null;
  return (
    <section class="card" aria-label="Cost">
      <h2>Cost</h2>
      {cost === null ? <Unknown /> : <CostsBy cost={cost} overview={overview} agentId={agentId} />}
    </section>
  );
}

function CostsBy({ cost, overview, agentId }: Of & { cost: NonNullable<Overview['cost']> }) {
  const { model, agent_id: agents, unpriced_events: unpriced } = cost;
  return (
    <>
      {model.values.length === 0 && <p class="quiet">No event of today has a known cost.</p>}
      {model.values.length > 0 && (
        <>
          <h3>By model</h3>
          <Ranking
            label="Cost by model"
            lines={model.values.map(({ value, cost: spent }) => ({
              ...{ key: value, n: amountOf(spent), text: shortAmount(spent) },
              title: value === '' ? '(no model named)' : <Literal text={value} />,
              ...(value === '' ? {} : { href: eventsOf(overview, { model: value, agent_id: agentId }) }),
            }))}
            {...restOf(model.other, 'Other models')}
          />
        </>
      )}
      {agentId === undefined && agents.values.length > 0 && (
        <>
          <h3>By agent</h3>
          <Ranking
            label="Cost by agent"
            lines={agents.values.map(({ value, name, cost: spent }) => ({
              ...{ key: value, n: amountOf(spent), text: shortAmount(spent) },
              ...{
                href: eventsOf(overview, { agent_id: value, by: 'model' }),
                title: <Literal text={name ?? value} />,
              },
            }))}
            {...restOf(agents.other, 'Other agents')}
          />
        </>
      )}
      {unpriced.now > 0 && (
        <p class="quiet">
          Without {unpriced.now === 1 ? '1 event' : `${unpriced.now.toLocaleString('en')} events`} of today that say
          tokens and have no price.
        </p>
      )}
    </>
  );
}

function restOf(amount: string, name: string): { rest?: string } {
  return amountOf(amount) === 0 ? {} : { rest: `${name}: ${shortAmount(amount)}` };
}
