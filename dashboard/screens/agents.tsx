// Agents: whether they live, what they did in the last day, and the switch that stops them.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { FRAMEWORKS } from '../../schemas/closed-sets.ts';
import { call, query } from '../core/api.ts';
import { changed, useList, useWhole } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { Agent } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { AgentSwitch } from '../parts/agent-switch.tsx';
import { announce } from '../parts/announce.tsx';
import { Time } from '../parts/buttons.tsx';
import { Dialog, Field, textOf } from '../parts/dialog.tsx';
import { Search } from '../parts/filters.tsx';
import { Literal } from '../parts/literal.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { Empty, More, Reading, serviceUrl } from '../parts/states.tsx';
import { sortedBy, Table } from '../parts/table.tsx';

export function Agents() {
  const { params } = place.value;
  const words = params.get('q') ?? '';
  const status = params.getAll('status');
  const asked = query({ activity: true, status, [/^agt_\w{26}$/.test(words) ? 'id' : 'q']: words });
  const list = useList<Agent>(`v1/agents${asked}`, { everyMs: 30_000 });
  const isWhole = list.total <= SORTED_MAX;
  useWhole(list, isWhole && sortedBy() !== null);
  const [dialog, setDialog] = useState<'register' | Agent>();
  const none =
    words !== '' ? (
      <p class="quiet">No agent has “{visible(words)}” in its name.</p>
    ) : status.length > 0 ? (
      <p class="quiet">No agent is {status.join(' or ')}.</p>
    ) : (
      <NoAgents />
    );
  return (
    <div class="screen scrolls">
      <header class="bar">
        <h1 class="grow">Agents</h1>
        <Search label="Part of a name" />
        {status.length > 0 && (
          <button type="button" class="chip" onClick={() => setParams({ status: undefined })}>
            Only {status.join(' or ')} <span aria-hidden="true">×</span>
            <span class="hidden"> – take this filter away</span>
          </button>
        )}
        {!isBound() && <a href={hrefOf('connections')}>Connections</a>}
        {may('configure') && !isBound() && (
          <button type="button" class="primary" onClick={() => setDialog('register')}>
            Register an agent
          </button>
        )}
      </header>
      <Reading of={list} empty={list.items.length === 0 && none}>
        <Table
          head={[
            ...['Agent', 'Status', 'Last sign of life', 'Last 24 hours', 'Events', 'Blocked'],
            ...(may('configure') ? ['Switch'] : []),
          ]}
          numbers={['Events', 'Blocked']}
          isWhole={isWhole}
          rows={list.items.map((agent) => ({
            ...{ key: agent.id, cells: cellsOf(agent, () => setDialog(agent)), by: sortValuesOf(agent) },
          }))}
        />
        <More of={list} />
      </Reading>
      {dialog === 'register' && <Register onClose={() => setDialog(undefined)} />}
      {typeof dialog === 'object' && <AgentSwitch agent={dialog} onClose={() => setDialog(undefined)} />}
    </div>
  );
}

/** Agents in so few pages are read to the last one where an order is asked for. */
const SORTED_MAX = 500;

function sortValuesOf({ name, status, last_seen_at: seen, activity }: Agent) {
  return {
    ...{ Agent: name, Status: status, 'Last sign of life': seen === null ? null : Date.parse(seen) },
    ...{ Events: activity?.events_24h ?? null, Blocked: activity?.blocked_24h ?? null },
  };
}

function cellsOf(agent: Agent, onSwitch: () => void): ComponentChildren[] {
  const { activity, last_seen_at: seen } = agent;
  const name = (
    <>
      <a href={hrefOf('agent', { id: agent.id })} title={agent.id}>
        <Literal text={agent.name} />
      </a>{' '}
      <span class="quiet">{agent.framework ?? ''}</span>
    </>
  );
  const blocked =
    activity !== undefined && activity.blocked_24h > 0 ? (
      <a href={hrefOf('events', { agent_id: agent.id, outcome: 'blocked', range: '24h' })}>
        {activity.blocked_24h.toLocaleString('en')}
      </a>
    ) : (
      activity?.blocked_24h
    );
  const next = agent.status === 'active' ? 'off' : 'on';
  return [
    name,
    <span class={`badge ${agent.status}`}>{agent.status}</span>,
    seen === null ? 'never' : <Time at={seen} ago />,
    activity !== undefined && (
      <Sparkline hourly={activity.hourly} label={`${activity.events_24h} events in the last 24 hours`} />
    ),
    activity !== undefined && (
      <a href={hrefOf('events', { agent_id: agent.id, range: '24h' })}>{activity.events_24h.toLocaleString('en')}</a>
    ),
    blocked,
    may('configure') && (
      <button
        type="button"
        class={next === 'off' ? 'danger' : ''}
        onClick={onSwitch}
        aria-label={`Switch ${next} ${visible(agent.name)}`}
      >
        Switch {next}
      </button>
    ),
  ];
}

function Register({ onClose }: { onClose: () => void }) {
  return (
    <Dialog
      title="Register an agent"
      action="Register"
      onClose={onClose}
      onAct={async (form) => {
        const description = textOf(form, 'description');
        const framework = textOf(form, 'framework');
        const name = textOf(form, 'name');
        await call('POST', 'v1/agents', {
          body: { name, ...(description === '' ? {} : { description }), ...(framework === '' ? {} : { framework }) },
        });
        announce(
          <>
            <Literal text={name} /> is registered.
          </>,
        );
        changed('v1/agents');
      }}
    >
      <Field label="Name" hint="Unique in the account. Registering a name again gives the same agent.">
        <input name="name" required maxLength={200} />
      </Field>
      <Field label="What it is for">
        <input name="description" maxLength={2000} />
      </Field>
      <Field label="Framework">
        <select name="framework">
          <option value="">not said</option>
          {FRAMEWORKS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </Field>
    </Dialog>
  );
}

function NoAgents() {
  return (
    <Empty
      title="No agents yet"
      curl={`curl -X POST ${serviceUrl()}/v1/agents -H "Authorization: Bearer $GATEHOUSE_KEY" -H 'Content-Type: application/json' -d '{"name":"first-agent"}'`}
    >
      <p>Register one here, or from where it runs:</p>
    </Empty>
  );
}
