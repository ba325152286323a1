// Waits for a store that is being started, and says what it waits for (at a start of any process, and in every
// command). After 2 s the address and the reason, a line every 5 s from then on, at the end the name of the setting.
// Invariant: credentials or certificates that are refused are not tried again: the wait ends at once and says so.

import { setTimeout as sleep } from 'node:timers/promises';
import { withTimeout } from '../common/async.ts';
import { READY_PROBE_MS } from '../common/limits.ts';
import { isFinal, StoreError, type StoreFault } from './faults.ts';

type Wanted = {
  /** Redis or ClickHouse. */
  name: string;
  /** Without user and password. */
  address: string;
  setting: string;
  /** The signal ends a question that takes too long. */
  ask: (signal: AbortSignal) => Promise<unknown>;
  faultOf: (cause: unknown) => StoreFault;
};

const FIRST_WORD_MS = 2_000;
const NEXT_WORD_MS = 5_000;
const POLL_MS = 25;
const POLL_MS_MAX = 250;
/** A first connection is on its way while nothing is known: so long a refused command is no news. */
const CONNECTING_MS = 100;

/** Throws StoreError after `waitMs`, or at once where user, password or certificate is refused. */
export async function waitForStore(store: Wanted, waitMs: number, say: (line: string) => void): Promise<void> {
  const { name, address, setting, ask, faultOf } = store;
  const startedMs = performance.now();
  let sayAtMs = FIRST_WORD_MS;
  for (let pollMs = POLL_MS; ; pollMs = Math.min(pollMs * 1.2, POLL_MS_MAX)) {
    try {
      return await inTime(ask);
    } catch (cause) {
      const fault = faultOf(cause);
      const { kind, reason } = fault;
      const ms = performance.now() - startedMs;
      const where = kind === 'credentials' ? `; ${setting} holds both` : '';
      if (isFinal(fault)) throw new StoreError(`${name} at ${address}: ${reason}${where}`, { cause });
      if (ms >= Math.max(waitMs, CONNECTING_MS)) {
        const waited = ms < 1_000 ? '' : ` within ${Math.round(ms / 1000)} s`;
        throw new StoreError(`${name} at ${address} was not ready${waited}: ${reason}; ${setting} names it`, { cause });
      }
      if (ms >= sayAtMs) {
        say(`waiting for ${name} at ${address} since ${Math.round(ms / 1000)} s: ${reason} (${setting})`);
        sayAtMs += NEXT_WORD_MS;
      }
    }
    await sleep(pollMs);
  }
}

/** A store that takes connections and says nothing must not keep us from saying so. */
async function inTime(ask: Wanted['ask']): Promise<void> {
  const abort = new AbortController();
  try {
    await withTimeout<unknown>(ask(abort.signal), READY_PROBE_MS, () => {
      throw new Error('timed out');
    });
  } finally {
    abort.abort();
  }
}
