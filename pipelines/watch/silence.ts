// Judges one agent's silence (from the watch; pure). What it needs to remember of an agent between two polls is a note:
//
//   ''         nothing
//   t<ms>/<n>  the silence that began at <ms> has been notified; the watch checks every <n> ms whether it has ended
//              (watch-tick.lua)
//   i          the agent was inactive, or its watch was off, at the last poll
//   f<ms>      the agent became active again, or its watch was on again, by <ms>: its silence counts from there
//
// Invariant: a silence is notified once, even if its agent's settings change; no agent is down before a full period
// since its last event, since it became active and since we can watch it without a gap has gone by.

import { AGENT_DOWN_SECONDS } from '../../schemas/account.ts';
import { type AgentRecord, ownHeartbeat } from '../../schemas/agent.ts';
import { WATCH_LOOK_MS_MAX } from '../../src/common/limits.ts';

type Look = {
  /** Epoch ms, Redis's clock; so are all times but `seen`, which is a front's. */
  now: number;
  /** Since when silence would have been noticed; null: it cannot be now. */
  watchedSince: number | null;
  /** When the agent last sent. */
  seen: number;
  note: string;
  isActive: boolean;
  /** 0: the watch is off. */
  heartbeatSeconds: number;
};

export type SilenceVerdict = { isDown: boolean; note: string; nextAt: number };

export function judgeSilence({ now, watchedSince, seen, note, isActive, heartbeatSeconds }: Look): SilenceVerdict {
  if (heartbeatSeconds === 0) return { isDown: false, note: 'i', nextAt: now + WATCH_LOOK_MS_MAX };
  const heartbeatMs = heartbeatSeconds * 1_000;
  // A silence that begins after this look is over its bound only after this, so none is noticed late.
  const later = now + Math.min(heartbeatMs, WATCH_LOOK_MS_MAX);
  if (note.startsWith(`t${seen}/`)) return { isDown: false, note, nextAt: later };
  if (!isActive) return { isDown: false, note: 'i', nextAt: later };
  const activeSince = note === 'i' ? now : note.startsWith('f') ? Number(note.slice(1)) : 0;
  const kept = activeSince > seen ? `f${activeSince}` : '';
  if (watchedSince === null) return { isDown: false, note: kept, nextAt: later };
  const downAt = Math.max(seen, activeSince, watchedSince) + heartbeatMs;
  if (now > downAt) return { isDown: true, note: `t${seen}/${later - now}`, nextAt: later };
  return { isDown: false, note: kept, nextAt: Math.min(downAt + 1, later) };
}

/** The agent's own heartbeat, else the account's setting, else the default. 0: the agent is not watched. */
export function heartbeatOf(agent: Pick<AgentRecord, 'metadata'>, accountSeconds: number | null): number {
  return ownHeartbeat(agent) ?? accountSeconds ?? AGENT_DOWN_SECONDS.default;
}
