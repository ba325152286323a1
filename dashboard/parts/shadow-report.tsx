// What a shadow would have changed, drawn: what it would newly block and no longer block beside the policy that it
// copies, by day, agent and tool, with samples; and making it the policy in force.
import { useEffect, useState } from 'preact/hooks';
import { SHADOW_CHANGES } from '../../schemas/closed-sets.ts';
import { ApiError, call, query } from '../core/api.ts';
import { differencesOf } from '../core/differences.ts';
import { pathOf, textOfPolicy, usePolicy, useRevision, useRevisions } from '../core/policies.ts';
import { changed, forget, type Read, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import { rangeOf } from '../core/time.ts';
import type { ShadowCounts, ShadowReport, WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { SampleEvent } from './backtest-result.tsx';
import { Outcome, Time } from './buttons.tsx';
import { useConflict } from './conflict.tsx';
import { type Counts, CountsByDay, CountsTable } from './counts.tsx';
import { Dialog } from './dialog.tsx';
import { Differences } from './differences.tsx';
import { TimeRange } from './filters.tsx';
import { Literal } from './literal.tsx';
import { Actor, AgentLink } from './named.tsx';
import { Reading } from './states.tsx';
import { Table } from './table.tsx';

const COUNTED = [...SHADOW_CHANGES, 'same', 'skipped'] as const;

export function ShadowView({ policy }: { policy: WholePolicy }) {
  const { params } = place.value;
  const reading = useRead<ShadowReport>(`${pathOf(policy.id)}/shadow-report${query(rangeOf(params))}`);
  const copied = usePolicy(policy.shadow_of);
  const [promotes, setPromotes] = useState(false);
  return (
    <section aria-label="Shadow report">
      <p>
        It is judged beside the policies in force, and decides nothing.{' '}
        {policy.shadow_of === undefined ? (
          'It copies none.'
        ) : (
          <>
            It is a changed copy of{' '}
            <a href={hrefOf('policies', { id: policy.shadow_of })}>
              <Literal text={copied.value?.name ?? policy.shadow_of} />
            </a>
            .
          </>
        )}{' '}
        {policy.expires_at !== undefined && (
          <>
            It expires at <Time at={policy.expires_at} />.
          </>
        )}
      </p>
      <div class="bar">
        <TimeRange whole="Last 14 days" keepsOpen />
        {may('configure') && (
          <button type="button" class="primary" onClick={() => setPromotes(true)}>
            Promote
          </button>
        )}
      </div>
      <Reading of={reading}>{reading.value !== undefined && <Report report={reading.value} />}</Reading>
      {promotes && <Promote policy={policy} copied={copied} onClose={() => setPromotes(false)} />}
    </section>
  );
}

function nameOf(count: string): string {
  return count.replaceAll('_', ' ');
}

function Report({ report }: { report: ShadowReport }) {
  const { counts } = report;
  const changes = SHADOW_CHANGES.filter((name) => counts[name] > 0).map(nameOf);
  const columns = COUNTED.filter((name) => counts[name] > 0).map(nameOf);
  return (
    <>
      <p class="quiet">
        <Time at={report.from} /> to <Time at={report.to} />, by what it says since revision {report.since_revision}.
      </p>
      <Totals counts={counts} />
      {columns.length === 0 && <p>Neither matched an event yet.</p>}
      {changes.length > 0 && (
        <>
          <h3>By day (UTC)</h3>
          <CountsByDay
            label="What would change, by day"
            names={changes}
            days={report.by_day.map(({ day, ...line }) => ({ day, counts: named(line), total: allOf(line) }))}
          />
        </>
      )}
      {columns.length > 0 && (
        <>
          <h3>By agent</h3>
          <CountsTable
            label="By agent"
            head="Agent"
            names={columns}
            lines={report.by_agent.map(({ agent_id: id, ...line }) => ({
              key: id,
              title: <AgentLink id={id} />,
              counts: named(line),
            }))}
          />
          <h3>By tool</h3>
          <CountsTable
            label="By tool"
            head="Tool"
            names={columns}
            lines={report.by_tool.map(({ tool, ...line }) => ({
              key: tool ?? '',
              title: tool === null ? 'no tool' : <Literal text={tool} />,
              counts: named(line),
            }))}
          />
        </>
      )}
      {report.samples.length > 0 && <Samples samples={report.samples} />}
    </>
  );
}

/** All of them, each with a bar as long as its share. */
function Totals({ counts }: { counts: ShadowCounts }) {
  const all = Math.max(1, allOf(counts));
  return (
    <table class="totals">
      <caption>What would change</caption>
      <thead>
        <tr>
          <th scope="col">Beside the one in force</th>
          <th scope="col">Events</th>
        </tr>
      </thead>
      <tbody>
        {COUNTED.filter((name) => counts[name] > 0 || /blocked|same/.test(name)).map((name) => (
          <tr key={name}>
            <th scope="row">{nameOf(name)}</th>
            <td>
              {counts[name].toLocaleString('en')}
              <i class="share" aria-hidden="true" style={{ width: `${(counts[name] / all) * 100}%` }} />
            </td>
          </tr>
        ))}
        {counts.same_outcome > 0 && (
          <tr>
            <th scope="row">of these, decided by other policies anyway</th>
            <td>{counts.same_outcome.toLocaleString('en')}</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Samples({ samples }: Pick<ShadowReport, 'samples'>) {
  return (
    <>
      <h3>Samples</h3>
      <section class="scroll tall" tabIndex={0} aria-label="Samples">
        <Table
          head={['Event', 'Change', 'The one in force', 'The shadow', 'All together']}
          rows={samples.map((sample) => ({
            key: sample.event_id,
            cells: [
              <SampleEvent sample={sample} />,
              nameOf(sample.change),
              <Outcome outcome={nameOf(sample.did)} />,
              <Outcome outcome={nameOf(sample.would)} />,
              <Outcome outcome={sample.outcome} />,
            ],
          }))}
        />
      </section>
    </>
  );
}

/** The fields that belong to a shadow alone: they do not become part of the policy that it copies. */
const OF_SHADOW = ['name', 'status', 'mode', 'shadow_of', 'shadow_of_revision', 'expires_at', 'owner'];

type PromoteProps = { policy: WholePolicy; copied: Read<WholePolicy>; onClose: () => void };

function Promote({ policy, copied, onClose }: PromoteProps) {
  const { guard, conflict } = useConflict(policy);
  // What is promoted is what was read: a newer revision of the one in force is looked at before.
  const [seen, setSeen] = useState(copied.value);
  const original = seen ?? copied.value;
  useEffect(() => setSeen((before) => before ?? copied.value), [copied.value]);
  // what the one in force is for is said there still, where the shadow does not say it
  const without = policy.description === undefined ? [...OF_SHADOW, 'description'] : OF_SHADOW;
  return (
    <Dialog
      title={
        <>
          Promote <Literal text={policy.name} />
        </>
      }
      action="Promote"
      onClose={onClose}
      onAct={() =>
        guard(async (headers) => {
          const path = `${pathOf(policy.id)}/promote${query({ original_revision: original?.revision })}`;
          const { value } = await call<WholePolicy>('POST', path, { headers }).catch((error: ApiError) => {
            throw whichChanged(error, policy);
          });
          announce(
            <>
              <Literal text={value.name} /> is in force, at revision {value.revision}.
            </>,
          );
          if (value.id !== policy.id) forget(pathOf(policy.id));
          changed('v1/policies', 'v1/audit-logs');
          setParams({ id: value.id, tab: undefined, range: undefined, from: undefined, to: undefined });
        })
      }
    >
      {copied.waiting && copied.error === undefined && <p class="quiet">Loading …</p>}
      {!copied.waiting && original === undefined && (
        <p>From the next second on it is in force: events are blocked, held and reported by it.</p>
      )}
      {original !== undefined && (
        <>
          <p>
            Its text becomes a new revision of <Literal text={original.name} />, in force within a second, and the
            shadow is gone. The revision before can be restored. This is what changes:
          </p>
          {original.status !== 'active' && (
            <p>
              <strong>It is switched off, and stays so:</strong> nothing is judged by it until it is switched on.
            </p>
          )}
          <Differences of={differencesOf(textOfPolicy(original, without), textOfPolicy(policy, without))} />
          {policy.shadow_of_revision !== undefined && policy.shadow_of_revision !== original.revision && (
            <ChangedMeanwhile policy={original} base={policy.shadow_of_revision} />
          )}
          {copied.value !== undefined && copied.value.revision !== original.revision && (
            <p role="status">
              <Literal text={original.name} /> was changed again just now.{' '}
              <button type="button" onClick={() => setSeen(copied.value)}>
                Look at revision {copied.value.revision}
              </button>
            </p>
          )}
        </>
      )}
      {conflict}
    </Dialog>
  );
}

/** Another change of the policy that it copies is no change of the shadow: the dialog shows it, and then it may go on. */
function whichChanged(error: ApiError, { shadow_of: original }: WholePolicy): ApiError {
  if (!error.details.some(({ path }) => path === 'original_revision') || original === undefined) return error;
  changed(pathOf(original));
  return new ApiError(error.status, 'original_changed', error.message, error.requestId);
}

/** The changes by others in the policy since the shadow was made of it: promoting the shadow may undo them. */
function ChangedMeanwhile({ policy, base }: { policy: WholePolicy; base: number }) {
  const before = useRevision(policy.id, base).value?.policy;
  const revisions = useRevisions(policy.id).items.filter(({ revision }) => revision > base);
  return (
    <section aria-label="Changed meanwhile" class="conflict">
      <h3>Changed meanwhile by others</h3>
      <p>
        The shadow was made of revision {base} of <Literal text={policy.name} />, which is at revision {policy.revision}{' '}
        now, by{' '}
        {[...new Set(revisions.map(({ actor }) => actor))].map((actor, i) => (
          <span key={actor}>
            {i > 0 && ', '}
            <Actor actor={actor} />
          </span>
        ))}
        . What is not in the shadow, too, is undone by promoting it:
      </p>
      {before && <Differences of={differencesOf(textOfPolicy(before), textOfPolicy(policy))} />}
    </section>
  );
}

function named(counts: ShadowCounts): Counts {
  return Object.fromEntries(COUNTED.map((name) => [nameOf(name), counts[name]]));
}

function allOf(counts: ShadowCounts): number {
  return COUNTED.reduce((sum, name) => sum + counts[name], 0);
}
