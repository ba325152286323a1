// Says whether a request was signed by one of some secrets, as Standard Webhooks 1.0.0 lays down (before a body is
// looked at): HMAC-SHA-256 over `id.timestamp.body`, several signatures in one header while a secret is rotated.
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
// Pure. Invariant: every signature is compared with that of every secret, in a time that says nothing of how much of
// them is right; what is older than TOLERANCE_MS, or as far ahead, is signed by none.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Headers as they came; '' where absent. */
export type WebhookHead = { id: string; timestamp: string; signature: string };

/** As the specification has it. */
export const TOLERANCE_MS = 5 * 60_000;
/** Signatures in a header: a sender has two secrets, or a few. */
const SIGNATURES_MAX = 8;
const VERSION = 'v1,';

export function isTimely({ timestamp }: WebhookHead, nowMs: number): boolean {
  return /^[0-9]{1,12}$/.test(timestamp) && Math.abs(Number(timestamp) * 1000 - nowMs) <= TOLERANCE_MS;
}

export function isSignedBy(secrets: readonly string[], head: WebhookHead, body: Buffer, nowMs: number): boolean {
  if (head.id === '' || !isTimely(head, nowMs)) return false;
  const given = head.signature
    .split(' ', SIGNATURES_MAX)
    .filter((one) => one.startsWith(VERSION))
    .map((one) => Buffer.from(one.slice(VERSION.length), 'base64'));
  let isSigned = false;
  for (const secret of secrets) {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
    const right = createHmac('sha256', key).update(`${head.id}.${head.timestamp}.`).update(body).digest();
    for (const one of given) if (one.length === right.length && timingSafeEqual(one, right)) isSigned = true;
  }
  return isSigned;
}
