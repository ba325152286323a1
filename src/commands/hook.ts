// `gatehouse hook`: for tools that run a command before they do something, and go by its exit status. Reads the hook
// from standard input, asks the service (POST /v1/hooks/claude-code), and says no by status 2 with the reason on
// standard error.
// Invariant: status 0 only where the service has recorded the event and allows it. Whatever else happens is status 2: a
// tool takes any other status for a hook that is broken, and goes on.

import { randomUUID } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { serviceToAsk } from './context.ts';

type Options = Record<string, string | boolean | undefined>;
type Answer = {
  reason?: string;
  hookSpecificOutput?: { permissionDecisionReason: string };
};

const ALLOWED = 0;
const DENIED = 2;
/** The tool gives its hooks a minute. */
const DEADLINE_MS = 50_000;
const WAIT_SECONDS = 40;
const RETRY_MS = 500;
const HOOK_BYTES_MAX = 1024 * 1024;
const MAY_SUCCEED_LATER = new Set([429, 502, 503, 504]);

export async function hook(options: Options): Promise<number> {
  try {
    const body = await buffer(process.stdin);
    if (body.length > HOOK_BYTES_MAX) throw new Error(`the hook is larger than ${HOOK_BYTES_MAX} bytes`);
    const answer = await ask(options, body);
    const reason = answer.hookSpecificOutput?.permissionDecisionReason ?? answer.reason;
    if (reason === undefined) return ALLOWED;
    process.stderr.write(`${reason}\n`);
  } catch (error) {
    process.stderr.write(`Gatehouse could not be asked, so this is denied: ${(error as Error).message}\n`);
  }
  return DENIED;
}

/** Again until the deadline where that may help; the event is recorded once. */
async function ask(options: Options, body: Buffer): Promise<Answer> {
  const { url: base, key } = serviceToAsk(options['url']);
  const url = new URL('/v1/hooks/claude-code', base);
  url.searchParams.set('wait', String(options['wait'] ?? WAIT_SECONDS));
  if (typeof options['agent'] === 'string') url.searchParams.set('agent', options['agent']);
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    'idempotency-key': `hook-${randomUUID()}`,
  };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  for (;;) {
    const response = await fetch(url, { method: 'POST', headers, body, signal }).catch((error: Error) => {
      if (signal.aborted) throw new Error(`no answer within ${DEADLINE_MS / 1000} s`);
      return error;
    });
    if (!(response instanceof Error) && response.ok) return (await response.json()) as Answer;
    if (!(response instanceof Error) && !MAY_SUCCEED_LATER.has(response.status))
      throw new Error(`${response.status} ${await response.text()}`);
    await sleep(RETRY_MS, undefined, { signal }).catch(() => {
      throw new Error(response instanceof Error ? String(response.cause ?? response.message) : `${response.status}`);
    });
  }
}
