// How far a backtest is: a bar while it runs, a sentence when it has ended.
import { useEffect, useRef } from 'preact/hooks';
import { isUnderWay, useBacktest } from '../core/backtests.ts';
import { changed } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import type { Backtest } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Matrix } from './backtest-result.tsx';
import { Time } from './buttons.tsx';
import { Reading } from './states.tsx';

/** How far it is. */
export function Course({ backtest }: { backtest: Backtest }) {
  const { events, of, until } = backtest.progress;
  const count = (n: number) => n.toLocaleString('en');
  if (backtest.status === 'failed')
    return (
      <p class="problem" role="alert">
        It has failed{backtest.error === undefined ? '.' : `: ${backtest.error.message}`}
      </p>
    );
  if (backtest.status === 'done')
    return (
      <p>
        Done: {count(events)} events
        {backtest.finished_at !== null && (
          <>
            , <Time at={backtest.finished_at} />
          </>
        )}
        .
      </p>
    );
  return (
    <div class="course">
      <progress aria-label="Replayed" {...(of === null ? {} : { value: Math.min(events, of), max: Math.max(1, of) })} />
      <span>
        {backtest.status === 'waiting'
          ? 'Waits to be taken up.'
          : `${count(events)} of ${of === null ? 'the' : count(of)} events`}
        {until !== null && (
          <>
            , up to <Time at={until} />
          </>
        )}
      </span>
    </div>
  );
}

/** Inside the editor: its course and its outcomes; the rest is behind the link. */
export function BacktestInShort({ id }: { id: string }) {
  const reading = useBacktest(id);
  const backtest = reading.value;
  useDone(backtest);
  return (
    <Reading of={reading}>
      {backtest !== undefined && (
        <>
          <Course backtest={backtest} />
          {backtest.result !== null && <Matrix outcomes={backtest.result.outcomes} />}
          <p>
            <a href={hrefOf('policies', { view: 'backtests', backtest: id })}>By day, agent and tool, with samples</a>{' '}
            <span class="quiet">(leaves the editor; from there it can be opened again with what was tried)</span>
          </p>
        </>
      )}
    </Reading>
  );
}

/** Says when it ends, also to those who do not see the bar. */
export function useDone(backtest: Backtest | undefined): void {
  const before = useRef(backtest?.status);
  useEffect(() => {
    const was = before.current;
    before.current = backtest?.status;
    if (backtest === undefined || was === undefined || was === backtest.status || isUnderWay(backtest)) return;
    announce(backtest.status === 'done' ? 'The backtest is done.' : 'The backtest has failed.');
    changed('v1/backtests');
  }, [backtest?.status]);
}
