// What comes in, as it comes in (server-sent events of `v1/stream`). One stream for all tabs that ask for the same: the
// tab that holds the lock reads it and forwards it to the others. A hidden page releases it. Where the browser has no
// locks (plain HTTP to another machine) each tab reads for itself.
// Invariant: no row is sent twice to a page; rows that could not be sent one by one are reported as a gap, and the list
// is read again.
// Failure: whatever ends the stream, an answer that is none of the service's or silence as well, it is opened again with
// the id of the last row, later each time; meanwhile the page knows that it is away.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, open } from './api.ts';
import { ended, session } from './session.ts';

type Topic = 'events' | 'approvals' | 'anomalies' | 'deliveries';
/** `hello`: of a tab that has joined; `away`: whether the stream is (`row`). */
type Update = { topic: Topic | 'gap' | 'ready' | 'away' | 'hello'; row?: unknown };
type Send = (update: Update) => void;

type LiveHandlers = {
  onRow: (topic: Topic, row: unknown) => void;
  onGap: () => void;
  /** Updates begin now: what came since the list was read is not in either. */
  onReady?: () => void;
};

const TOPICS: ReadonlySet<string> = new Set<Topic>(['events', 'approvals', 'anomalies', 'deliveries']);
/** The service sends at least a comment every 15 s. */
const SILENCE_MS = 45_000;
/** Before it is opened again: at first, and at most. */
const PAUSE_MS = 1_000;
const PAUSE_MS_MAX = 15_000;

/** `ask`: the stream's query, without `?`; undefined: nothing is followed. Answers whether it is away. */
export function useLive(ask: string | undefined, handlers: LiveHandlers): boolean {
  const [isAway, setAway] = useState(false);
  const latest = useRef(handlers);
  latest.current = handlers;
  const of = ended.value === undefined ? session.value?.id : undefined;
  useEffect(() => {
    setAway(false);
    if (ask === undefined || of === undefined) return undefined;
    const send: Send = ({ topic, row }) => {
      if (topic === 'gap') latest.current.onGap();
      else if (topic === 'ready') latest.current.onReady?.();
      else if (topic === 'away') setAway(row === true);
      else if (topic !== 'hello') latest.current.onRow(topic, row);
    };
    let stop: (() => void) | undefined;
    const follow = () => {
      if (document.hidden) {
        stop?.();
        stop = undefined;
      } else if (stop === undefined) {
        stop = join(`gatehouse:${of}:${ask}`, ask, send); // tabs of another session follow what that one may see
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
  }, [ask, of]);
  return isAway;
}

/** Receives from the leading tab; becomes that tab when the lock is free. */
function join(name: string, ask: string, send: Send): () => void {
  const channel = new BroadcastChannel(name + ALONE);
  let state: Update | undefined;
  channel.onmessage = ({ data }: MessageEvent<Update>) => {
    if (data.topic !== 'hello') send(data);
    else if (state !== undefined) channel.postMessage(state);
  };
  channel.postMessage({ topic: 'hello' });
  const left = new AbortController();
  const all: Send = (update) => {
    if (left.signal.aborted) return;
    if (update.topic === 'away') state = update;
    send(update);
    channel.postMessage(update);
  };
  const run = async () => {
    if (!left.signal.aborted) await lead(ask, left.signal, all);
  };
  if (ALONE === '') void navigator.locks.request(name, { signal: left.signal }, run).catch(() => undefined);
  else takeTurns(name, run);
  return () => {
    left.abort();
    channel.close();
  };
}

/** Without locks the parts of this page take turns, and no other page hears of it. */
const ALONE = 'locks' in navigator ? '' : `:${Math.random()}`;
const turns = new Map<string, Promise<void>>();
function takeTurns(name: string, run: () => Promise<void>): void {
  const turn = (turns.get(name) ?? Promise.resolve()).then(run).then(() => {
    if (turns.get(name) === turn) turns.delete(name);
  });
  turns.set(name, turn);
}

/** Reads the stream, of a hidden page too, until `signal` fires. Does not reject. */
export async function lead(ask: string, signal: AbortSignal, send: Send): Promise<void> {
  let last = '';
  for (let tries = 0; !signal.aborted; tries++) {
    let retryAfterMs = 0;
    const isResumed = last !== '';
    const attempt = new AbortController();
    const quiet = { timer: 0 };
    const heard = () => {
      clearTimeout(quiet.timer);
      quiet.timer = setTimeout(() => attempt.abort(), SILENCE_MS);
    };
    try {
      heard();
      const body = await open(`v1/stream?${ask}`, last, AbortSignal.any([signal, attempt.signal]));
      for await (const { topic, id, data } of messagesOf(body, heard)) {
        if (id !== '') last = id;
        if (TOPICS.has(topic)) send({ topic: topic as Topic, row: JSON.parse(data) });
        else if (topic !== 'ready')
          send({ topic: 'gap' }); // skipped, reset
        else {
          send({ topic: 'away', row: false });
          send({ topic: 'ready' });
          if (tries > 0 && !isResumed) send({ topic: 'gap' }); // where it goes on from is not known
          tries = 0;
        }
      }
    } catch (error) {
      if (error instanceof ApiError) retryAfterMs = error.retryAfterMs;
      if (error instanceof ApiError && error.status === 400) last = ''; // it is not known there
    } finally {
      clearTimeout(quiet.timer);
    }
    if (signal.aborted) return;
    send({ topic: 'away', row: true });
    const pauseMs = Math.max(retryAfterMs, Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** tries));
    // Not all browsers at once when the service is back.
    await pause(pauseMs * (0.75 + Math.random() / 2), signal);
  }
}

type Message = { topic: string; id: string; data: string };

/** Ends where the stream does. Rejects where it breaks off. `heard`: called with whatever comes. */
async function* messagesOf(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Message> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = '';
  let message: Message = { topic: '', id: '', data: '' };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split('\n');
    rest = lines.pop()!;
    for (const line of lines) {
      const [, field, text = ''] = /^(event|id|data): ?(.*)$/.exec(line) ?? [];
      if (field === 'event') message.topic = text;
      if (field === 'id') message.id = text;
      if (field === 'data') message.data += text;
      if (line !== '') continue;
      if (message.topic !== '') yield message;
      message = { topic: '', id: '', data: '' };
    }
  }
}

/** Shorter where the network comes back, or `signal` fires. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = () => {
      clearTimeout(timer);
      removeEventListener('online', over);
      signal.removeEventListener('abort', over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    addEventListener('online', over);
    signal.addEventListener('abort', over);
  });
}
