// What comes in, as it comes in (server-sent events of `v1/stream`). One stream for all tabs that ask for the same: the
// tab that holds the lock reads it and forwards it to the others. A hidden page releases it.
// Invariant: no row is sent twice to a page; rows that could not be sent one by one are reported as a gap, and the list
// is read again.
// Failure: the browser reconnects with the id of the last row, by itself; where the service has gone, the list says so
// when it is read.
import { useEffect, useRef } from 'preact/hooks';
import { session } from './session.ts';

export type Topic = 'events' | 'approvals' | 'anomalies' | 'deliveries';
type Update = { topic: Topic | 'gap' | 'ready'; row: unknown };

export type LiveHandlers = {
  onRow: (topic: Topic, row: unknown) => void;
  onGap: () => void;
  /** Updates begin now: what came since the list was read is not in either. */
  onReady?: () => void;
};

const TOPICS: readonly Topic[] = ['events', 'approvals', 'anomalies', 'deliveries'];

/** `ask`: the stream's query, without `?`; undefined: nothing is followed. */
export function useLive(ask: string | undefined, handlers: LiveHandlers): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    if (ask === undefined) return undefined;
    const send = ({ topic, row }: Update) => {
      if (topic === 'gap') latest.current.onGap();
      else if (topic === 'ready') latest.current.onReady?.();
      else latest.current.onRow(topic, row);
    };
    let stop: (() => void) | undefined;
    const follow = () => {
      if (document.hidden) {
        stop?.();
        stop = undefined;
      } else if (stop === undefined) {
        stop = join(ask, send);
        latest.current.onReady?.();
      }
    };
    const onVisible = () => {
      const hadStopped = stop === undefined;
      follow();
      if (hadStopped && !document.hidden) latest.current.onGap();
    };
    follow();
    document.addEventListener('visibilitychange', onVisible);
    return () => {
      document.removeEventListener('visibilitychange', onVisible);
      stop?.();
    };
  }, [ask]);
}

/** Receives from the leading tab; becomes that tab when the lock is free. */
function join(ask: string, send: (update: Update) => void): () => void {
  const name = `gatehouse:${session.value?.id}:${ask}`; // tabs of another session follow what that one may see
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }: MessageEvent<Update>) => send(data);
  const ended = new AbortController();
  navigator.locks
    .request(name, { signal: ended.signal }, () =>
      lead(ask, ended.signal, (update) => {
        send(update);
        channel.postMessage(update);
      }),
    )
    .catch(() => undefined);
  return () => {
    ended.abort();
    channel.close();
  };
}

/** Resolves when `signal` fires. */
function lead(ask: string, signal: AbortSignal, send: (update: Update) => void): Promise<void> {
  const source = new EventSource(`../v1/stream?${ask}`);
  for (const topic of TOPICS) {
    source.addEventListener(topic, ({ data }: MessageEvent<string>) => send({ topic, row: JSON.parse(data) }));
  }
  source.addEventListener('ready', () => send({ topic: 'ready', row: null }));
  for (const gap of ['skipped', 'reset']) source.addEventListener(gap, () => send({ topic: 'gap', row: null }));
  return new Promise((resolve) => {
    const end = () => {
      source.close();
      resolve();
    };
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
  });
}
