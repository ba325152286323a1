// Which alerts a signal is for (first stage of dispatch.ts). Pure.
// An alert matches a signal of its trigger, of its agent where it is scoped to one, at or above its severity, while it
// is active.
import type { AlertRecord } from '../../schemas/alert.ts';
import type { Signal } from '../../schemas/signal.ts';
import { severityRank } from './signals-of.ts';

export function matches(alert: AlertRecord, signal: Signal): boolean {
  if (alert.status !== 'active' || alert.trigger !== signal.trigger) return false;
  if (alert.agent_id !== null && alert.agent_id !== signal.agent) return false;
  const { severity } = alert.conditions;
  return severity === undefined || severityRank(signal.severity) >= severityRank(severity);
}
