// One event, whole: why it was decided so, its payload, and ways on. Beside a list, or as a screen of its own.

import { curlOf } from '../core/curl.ts';
import { useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { WholeEvent } from '../core/types.ts';
import { CopyButton, Time } from './buttons.tsx';
import { Cost } from './cost.tsx';
import { Literal } from './literal.tsx';
import { AgentLink } from './named.tsx';
import { Payload } from './payload.tsx';
import { ForbidTool, PolicyOfEvent } from './policy-of-event.tsx';
import { Reading, serviceUrl } from './states.tsx';
import { placesOf, Why } from './why.tsx';

export function EventView({ agentId, id }: { agentId: string; id: string }) {
  const reading = useRead<WholeEvent>(`v1/agents/${encodeURIComponent(agentId)}/events/${encodeURIComponent(id)}`);
  const event = reading.value;
  return (
    <article class="event" aria-label="Event">
      <Reading of={reading}>{event !== undefined && <Whole event={event} />}</Reading>
    </article>
  );
}

function Whole({ event }: { event: WholeEvent }) {
  const mayMake = may('configure') && !isBound();
  return (
    <>
      <dl class="facts">
        <dt>Event</dt>
        <dd>
          <code>{event.id}</code>
        </dd>
        <dt>Type</dt>
        <dd>{event.type}</dd>
        <dt>Agent</dt>
        <dd>
          <AgentLink id={event.agent_id} />
        </dd>
        {event.trace_id !== undefined && (
          <>
            <dt>Trace</dt>
            <dd>
              <a href={hrefOf('trace', { id: event.trace_id })}>
                <Literal text={event.trace_id} />
              </a>
            </dd>
          </>
        )}
        <dt>Happened</dt>
        <dd>
          <Time at={event.timestamp} millis />
        </dd>
        <dt>Received</dt>
        <dd>
          <Time at={event.received_at} millis />
        </dd>
        {event.cost !== undefined && (
          <>
            <dt>Cost</dt>
            <dd>
              <Cost of={event.cost} /> <span class="quiet">by revision {event.price_revision} of the prices</span>
            </dd>
          </>
        )}
      </dl>
      <Why event={event} />
      {mayMake && <ForbidTool key={event.id} event={event} />}
      <h3>Payload</h3>
      <Payload text={event.payload.text} marked={placesOf(event)} />
      <div class="bar">
        <CopyButton text={() => curlOf(event, serviceUrl())} label="Copy as curl" />
        <a href={hrefOf('audit', { resource_id: event.id })}>Audit entries</a>
        <a href={hrefOf('deliveries', { agent_id: event.agent_id })}>Deliveries of the agent</a>
        {mayMake && (
          <a href={hrefOf('policies', { new: '1', agent_id: event.agent_id, event_id: event.id })}>
            Try a policy on it
          </a>
        )}
        <a href={hrefOf('event', { agent_id: event.agent_id, id: event.id })}>Open by itself</a>
      </div>
      {mayMake && <PolicyOfEvent key={event.id} event={event} />}
    </>
  );
}
