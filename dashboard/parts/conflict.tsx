// Changes of a policy that go by If-Match: where another change came first, who made it, what it changed, and how to go
// on. Nothing that a person wrote is lost by it.
// Invariant: what is changed is what was read. To go on from a newer revision is a decision of its own, made in view of
// what that revision changed.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError } from '../core/api.ts';
import { differencesOf } from '../core/differences.ts';
import { pathOf, textOfPolicy, usePolicy, useRevision, useRevisions } from '../core/policies.ts';
import { changed } from '../core/queries.ts';
import type { PolicyRevision, WholePolicy } from '../core/types.ts';
import { Time } from './buttons.tsx';
import { Differences } from './differences.tsx';
import { Actor } from './named.tsx';
import { Reading } from './states.tsx';

type Guarded = {
  /** Sends a change by the revision that was read. Rejects as `act` does. */
  guard: (act: (headers: Record<string, string>) => Promise<void>) => Promise<void>;
  /** Shown where another change came first. */
  conflict: ComponentChildren;
};

export function useConflict({ id, revision }: Pick<WholePolicy, 'id' | 'revision'>): Guarded {
  const [base, setBase] = useState(revision);
  const [isBeaten, setBeaten] = useState(false);
  return {
    async guard(act) {
      setBeaten(false);
      try {
        await act({ 'If-Match': `"${base}"` });
      } catch (error) {
        if (error instanceof ApiError && error.code === 'revision_conflict') {
          changed(pathOf(id));
          setBeaten(true);
        }
        throw error;
      }
    },
    conflict: isBeaten && (
      <Conflict
        id={id}
        base={base}
        onGoOn={(next) => {
          setBase(next);
          setBeaten(false);
        }}
      />
    ),
  };
}

function Conflict({ id, base, onGoOn }: { id: string; base: number; onGoOn: (revision: number) => void }) {
  const list = useRevisions(id);
  const now = usePolicy(id);
  const since = list.items.filter(({ revision }) => revision > base);
  const newest = since[0];
  return (
    <section class="conflict" aria-label="Another change came first" aria-live="polite">
      <h3>Another change came first</h3>
      <Reading of={list}>
        {newest === undefined ? (
          <p class="quiet">Loading …</p>
        ) : (
          <>
            <ul class="history">
              {since.map((one) => (
                <Faster key={one.revision} revision={one} />
              ))}
            </ul>
            {since.length > 1 && now.value !== undefined && <Together id={id} base={base} now={now.value} />}
            <p>
              Nothing of yours is saved yet, and nothing of it is lost. What you do next is done to revision{' '}
              {newest.revision}.
            </p>
            <button type="button" onClick={() => onGoOn(newest.revision)}>
              Go on from revision {newest.revision}
            </button>
          </>
        )}
      </Reading>
    </section>
  );
}

function Faster({ revision: one }: { revision: PolicyRevision }) {
  return (
    <li>
      <Actor actor={one.actor} /> {one.action} it to revision {one.revision}, <Time at={one.created_at} />
      <Differences of={one.differences} none="" />
    </li>
  );
}

/** The differences that several changes make together. */
function Together({ id, base, now }: { id: string; base: number; now: WholePolicy }) {
  const { value } = useRevision(id, base);
  if (value === undefined || value.policy === null) return null;
  return (
    <>
      <h4>From revision {base}, which you read, to what now stands</h4>
      <Differences of={differencesOf(textOfPolicy(value.policy), textOfPolicy(now))} />
    </>
  );
}
