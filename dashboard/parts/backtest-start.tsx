// Starts a backtest: of a draft or of a revision, over a range of time, of all agents or one. One runs at a time in an
// account; where another one does, the refusal leads to it.
import { useState } from 'preact/hooks';
import { type ApiError, call } from '../core/api.ts';
import { nowMs } from '../core/clock.ts';
import { jsonWith } from '../core/json.ts';
import { changed } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { inputOf, ofInput, RANGES, zoneName } from '../core/time.ts';
import type { Backtest } from '../core/types.ts';
import { Field } from './dialog.tsx';
import { AgentField } from './named.tsx';
import { Problem } from './states.tsx';

const FIXED = 'fixed';
const AT_FIRST = '30d';

type StartProps = {
  /** The members of the call that say which policy is tried. Rejects with an ApiError. `form`: around this. */
  tried: (form: FormData) => Promise<{ policy?: string; policy_id?: string; revision?: number }>;
  onStarted: (backtest: Backtest) => void;
  refused?: (error: ApiError) => void;
};

export function BacktestStart({ tried, onStarted, refused }: StartProps) {
  const [range, setRange] = useState(AT_FIRST);
  const [{ from, to }, setFixed] = useState({ from: agoIso(RANGES[AT_FIRST]!), to: agoIso(0) });
  const [agent, setAgent] = useState('');
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const run = async (form: HTMLFormElement) => {
    if (busy) return;
    setBusy(true);
    setError(undefined);
    try {
      const { policy, ...others } = await tried(new FormData(form));
      const times = range === FIXED ? { from, to } : { from: agoIso(RANGES[range]!) };
      const fields = { ...others, ...times, ...(agent === '' ? {} : { agent_id: agent }) };
      const rawBody = jsonWith(fields, policy === undefined ? {} : { policy });
      const { value } = await call<Backtest>('POST', 'v1/backtests', { rawBody, kept: ['policy'] });
      changed('v1/backtests');
      onStarted(value);
    } catch (refusal) {
      setError(refusal as ApiError);
      refused?.(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <div class="columns">
        <Field label="Events of">
          <select value={range} onChange={({ currentTarget }) => setRange(currentTarget.value)}>
            {Object.keys(RANGES).map((name) => (
              <option key={name} value={name}>
                the last {name}
              </option>
            ))}
            <option value={FIXED}>from … to …</option>
          </select>
        </Field>
        {range === FIXED && (
          <>
            <Moment label="From" at={from} onAt={(at) => setFixed({ from: at, to })} />
            <Moment label="To" at={to} onAt={(at) => setFixed({ from, to: at })} />
          </>
        )}
        <AgentField label="Of which agent" none="all agents" value={agent} onValue={setAgent} />
      </div>
      <button type="button" aria-busy={busy} onClick={({ currentTarget }) => void run(currentTarget.form!)}>
        Replay
      </button>
      {error !== undefined && <Problem error={error} />}
      <Other error={error} />
    </>
  );
}

function Moment({ label, at, onAt }: { label: string; at: string; onAt: (iso: string) => void }) {
  return (
    <Field label={`${label} (${zoneName()})`}>
      <input
        type="datetime-local"
        step="1"
        value={inputOf(at)}
        onChange={({ currentTarget }) => onAt(ofInput(currentTarget.value, at) ?? at)}
      />
    </Field>
  );
}

/** The one that runs. */
function Other({ error }: { error: ApiError | undefined }) {
  const running = error?.code === 'backtest_running' ? /bkt_[0-9a-z]+/.exec(error.details[0]?.message ?? '') : null;
  if (running === null) return null;
  return <a href={hrefOf('policies', { view: 'backtests', backtest: running[0] })}>Look at the one that runs</a>;
}

function agoIso(ms: number): string {
  return new Date(nowMs() - ms).toISOString();
}
