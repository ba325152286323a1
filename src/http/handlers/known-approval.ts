// One approval by its id, for routes that read it, decide it or wait for it (approval-routes.ts says where it is
// looked for, and why).

import { decidedApprovals } from '../../../clickhouse/queries/list-approvals.ts';
import type { Approval } from '../../../schemas/approval.ts';
import { isId } from '../../common/ids.ts';
import { ask } from '../answers/reply.ts';
import type { Parts } from '../route.ts';

/**
 * `complete`: false where it may have been opened by an event whose opening is on its way. Throws ServiceError
 * unavailable.
 */
export async function knownApproval(
  { barrier, clickhouse, registry }: Parts,
  account: string,
  id: string,
): Promise<{ known: Approval | null; complete: boolean }> {
  if (!isId('approval', id)) return { known: null, complete: true };
  const known = await registry.approvals.get(account, id);
  if (known !== null) return { known, complete: true };
  const complete = await barrier.waitForOpenings(account, null);
  const opened = await registry.approvals.get(account, id);
  if (opened !== null) return { known: opened, complete };
  const excludeAgents = await registry.agents.erasing(account);
  const [old] = await ask(() => decidedApprovals(clickhouse, account, { ids: [id], excludeAgents }));
  return { known: old ?? null, complete };
}
