// The webhook channel: a POST of JSON, signed as Standard Webhooks 1.0.0 lays down (docs/channels.md).
// Invariant: the bytes of the body are the same in every attempt, so a receiver may compare them; what differs is the
// header `webhook-timestamp`, and with it the signature. They stay under the 20 KB that the documentation gives to
// receivers.
// Failure: see post.ts. An alert without a secret cannot be signed for and is not sent.
import type { Signal } from '../../../schemas/signal.ts';
import { exactIsoTime, isoTime } from '../../../schemas/time.ts';
import type { GuardedHttps } from '../../../src/egress/guarded-https.ts';
import { secretsAt, signedHeaders } from '../../../src/egress/sign-webhook.ts';
import type { Attempt, AttemptResult, ChannelSender, Notification, Target } from '../channel.ts';
import { post } from './post.ts';
import { cut } from './text.ts';

const BODY_BYTES_MAX = 20_000;
/** JSON may write one UTF-16 unit with six bytes; every field at its longest still leaves room for some policies. */
const MESSAGE_CHARACTERS_MAX = 1_000;
const NAME_CHARACTERS_MAX = 200;
const WORD_CHARACTERS_MAX = 300;
const POLICIES_MAX = 20;

const NOT_CONFIGURED: AttemptResult = { outcome: 'failed', statusCode: null, error: 'not_configured' };

export class WebhookChannel implements ChannelSender {
  readonly transport = 'https';
  readonly #https: GuardedHttps;

  constructor(https: GuardedHttps) {
    this.#https = https;
  }

  async send(target: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult> {
    if (!('url' in target) || target.secret === undefined) return NOT_CONFIGURED;
    const body = webhookBody(notification);
    const secrets = secretsAt({ secret: target.secret, retired: target.retired }, attempt.at);
    const headers = signedHeaders(secrets, { id: notification.id, atMs: attempt.at, body });
    if (headers === undefined) return NOT_CONFIGURED;
    return post(this.#https, { url: target.url, headers, body: Buffer.from(body) }, attempt);
  }
}

/** Well-formed whatever the strings are: JSON.stringify escapes lone halves of pairs. */
export function webhookBody(notification: Notification): string {
  const policies = (notification.signal.policies ?? []).slice(0, POLICIES_MAX);
  for (;;) {
    const body = JSON.stringify(bodyOf(notification, policies));
    if (Buffer.byteLength(body) < BODY_BYTES_MAX) return body;
    if (policies.pop() === undefined) throw new Error('a webhook without policies does not fit');
  }
}

function bodyOf(notification: Notification, policies: NonNullable<Signal['policies']>): object {
  const { alert, signal, agentName, link, count, test, createdAt } = notification;
  const { event, approval } = signal;
  return {
    type: signal.trigger,
    timestamp: isoTime(createdAt),
    data: {
      alert: { id: alert.id, name: cut(alert.name, NAME_CHARACTERS_MAX) },
      signal: signalOf(signal, policies, agentName),
      ...(event === undefined
        ? {}
        : {
            event: {
              id: event.id,
              ...(event.type === undefined ? {} : { type: event.type }),
              ...(event.occurredAt === undefined ? {} : { timestamp: exactIsoTime(event.occurredAt) }),
              ...(event.outcome === undefined ? {} : { outcome: event.outcome }),
              ...(event.traceId === undefined ? {} : { trace_id: cut(event.traceId, WORD_CHARACTERS_MAX) }),
            },
          }),
      ...(approval === undefined ? {} : { approval: { id: approval.id, expires_at: isoTime(approval.expiresAt) } }),
      ...(link === undefined ? {} : { url: link }),
      count,
      ...(test ? { test } : {}),
    },
  };
}

function signalOf(signal: Signal, policies: NonNullable<Signal['policies']>, agentName: string | null): object {
  const { id, severity, agent, at, message, reason, anomaly, silence, share, check, apiKey } = signal;
  return {
    id: cut(id, WORD_CHARACTERS_MAX),
    severity,
    agent_id: agent,
    agent_name: agentName === null ? null : cut(agentName, NAME_CHARACTERS_MAX),
    timestamp: isoTime(at),
    message: cut(message, MESSAGE_CHARACTERS_MAX),
    ...(reason === undefined ? {} : { reason }),
    ...(signal.policies === undefined ? {} : { policies: policies.map(policyOf) }),
    ...(anomaly === undefined ? {} : { anomaly }),
    ...(share === undefined ? {} : { share }),
    ...(silence === undefined
      ? {}
      : { silence: { since: isoTime(silence.since), heartbeat_seconds: silence.heartbeatSeconds } }),
    ...(check === undefined ? {} : { check }),
    ...(apiKey === undefined ? {} : { api_key_id: apiKey.id }),
  };
}

function policyOf({ id, name, type, severity }: NonNullable<Signal['policies']>[number]): object {
  return { id, name: cut(name, NAME_CHARACTERS_MAX), type, severity };
}
