// What an event's summary says by itself, as signals (first in the alert pipeline's way of an event). Pure.
//   policy_violation      one per event that has a match with `block` or `alert` among its actions
//   budget_exhausted      one per budget that the event did not fit into; the first of a window and scope is notified
//   rate_limit_exceeded   one per rate_limit match of that kind; of a window and counter only the first is notified
//                         (throttle.ts)
// A match that only logs is a dry run and raises nothing.
// Invariant: a signal's id and content follow from the summary alone, so a replayed event raises the very same signals.

import { SEVERITIES, type Severity } from '../../schemas/closed-sets.ts';
import type { EventSummary, MatchSummary } from '../../schemas/entry.ts';
import { SIGNAL_POLICIES_MAX, type Signal } from '../../schemas/signal.ts';

/** `limit`: notified once per window of this counter. */
export type Raised = { signal: Signal; limit?: { counter: string; windowMs: number } };

/** Where a rate limit's counter is unknown, its signals are notified by policy, once a minute. */
const WINDOW_MS_UNKNOWN = 60_000;
const NAME_CHARACTERS_MAX = 100;

export function signalsOf(event: EventSummary): Raised[] {
  const interrupting = (event.matches ?? []).filter(interrupts);
  if (interrupting.length === 0) return [];
  return [
    { signal: violation(event, interrupting) },
    ...interrupting.filter(({ type }) => type === 'rate_limit').map((match) => limitExceeded(event, match)),
    ...interrupting.flatMap((match) => budgetExhausted(event, match)),
  ];
}

/** Whether an event can raise anything: asked of every event. */
export function raisesSignals({ matches }: EventSummary): boolean {
  return matches?.some(interrupts) ?? false;
}

export function severityRank(severity: Severity): number {
  return SEVERITIES.indexOf(severity);
}

function interrupts({ actions }: MatchSummary): boolean {
  return actions.includes('block') || actions.includes('alert');
}

function violation(event: EventSummary, matches: readonly MatchSummary[]): Signal {
  const severities = matches.map(
    ({ severity, actions }) => severity ?? (actions.includes('block') ? 'high' : 'medium'),
  );
  return {
    id: `policy_violation/${event.id}`,
    trigger: 'policy_violation',
    severity: severities.reduce((a, b) => (severityRank(a) >= severityRank(b) ? a : b)),
    message: `${named(matches)} ${deed(event)} (${event.type}) of agent ${event.agent}.`,
    policies: matches.slice(0, SIGNAL_POLICIES_MAX).map(asPolicy),
    ...ofEvent(event),
  };
}

function limitExceeded(event: EventSummary, match: MatchSummary): Raised {
  const signal: Signal = {
    id: `rate_limit_exceeded/${event.id}/${match.policy_id}`,
    trigger: 'rate_limit_exceeded',
    severity: match.severity ?? 'medium',
    message: `Agent ${event.agent} is over the rate limit of policy "${short(match.name)}".`,
    policies: [asPolicy(match)],
    ...ofEvent(event),
  };
  return { signal, limit: match.limit ?? { counter: match.policy_id, windowMs: WINDOW_MS_UNKNOWN } };
}

/** Nothing of a call that is blocked since its cost is unknown. */
function budgetExhausted(event: EventSummary, match: MatchSummary): Raised[] {
  const { type, limit, name, policy_id: id, severity } = match;
  if (type !== 'budget' || limit === undefined) return [];
  const signal: Signal = {
    id: `budget_exhausted/${event.id}/${id}`,
    trigger: 'budget_exhausted',
    severity: severity ?? 'high',
    message: `A call of agent ${event.agent} does not fit into budget "${short(name)}".`,
    policies: [asPolicy(match)],
    ...ofEvent(event),
  };
  return [{ signal, limit }];
}

function ofEvent(event: EventSummary): Pick<Signal, 'account' | 'agent' | 'at' | 'event' | 'approval'> {
  const { account, agent, id, type, occurredAt, receivedAt, outcome, traceId, approvalId, approval } = event;
  return {
    account,
    agent,
    at: receivedAt,
    event: { id, type, occurredAt, outcome, ...(traceId === undefined ? {} : { traceId }) },
    ...(approvalId === undefined || approval === undefined
      ? {}
      : { approval: { id: approvalId, expiresAt: receivedAt + approval.timeoutSeconds * 1000 } }),
  };
}

function asPolicy({ policy_id, name, type, severity }: MatchSummary): NonNullable<Signal['policies']>[number] {
  return { id: policy_id, name, type, severity };
}

function named(matches: readonly MatchSummary[]): string {
  const others = matches.length - 1;
  const more = others === 0 ? '' : ` and ${others} other${others === 1 ? '' : 's'}`;
  return `Policy "${short(matches[0]!.name)}"${more}`;
}

function deed({ outcome, observed }: EventSummary): string {
  if (outcome === 'blocked' && observed === true) return 'matched an event that it could not prevent';
  if (outcome === 'blocked') return 'blocked an event';
  return outcome === 'pending' ? 'holds an event for approval' : 'matched an event';
}

function short(name: string): string {
  return name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}…` : name;
}
