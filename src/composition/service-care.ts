// What those who run the service have to see to, as a front finds it in Redis (for the overview): entries that were put
// aside, events that wait to be stored, the last backup, audit chains that did not verify.
// Invariant: of all who ask within CARE_KEPT_MS one asks Redis. Failure: rejects where Redis cannot be asked.
import { readVerification } from '../audit/daily-verification.ts';
import { ARRIVAL_LAG_MS } from '../common/limits.ts';
import type { CareFound } from '../http/route.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { DeadLetters } from '../streams/dead-letters.ts';
import { Progress } from '../streams/progress.ts';

/** Some 60 commands of Redis. */
const CARE_KEPT_MS = 5_000;

type CareParts = { redis: Commands; keys: Keys; isOwn: () => boolean };

export function serviceCare({ redis, keys, isOwn }: CareParts): () => Promise<CareFound> {
  const dead = new DeadLetters({ redis, keys });
  const progress = new Progress({ redis, keys });
  const ask = async (): Promise<CareFound> => {
    const [dead_entries, backupMs, { invalid, found }, stored] = await Promise.all([
      dead.count(),
      redis.get(keys.backupNote()),
      readVerification(redis, keys),
      progress.ofEvents('store'),
    ]);
    const behindMs = Date.now() - ARRIVAL_LAG_MS - stored.untilMs;
    return {
      dead_entries,
      store_behind_seconds: Math.max(0, Math.floor(behindMs / 1000)),
      ...{ lastBackupMs: Number(backupMs ?? 0), isOwn: isOwn(), invalid: [...invalid, ...found] },
    };
  };
  let kept: { found: Promise<CareFound>; untilMs: number } | undefined;
  return () => {
    if (kept === undefined || performance.now() >= kept.untilMs) {
      const found = ask();
      kept = { found, untilMs: performance.now() + CARE_KEPT_MS };
      found.catch(() => {
        kept = undefined;
      });
    }
    return kept.found;
  };
}
