// Is this an agent of the account? Asked before an agent's own events are read; 404 otherwise.
// Asked of Redis itself and not of a front's cache: from the answer of a deletion on its agent is unknown.
// An agent of another account, a deleted one and one that never was are the same: unknown.
import { isId } from '../../common/ids.ts';
import type { Agents } from '../../registry/agents.ts';
import { notFound } from '../answers/reply.ts';

export async function knownAgent(agents: Pick<Agents, 'get'>, account: string, agentId: string): Promise<void> {
  if (!isId('agent', agentId) || (await agents.get(account, agentId)) === null) throw notFound('agent');
}
