// The inbox of what waits for a person, the payload beside it. Three keys decide: choose, a or d, Enter.
// Of two people who decide one wins; the other sees who was faster.
// Invariant: what is decided is what was read. The one that is open stays open, whatever comes in or is decided
// meanwhile, and a choice is of that one alone.
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call, query } from '../core/api.ts';
import { actorName } from '../core/by-id.ts';
import { useLive } from '../core/live.ts';
import { changed, useList, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import { countdownText } from '../core/time.ts';
import type { Approval, ApprovalRow, Page } from '../core/types.ts';
import { keepText, keptText } from '../core/unsaved.ts';
import { announce } from '../parts/announce.tsx';
import { EventLink, LiveState, Outcome, Time, useNow } from '../parts/buttons.tsx';
import { EventView } from '../parts/event-view.tsx';
import { useKeys } from '../parts/keys.ts';
import { Literal } from '../parts/literal.tsx';
import { Actor, AgentName } from '../parts/named.tsx';
import { NotifyButton } from '../parts/notify-button.tsx';
import { Payload } from '../parts/payload.tsx';
import { Empty, More, Problem, Reading } from '../parts/states.tsx';
import { placesOf, Why } from '../parts/why.tsx';
import '../styles/lists.css';

type Choice = 'approve' | 'deny';

export function Approvals() {
  const { params } = place.value;
  const id = params.get('id');
  const status = params.get('status') ?? 'pending';
  const path = `v1/approvals${query({ status: status === 'all' ? undefined : status, expand: 'event', payload: 'full' })}`;
  const list = useList<ApprovalRow>(path, { everyMs: 15_000, limit: 50 });
  const isAway = useLive('topics=approvals', {
    onRow: () => changed('v1/approvals'),
    onGap: () => changed('v1/approvals'),
  });
  const named = list.items.find((one) => one.id === id);
  // A link may name one that is decided by now, or far down the list.
  const alone = useRead<ApprovalRow>(
    id === null || named !== undefined || list.waiting ? undefined : `v1/approvals/${encodeURIComponent(id)}`,
  );
  const last = useRef<ApprovalRow | undefined>(undefined);
  const chosen = [named, alone.value, last.current].find((one) => one?.id === id);
  last.current = chosen;
  const at = chosen === undefined ? -1 : list.items.indexOf(chosen);
  const show = (index: number) => {
    const next = list.items[index];
    if (next !== undefined) setParams({ id: next.id }, { replace: true });
  };
  useKeys({
    j: { does: 'Next approval', run: () => show(at + 1) },
    k: { does: 'Previous approval', run: () => show(Math.max(0, at - 1)) },
  });
  // The first one comes up by itself where none is open. What was just decided may be in the list a moment longer.
  const decided = useRef(new Set<string>());
  const first = list.items.find((one) => !decided.current.has(one.id))?.id;
  useLayoutEffect(() => {
    if (id === null && first !== undefined) setParams({ id: first }, { replace: true });
  }, [id, first]);
  return (
    <div class="screen split even">
      <section class="main" aria-label="Approvals">
        <header class="bar">
          <h1 class="grow">Approvals</h1>
          <LiveState isAway={isAway} />
          <NotifyButton />
          <label>
            <span class="hidden">Which approvals</span>
            <select
              value={status}
              onChange={({ currentTarget }) =>
                setParams({
                  status: currentTarget.value === 'pending' ? undefined : currentTarget.value,
                  id: undefined,
                })
              }
            >
              <option value="pending">Waiting</option>
              <option value="approved">Approved</option>
              <option value="denied">Denied</option>
              <option value="expired">Expired</option>
              <option value="all">All</option>
            </select>
          </label>
        </header>
        <Reading of={list} empty={list.items.length === 0 && <Nothing status={status} />}>
          <ul class="inbox">
            {list.items.map((approval) => (
              <Line key={approval.id} approval={approval} isOpen={approval === chosen} />
            ))}
          </ul>
          <More of={list} />
        </Reading>
      </section>
      {chosen !== undefined && (
        <aside class="side" aria-label="What is to be decided">
          <Decision
            key={chosen.id}
            approval={chosen}
            onDecided={() => {
              decided.current.add(chosen.id);
              const { screen, params: now } = place.peek();
              // A person who has gone on meanwhile stays there.
              if (screen === 'approvals' && now.get('id') === chosen.id)
                setParams({ id: undefined }, { replace: true });
            }}
          />
        </aside>
      )}
      {chosen === undefined && id !== null && (
        <aside class="side" aria-label="What is to be decided">
          <Reading of={alone}>{null}</Reading>
        </aside>
      )}
    </div>
  );
}

function Nothing({ status }: { status: string }) {
  return (
    <Empty title={status === 'pending' ? 'Nothing waits for you' : 'None of these'}>
      <p>
        Events wait here when a policy of the type <code>require_approval</code> matches them.{' '}
        <a href={hrefOf('policies')}>Policies</a>
      </p>
    </Empty>
  );
}

function Line({ approval, isOpen }: { approval: ApprovalRow; isOpen: boolean }) {
  const now = useNow();
  const { params } = place.value;
  const next = new URLSearchParams(params);
  next.set('id', approval.id);
  return (
    <li>
      <a href={hrefOf('approvals', next)} class={isOpen ? 'open' : ''} aria-current={isOpen ? 'true' : undefined}>
        <strong>
          <AgentName id={approval.agent_id} />
        </strong>{' '}
        <Literal text={approval.policy_name} />
        {(approval.event?.summary ?? '') !== '' && (
          <span class="said">
            <Literal text={approval.event!.summary} />
          </span>
        )}
        <div class="quiet">
          {approval.status === 'pending' ? (
            <>
              {countdownText(approval.expires_at, now)} left, then{' '}
              {approval.on_timeout === 'deny' ? 'denied' : 'approved'}
            </>
          ) : (
            <>
              {approval.status} <Time at={approval.decided_at ?? approval.expires_at} ago />
            </>
          )}
        </div>
      </a>
    </li>
  );
}

type DecisionProps = { approval: ApprovalRow; onDecided: () => void };

function Decision({ approval, onDecided }: DecisionProps) {
  const now = useNow();
  const { event } = approval;
  return (
    <>
      <h2>
        <Literal text={approval.policy_name} />
      </h2>
      {/* Before the buttons, also where the payload is below them. */}
      <p>
        <strong>
          <AgentName id={approval.agent_id} />
        </strong>{' '}
        <Literal text={event?.summary ?? ''} />
      </p>
      {approval.status === 'pending' ? (
        <p>
          <strong class="countdown">{countdownText(approval.expires_at, now)}</strong> left. Without a decision until{' '}
          <Time at={approval.expires_at} />, it is{' '}
          {approval.on_timeout === 'deny' ? 'denied: the event is blocked' : 'approved: the event is allowed'}.
        </p>
      ) : (
        <p>
          {approval.status} by <Actor actor={approval.decided_by} />{' '}
          {approval.decided_at !== null && <Time at={approval.decided_at} />}. The event is{' '}
          <Outcome outcome={approval.outcome} />.{' '}
          {approval.comment !== null && (
            <q>
              <Literal text={approval.comment} lines />
            </q>
          )}
        </p>
      )}
      {may('decide') &&
        (approval.status === 'pending' ? (
          <Decide approval={approval} onDecided={onDecided} />
        ) : (
          <TooLate approval={approval} />
        ))}
      {event === null && <p class="quiet">The event is not stored yet, or its agent was deleted.</p>}
      {event === undefined && <EventView id={approval.event_id} agentId={approval.agent_id} />}
      {event !== null && event !== undefined && (
        <>
          <p>
            <EventLink agentId={event.agent_id} id={event.id}>
              The event
            </EventLink>{' '}
            · {event.type}
            {event.trace_id !== undefined && (
              <>
                {' '}
                · <a href={hrefOf('trace', { id: event.trace_id })}>its trace</a>
              </>
            )}
          </p>
          <Payload text={event.payload.text} marked={placesOf(event)} />
          <Why event={event} isOfApproval />
        </>
      )}
      <Past approval={approval} />
    </>
  );
}

/** Shows the comment that was being written when another person decided. */
function TooLate({ approval: { id } }: { approval: ApprovalRow }) {
  const [comment, setComment] = useState(keptText(id));
  const drop = () => {
    keepText(id, '');
    setComment('');
  };
  if (comment === '') return null;
  return (
    <p role="status">
      Your comment came too late and was not saved: <q>{comment}</q>{' '}
      <button type="button" onClick={drop}>
        Drop it
      </button>
    </p>
  );
}

function Decide({ approval, onDecided }: DecisionProps) {
  const [choice, setChoice] = useState<Choice>();
  const [comment, setComment] = useState(keptText(approval.id));
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const confirm = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (choice !== undefined) confirm.current?.focus();
  }, [choice]);
  const write = (text: string) => {
    setComment(text);
    keepText(approval.id, text);
  };
  useKeys({
    a: { does: 'Approve, then Enter', run: () => setChoice('approve') },
    d: { does: 'Deny, then Enter', run: () => setChoice('deny') },
    ...(choice === undefined
      ? {}
      : {
          Enter: { does: `Yes, ${choice}`, run: () => form.current?.requestSubmit() },
          Escape: { does: 'Take the choice back', run: () => setChoice(undefined) },
        }),
  });
  const decide = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy || choice === undefined) return;
    setBusy(true);
    setError(undefined);
    try {
      await call('POST', `v1/approvals/${approval.id}`, {
        body: { decision: choice, ...(comment === '' ? {} : { comment }) },
      });
      announce(choice === 'approve' ? 'Approved.' : 'Denied.');
      keepText(approval.id, '');
      onDecided();
      changed('v1/approvals', 'v1/events', 'v1/agents');
    } catch (refusal) {
      setError(
        refusal instanceof ApiError && refusal.status === 409
          ? await whoWasFaster(approval.id, refusal)
          : (refusal as ApiError),
      );
      changed('v1/approvals');
    } finally {
      setBusy(false);
      setChoice(undefined);
    }
  };
  return (
    <form ref={form} class="decide" onSubmit={decide}>
      {error !== undefined && <Problem error={error} />}
      <label class="field">
        <span>Comment, kept with the decision</span>
        <input value={comment} maxLength={2000} onInput={({ currentTarget }) => write(currentTarget.value)} />
      </label>
      <div class="bar">
        <button type="button" aria-pressed={choice === 'approve'} onClick={() => setChoice('approve')}>
          Approve <kbd>a</kbd>
        </button>
        <button type="button" aria-pressed={choice === 'deny'} onClick={() => setChoice('deny')}>
          Deny <kbd>d</kbd>
        </button>
        {choice !== undefined && (
          <button ref={confirm} type="submit" class={choice === 'approve' ? 'primary' : 'danger'} aria-busy={busy}>
            Yes, {choice} <kbd>Enter</kbd>
          </button>
        )}
      </div>
    </form>
  );
}

async function whoWasFaster(id: string, refusal: ApiError): Promise<ApiError> {
  try {
    const { status, decided_by: by, comment } = (await call<Approval>('GET', `v1/approvals/${id}`)).value;
    const said = comment === null ? '' : ` “${comment}”`;
    return new ApiError(
      409,
      refusal.code,
      `It was ${status} by ${await actorName(by)} before.${said}`,
      refusal.requestId,
    );
  } catch {
    return refusal;
  }
}

/** How the like was decided: the last ones that the same policy asked for. */
function Past({ approval }: { approval: ApprovalRow }) {
  const past = useRead<Page<Approval>>(
    approval.policy_id === null
      ? undefined
      : `v1/approvals${query({ policy_id: approval.policy_id, status: ['approved', 'denied', 'expired'], limit: 5 })}`,
  );
  const items = (past.value?.items ?? []).filter(({ id }) => id !== approval.id);
  if (items.length === 0) return null;
  return (
    <section aria-label="Past decisions">
      <h3>How the like was decided</h3>
      <ul>
        {items.map(({ id, status, decided_by: by, decided_at: at, comment, agent_id: agent, event_id: event }) => (
          <li key={id}>
            {status} by <Actor actor={by} /> {at !== null && <Time at={at} ago />} ·{' '}
            <EventLink agentId={agent} id={event}>
              event
            </EventLink>{' '}
            {comment !== null && (
              <q>
                <Literal text={comment} lines />
              </q>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
