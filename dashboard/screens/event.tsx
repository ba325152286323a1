// One event by itself: what links lead to.
import { hrefOf, place } from '../core/router.ts';
import { EventView } from '../parts/event-view.tsx';
import { Empty } from '../parts/states.tsx';

export function Event() {
  const { params } = place.value;
  const id = params.get('id');
  const agentId = params.get('agent_id');
  if (id === null || agentId === null)
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
      <EventView key={id} id={id} agentId={agentId} />
    </div>
  );
}
