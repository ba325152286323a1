// The signal: something happened that an alert may notify people of. It crosses process borders on the signal
// streams; what the event streams' summaries say by themselves (policy matches) becomes a signal where it is consumed.
// Invariant: `id` names the occurrence. A process that derives the same signal again, after a crash or from a replayed
// entry, gives it the same id, and whatever follows from a signal is idempotent by it.
import type { EventType, Outcome, Severity, Trigger } from './closed-sets.ts';

export const SIGNAL_VERSION = 1;
/** The single field of a signal entry: the JSON of a SignalEntry. */
export const SIGNAL_FIELD = 's';
/**
 * Policies that a signal names: no channel shows more. An event may match 200, and each delivery that waits holds its
 * signal.
 */
export const SIGNAL_POLICIES_MAX = 20;

export type Signal = {
  /** `<trigger>/<what it follows from>`, e.g. `anomaly_detected/ano_01jd…`, `agent_down/agt_01jd…/1763745600000`. */
  id: string;
  trigger: Trigger;
  account: string;
  /** null: not about one agent (a key that met 429). */
  agent: string | null;
  severity: Severity;
  /** Epoch ms, our clock. */
  at: number;
  /** One plain sentence for people. May quote names that callers chose: it is escaped where it is shown. */
  message: string;
  /** The event that it follows from. Each signal has this or another cause below. */
  event?: {
    id: string;
    /** Left out: of an approval that expired, which does not hold it. */
    type?: EventType;
    /** Epoch ms, to the microsecond. */
    occurredAt?: number;
    traceId?: string;
    /** Left out where an anomaly was found. */
    outcome?: Outcome;
  };
  /** The approval of an event that waits, or waited: times are epoch ms. */
  approval?: { id: string; expiresAt: number };
  /** Why it was raised, where it was not for the event itself. */
  reason?: 'approval_expired';
  policies?: { id: string; name: string; type: string; severity: Severity | null }[];
  anomaly?: {
    id: string;
    kind: string;
    observed: number | null;
    baseline: number | null;
    score: number | null;
  };
  /** agent_down: since when it has been silent, epoch ms, and the seconds it may be. */
  silence?: { since: number; heartbeatSeconds: number };
  /** budget_warning: the share of the limit that is spent. */
  share?: number;
  /** check_failing: its name is cut where it is shown. */
  check?: { id: string; name: string };
  /** rate_limit_exceeded by the request limit of a key. */
  apiKey?: { id: string };
};

export type SignalEntry = { version: typeof SIGNAL_VERSION; signals: Signal[] };
