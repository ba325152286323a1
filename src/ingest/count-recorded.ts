// What is counted of a submission once it is recorded (behind the append; ingest.ts): its bytes, the outcomes of its
// events, the policies that matched them, and why some could not be evaluated.
import type { IngestParts, IngestRequest } from './ingest-parts.ts';
import type { Decided } from './resolve-quotas.ts';

type Counting = Pick<IngestParts, 'onBytes' | 'onAccepted' | 'onMatched' | 'onUnevaluated'>;

/** Neighbours with one decision are counted together. */
export function countRecorded(
  { onBytes, onAccepted, onMatched, onUnevaluated }: Counting,
  { account, body }: Pick<IngestRequest, 'account' | 'body'>,
  judged: readonly (Decided | null)[],
): void {
  onBytes(account, body.length);
  for (let from = 0, to = 0; from < judged.length; from = to) {
    const decision = judged[from]?.decision;
    while (to < judged.length && judged[to]?.decision === decision) to++;
    if (decision === undefined) continue;
    const { outcome, matches } = decision;
    onAccepted(account, outcome, to - from);
    for (const match of matches) {
      onMatched(account, match, { outcome, events: to - from });
      if (match.detail.reason !== undefined) onUnevaluated(match.detail.reason, 1);
    }
  }
}
