// Creates under an Idempotency-Key (before and around the commit of a policy, an alert or a view).
//   running   a marker with the request's fingerprint, IDEMPOTENCY_RUNNING_MS
//   done      the answer, IDEMPOTENCY_KEPT_MS, written by the very commit that makes the change: a kill leaves both or
//             neither
// A failure that recorded nothing takes the marker away; after a lost answer it stays until it expires, since the
// change may stand. A marker that ran out before the commit makes the commit refuse: a slow request cannot follow its
// own repetition.
import { randomBytes } from 'node:crypto';
import { notRecorded, ServiceError } from '../common/errors.ts';
import { IDEMPOTENCY_KEPT_MS, IDEMPOTENCY_RUNNING_MS } from '../common/limits.ts';
import { readAsset } from '../process/assets.ts';
import { Script } from '../redis/script.ts';
import { type CommandArgs, type Guard, is, type RegistryStore } from './commit.ts';

/** The caller's key, and the hash of the body (hex or base64url). */
export type Idempotency = { key: string; bodySha256: string };
/** JSON text of the answer; `replayed`: it is the one kept from the first request. */
export type Created = { answer: string; replayed: boolean };
/** The guards and writes that a commit adds so that its answer is kept. */
export type Keeping = { guards: Guard[]; writes: (answer: string) => CommandArgs[] };

export const IDEMPOTENCY_GUARD = 'idempotency';

const begin = new Script<[state: string, answer?: string]>(
  'stream-idempotency-begin',
  readAsset('src/redis/stream-idempotency-begin.lua'),
  // An answer that is given again must not be lost either.
  { acknowledges: true },
);
const release = new Script<number>('lease-release', readAsset('src/redis/lease-release.lua'));
/** An account keeps so many answers: 16 MB if all are the largest policies. The oldest go first. */
const ANSWERS_KEPT_MAX = 1_000;
const NOTHING_KEPT: Keeping = { guards: [], writes: () => [] };

type Request = {
  account: string;
  kind: 'policy' | 'alert' | 'view' | 'connection' | 'check' | 'outgoing_feed';
  idempotency: Idempotency | undefined;
};

/**
 * Runs `create` unless its answer is kept already. Throws what it throws, and ServiceError idempotency_conflict,
 * idempotency_in_progress.
 */
export async function answerOnce(
  store: RegistryStore,
  { account, kind, idempotency }: Request,
  create: (keeping: Keeping) => Promise<string>,
): Promise<Created> {
  if (idempotency === undefined) return { answer: await create(NOTHING_KEPT), replayed: false };
  const record = store.keys.registryIdempotency(account, idempotency.key);
  const fingerprint = `${kind}.${idempotency.bodySha256}`;
  const run = randomBytes(12).toString('base64url');
  const marker = `running:${fingerprint}:${run}`;
  const [state, answer] = await begin.run(store.redis, [record], [fingerprint, run, IDEMPOTENCY_RUNNING_MS]);
  if (state === 'replay') return { answer: answer ?? '', replayed: true };
  if (state !== 'new') throw refused(state);
  try {
    if (await isUsedByEvents(store, account, idempotency.key)) throw refused('conflict');
    const order = store.keys.registryIdempotencyOrder(account);
    const keeping: Keeping = {
      guards: [is(IDEMPOTENCY_GUARD, ['get', record], marker)],
      writes: (kept) => [
        ['set', record, `done:${fingerprint}:${kept}`, 'px', IDEMPOTENCY_KEPT_MS],
        ['rpush', order, record],
      ],
    };
    const made = await create(keeping);
    await letOldGo(store, order);
    return { answer: made, replayed: false };
  } catch (error) {
    if (!(error instanceof ServiceError && error.recorded === 'unknown')) {
      await release.run(store.redis, [record], [marker]).catch(() => undefined);
    }
    throw error;
  }
}

async function isUsedByEvents({ redis, keys }: RegistryStore, account: string, key: string): Promise<boolean> {
  const found = await Promise.all(
    keys.ofPartitions((partition) => redis.exists(keys.idempotency(partition, account, key))),
  );
  return found.some((there) => there > 0);
}

/** Answers that an account has beyond the bound. It can be left undone: the next one does it. */
async function letOldGo({ redis }: RegistryStore, order: string): Promise<void> {
  try {
    for (let over = (await redis.llen(order)) - ANSWERS_KEPT_MAX; over > 0; over--) {
      const oldest = await redis.lpop(order);
      if (oldest !== null) await redis.del(oldest);
    }
  } catch {
    // What was made stands.
  }
}

/** The answer to a caller whose marker expired before the commit. */
export function tookTooLong(): ServiceError {
  return notRecorded('The request took too long');
}

function refused(state: string): ServiceError {
  if (state === 'conflict') {
    return new ServiceError('idempotency_conflict', 'This Idempotency-Key was used with another request.');
  }
  if (state === 'running') {
    return new ServiceError('idempotency_in_progress', 'The first request with this Idempotency-Key is still running.');
  }
  throw new Error(`stream-idempotency-begin answered ${state}`);
}
