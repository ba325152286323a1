// Signs what is posted to receivers, as Standard Webhooks 1.0.0 lays down (for alerts and outgoing feeds).
import { Webhook } from 'standardwebhooks';

/** One signature a secret, separated by spaces: a receiver takes what fits. undefined: a secret is none. */
export function signedHeaders(
  secrets: readonly string[],
  { id, atMs, body }: { id: string; atMs: number; body: string },
): Record<string, string> | undefined {
  try {
    return {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(atMs / 1000)),
      'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, new Date(atMs), body)).join(' '),
    };
  } catch {
    return undefined;
  }
}

/** `retired`: secrets that were replaced, each until when it still signs. */
export function secretsAt(
  { secret, retired = [] }: { secret: string; retired?: { secret: string; until: number }[] | undefined },
  atMs: number,
): string[] {
  return [secret, ...retired.filter(({ until }) => until > atMs).map((one) => one.secret)];
}
