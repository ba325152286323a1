// One backtest: what it tries over which events, how far it is while it runs, what it found, and stopping or deleting
// it. What was tried can be made the policy, or a new one.
import { useState } from 'preact/hooks';
import { ApiError, call } from '../core/api.ts';
import { isUnderWay, pathOfBacktest, type TriedPolicy, triedOf, useBacktest } from '../core/backtests.ts';
import { jsonWith } from '../core/json.ts';
import { usePolicy } from '../core/policies.ts';
import { changed, forget } from '../core/queries.ts';
import { hrefOf, setParams } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { Backtest } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Course, useDone } from './backtest-course.tsx';
import { BacktestOutcome } from './backtest-result.tsx';
import { Time } from './buttons.tsx';
import { Dialog } from './dialog.tsx';
import { Literal } from './literal.tsx';
import { AgentName } from './named.tsx';
import { Payload } from './payload.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { Reading } from './states.tsx';

export function BacktestView({ id }: { id: string }) {
  const reading = useBacktest(id);
  const backtest = reading.value;
  useDone(backtest);
  return (
    <section aria-label="Backtest">
      <Reading of={reading}>{backtest !== undefined && <Shown backtest={backtest} />}</Reading>
    </section>
  );
}

function Shown({ backtest }: { backtest: Backtest }) {
  const [dialog, setDialog] = useState<'delete' | 'edit'>();
  const tried = triedOf(backtest);
  const ends = isUnderWay(backtest) ? 'Stop' : 'Delete';
  return (
    <>
      <h2>
        <Literal text={tried.name} />, replayed
      </h2>
      <dl class="facts">
        <dt>Tried</dt>
        <dd>
          {backtest.revision === null ? 'a draft' : `revision ${backtest.revision}`}
          {backtest.policy_id === null ? (
            ', beside all others'
          ) : (
            <>
              {' '}
              in place of <a href={hrefOf('policies', { id: backtest.policy_id })}>the policy</a>
            </>
          )}
        </dd>
        <dt>Events</dt>
        <dd>
          <Time at={backtest.from} /> to <Time at={backtest.to} />
          {backtest.agent_id !== null && (
            <>
              , of <AgentName id={backtest.agent_id} />
            </>
          )}
        </dd>
      </dl>
      <Course backtest={backtest} />
      {may('configure') && !isBound() && (
        <div class="bar">
          <button type="button" class="danger" onClick={() => setDialog('delete')}>
            {ends}
          </button>
          <button type="button" onClick={() => setDialog('edit')}>
            Edit what was tried
          </button>
        </div>
      )}
      {backtest.result !== null && <BacktestOutcome result={backtest.result} tried={tried} />}
      <details>
        <summary>The policy as it was tried</summary>
        <Payload text={textOf(tried)} what="policy" />
      </details>
      {dialog === 'delete' && <End backtest={backtest} onClose={() => setDialog(undefined)} />}
      {dialog === 'edit' && <Edit policyId={backtest.policy_id} tried={tried} onClose={() => setDialog(undefined)} />}
    </>
  );
}

function textOf({ conditions, ...fields }: TriedPolicy): string {
  return jsonWith(fields, { conditions: conditions.text });
}

/** Stopping one is not deleting what it found meanwhile. */
function End({ backtest, onClose }: { backtest: Backtest; onClose: () => void }) {
  const [ends] = useState(isUnderWay(backtest) ? 'Stop' : 'Delete');
  return (
    <Dialog
      title={`${ends} the backtest`}
      action={ends}
      danger
      onClose={onClose}
      onAct={async () => {
        if (ends === 'Stop' && !isUnderWay(backtest))
          throw new ApiError(
            0,
            'done',
            'It has ended meanwhile, and nothing was deleted: close this to see what it found.',
          );
        await call('DELETE', pathOfBacktest(backtest.id));
        announce('The backtest is gone.');
        forget(pathOfBacktest(backtest.id));
        setParams({ backtest: undefined });
        changed('v1/backtests');
      }}
    >
      <p>Nothing of it is left: neither what it found nor the policy that it tried.</p>
    </Dialog>
  );
}

type EditProps = {
  policyId: string | null;
  tried: TriedPolicy;
  onClose: () => void;
};

function Edit({ policyId, tried, onClose }: EditProps) {
  const reading = usePolicy(policyId ?? undefined);
  const isGone = policyId === null || reading.error?.status === 404;
  if (!isGone && reading.value === undefined) return null;
  return (
    <PolicyEditor
      draft={tried}
      {...(isGone || reading.value === undefined ? {} : { policy: reading.value })}
      onClose={onClose}
    />
  );
}
