// How to send: one short way for each kind of agent, and the first event as soon as it is there, as it was judged. It
// stands where the list of events is empty, and is a screen of its own later.
// Invariant: no key is in any text; where one goes is said, and where one is made.
import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { useNames } from '../core/by-id.ts';
import { nowMs } from '../core/clock.ts';
import { settingsOf, stepsOf, WAY_TITLES, WAYS, type Way } from '../core/first-event.ts';
import { useLive } from '../core/live.ts';
import { changed, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { isAdmin, isBound, may, session } from '../core/session.ts';
import type { EventRow, Page } from '../core/types.ts';
import { CopyButton, Outcome } from '../parts/buttons.tsx';
import { Cut, Literal } from '../parts/literal.tsx';
import { serviceUrl } from '../parts/states.tsx';
import '../styles/start.css';

export function Start() {
  const { params, screen } = place.value;
  const asked = params.get('way');
  const way = WAYS.find((one) => one === asked) ?? 'curl';
  const agent = session.value?.agent_id ?? null;
  const nameOf = useNames('agents', agent === null ? [] : [agent]);
  const sender = agent === null ? { name: 'first-agent' } : { name: nameOf(agent), id: agent };
  const url = serviceUrl();
  const isAlone = screen === 'start';
  const Title = isAlone ? 'h1' : 'h2';
  return (
    <div class={isAlone ? 'screen scrolls' : 'start-inside'}>
      <div class="start">
        <Title>{isAlone ? 'How to send' : 'No events yet'}</Title>
        <p>
          An agent sends what it does to this service, which judges and records it. Choose how, copy the commands into a
          shell, and watch the event come in below.
        </p>
        <Text
          what={
            <>
              First the address, and a key in place of <code>gth_…</code>
              {isAdmin.value ? (
                <>
                  : <a href={hrefOf('settings')}>make one under Settings</a>. The scope <code>write</code> is enough.
                </>
              ) : (
                ': ask who has a key with the scope admin to make one under Settings.'
              )}
            </>
          }
          text={settingsOf(url)}
        />
        <Tabs way={way} />
        <div role="tabpanel" id="way" aria-labelledby={`way-${way}`} class="steps">
          {stepsOf(way, url, sender).map(({ what, text }) => (
            <Text key={way + what} what={what} text={text} />
          ))}
        </div>
        <First />
        <p class="quiet">
          Nothing to send yet? <code>npm run demo -- --url {url} --key … --decide</code> in the folder of Gatehouse
          fills this account with the runs of four agents. Each way is described in full in <code>docs/joining.md</code>{' '}
          there.
        </p>
      </div>
    </div>
  );
}

function Tabs({ way }: { way: Way }) {
  const list = useRef<HTMLDivElement>(null);
  const choose = (next: Way) => setParams({ way: next === 'curl' ? undefined : next }, { replace: true });
  const onKeyDown = (event: KeyboardEvent) => {
    const at = WAYS.indexOf(way);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: WAYS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = WAYS[(to + WAYS.length) % WAYS.length]!;
    choose(next);
    list.current?.querySelector<HTMLElement>(`#way-${next}`)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label="How to send" onKeyDown={onKeyDown}>
      {WAYS.map((one) => (
        <button
          key={one}
          id={`way-${one}`}
          type="button"
          role="tab"
          aria-selected={one === way}
          aria-controls="way"
          tabIndex={one === way ? 0 : -1}
          onClick={() => choose(one)}
        >
          {WAY_TITLES[one]}
        </button>
      ))}
    </div>
  );
}

function Text({ what, text }: { what: ComponentChildren; text: string }) {
  return (
    <div class="step">
      <div class="bar">
        <span class="grow">{what}</span>
        <CopyButton text={text} label="Copy" />
      </div>
      <pre tabIndex={0}>
        <Literal text={text} lines />
      </pre>
    </div>
  );
}

/** The first of what is received from now on. */
function First() {
  const since = useMemo(() => new Date(nowMs()).toISOString(), []);
  const path = `v1/events?from=${since}&payload=preview&limit=1`;
  const { value } = useRead<Page<EventRow>>(path, { behind: true });
  const [live, setLive] = useState<EventRow>();
  const isAway = useLive('topics=events&payload=preview', {
    onRow: (_topic, row) => {
      const come = row as EventRow;
      if (come.received_at >= since) setLive((before) => before ?? come); // the stream is a second behind
    },
    onReady: () => changed(path),
    onGap: () => changed(path),
  });
  const event = live ?? value?.items[0];
  const nameOf = useNames('agents', event === undefined ? [] : [event.agent_id]);
  return (
    <section class="first" aria-label="The first event" aria-live="polite">
      {event === undefined ? (
        <p class="waits">{isAway ? 'Live updates are away: trying again …' : 'Waiting for the first event …'}</p>
      ) : (
        <>
          <p>
            It is here, and was judged: <Outcome outcome={event.policy_result.outcome} />
          </p>
          <p>
            <a href={hrefOf('event', { agent_id: event.agent_id, id: event.id })}>
              {event.type} of <Literal text={nameOf(event.agent_id)} />
            </a>{' '}
            <Cut text={event.summary} />
          </p>
          <p class="bar">
            <a class="button" href={hrefOf('events')} onClick={() => changed('v1/events')}>
              All events
            </a>
            {may('configure') && !isBound() && (
              <a class="button" href={hrefOf('policies')}>
                Make a policy
              </a>
            )}
          </p>
        </>
      )}
    </section>
  );
}
