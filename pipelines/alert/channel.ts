// What a channel is to the deliveries: a sender of one attempt (between the delivery queue and the channels).
// Invariant: `send` never rejects, and has ended, however it did, soon after `attempt.signal` fires or `timeoutMs` is
// over. `Notification.id` is the `webhook-id`: the same in every attempt, by which a receiver recognizes a repetition.

import type { AlertRecord } from '../../schemas/alert.ts';
import type { Channel, EGRESS_ERRORS, MailTransport, Trigger } from '../../schemas/closed-sets.ts';

import type { Signal } from '../../schemas/signal.ts';

/** The notification that is sent. `signal`: the only one, or the newest of those in a summary. */
export type Notification = {
  /** `dlv_…`, the webhook-id. */
  id: string;
  /** Epoch ms. */
  createdAt: number;
  alert: { id: string; name: string; trigger: Trigger; channel: Channel };
  signal: Signal;
  /** The present name of its agent; null: it is about none, or one that is gone. */
  agentName: string | null;
  /** Where people inspect it. */
  link?: string | undefined;
  /** Number of signals: 1, or more in a summary. */
  count: number;
  /** Asked for by POST /v1/alerts/{id}/test. */
  test: boolean;
};

/** `url`: of a webhook or chat. `address`: of a mail box. The alert's current ones, read right before the attempt. */
export type Target = { url: string; secret?: string; retired?: AlertRecord['retired'] } | { address: string };

export type Attempt = {
  /** 1 for the first. */
  number: number;
  /** Epoch ms: the time that the attempt states, e.g. `webhook-timestamp`. */
  at: number;
  timeoutMs: number;
  /** The process leaves, or the time is over. */
  signal: AbortSignal;
};

/** The reason why an attempt did not succeed; the other side's own words are in `answer`. */
export type AttemptError =
  | (typeof EGRESS_ERRORS)[number]
  | 'status'
  | 'redirect'
  | 'rejected'
  | 'aborted'
  | 'disk_full'
  | 'unwritable'
  | 'not_configured'
  | 'internal';

export type AttemptResult = {
  /**
   * `retry`: may go well later. `failed`: never will. `gone`: the target wants no more (410): its alert becomes
   * inactive.
   */
  outcome: 'delivered' | 'retry' | 'failed' | 'gone';
  /** HTTP status, or SMTP reply code; null: no answer. */
  statusCode: number | null;
  /** null: it was taken. */
  error: AttemptError | null;
  /** The wait that the target asked for (`Retry-After`). */
  retryAfterMs?: number;
  /** The text that the target answered, not cut yet. */
  answer?: string;
  /** false: no connection could be had, which is the host's fault and not the target's. Left out: there was one. */
  reached?: false;
};

/** By what a sender sends. */
type ChannelTransport = 'https' | MailTransport;

export interface ChannelSender {
  readonly transport: ChannelTransport;
  send(target: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult>;
  /** Takes back what was sent, where that can be done: its agent was deleted meanwhile. May reject. */
  withdraw?(deliveryId: string): Promise<void>;
}
