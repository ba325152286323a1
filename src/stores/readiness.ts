// Can a call succeed? (`/readyz`) Redis and ClickHouse are asked at once, each for at most READY_PROBE_MS, so the
// answer comes within 2 s whatever hangs, and names what is at fault: reachability, credentials, a refusal, schema, the
// registry, or the account that is missing. A Redis that answers a ping may still refuse every write, as a replica or a
// Cluster in which a master is missing: so each partition and each shard of the registry is written and read.
// Invariant: no address, user or password is in the answer, which needs no key; the log has the addresses.

import type { ClickHouse } from '../../clickhouse/client.ts';
import { schemaFault } from '../../clickhouse/schema-state.ts';
import { withTimeout } from '../common/async.ts';
import { ServiceError } from '../common/errors.ts';
import { READY_PROBE_MS } from '../common/limits.ts';
import { noRoomText, type Room } from '../common/room.ts';
import { type Commands, connectErrorOf, sendTogether, waitUntilReady } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { clickhouseFault, redisFault, type StoreFault } from './faults.ts';
import type { RedisWatch } from './redis-watch.ts';

const READY_KEPT_MS = 200;
/** A key that a probe writes is kept so long. */
const PROBE_KEPT_MS = 60_000;
const NO_ACCOUNT: StoreFault = { kind: 'registry', reason: 'there is no account: "gatehouse migrate" makes the first' };
/** Making room takes an operator. */
const NO_ROOM_RETRY_S = 10;

/** `faults` empty: ready. `degraded`: ready, but for what was allowed. */
type Readiness = { faults: { path: string; message: string }[]; degraded?: string };

export async function readiness(parts: {
  redis: Commands;
  keys: Keys;
  clickhouse: ClickHouse;
  watch: Pick<RedisWatch, 'trouble' | 'reason' | 'degraded'>;
  /** The room on the embedded Redis's disk, where a supervisor looks after it. */
  room?: Room | undefined;
  /** Aborted: the process ends soon, and is to get no more calls. */
  leaving: AbortSignal;
}): Promise<Readiness> {
  const { redis, keys, clickhouse, watch, room, leaving } = parts;
  const [ofRedis, ofClickHouse] = await Promise.all([probeRedis({ redis, keys }), probeClickHouse(clickhouse)]);
  const faults: Readiness['faults'] = [];
  // A registry that was lost has no account, either.
  const known = ofRedis === undefined || ofRedis === NO_ACCOUNT ? watch.trouble : undefined;
  if (known !== undefined) faults.push({ path: 'redis', message: `${known}: ${watch.reason}` });
  else if (ofRedis !== undefined) faults.push({ path: 'redis', message: `${ofRedis.kind}: ${ofRedis.reason}` });
  if (ofClickHouse !== undefined)
    faults.push({ path: 'clickhouse', message: `${ofClickHouse.kind}: ${ofClickHouse.reason}` });
  if (leaving.aborted) faults.push({ path: 'front', message: 'leaving: this process was asked to end' });
  if (room?.isLow) faults.push({ path: 'disk', message: noRoomText(room) });
  return watch.degraded === undefined ? { faults } : { faults, degraded: watch.degraded };
}

/**
 * The same, with answers of at most READY_KEPT_MS: `/readyz` needs no key, and asks the stores for dozens of things.
 */
export function sharedReadiness(ask: () => Promise<Readiness>): () => Promise<Readiness> {
  let kept: { answer: Promise<Readiness>; until: number } | undefined;
  return () => {
    if (kept === undefined || performance.now() >= kept.until) {
      const answer = ask();
      const asked = { answer, until: Number.POSITIVE_INFINITY };
      kept = asked;
      const end = () => {
        asked.until = performance.now() + READY_KEPT_MS;
      };
      answer.then(end, end);
    }
    return kept.answer;
  };
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

/** undefined: every part of it takes a write and gives it back, and there is an account. */
async function probeRedis({ redis, keys }: { redis: Commands; keys: Keys }): Promise<StoreFault | undefined> {
  return within(
    async () => {
      await waitUntilReady(redis, 0);
      const at = String(Date.now());
      const [accounts] = await Promise.all(
        sendTogether(redis, () => [
          redis.hlen(keys.accountNames()),
          ...keys.probes().flatMap((key) => [redis.set(key, at, 'PX', PROBE_KEPT_MS), redis.get(key)]),
        ]),
      );
      return accounts === 0 ? NO_ACCOUNT : undefined;
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
