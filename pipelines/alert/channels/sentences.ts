// What a notification says to people: a headline, the message, and the facts below it (behind chat and e-mail).
// Invariant: every part is one line of bounded length without control characters (text.ts); nothing is escaped yet,
// since each channel has its own way to. Nothing of an event's payload is in it: a signal carries none.

import type { Trigger } from '../../../schemas/closed-sets.ts';
import { isoTime } from '../../../schemas/time.ts';
import type { Notification } from '../channel.ts';
import { oneLine } from './text.ts';

const NAME_CHARACTERS_MAX = 120;
const MESSAGE_CHARACTERS_MAX = 600;
const WORD_CHARACTERS_MAX = 160;
const POLICIES_SHOWN_MAX = 5;

const HEADLINES: Record<Trigger, string> = {
  policy_violation: 'Policy violation',
  anomaly_detected: 'Anomaly',
  agent_down: 'Agent down',
  rate_limit_exceeded: 'Rate limit exceeded',
  budget_warning: 'Budget warning',
  budget_exhausted: 'Budget exhausted',
  check_failing: 'Check failing',
};

type Described = {
  /** `Policy violation (high)`; without words of callers. */
  headline: string;
  message: string;
  /** Name and value, in the order in which they are shown. */
  facts: [name: string, value: string][];
};

export function describe(notification: Notification): Described {
  const { alert, signal, count, test } = notification;
  const more = count > 1 ? `, the newest of ${count}` : '';
  const kind = `${HEADLINES[signal.trigger]} (${signal.severity}${more})`;
  return {
    headline: test ? `Test: ${kind}` : kind,
    message: oneLine(signal.message, MESSAGE_CHARACTERS_MAX),
    facts: [...factsOf(notification), ['Alert', `${oneLine(alert.name, NAME_CHARACTERS_MAX)} (${alert.id})`]],
  };
}

function factsOf({ id, signal, agentName, count }: Notification): Described['facts'] {
  const { agent, at, event, approval, policies = [], anomaly, silence, apiKey, check } = signal;
  const facts: Described['facts'] = [['Time', isoTime(at)]];
  if (count > 1) facts.push(['Signals', String(count)]);
  if (agent !== null) facts.push(['Agent', withId(agentName, agent)]);
  if (event !== undefined) facts.push(['Event', eventOf(event)]);
  if (event?.outcome !== undefined) facts.push(['Outcome', event.outcome]);
  if (approval !== undefined)
    facts.push(['Approval', `${oneLine(approval.id, WORD_CHARACTERS_MAX)}, until ${isoTime(approval.expiresAt)}`]);
  if (event?.traceId !== undefined) facts.push(['Trace', oneLine(event.traceId, WORD_CHARACTERS_MAX)]);
  for (const policy of policies.slice(0, POLICIES_SHOWN_MAX))
    facts.push(['Policy', `${oneLine(policy.name, NAME_CHARACTERS_MAX)} (${policy.id})`]);
  // How many there are the message says: a signal names some of them.
  if (policies.length > POLICIES_SHOWN_MAX) facts.push(['Policy', '…']);
  if (anomaly !== undefined) facts.push(['Anomaly', numbersOf(anomaly)]);
  if (silence !== undefined) facts.push(['Silent since', isoTime(silence.since)]);
  if (check !== undefined) facts.push(['Check', `${oneLine(check.name, NAME_CHARACTERS_MAX)} (${check.id})`]);
  if (apiKey !== undefined) facts.push(['API key', oneLine(apiKey.id, WORD_CHARACTERS_MAX)]);
  facts.push(['Notification', id]);
  return facts;
}

function withId(name: string | null, id: string): string {
  const shown = oneLine(id, WORD_CHARACTERS_MAX);
  return name === null ? shown : `${oneLine(name, NAME_CHARACTERS_MAX)} (${shown})`;
}

function eventOf({ id, type }: NonNullable<Notification['signal']['event']>): string {
  const shown = oneLine(id, WORD_CHARACTERS_MAX);
  return type === undefined ? shown : `${shown} (${type})`;
}

function numbersOf({ kind, observed, baseline }: NonNullable<Notification['signal']['anomaly']>): string {
  const word = oneLine(kind, WORD_CHARACTERS_MAX);
  if (observed === null) return word;
  return baseline === null ? `${word}: ${short(observed)}` : `${word}: ${short(observed)} against ${short(baseline)}`;
}

function short(value: number): string {
  return Number(value.toPrecision(4)).toString();
}
