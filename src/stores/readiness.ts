// Can a call succeed? (`/readyz`) Redis and ClickHouse are asked at once, each for at most PROBE_MS, so the
// answer comes within 2 s whatever hangs, and names what is at fault: reachability, credentials, schema, or the
// registry.
// Invariant: no address, user or password is in the answer, which needs no key; the log has the addresses.

import type { ClickHouse } from '../../clickhouse/client.ts';
import { schemaFault } from '../../clickhouse/schema-state.ts';
import { withTimeout } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { READY_PROBE_MS } from '../common/limits.ts';
import { noRoomText, type Room } from '../common/room.ts';
import { type Commands, connectErrorOf, waitUntilReady } from '../redis/client.ts';
import { clickhouseFault, redisFault, type StoreFault } from './faults.ts';
import type { RedisWatch } from './redis-watch.ts';

/** Making room takes an operator. */
const NO_ROOM_RETRY_S = 10;

/** `faults` empty: ready. `degraded`: ready, but for what was allowed. */
export type Readiness = { faults: { path: string; message: string }[]; degraded?: string };

export async function readiness(parts: {
  redis: Commands;
  clickhouse: ClickHouse;
  watch: Pick<RedisWatch, 'trouble' | 'reason' | 'degraded'>;
  /** Of the embedded Redis's disk, where a supervisor looks after it. */
  room?: Room | undefined;
}): Promise<Readiness> {
  const { redis, clickhouse, watch, room } = parts;
  const [ofRedis, ofClickHouse] = await Promise.all([probeRedis(redis), probeClickHouse(clickhouse)]);
  const faults: Readiness['faults'] = [];
  if (ofRedis !== undefined) faults.push({ path: 'redis', message: `${ofRedis.kind}: ${ofRedis.reason}` });
  else if (watch.trouble !== undefined) faults.push({ path: 'redis', message: `${watch.trouble}: ${watch.reason}` });
  if (ofClickHouse !== undefined)
    faults.push({ path: 'clickhouse', message: `${ofClickHouse.kind}: ${ofClickHouse.reason}` });
  if (room?.isLow) faults.push({ path: 'disk', message: noRoomText(room) });
  return watch.degraded === undefined ? { faults } : { faults, degraded: watch.degraded };
}

/** undefined: there is room. */
export function refusalOf(room: Room | undefined): ServiceError | undefined {
  if (!room?.isLow) return undefined;
  const options = { recorded: false, retryAfterSeconds: NO_ROOM_RETRY_S } as const;
  return new ServiceError(
    'unavailable',
    `The disk is nearly full (${noRoomText(room)}); nothing was recorded.`,
    options,
  );
}

/** undefined: every master answers. */
async function probeRedis(redis: Commands): Promise<StoreFault | undefined> {
  return within(
    async () => {
      await waitUntilReady(redis, 0);
      return undefined;
    },
    (cause) => redisFault((cause as Error).cause ?? cause, connectErrorOf(redis)),
  );
}

/** undefined: it answers, and the tables are as they must be. */
export async function probeClickHouse(clickhouse: ClickHouse): Promise<StoreFault | undefined> {
  return within(async (signal) => {
    const reason = await schemaFault(clickhouse, signal);
    return reason === undefined ? undefined : { kind: 'schema', reason };
  }, clickhouseFault);
}

async function within(
  ask: (signal: AbortSignal) => Promise<StoreFault | undefined>,
  faultOf: (cause: unknown) => StoreFault,
): Promise<StoreFault | undefined> {
  const abort = new AbortController();
  const late: StoreFault = { kind: 'reachability', reason: `no answer within ${READY_PROBE_MS / 1000} s` };
  try {
    return await withTimeout(ask(abort.signal).catch(faultOf), READY_PROBE_MS, () => late);
  } finally {
    abort.abort();
  }
}
