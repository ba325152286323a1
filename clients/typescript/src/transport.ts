// One call of the service: again, within one deadline, where that may help.
// Invariant: what is sent again carries the Idempotency-Key of the first time, so it is recorded once.
// Failure: UnavailableError where the deadline passed, ApiError where the service refuses.
import { ApiError, UnavailableError } from './errors.ts';

export type Transport = { url: string; key: string; fetch: typeof fetch };
export type Call = {
  method: 'GET' | 'POST';
  path: string;
  body?: unknown;
  /** Of a POST that may be sent again by the caller as well; left out: one of this call. */
  idempotencyKey?: string;
  timeoutMs: number;
  /** Its pauses hold no process. */
  isBackground?: boolean;
};

const MAY_SUCCEED_LATER = new Set([429, 502, 503, 504]);
const PAUSE_MS = 100;
const PAUSE_MS_MAX = 2_000;

export async function call<T>({ url, key, fetch }: Transport, request: Call): Promise<T> {
  const { method, path, body, timeoutMs, isBackground = false, idempotencyKey = crypto.randomUUID() } = request;
  const headers: Record<string, string> = { authorization: `Bearer ${key}` };
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (method === 'POST') headers['idempotency-key'] = idempotencyKey;
  const text = body === undefined ? null : JSON.stringify(body);
  const deadline = Date.now() + timeoutMs;
  let why = `no answer within ${timeoutMs} ms`;
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(PAUSE_MS_MAX, 2 * pauseMs)) {
    const leftMs = deadline - Date.now();
    if (leftMs <= 0) throw new UnavailableError(`Gatehouse is not available: ${why}`);
    let waitMs = pauseMs * (0.5 + Math.random() / 2);
    try {
      const response = await fetch(`${url}${path}`, {
        method,
        headers,
        body: text,
        signal: AbortSignal.timeout(leftMs),
      });
      if (response.ok) return (await response.json()) as T;
      const { code, message } = await errorOf(response);
      if (!MAY_SUCCEED_LATER.has(response.status) && code !== 'idempotency_in_progress')
        throw new ApiError(response.status, code, message);
      why = message;
      waitMs = Math.max(waitMs, 1000 * Number(response.headers.get('retry-after') ?? 0));
    } catch (error) {
      if (error instanceof ApiError) throw error;
      const { name, message, cause } = error as Error;
      if (name !== 'TimeoutError' && name !== 'AbortError')
        why = String((cause as Error | undefined)?.message ?? message);
    }
    await pause(Math.min(waitMs, Math.max(0, deadline - Date.now())), isBackground);
  }
}

function pause(ms: number, isBackground: boolean): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms) as { unref?: () => void };
    if (isBackground) timer.unref?.();
  });
}

async function errorOf(response: Response): Promise<{ code: string; message: string }> {
  try {
    const { error } = (await response.json()) as {
      error: { code: string; message: string; details?: { path: string; message: string }[] };
    };
    const [first] = error.details ?? [];
    return {
      code: error.code,
      message: first === undefined ? error.message : `${error.message} ${first.path} ${first.message}`,
    };
  } catch {
    return { code: 'unknown', message: `status ${response.status}` };
  }
}
