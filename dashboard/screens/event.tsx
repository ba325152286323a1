// One event by itself: what links lead to. An address that names the event alone (its id was typed) is completed by the
// audit log, which holds an entry of every event, in the name of its agent.
import { query } from '../core/api.ts';
import { useRead } from '../core/queries.ts';
import { hrefOf, place } from '../core/router.ts';
import type { AuditEntry } from '../core/types.ts';
import { EventView } from '../parts/event-view.tsx';
import { Literal } from '../parts/literal.tsx';
import { Empty, Reading } from '../parts/states.tsx';

export function Event() {
  const { params } = place.value;
  const id = params.get('id');
  const agentId = params.get('agent_id');
  if (id === null)
    return (
      <Empty title="Which event?">
        <p>
          The address names none. <a href={hrefOf('events')}>All events</a>
        </p>
      </Empty>
    );
  return (
    <div class="screen narrow">
      <h1>Event</h1>
      {agentId === null ? <OfSomeAgent key={id} id={id} /> : <EventView key={id} id={id} agentId={agentId} />}
    </div>
  );
}

function OfSomeAgent({ id }: { id: string }) {
  const reading = useRead<{ logs: Pick<AuditEntry, 'actor'>[] }>(
    `v1/audit-logs${query({ resource_type: 'event', resource_id: id, limit: 5 })}`,
  );
  const agents = reading.value?.logs.map(({ actor }) => /^agent:(.+)$/.exec(actor)?.[1]);
  const agentId = agents?.find((agent) => agent !== undefined);
  return (
    <Reading of={reading}>
      {agentId === undefined ? (
        <Empty title="There is no such event">
          <p>
            Nothing is recorded under{' '}
            <code>
              <Literal text={id} />
            </code>
            .
          </p>
        </Empty>
      ) : (
        <EventView id={id} agentId={agentId} />
      )}
    </Reading>
  );
}
