// One attempt by HTTP and what its answer means (shared by the webhook and chat channels).
// 2xx is delivered, 410 is gone, anything else is to be tried again; redirects are not followed. Never rejects.
import type { GuardedHttps } from '../../../src/egress/guarded-https.ts';
import { EgressError } from '../../../src/egress/guarded-tls.ts';
import type { Attempt, AttemptResult } from '../channel.ts';

/** A target may not put a notification off for longer than the longest pause between two attempts. */
const RETRY_AFTER_MS_MAX = 24 * 60 * 60 * 1000;
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

type Message = { url: string; headers: Readonly<Record<string, string>>; body: Buffer };

export async function post(https: GuardedHttps, message: Message, attempt: Attempt): Promise<AttemptResult> {
  const { url, headers, body } = message;
  const all = { 'content-type': 'application/json', 'user-agent': 'Gatehouse', ...headers };
  try {
    const { timeoutMs, signal } = attempt;
    const { status, retryAfter, text } = await https.post(url, { headers: all, body, timeoutMs, signal });
    return { ...resultOf(status, retryAfterMs(retryAfter, attempt.at)), answer: text };
  } catch (error) {
    if (!(error instanceof EgressError)) return { outcome: 'retry', statusCode: null, error: 'internal' };
    const reached = error.reached || error.isFinal ? {} : ({ reached: false } as const);
    return { outcome: error.isFinal ? 'failed' : 'retry', statusCode: null, error: error.reason, ...reached };
  }
}

function resultOf(status: number, waitMs: number | undefined): AttemptResult {
  if (status >= 200 && status < 300) return { outcome: 'delivered', statusCode: status, error: null };
  if (status === 410) return { outcome: 'gone', statusCode: status, error: 'status' };
  const error = status >= 300 && status < 400 ? 'redirect' : 'status';
  return { outcome: 'retry', statusCode: status, error, ...(waitMs === undefined ? {} : { retryAfterMs: waitMs }) };
}

/** Seconds or an HTTP date; undefined: neither. */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined;
  const waitMs = /^\d{1,9}$/.test(header)
    ? Number(header) * 1000
    : HTTP_DATE.test(header)
      ? Date.parse(header) - nowMs
      : Number.NaN;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}
