// The backtests of one policy: start one of a revision, and open those that there are.
import { useState } from 'preact/hooks';
import { place, setParams } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { WholePolicy } from '../core/types.ts';
import { BacktestList } from './backtest-list.tsx';
import { BacktestStart } from './backtest-start.tsx';
import { BacktestView } from './backtest-view.tsx';
import { Field } from './dialog.tsx';

export function PolicyBacktests({ policy }: { policy: WholePolicy }) {
  const open = place.value.params.get('backtest');
  const [revision, setRevision] = useState(policy.revision);
  return (
    <>
      {may('configure') && !isBound() && (
        <form class="try" aria-label="Replay a revision" onSubmit={(event) => event.preventDefault()}>
          <Field label="Revision" hint="An earlier one says what it would have made of the events.">
            <input
              type="number"
              min={1}
              max={policy.revision}
              value={revision}
              onInput={({ currentTarget }) => setRevision(currentTarget.valueAsNumber || policy.revision)}
            />
          </Field>
          <BacktestStart
            tried={async () => ({ policy_id: policy.id, revision })}
            onStarted={({ id }) => setParams({ backtest: id })}
          />
        </form>
      )}
      {open !== null && <BacktestView key={open} id={open} />}
      <h3>Backtests of this policy</h3>
      <BacktestList policyId={policy.id} />
    </>
  );
}
