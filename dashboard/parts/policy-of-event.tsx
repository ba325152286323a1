// "Make a policy of this" on an event: the values by which the policy is to know such events are picked here, and the
// editor begins with them.
// Invariant: the names of what was picked go through the address, values never.
import { useState } from 'preact/hooks';
import { type EventField, fieldsOfEvent, isOfAction } from '../core/policy-of-event.ts';
import { hrefOf } from '../core/router.ts';
import { readableShort } from '../core/tokens.ts';
import type { WholeEvent } from '../core/types.ts';
import { Literal } from './literal.tsx';

export function PolicyOfEvent({ event }: { event: WholeEvent }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="of-event" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Make a policy of this</summary>
      {isOpen && <Picked event={event} />}
    </details>
  );
}

function Picked({ event }: { event: WholeEvent }) {
  const [fields] = useState(() => fieldsOfEvent(event));
  const [picked, setPicked] = useState(() => fields.filter(isOfAction).map(({ field }) => field));
  const pick = ({ field }: EventField, is: boolean) =>
    setPicked(is ? [...picked, field] : picked.filter((one) => one !== field));
  return (
    <>
      <fieldset class="actions">
        <legend>An event is like this one if all of these are the same</legend>
        {fields.map((one) => (
          <label key={one.field}>
            <input
              type="checkbox"
              checked={picked.includes(one.field)}
              onChange={({ currentTarget }) => pick(one, currentTarget.checked)}
            />{' '}
            <Literal text={one.field} />:{' '}
            <code>
              <Literal text={readableShort(one.value)} />
            </code>
          </label>
        ))}
      </fieldset>
      <p>
        <a href={hrefOf('policies', addressOf(event, picked))}>Open it in the editor</a>
      </p>
    </>
  );
}

function addressOf({ agent_id: agent, id }: WholeEvent, picked: readonly string[]): URLSearchParams {
  const params = new URLSearchParams({ new: '1', agent_id: agent, event_id: id });
  for (const field of picked) params.append('field', field);
  return params;
}
