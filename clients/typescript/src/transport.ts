// One call of the service: again, within one deadline, where that may help.
// Invariants: what is sent again carries the Idempotency-Key of the first time, so it is recorded once; the key goes to
// the address that was given and to no other (no redirect is followed); no wait outlives the deadline, whatever `fetch`
// does.
// Failure: UnavailableError where the deadline passed, ApiError where the service refuses or something else answers.
import { ApiError, GatehouseError, UnavailableError } from './errors.ts';

export type Call = {
  method: 'GET' | 'POST';
  path: string;
  /** JSON. */
  body?: string;
  /** The key of a POST that the caller may send again, too; left out: the key is of this call. */
  idempotencyKey?: string;
  timeoutMs: number;
  /** It holds no process, and a caller that has time asks again: tried once. */
  isBackground?: boolean;
  /** Ends it before its time. */
  signal?: AbortSignal | undefined;
};
type Failure = { error?: { code?: unknown; message?: unknown; details?: { path: string; message: string }[] } };

const MAY_SUCCEED_LATER = new Set([429, 502, 503, 504]);
const PAUSE_MS = 100;
const PAUSE_MS_MAX = 2_000;
/** The largest batch comes back twice at most, as sent and redacted. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** The longest that timers can wait. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export class Transport {
  readonly #url: string;
  readonly #key: string;
  readonly #fetch: typeof fetch;

  /** Throws GatehouseError where the address or the key cannot be one. */
  constructor(url: string, key: string, given: typeof fetch) {
    this.#url = serviceAddress('url', url);
    this.#key = key.trim();
    if (!/^[!-~]+$/.test(this.#key)) throw new GatehouseError('key must be a key of Gatehouse.');
    this.#fetch = (...args) => given(...args);
  }

  /** The answer's JSON. */
  async call(request: Call): Promise<unknown> {
    const { timeoutMs, isBackground = false, idempotencyKey = crypto.randomUUID(), signal } = request;
    const deadline = performance.now() + timeoutMs;
    let why = 'no answer in time';
    for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(PAUSE_MS_MAX, 2 * pauseMs)) {
      let waitMs = pauseMs * (0.5 + Math.random() / 2);
      const leftMs = deadline - performance.now();
      if (leftMs <= 0 || signal?.aborted === true) throw new UnavailableError(`Gatehouse is not available: ${why}`);
      try {
        const { status, text, retryAfter } = await within(leftMs, isBackground, signal, (ended) =>
          this.#ask(request, idempotencyKey, ended),
        );
        if (status >= 200 && status < 300) return JSON.parse(text);
        const { code, message } = errorOf(status, text);
        if (!MAY_SUCCEED_LATER.has(status) && code !== 'idempotency_in_progress')
          throw new ApiError(status, code, message);
        why = message;
        waitMs = Math.max(waitMs, retryAfterMs(retryAfter));
      } catch (error) {
        if (error instanceof ApiError) throw error;
        if (!(error instanceof Ended)) why = messageOf(error);
      }
      if (isBackground) throw new UnavailableError(`Gatehouse is not available: ${why}`, waitMs);
      await pause(Math.min(waitMs, deadline - performance.now()), false, signal);
    }
  }

  async #ask(
    { method, path, body }: Call,
    idempotencyKey: string,
    signal: AbortSignal,
  ): Promise<{ status: number; text: string; retryAfter: string | null }> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#key}` };
    if (body !== undefined) headers['content-type'] = 'application/json';
    if (method === 'POST') headers['idempotency-key'] = idempotencyKey;
    const url = `${this.#url}${path}`;
    const response = await this.#fetch(url, { method, headers, body: body ?? null, signal, redirect: 'manual' });
    const { status, type } = response;
    if (type === 'opaqueredirect' || (status >= 300 && status < 400)) {
      const to = response.headers.get('location') ?? 'another address';
      throw new ApiError(status, 'redirected', `${url} redirects to ${to}. The key is not sent there: set url to it.`);
    }
    return { status, text: await textOf(response), retryAfter: response.headers.get('retry-after') };
  }
}

/** Without a slash at its end: a path of the service stands right behind it. Throws GatehouseError. */
export function serviceAddress(name: string, url: string): string {
  const address = url.trim().replace(/\/+$/, '');
  if (/^https?:\/\/[^\s/\\?#@]+(\/[^\s\\?#]*)?$/i.test(address) && URL.canParse(address)) return address;
  throw new GatehouseError(`${name} must be as http://host:8080/prefix, with nothing behind the path.`);
}

class Ended extends Error {}

/** `run`, or Ended when the time is over or `signal` says so, whether `run` minds it or not. */
function within<T>(
  ms: number,
  isBackground: boolean,
  signal: AbortSignal | undefined,
  run: (ended: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const running = run(controller.signal);
  running.catch(() => undefined);
  const over = pause(ms, isBackground, signal, controller.signal).then(() => {
    throw new Ended();
  });
  return Promise.race([running, over]).finally(() => controller.abort());
}

/** Shorter where a signal says so. At least a turn of the loop: what fails at once must not keep others from theirs. */
export function pause(ms: number, isBackground: boolean, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      for (const signal of signals) signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(ms, 0), TIMER_MS_MAX));
    if (isBackground) (timer as { unref?: () => void }).unref?.();
    for (const signal of signals) {
      if (signal?.aborted === true) done();
      signal?.addEventListener('abort', done);
    }
  });
}

/** A number of ms that a program set; Infinity is as long as timers can. Throws GatehouseError. */
export function msOf(name: string, ms: number): number {
  if (typeof ms !== 'number' || Number.isNaN(ms) || ms < 0) throw new GatehouseError(`${name} must be milliseconds.`);
  return Math.min(ms, TIMER_MS_MAX);
}

/** Throws ApiError where it is larger than any answer of the service. */
async function textOf(response: Response): Promise<string> {
  const { status, body } = response;
  if (typeof body?.getReader !== 'function') return response.text();
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let bytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > ANSWER_BYTES_MAX) throw new ApiError(status, 'unexpected_answer', 'The answer is too large.');
    text += decoder.decode(value, { stream: true });
  }
}

/** Seconds, or a date; anything else asks for no more than the ordinary pause. */
function retryAfterMs(text: string | null): number {
  if (text === null) return 0;
  if (/^\d+$/.test(text)) return 1000 * Number(text);
  const ms = /^[A-Z][a-z]{2}.* GMT$/.test(text) ? Date.parse(text) - Date.now() : 0;
  return Math.max(ms || 0, 0);
}

function errorOf(status: number, text: string): { code: string; message: string } {
  try {
    const { code, message, details: [first] = [] } = (JSON.parse(text) as Failure).error!;
    const where = first === undefined ? '' : ` ${first.path} ${first.message}`;
    if (typeof code === 'string') return { code, message: `${message}${where}` };
  } catch {
    // of something else than the service
  }
  return { code: 'unknown', message: `status ${status}` };
}

function messageOf(error: unknown): string {
  const { message, cause } = (error ?? {}) as { message?: unknown; cause?: { message?: unknown } };
  return String(cause?.message ?? message ?? error);
}
