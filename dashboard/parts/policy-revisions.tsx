// The revisions of a policy: who made each and when, what it changed, its text; any two compared; an earlier one put
// back. Of a policy that was deleted, too. Which are open is in the address.
import { useState } from 'preact/hooks';
import { call } from '../core/api.ts';
import { differencesOf } from '../core/differences.ts';
import { pathOf, textOfPolicy, usePolicy, useRevision, useRevisions } from '../core/policies.ts';
import { changed } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { PolicyRevision, WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Time } from './buttons.tsx';
import { useConflict } from './conflict.tsx';
import { Dialog } from './dialog.tsx';
import { Differences } from './differences.tsx';
import { Literal } from './literal.tsx';
import { Actor } from './named.tsx';
import { Payload } from './payload.tsx';
import { More, Reading } from './states.tsx';

/** The address names a revision to look at (`revision`), and one that it is compared with (`with`). */
export function PolicyRevisions({ id }: { id: string }) {
  const list = useRevisions(id);
  const { value: now } = usePolicy(id);
  const { params } = place.value;
  const [shown, other] = [numberIn(params, 'revision'), numberIn(params, 'with')];
  const [restored, setRestored] = useState<PolicyRevision>();
  const newest = list.items[0]?.revision ?? 0;
  return (
    <section aria-label="Revisions">
      <Reading of={list}>
        {newest > 1 && <Compare key={`${shown} ${other}`} newest={newest} shown={shown} other={other} />}
        {shown !== undefined &&
          (other === undefined ? <One id={id} revision={shown} /> : <Compared id={id} old={shown} now={other} />)}
        <ol class="revisions" aria-label="Revisions, newest first">
          {list.items.map((one) => (
            <li key={one.revision} class={one.revision === shown ? 'open' : ''}>
              <Line one={one} newest={newest} />
              {now !== undefined && one.policy !== null && one.revision !== newest && may('configure') && (
                <button type="button" onClick={() => setRestored(one)}>
                  Restore revision {one.revision}
                </button>
              )}
              <Differences of={one.differences} none={one.revision === 1 ? 'Made.' : ''} />
            </li>
          ))}
        </ol>
        <More of={list} />
      </Reading>
      {restored !== undefined && now !== undefined && (
        <Restore policy={now} revision={restored} onClose={() => setRestored(undefined)} />
      )}
    </section>
  );
}

function numberIn(params: URLSearchParams, name: string): number | undefined {
  const text = params.get(name) ?? '';
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : undefined;
}

function Line({ one, newest }: { one: PolicyRevision; newest: number }) {
  const { params } = place.value;
  const href = (values: Record<string, string>) => {
    const next = new URLSearchParams(params);
    next.delete('with');
    for (const [name, value] of Object.entries(values)) next.set(name, value);
    return hrefOf('policies', next);
  };
  const revision = String(one.revision);
  return (
    <p>
      <a href={href({ revision })}>
        <span class="hidden">Text of </span>Revision {revision}
      </a>{' '}
      {one.restored_from === null ? one.action : `put revision ${one.restored_from} back`} by{' '}
      <a href={hrefOf('audit', { actor: one.actor, resource_id: one.policy_id })}>
        <Actor actor={one.actor} />
      </a>
      , <Time at={one.created_at} />
      {one.revision !== newest && (
        <>
          {' '}
          ·{' '}
          <a href={href({ revision, with: String(newest) })}>
            compare <span class="hidden">revision {revision} </span>with the newest
          </a>
        </>
      )}
    </p>
  );
}

function Compare({ newest, shown, other }: { newest: number; shown: number | undefined; other: number | undefined }) {
  const field = (name: string, label: string, value: number) => (
    <label>
      {label} <input type="number" name={name} min={1} max={newest} required defaultValue={String(value)} />
    </label>
  );
  return (
    <form
      class="bar"
      aria-label="Compare two revisions"
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        setParams({ revision: String(form.get('revision')), with: String(form.get('with')) });
      }}
    >
      {field('revision', 'Revision', shown ?? newest - 1)}
      {field('with', 'with revision', other ?? newest)}
      <button type="submit">Compare</button>
      {shown !== undefined && (
        <button type="button" onClick={() => setParams({ revision: undefined, with: undefined })}>
          Close
        </button>
      )}
    </form>
  );
}

function One({ id, revision }: { id: string; revision: number }) {
  const reading = useRevision(id, revision);
  const policy = reading.value?.policy;
  return (
    <section class="opened" aria-label={`Revision ${revision}`}>
      <h3>Revision {revision}</h3>
      <Reading of={reading}>
        {policy === null && <p>The policy was deleted by it.</p>}
        {policy !== null && policy !== undefined && <Payload text={textOfPolicy(policy)} what="policy" />}
      </Reading>
    </section>
  );
}

function Compared({ id, old, now }: { id: string; old: number; now: number }) {
  const [first, second] = [useRevision(id, old), useRevision(id, now)];
  const [before, after] = [first.value?.policy, second.value?.policy];
  return (
    <section class="opened" aria-label="Comparison">
      <h3>
        From revision {old} to {now}
      </h3>
      <Reading of={first}>
        <Reading of={second}>
          {before && after ? (
            <Differences of={differencesOf(textOfPolicy(before), textOfPolicy(after))} />
          ) : (
            <p>One of them deleted the policy, and has no text.</p>
          )}
        </Reading>
      </Reading>
    </section>
  );
}

/** Whose it is, and whether it is switched on, stays as it is. */
const NOT_RESTORED = ['owner', 'status'];

function Restore({
  policy,
  revision: { revision, policy: text },
  onClose,
}: {
  policy: WholePolicy;
  revision: PolicyRevision;
  onClose: () => void;
}) {
  const { guard, conflict } = useConflict(policy);
  return (
    <Dialog
      title={
        <>
          Put revision {revision} of <Literal text={policy.name} /> back
        </>
      }
      action="Restore"
      onClose={onClose}
      onAct={() =>
        guard(async (headers) => {
          await call('POST', `${pathOf(policy.id)}/revisions/${revision}/restore`, { headers });
          announce(`Revision ${revision} is back, as a new revision.`);
          changed('v1/policies', 'v1/audit-logs');
        })
      }
    >
      <p>
        Its text becomes a new revision, in force within a second. Nothing of what was between is lost. This is what
        changes now:
      </p>
      {policy.status !== 'active' && <p>The policy is switched off, and stays so.</p>}
      <Differences
        of={differencesOf(textOfPolicy(policy, NOT_RESTORED), textOfPolicy(text!, NOT_RESTORED))}
        none="Nothing: both say the same."
      />
      {conflict}
    </Dialog>
  );
}
