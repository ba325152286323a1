// One agent: its state and the switch that stops it, what it did today, its policies, alerts and keys, its last traces,
// and how to send as it.
// Failure: each part asks by itself and says by itself what went wrong.
import '../styles/agent.css';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { query } from '../core/api.ts';
import { eventsOf, overviewPath } from '../core/overview.ts';
import { type Read, useRead } from '../core/queries.ts';
import { hrefOf, place } from '../core/router.ts';
import { isAdmin, isBound, may } from '../core/session.ts';
import { spanText } from '../core/time.ts';
import type { Agent, Alert, ApiKey, Overview, Page, Policy, Trace } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { AgentSwitch } from '../parts/agent-switch.tsx';
import { Severity, Time } from '../parts/buttons.tsx';
import { CostFigure, Costs } from '../parts/costs.tsx';
import { Cut, Literal } from '../parts/literal.tsx';
import { Attention, Figures, Policies, Tokens } from '../parts/overview-parts.tsx';
import { NotYet } from '../parts/policy-start.tsx';
import { SendAs } from '../parts/send-as.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { Empty, Reading } from '../parts/states.tsx';

const EVERY_MS = 30_000;
/** As many as a page of these lists holds; more are counted, with a link to all. */
const LISTED_MAX = 100;
const TRACES = 5;

export function AgentPage() {
  const id = place.value.params.get('id');
  if (id === null)
    return (
      <Empty title="Which agent?">
        <p>
          The address names none. <a href={hrefOf('agents')}>All agents</a>
        </p>
      </Empty>
    );
  return <One key={id} id={id} />;
}

function One({ id }: { id: string }) {
  const reading = useRead<Agent>(`v1/agents/${encodeURIComponent(id)}`, { everyMs: EVERY_MS });
  const [isSwitching, setSwitching] = useState(false);
  const agent = reading.value;
  return (
    <div class="screen scrolls overview">
      <header class="bar">
        <h1>{agent === undefined ? 'Agent' : <Literal text={agent.name} />}</h1>
        {agent !== undefined && <span class={`badge ${agent.status}`}>{agent.status}</span>}
        <span class="grow" />
        <a class="button" href={hrefOf('events', { agent_id: id })}>
          All its events
        </a>
        {agent !== undefined && may('configure') && (
          <button
            type="button"
            class={agent.status === 'active' ? 'danger' : ''}
            onClick={() => setSwitching(true)}
            aria-label={`Switch ${agent.status === 'active' ? 'off' : 'on'} ${visible(agent.name)}`}
          >
            Switch {agent.status === 'active' ? 'off' : 'on'}
          </button>
        )}
      </header>
      <Reading of={reading}>{agent !== undefined && <Known agent={agent} />}</Reading>
      {isSwitching && agent !== undefined && <AgentSwitch agent={agent} onClose={() => setSwitching(false)} />}
    </div>
  );
}

function Known({ agent }: { agent: Agent }) {
  const { id } = agent;
  const today = useRead<Overview>(overviewPath(id), { everyMs: EVERY_MS, keeps: true });
  const overview = today.value;
  return (
    <>
      <Facts agent={agent} />
      <Reading of={today}>
        {overview !== undefined && (
          <>
            <Attention overview={overview} agentId={id} />
            <Figures overview={overview} agentId={id}>
              <CostFigure overview={overview} agentId={id} />
            </Figures>
          </>
        )}
      </Reading>
      <div class="columns">
        <div>
          {overview !== undefined && <Day overview={overview} id={id} />}
          <Traces id={id} />
          <SendAs agentId={id} />
        </div>
        <div>
          {overview !== undefined && <Policies overview={overview} agentId={id} />}
          <OwnPolicies id={id} />
          {overview !== undefined && <Costs overview={overview} agentId={id} />}
          {overview !== undefined && <Tokens overview={overview} agentId={id} />}
          <Alerts id={id} />
          {isAdmin.value && <Keys id={id} />}
        </div>
      </div>
    </>
  );
}

function Facts({ agent }: { agent: Agent }) {
  const { id, description, framework, metadata, created_at: created, last_seen_at: seen } = agent;
  return (
    <dl class="facts">
      <dt>Agent</dt>
      <dd>
        <code>{id}</code>
      </dd>
      {description !== undefined && description !== '' && (
        <>
          <dt>What it is for</dt>
          <dd>
            <Literal text={description} lines />
          </dd>
        </>
      )}
      {framework !== undefined && (
        <>
          <dt>Framework</dt>
          <dd>{framework}</dd>
        </>
      )}
      <dt>Last sign of life</dt>
      <dd>{seen === null ? 'never' : <Time at={seen} ago />}</dd>
      <dt>Registered</dt>
      <dd>
        <Time at={created} />
      </dd>
      {Object.entries(metadata).map(([name, value]) => (
        <div key={name}>
          <dt>
            <Literal text={name} />
          </dt>
          <dd>
            <Literal text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Day({ overview, id }: { overview: Overview; id: string }) {
  const row = overview.agents?.items.find((one) => one.id === id);
  if (row === undefined) return null;
  return (
    <section class="card day" aria-label="Its day">
      <h2>Today</h2>
      <a href={eventsOf(overview, { agent_id: id })}>
        <Sparkline hourly={row.parts} label={`${row.events} events today`} />
      </a>
    </section>
  );
}

type PartProps<T> = { title: string; of: Read<Page<T>>; items: readonly T[]; none: ComponentChildren; all: string };

/** A list of what belongs to the agent, with a way to all of it where a page does not hold it. */
function Part<T extends { id: string }>(
  { title, of, items, none, all }: PartProps<T>,
  line: (item: T) => ComponentChildren,
) {
  const isCut = (of.value?.total ?? 0) > (of.value?.items.length ?? 0);
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <Reading of={of}>
        {items.length === 0 && <p class="quiet">{none}</p>}
        <ul class="names">
          {items.map((item) => (
            <li key={item.id}>{line(item)}</li>
          ))}
        </ul>
        {isCut && (
          <p>
            <a href={all}>There may be more: all of them</a>
          </p>
        )}
      </Reading>
    </section>
  );
}

function OwnPolicies({ id }: { id: string }) {
  const of = useRead<Page<Policy>>(`v1/policies${query({ agent_id: id, limit: LISTED_MAX })}`);
  const items = of.value?.items ?? [];
  const none = 'No policy is for this agent alone.';
  return Part({ title: 'Its own policies', of, items, none, all: hrefOf('policies') }, (policy) => (
    <>
      {isBound() ? (
        <Literal text={policy.name} />
      ) : (
        <a href={hrefOf('policies', { id: policy.id })}>
          <Literal text={policy.name} />
        </a>
      )}{' '}
      <Severity severity={policy.severity} />{' '}
      <span class="quiet">
        {policy.actions.join(', ')}
        {policy.status === 'inactive' && ', switched off'}
        {policy.mode === 'shadow' && ', shadow'}
      </span>{' '}
      <NotYet policy={policy} />
    </>
  ));
}

function Alerts({ id }: { id: string }) {
  const of = useRead<Page<Alert>>(`v1/alerts${query({ limit: LISTED_MAX })}`);
  const items = (of.value?.items ?? []).filter(({ agent_id: scope }) => scope === null || scope === id);
  const none = 'No alert tells of this agent.';
  return Part({ title: 'Alerts that tell of it', of, items, none, all: hrefOf('alerts') }, (alert) => (
    <>
      <Literal text={alert.name} />{' '}
      <span class="quiet">
        {alert.trigger} by {alert.channel}
        {alert.agent_id === null && ', of all agents'}
        {alert.status === 'inactive' && ', switched off'}
      </span>
    </>
  ));
}

function Keys({ id }: { id: string }) {
  const of = useRead<Page<ApiKey>>(`v1/api-keys${query({ limit: LISTED_MAX })}`);
  const items = (of.value?.items ?? []).filter(({ agent_id: scope }) => scope === id);
  const none = 'No key is bound to it: it sends by a key of the account.';
  return Part({ title: 'Keys that are bound to it', of, items, none, all: hrefOf('settings') }, (key) => (
    <>
      <Literal text={key.label} />{' '}
      <span class="quiet">
        {key.scope}, …{key.hint},{' '}
        {key.last_used_at === null ? (
          'never used'
        ) : (
          <>
            used <Time at={key.last_used_at} ago />
          </>
        )}
      </span>
    </>
  ));
}

function Traces({ id }: { id: string }) {
  const of = useRead<Page<Trace>>(`v1/traces${query({ agent_id: id, limit: TRACES })}`, { behind: true });
  const items = (of.value?.items ?? []).map((trace) => ({ ...trace, id: trace.trace_id }));
  const listed = of as unknown as Read<Page<Trace & { id: string }>>;
  const all = hrefOf('traces', { agent_id: id });
  const none = 'None of its events names a trace.';
  return Part({ title: 'Last traces', of: listed, items, none, all }, (trace) => (
    <a class="trace-of-agent" href={hrefOf('trace', { id: trace.trace_id })}>
      <Cut text={trace.asked || trace.trace_id} />
      <span class="quiet">
        <Time at={trace.started_at} ago />, {trace.event_count.toLocaleString('en')}{' '}
        {trace.event_count === 1 ? 'event' : 'events'}
        {trace.duration_ms > 0 && `, ${spanText(trace.duration_ms)}`}
      </span>
    </a>
  ));
}
