// "Make a policy of this" on an event: the values by which the policy is to know such events are picked here, and the
// editor begins with them. "Forbid this tool" on a call of one: the editor begins with the tool, for the event's agent.
// Invariant: the names of what was picked go through the address, values never.
import { useState } from 'preact/hooks';
import { type EventField, fieldsOfEvent, isOfAction, TOOL } from '../core/policy-of-event.ts';
import { go, hrefOf } from '../core/router.ts';
import { readableShort } from '../core/tokens.ts';
import type { WholeEvent } from '../core/types.ts';
import { useKeys } from './keys.ts';
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

/** Nothing on an event that calls no tool by its name. */
export function ForbidTool({ event }: { event: WholeEvent }) {
  const [picked] = useState(() => (event.type === 'tool_call' ? fieldsOfEvent(event).filter(isOfAction) : []));
  const isOfTool = picked.some(({ field }) => field === TOOL);
  const address = addressOf(
    event,
    picked.map(({ field }) => field),
    'agent',
  );
  useKeys(isOfTool ? { x: { does: 'Forbid this tool', run: () => go(hrefOf('policies', address)) } } : {});
  if (!isOfTool) return null;
  return (
    <p>
      <a class="button" href={hrefOf('policies', address)}>
        Forbid this tool <kbd>x</kbd>
      </a>
    </p>
  );
}

/** `scope`: of whom the policy is to be; left out: of all agents. */
function addressOf({ agent_id: agent, id }: WholeEvent, picked: readonly string[], scope?: 'agent'): URLSearchParams {
  const params = new URLSearchParams({ new: '1', agent_id: agent, event_id: id, ...(scope && { scope }) });
  for (const field of picked) params.append('field', field);
  return params;
}
