// What shadows are judged with in a front: counters and an allowance of their own.
import type { ShadowParts } from '../ingest/ingest-parts.ts';
import { RateLimitBatcher } from '../ingest/rate-limit-batcher.ts';
import { SequenceBatcher } from '../ingest/sequence-batcher.ts';
import { ShadowCounters } from '../ingest/shadow-counters.ts';
import { SpendBatcher } from '../ingest/spend-batcher.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { shadowAllowances } from '../policy/allowance.ts';
import { Counters } from '../policy/quotas/counters.ts';
import { SequenceStore } from '../policy/quotas/sequence-store.ts';
import { SpendStore } from '../policy/quotas/spend-store.ts';
import type { RegistryStore } from '../registry/commit.ts';

/** `limits`: to be closed with those of policies in force. */
export function makeShadows(
  { redis, keys }: RegistryStore,
  metrics: Metrics,
): { shadow: ShadowParts; limits: RateLimitBatcher } {
  const limits = new RateLimitBatcher(new Counters(redis), keys);
  const spends = new SpendBatcher(new SpendStore(redis, keys));
  const sequences = new SequenceBatcher(new SequenceStore(redis, keys));
  const shadow: ShadowParts = {
    counters: new ShadowCounters({ limits, spends, sequences }),
    allowances: shadowAllowances(),
    onJudged({ said, skipped }) {
      for (const [would, times] of said) metrics.inc('gatehouse_shadow_verdicts_total', { would }, times);
      for (const [reason, times] of skipped) metrics.inc('gatehouse_shadow_skips_total', { reason }, times);
    },
  };
  return { shadow, limits };
}
