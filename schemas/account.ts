// The account: whose everything is, and what its admins may set (decisions 3 and 7).
// Request limits are shown and not set here: a key must not raise its own limit, so they are the command line's.
import Type from 'typebox';
import { ResponseTime } from './common.ts';

/**
 * Seconds for which an agent may be silent. Under 5 s the watch itself, which looks once a second, would be most of what it
 * measures; over a week nobody waits for an alert.
 */
export const AGENT_DOWN_SECONDS = { min: 5, max: 7 * 86_400, default: 300 } as const;

const AgentDownSeconds = Type.Union([
  Type.Integer({ minimum: AGENT_DOWN_SECONDS.min, maximum: AGENT_DOWN_SECONDS.max }),
  Type.Null(),
]);

export const AccountPatch = Type.Object({ agent_down_seconds: AgentDownSeconds }, { additionalProperties: false });
export type AccountPatch = Type.Static<typeof AccountPatch>;

const OrDefault = Type.Union([Type.Number(), Type.Null()]);

export const Account = Type.Object({
  id: Type.String(),
  name: Type.String(),
  /** For agents without `heartbeat_seconds` of their own; null: 300. */
  agent_down_seconds: AgentDownSeconds,
  /** Of each of its keys; null: as the service's settings say. */
  requests_per_second: OrDefault,
  requests_burst: OrDefault,
  created_at: ResponseTime,
  updated_at: ResponseTime,
});
export type Account = Type.Static<typeof Account>;
