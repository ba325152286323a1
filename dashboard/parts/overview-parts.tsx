// What the overview of an account and of one agent have in common: what needs a person, the figures beside those of the
// day and the week before, tokens, and policies. Every number leads to what was counted.
// Failure: a part that the service could not count says so in its place.
import '../styles/overview.css';
import type { ComponentChildren } from 'preact';
import { changeText, shortNumber } from '../core/amounts.ts';
import { eventsOf } from '../core/overview.ts';
import { many } from '../core/plural.ts';
import { hrefOf } from '../core/router.ts';
import { isBound } from '../core/session.ts';
import { countdownText, spanText } from '../core/time.ts';
import type { Compared, Overview } from '../core/types.ts';
import { Time, useNow } from './buttons.tsx';
import { Literal } from './literal.tsx';

type Of = { overview: Overview; agentId?: string };

/** Nothing, where there is nothing to do. */
export function Attention({ overview, agentId }: Of) {
  const { approvals, deliveries, attention, window } = overview;
  const today = { agent_id: agentId, from: window.from, to: window.to };
  const notes: ComponentChildren[] = [];
  if (approvals !== null && approvals.pending > 0)
    notes.push(
      <a href={hrefOf('approvals')}>
        {many(approvals.pending, 'approval waits', 'approvals wait')}
        {approvals.oldest !== null && <Left expiresAt={approvals.oldest.expires_at} />}
      </a>,
    );
  if (attention.agents_down > 0 && agentId === undefined)
    notes.push(
      <a href={hrefOf('agents', { status: 'down' })}>
        {many(attention.agents_down, 'agent is silent', 'agents are silent')}
      </a>,
    );
  if (attention.agents_down > 0 && agentId !== undefined) notes.push('It has been silent for longer than it should be');
  if (deliveries !== null && deliveries.failed > 0)
    notes.push(
      <a href={hrefOf('deliveries', { status: 'failed', ...today })}>
        {many(deliveries.failed, 'notification failed', 'notifications failed')} today
      </a>,
    );
  if (deliveries !== null && deliveries.kept_mails > 0)
    notes.push(
      <a href={hrefOf('deliveries', { channel: 'email', ...today })}>
        {many(deliveries.kept_mails, 'mail was', 'mails were')} kept in a folder: no mail server is set
      </a>,
    );
  if (attention.untold_policies > 0)
    notes.push(
      <a href={hrefOf('alerts')}>
        {many(attention.untold_policies, 'policy asks', 'policies ask')} for an alert, but no alert is set up for
        violations
      </a>,
    );
  if (agentId === undefined) notes.push(...careNotes(attention.service));
  if (notes.length === 0) return null;
  return (
    <section class="attention" aria-label="Needs attention">
      <ul>
        {notes.map((note, i) => (
          <li key={i}>{note}</li>
        ))}
      </ul>
    </section>
  );
}

/** The notes for those who look after the service: each names the place, or the command, by which it is put right. */
function careNotes(care: Overview['attention']['service']): ComponentChildren[] {
  if (care === undefined) return [];
  if (care === null) return ['What the service has to see to is not known now'];
  const notes: ComponentChildren[] = care.faults.map((fault) => <Literal text={fault} />);
  if (care.dead_entries > 0)
    notes.push(
      <>
        {many(care.dead_entries, 'entry was', 'entries were')} put aside: <code>gatehouse dead list</code> says why
      </>,
    );
  if (care.store_behind_seconds >= BEHIND_S)
    notes.push(`Storing is ${spanText(care.store_behind_seconds * 1_000)} behind: lists lack what came since`);
  if (care.is_audit_invalid)
    notes.push(<a href={hrefOf('audit')}>The audit chain did not verify: verify it here to see where</a>);
  if (care.backup === 'old' && care.last_backup_at !== null)
    notes.push(
      <>
        The last backup is <Time at={care.last_backup_at} ago />: <code>gatehouse backup DIR</code> makes one
      </>,
    );
  if (care.backup === 'never')
    notes.push(
      <>
        There was no backup yet: <code>gatehouse backup DIR</code> makes one
      </>,
    );
  return notes;
}

/** Less is seen after every pause. */
const BEHIND_S = 10;

function Left({ expiresAt }: { expiresAt: string }) {
  const now = useNow();
  const isOver = Date.parse(expiresAt) <= now;
  return (
    <>
      ; the oldest {isOver ? 'is out of time' : <span class="countdown">has {countdownText(expiresAt, now)} left</span>}
    </>
  );
}

/** `children`: more figures. */
export function Figures({ overview, agentId, children }: Of & { children?: ComponentChildren }) {
  const { figures, anomalies, tokens, window } = overview;
  const of = { agent_id: agentId };
  return (
    <section aria-label="Today">
      <dl class="figures">
        <Figure title="Events" of={figures?.events} href={eventsOf(overview, of)} />
        <Figure title="Blocked" of={figures?.blocked} href={eventsOf(overview, { ...of, outcome: 'blocked' })} />
        <Figure title="Errors" of={figures?.errors} href={eventsOf(overview, { ...of, type: 'error' })} />
        <Figure
          title="Anomalies"
          of={anomalies ?? undefined}
          href={hrefOf('anomalies', { ...of, from: window.from, to: window.to })}
        />
        <Figure title="Tokens" of={tokens?.total} href={eventsOf(overview, { ...of, by: 'model' })} />
        {children}
      </dl>
    </section>
  );
}

function Figure({ title, of, href }: { title: string; of: Compared | undefined; href: string }) {
  return (
    <div>
      <dt>{title}</dt>
      {of === undefined ? (
        <dd class="quiet">not known now</dd>
      ) : (
        <>
          <dd class="number" title={of.now.toLocaleString('en')}>
            <a href={href}>{shortNumber(of.now)}</a>
          </dd>
          <dd>
            <Before name="yesterday" now={of.now} before={of.day_before} />
          </dd>
          <dd>
            <Before name="a week ago" now={of.now} before={of.week_before} />
          </dd>
        </>
      )}
    </div>
  );
}

function Before({ name, now, before }: { name: string; now: number; before: number }) {
  const change = changeText(now, before);
  return (
    <>
      <span class="quiet">{name}</span> {shortNumber(before)} {change !== '' && <span class="change">{change}</span>}
    </>
  );
}

export function Unknown() {
  return <p class="quiet">This could not be counted now.</p>;
}

/** `text`: what is shown for `n`. */
type Line = { key: string; title: ComponentChildren; href?: string; n: number; text?: string };

/** Each with a bar that shows its share of the first. */
export function Ranking({ label, lines, rest }: { label: string; lines: readonly Line[]; rest?: string }) {
  const most = Math.max(...lines.map(({ n }) => n)) || 1;
  return (
    <>
      <ol class="ranking" aria-label={label}>
        {lines.map(({ key, title, href, n, text = n.toLocaleString('en') }) => (
          <li key={key}>
            <span class="title">{title}</span>
            <span class="number">{href === undefined ? text : <a href={href}>{text}</a>}</span>
            <i aria-hidden="true" style={{ width: `${Math.max(1, (Math.max(0, n) / most) * 100)}%` }} />
          </li>
        ))}
      </ol>
      {rest !== undefined && <p class="quiet">{rest}</p>}
    </>
  );
}

export function Tokens({ overview, agentId }: Of) {
  const { tokens } = overview;
  return (
    <section class="card" aria-label="Tokens">
      <h2>Tokens</h2>
      {tokens === null && <Unknown />}
      {tokens !== null && tokens.model.values.length === 0 && (
        <p class="quiet">
          No event of today says how many. They are read from <code>tokens_used</code> or a provider's{' '}
          <code>usage</code>.
        </p>
      )}
      {tokens !== null && tokens.model.values.length > 0 && (
        <>
          <h3>By model</h3>
          <Ranking
            label="Tokens by model"
            lines={tokens.model.values.map(({ value, tokens: n }) => ({
              ...{ key: value, n },
              title: value === '' ? '(no model named)' : <Literal text={value} />,
              ...(value === '' ? {} : { href: eventsOf(overview, { model: value, agent_id: agentId }) }),
            }))}
            {...restOf(tokens.model.other, 'Other models')}
          />
        </>
      )}
      {tokens !== null && agentId === undefined && tokens.agent_id.values.length > 0 && (
        <>
          <h3>By agent</h3>
          <Ranking
            label="Tokens by agent"
            lines={tokens.agent_id.values.map(({ value, name, tokens: n }) => ({
              ...{ key: value, n, href: eventsOf(overview, { agent_id: value, by: 'model' }) },
              title: <Literal text={name ?? value} />,
            }))}
            {...restOf(tokens.agent_id.other, 'Other agents')}
          />
        </>
      )}
    </section>
  );
}

function restOf(n: number, name: string): { rest?: string } {
  return n === 0 ? {} : { rest: `${name}: ${n.toLocaleString('en')}` };
}

export function Policies({ overview, agentId }: Of) {
  const { policies } = overview;
  const named = (id: string, name: string | undefined) => {
    const text = <Literal text={name ?? id} />;
    return name === undefined || isBound() ? text : <a href={hrefOf('policies', { id })}>{text}</a>;
  };
  return (
    <section class="card" aria-label="Policies">
      <h2>Policies</h2>
      {policies === null && <Unknown />}
      {policies !== null && (
        <>
          <p class="quiet">{policies.in_force.toLocaleString('en')} in force</p>
          {policies.matched.length > 0 && (
            <>
              <h3>Matched most today</h3>
              <Ranking
                label="Policies by events that they matched"
                lines={policies.matched.map(({ id, name, events }) => ({
                  ...{ key: id, n: events, title: named(id, name) },
                  href: eventsOf(overview, { policy_id: id, agent_id: agentId }),
                }))}
              />
            </>
          )}
          {policies.never_matched.total > 0 && (
            <>
              <h3>Matched nothing today</h3>
              <ul class="names">
                {policies.never_matched.items.map(({ id, name }) => (
                  <li key={id}>{named(id, name)}</li>
                ))}
              </ul>
              {policies.never_matched.total > policies.never_matched.items.length && (
                <p class="quiet">
                  and {(policies.never_matched.total - policies.never_matched.items.length).toLocaleString('en')} more
                </p>
              )}
            </>
          )}
        </>
      )}
    </section>
  );
}
