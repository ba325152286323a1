// Deliveries of notifications: every attempt and what was answered; one, or all that are filtered, can be sent again.
import { useState } from 'preact/hooks';
import { CHANNELS, DELIVERY_STATUSES } from '../../schemas/closed-sets.ts';
import { ApiError, call, query, read } from '../core/api.ts';
import { useLive } from '../core/live.ts';
import { many } from '../core/plural.ts';
import { changed, useList, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import { rangeOf } from '../core/time.ts';
import type { Delivery, Page } from '../core/types.ts';
import { announce } from '../parts/announce.tsx';
import { EventLink, LiveButton, Severity, Time } from '../parts/buttons.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ExportMenu } from '../parts/export.tsx';
import { Filters, TimeRange } from '../parts/filters.tsx';
import { Cut, Literal } from '../parts/literal.tsx';
import { NARROW_ROW_PX, narrow, Side } from '../parts/side.tsx';
import { Empty, Reading } from '../parts/states.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

/** Sent again at once from here; a script takes it from there. */
const REDELIVER_MAX = 500;
/** The statuses in which a delivery can be sent again: the others are delivered, or still under way. */
const AGAIN = new Set(['failed', 'cancelled']);

const NOTHING_SENT = <Empty title="Nothing was sent yet">What alerts send is listed here, with each attempt.</Empty>;

export function Deliveries() {
  const { params } = place.value;
  const names = ['status', 'channel', 'alert_id', 'agent_id', 'policy_id'];
  const filters = Object.fromEntries(names.map((name) => [name, params.getAll(name)]));
  const asked = query({ ...filters, ...rangeOf(params) });
  const list = useList<Delivery>(`v1/deliveries${asked}`);
  const isAway = useLive(params.has('live') ? 'topics=deliveries' : undefined, {
    onRow: () => changed('v1/deliveries'),
    onGap: () => changed('v1/deliveries'),
  });
  const [all, setAll] = useState<Filtered>();
  const id = params.get('id');
  const values = (of: readonly string[]) => of.map((value) => ({ value }));
  return (
    <div class={`screen ${id === null ? '' : 'split'}`}>
      <section class="main" aria-label="Deliveries">
        <header class="bar">
          <h1 class="grow">Deliveries</h1>
          <a href={hrefOf('alerts')}>Alerts</a>
          <TimeRange />
          <LiveButton isAway={isAway} />
          {may('configure') && !isBound() && list.items.length > 0 && (
            <button
              type="button"
              onClick={() => setAll({ asked, total: list.total, until: list.items[0]!.created_at })}
            >
              Send all of these again
            </button>
          )}
          <ExportMenu path={`v1/deliveries/export${asked}`} name="deliveries" />
        </header>
        <Filters
          specs={[
            { name: 'status', label: 'Status', choices: values(DELIVERY_STATUSES) },
            { name: 'channel', label: 'Channel', choices: values(CHANNELS) },
            { name: 'alert_id', label: 'Alert', choices: [], found: 'alerts' },
            { name: 'agent_id', label: 'Agent', choices: [], found: 'agents' },
          ]}
          chipsFor={['policy_id']}
        />
        <Reading
          of={list}
          empty={
            list.items.length === 0 &&
            (asked === '' ? NOTHING_SENT : <Empty title="No deliveries here">None fits these filters.</Empty>)
          }
        >
          <p class="quiet">{many(list.total, 'delivery', 'deliveries')}</p>
          <VirtualRows
            label="Deliveries, newest first"
            remembers
            count={list.items.length}
            rowPx={narrow.value ? NARROW_ROW_PX : 36}
            onEnd={list.more}
            row={(index) => {
              const delivery = list.items[index]!;
              const next = new URLSearchParams(params);
              next.set('id', delivery.id);
              return (
                <a
                  class={`delivery-line ${delivery.id === id ? 'open' : ''}`}
                  href={hrefOf('deliveries', next)}
                  aria-current={delivery.id === id ? 'true' : undefined}
                >
                  <Time at={delivery.created_at} />
                  <span class={`badge ${delivery.status}`}>{delivery.status}</span>
                  <Cut text={delivery.alert_name} />
                  <span>{delivery.trigger}</span>
                  <span>{delivery.channel}</span>
                  <Cut text={delivery.target} />
                  <span>{many(delivery.attempts.length, 'try', 'tries')}</span>
                </a>
              );
            }}
          />
        </Reading>
      </section>
      {id !== null && (
        <Side label="Open delivery" of={id} onClose={() => setParams({ id: undefined })}>
          <One key={id} id={id} />
        </Side>
      )}
      {all !== undefined && <SendAll {...all} onClose={() => setAll(undefined)} />}
    </div>
  );
}

function One({ id }: { id: string }) {
  const reading = useRead<Delivery>(`v1/deliveries/${encodeURIComponent(id)}`);
  const delivery = reading.value;
  const [isAgain, setAgain] = useState(false);
  return (
    <Reading of={reading}>
      {delivery !== undefined && (
        <>
          <h2>
            <Literal text={delivery.alert_name} />
          </h2>
          <dl class="facts">
            <dt>Status</dt>
            <dd>
              <span class={`badge ${delivery.status}`}>{delivery.status}</span>
            </dd>
            <dt>Tells of</dt>
            <dd>
              {delivery.trigger} <Severity severity={delivery.severity} />{' '}
              {delivery.count > 1 && `(${delivery.count} in one)`}
              {delivery.test && ' (a test)'}
            </dd>
            <dt>To</dt>
            <dd>
              {delivery.channel} <Literal text={delivery.target} />
            </dd>
            {delivery.next_attempt_at !== null && (
              <>
                <dt>Next try</dt>
                <dd>
                  <Time at={delivery.next_attempt_at} />
                </dd>
              </>
            )}
          </dl>
          {delivery.event_id !== null && delivery.agent_id !== null && (
            <p>
              <EventLink agentId={delivery.agent_id} id={delivery.event_id}>
                The event
              </EventLink>
            </p>
          )}
          <h3>Attempts</h3>
          {delivery.attempts.length === 0 ? (
            <p class="quiet">None yet.</p>
          ) : (
            <table>
              <thead>
                <tr>
                  <th scope="col">At</th>
                  <th scope="col">Took</th>
                  <th scope="col">Answer</th>
                </tr>
              </thead>
              <tbody>
                {delivery.attempts.map((attempt) => (
                  <tr key={attempt.at}>
                    <th scope="row">
                      <Time at={attempt.at} millis />
                    </th>
                    <td>{attempt.duration_ms} ms</td>
                    <td>
                      {attempt.status_code ?? ''} <Literal text={attempt.error ?? ''} />{' '}
                      {attempt.answer !== null && (
                        <code>
                          <Literal text={attempt.answer} lines />
                        </code>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {may('configure') && AGAIN.has(delivery.status) && (
            <button type="button" onClick={() => setAgain(true)}>
              Send again
            </button>
          )}
          {isAgain && (
            <Dialog
              title="Send again"
              action="Send again"
              onClose={() => setAgain(false)}
              onAct={async () => {
                await call('POST', `v1/deliveries/${id}/redeliver`);
                announce('It is on its way.');
                changed('v1/deliveries');
              }}
            >
              <p>
                The same notification goes to <Literal text={delivery.target} /> once more.
              </p>
            </Dialog>
          )}
        </>
      )}
    </Reading>
  );
}

/** The list that a person saw when they asked for all of it: the filters, how many, and when the newest was made. */
type Filtered = { asked: string; total: number; until: string };

/** One after another, so that a target is not flooded; what fails is counted and said. */
function SendAll({ asked, total, until, onClose }: Filtered & { onClose: () => void }) {
  const [done, setDone] = useState(0);
  const count = Math.min(total, REDELIVER_MAX);
  return (
    <Dialog
      title="Send all of these again"
      action="Send them"
      onClose={onClose}
      onAct={async () => {
        const { value } = await read<Page<Delivery>>(
          `v1/deliveries${asked}${asked === '' ? '?' : '&'}limit=${REDELIVER_MAX}`,
        );
        const ended = value.items.filter(
          ({ status, created_at: at }) => AGAIN.has(status) && Date.parse(at) <= Date.parse(until),
        );
        let failed = 0;
        for (const { id } of ended) {
          await call('POST', `v1/deliveries/${id}/redeliver`).catch(() => failed++);
          setDone((n) => n + 1);
        }
        changed('v1/deliveries');
        if (failed > 0) throw new ApiError(0, 'some_failed', `${failed} of ${ended.length} could not be sent again.`);
        announce(`${ended.length} are on their way.`);
      }}
    >
      <p>
        Of {count.toLocaleString('en')} notifications
        {total > count ? `, the newest of ${total.toLocaleString('en')},` : ''} those that failed or were cancelled go
        out once more.
      </p>
      {done > 0 && <progress value={done} max={count} aria-label="Sent again" />}
    </Dialog>
  );
}
