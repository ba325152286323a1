// What a backtest found, drawn: each outcome then with each outcome now, what changes by day, agent and tool, what is
// not known and why, and samples that lead to their events.
import { changeName, changesIn, type TriedPolicy } from '../core/backtests.ts';
import { hrefOf } from '../core/router.ts';
import type { BacktestResult, BacktestSample, OutcomeChange } from '../core/types.ts';
import { EventLink, Outcome, Time } from './buttons.tsx';
import { type Counts, CountsByDay, CountsTable } from './counts.tsx';
import { Literal } from './literal.tsx';
import { AgentLink, AgentName } from './named.tsx';
import { Table } from './table.tsx';
import { type MatchDetail, Reasons, Unmet } from './why.tsx';

const WAS = ['allowed', 'pending', 'blocked'] as const;
const NOW = [...WAS, 'unknown'] as const;

type ResultProps = { result: BacktestResult; tried: TriedPolicy };

export function BacktestOutcome({ result, tried }: ResultProps) {
  const changes = changesIn(result.outcomes);
  const columns = ['events', ...changes];
  return (
    <>
      <Matrix outcomes={result.outcomes} />
      <Notes result={result} />
      {changes.length > 0 && (
        <>
          <h3>By day of arrival (UTC)</h3>
          <CountsByDay
            label="What would change, by day"
            names={changes}
            days={result.by_day.map(({ day, outcomes }) => ({
              day,
              counts: countsOf(outcomes),
              total: sumOf(outcomes),
            }))}
          />
          <h3>By agent</h3>
          <CountsTable
            label="By agent"
            head="Agent"
            names={columns}
            lines={result.by_agent.map(({ agent_id: id, outcomes }) => ({
              key: id,
              title: <AgentLink id={id} />,
              counts: countsOf(outcomes),
            }))}
          />
          <Rest count={result.more.agents} what="agents" />
          <h3>By tool</h3>
          <CountsTable
            label="By tool"
            head="Tool"
            names={columns}
            lines={result.by_tool.map(({ tool, outcomes }) => ({
              key: tool ?? '',
              title: tool === null ? 'no tool' : <Literal text={tool} />,
              counts: countsOf(outcomes),
            }))}
          />
          <Rest count={result.more.tools} what="tools" />
          <Samples samples={result.samples} tried={tried} />
        </>
      )}
    </>
  );
}

/** Then in rows, now in columns; what is off the diagonal changes. */
export function Matrix({ outcomes }: { outcomes: readonly OutcomeChange[] }) {
  const all = Math.max(1, sumOf(outcomes));
  const eventsOf = (was: string, now: string) =>
    outcomes.find((one) => one.was === was && one.now === now)?.events ?? 0;
  return (
    <table class="matrix">
      <caption>Outcomes then, and with the policy</caption>
      <thead>
        <tr>
          <td />
          {NOW.map((now) => (
            <th key={now} scope="col">
              now {now}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {WAS.map((was) => (
          <tr key={was}>
            <th scope="row">then {was}</th>
            {NOW.map((now) => {
              const events = eventsOf(was, now);
              return (
                <td key={now} class={was === now ? 'same' : events > 0 ? `changed ${now}` : 'none'}>
                  {events.toLocaleString('en')}
                  <i class="share" aria-hidden="true" style={{ width: `${(events / all) * 100}%` }} />
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Notes({ result }: { result: BacktestResult }) {
  const count = (n: number) => n.toLocaleString('en');
  const notes = [
    !result.is_complete && 'Events that were just recorded when it began were not stored in time, and are missing.',
    result.behind_first_block > 0 &&
      `${count(result.behind_first_block)} events are behind the first of their trace that would now be blocked: they might not have happened.`,
    result.decided_before > 0 &&
      `${count(result.decided_before)} events report what an earlier one decided: they keep their outcome.`,
    result.after_the_fact > 0 &&
      `${count(result.after_the_fact)} events were reported after the fact: no rate limit counts them, and where a person would be asked they are blocked.`,
  ].filter((note) => note !== false);
  return (
    <>
      <p>
        <strong>
          {count(result.changed)} of {count(result.events)} events
        </strong>{' '}
        would have another outcome.
      </p>
      {result.unknown.length > 0 && (
        <>
          <h3>Not known</h3>
          <ul aria-label="Not known">
            {result.unknown.map(({ reason, events, message }) => (
              <li key={reason}>
                {events === null ? '' : <strong>{count(events)} events: </strong>}
                {message}
                {reason === 'past_retention' && result.kept_from !== null && (
                  <>
                    {' '}
                    What arrived before <Time at={result.kept_from} /> is not kept any more.
                  </>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {notes.map((note) => (
        <p key={note} class="quiet">
          {note}
        </p>
      ))}
    </>
  );
}

function Rest({ count, what }: { count: number; what: string }) {
  if (count === 0) return null;
  return (
    <p class="quiet">
      {count.toLocaleString('en')} more {what}, of which less changes.
    </p>
  );
}

type SamplesProps = {
  samples: readonly BacktestSample[];
  tried: TriedPolicy;
};

function Samples({ samples, tried }: SamplesProps) {
  return (
    <>
      <h3>Samples</h3>
      <section class="scroll tall" tabIndex={0} aria-label="Samples">
        <Table
          head={['Event', 'Then and now', 'Why']}
          rows={samples.map((sample) => ({
            key: sample.event_id,
            cells: [
              <SampleEvent sample={sample} />,
              <>
                <Outcome outcome={sample.was} /> → <Outcome outcome={sample.now} />
              </>,
              <WhyNow sample={sample} tried={tried} />,
            ],
          }))}
        />
      </section>
    </>
  );
}

type SampleEventProps = {
  sample: { agent_id: string; event_id: string; tool: string | null; type?: string; timestamp: string };
};

export function SampleEvent({ sample }: SampleEventProps) {
  return (
    <>
      <EventLink agentId={sample.agent_id} id={sample.event_id}>
        <Literal text={sample.tool ?? sample.type ?? 'no tool'} />
      </EventLink>
      <div class="quiet">
        <AgentName id={sample.agent_id} />, <Time at={sample.timestamp} />
      </div>
    </>
  );
}

const UNKNOWN: Record<string, string> = {
  redacted_text: 'A pattern or detector would have to see text that was redacted.',
  redacted_condition: 'What it depends on was redacted.',
  not_asked: 'Its check was not asked about these fields then.',
  past_retention: 'It is not kept any more.',
};

function WhyNow({ sample, tried }: { sample: BacktestSample; tried: TriedPolicy }) {
  return (
    <>
      {sample.unknown !== undefined && (UNKNOWN[sample.unknown] ?? sample.unknown)}
      {sample.detail !== undefined && <Reasons detail={sample.detail as MatchDetail} policy={tried} />}
      {sample.unmet !== undefined && <Unmet conditions={sample.unmet} />}
      {sample.was_policy_id !== null && (
        <div class="quiet">
          Then <a href={hrefOf('policies', { id: sample.was_policy_id })}>this policy</a> decided.
        </div>
      )}
      {sample.behind_block && <div class="quiet">After a blocked event of its trace: it might not have happened.</div>}
    </>
  );
}

function countsOf(outcomes: readonly OutcomeChange[]): Counts {
  return {
    events: sumOf(outcomes),
    ...Object.fromEntries(outcomes.map((one) => [changeName(one), one.events])),
  };
}

function sumOf(outcomes: readonly OutcomeChange[]): number {
  return outcomes.reduce((sum, { events }) => sum + events, 0);
}
