// What all adapters do alike: whatever keeps a call from being allowed, a mistake as well as a policy, is a reason that
// the model reads. An exception in a framework ends the run, or lets the call through.
import type { DecisionRequest, Gatehouse } from '../gatehouse.ts';

type Verdict = { allowed: true; eventId?: string } | { allowed: false; eventId?: string; reason: string };

export async function verdictOn(gatehouse: Gatehouse, asked: () => DecisionRequest): Promise<Verdict> {
  try {
    const { allowed, reason = 'Blocked.', eventId } = await gatehouse.decide(asked());
    return { ...(allowed ? { allowed } : { allowed, reason }), ...(eventId === undefined ? {} : { eventId }) };
  } catch (error) {
    return { allowed: false, reason: `Gatehouse could not be asked: ${(error as Error).message}` };
  }
}
