// Takes everything of one agent out of the tables (spec 4.4, decisions 4): its events (and with them their audit entries), anomalies, deliveries, approvals, audit
// entries that tell of it, and what the registry said of it. The bare `agent.deleted` stays, as does the registry's note that it is deleted.
// Idempotent. Returns once no query sees the rows; their bytes go with the merges that follow.
// Before it: the tombstone is set and the streams have drained past it, so no row of the agent can come after.
import type { ClickHouse } from '../client.ts';

const DELETIONS = [
  'DELETE FROM events WHERE account_id = {account:String} AND agent_id = {agent:String}',
  'DELETE FROM anomalies WHERE account_id = {account:String} AND agent_id = {agent:String}',
  'DELETE FROM deliveries WHERE account_id = {account:String} AND agent_id = {agent:String}',
  'DELETE FROM approvals WHERE account_id = {account:String} AND agent_id = {agent:String}',
  "DELETE FROM audit_log WHERE account_id = {account:String} AND about_agent = {agent:String} AND action != 'agent.deleted'",
  "DELETE FROM registry WHERE account_id = {account:String} AND kind = 'agent' AND id = {agent:String} AND record != ''",
];

export async function eraseAgent(clickhouse: ClickHouse, account: string, agentId: string): Promise<void> {
  for (const deletion of DELETIONS) {
    await clickhouse.command(deletion, { account, agent: agentId }, { lightweight_deletes_sync: '2' });
  }
}
