// Tries a policy on an event before it is kept: one of the newest, or the one that was open. Nothing is recorded, and
// no counter moves.
import { useState } from 'preact/hooks';
import { useAgentNames } from '../core/agents.ts';
import type { ApiError } from '../core/api.ts';
import { useRead } from '../core/queries.ts';
import { timeText } from '../core/time.ts';
import type { Evaluated, EventRow, Page } from '../core/types.ts';
import { EventLink, Outcome } from './buttons.tsx';
import { Problem } from './states.tsx';
import { Match } from './why.tsx';

/** A recorded event. */
export type Tried = { agent_id: string; id: string };

const NEWEST = 20;

export function TryPolicy({
  tried,
  ask,
}: {
  tried: Tried | undefined;
  /** Rejects with an ApiError. `form`: of the editor around this. */
  ask: (event: Tried, form: FormData) => Promise<Evaluated>;
}) {
  const names = useAgentNames();
  const newest = useRead<Page<EventRow>>(`v1/events?payload=none&limit=${NEWEST}`);
  const [chosen, setChosen] = useState(tried?.id);
  const [answer, setAnswer] = useState<{ of: Tried; says: Evaluated }>();
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const rows = newest.value?.items ?? [];
  const events: Tried[] = [...(tried === undefined || rows.some(({ id }) => id === tried.id) ? [] : [tried]), ...rows];
  const event = events.find(({ id }) => id === chosen) ?? events[0];
  const run = async (form: HTMLFormElement) => {
    if (event === undefined || busy) return;
    setBusy(true);
    setError(undefined);
    setAnswer(undefined);
    try {
      const { agent_id, id } = event;
      setAnswer({ of: event, says: await ask({ agent_id, id }, new FormData(form)) });
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <fieldset class="try">
      <legend>Try it on an event</legend>
      {newest.error !== undefined && <Problem error={newest.error} retry={newest.retry} />}
      {events.length === 0 && newest.error === undefined && (
        <small>{newest.waiting ? 'Loading …' : 'There are no events yet.'}</small>
      )}
      {event !== undefined && (
        <div class="bar">
          <select
            aria-label="Event"
            value={event.id}
            onChange={({ currentTarget }) => {
              setChosen(currentTarget.value);
              setAnswer(undefined);
            }}
          >
            {events.map((one) => (
              <option key={one.id} value={one.id}>
                {names.get(one.agent_id) ?? one.agent_id} · {'type' in one ? told(one as EventRow) : one.id}
              </option>
            ))}
          </select>
          <button type="button" aria-busy={busy} onClick={({ currentTarget }) => void run(currentTarget.form!)}>
            Try
          </button>
        </div>
      )}
      {error !== undefined && <Problem error={error} />}
      <div role="status">{answer !== undefined && <Says of={answer.of} says={answer.says} />}</div>
    </fieldset>
  );
}

function told({ type, timestamp, policy_result: { outcome } }: EventRow): string {
  return `${type} · ${outcome} · ${timeText(timestamp)}`;
}

function Says({ of, says: { judged, policy_result: result } }: { of: Tried; says: Evaluated }) {
  return (
    <>
      <p>
        <EventLink agentId={of.agent_id} id={of.id}>
          The event
        </EventLink>{' '}
        {SAYS[judged[0]!.result]} <Outcome outcome={result.outcome} />
      </p>
      <ul class="matches">
        {result.matches.map((match) => (
          <Match key={match.policy_id} match={match} decided={match.policy_id === result.policy_id} isDraft />
        ))}
      </ul>
    </>
  );
}

const SAYS = {
  matched: 'would match, and by this policy alone be',
  not_matched: 'would not match, and by this policy alone be',
  counted: 'would be counted; until the limit is over it is',
};
