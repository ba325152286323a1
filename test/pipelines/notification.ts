// Notifications for tests of channels: one that is like those of a blocked event, with what a test wants otherwise.
import type { Attempt, Notification } from '../../pipelines/alert/channel.ts';
import type { Signal } from '../../schemas/signal.ts';
import { mintId } from '../../src/common/ids.ts';

const AT = Date.parse('2026-11-20T17:28:00Z');

export function aSignal(more: Partial<Signal> = {}): Signal {
  const event = mintId('event', AT);
  return {
    id: `policy_violation/${event}`,
    trigger: 'policy_violation',
    account: mintId('account', AT),
    agent: mintId('agent', AT),
    severity: 'high',
    at: AT,
    message: 'Policy "no secrets" blocked a tool_call of agent "billing".',
    event: { id: event, type: 'tool_call', occurredAt: AT - 1_000, traceId: 'trace-1' },
    policies: [{ id: mintId('policy', AT), name: 'no secrets', type: 'data_filter', severity: 'high' }],
    ...more,
  };
}

export function aNotification(more: Partial<Notification> = {}): Notification {
  const signal = more.signal ?? aSignal();
  return {
    id: mintId('delivery', AT),
    createdAt: AT + 5,
    alert: { id: mintId('alert', AT), name: 'violations to the team', trigger: signal.trigger, channel: 'webhook' },
    signal,
    agentName: 'billing',
    count: 1,
    test: false,
    ...more,
  };
}

export function anAttempt(more: Partial<Attempt> = {}): Attempt {
  return { number: 1, at: Date.now(), timeoutMs: 20_000, signal: new AbortController().signal, ...more };
}
