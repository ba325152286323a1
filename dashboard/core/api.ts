// Calls of the service (under every screen). Addresses are relative to the page, so that a path prefix needs no
// setting.
// Invariant: every call has a deadline, and every failure is an ApiError with a sentence for people and, where there is
// one, the request id.
import { PAYLOADS, parseKeeping } from './json.ts';

/** A read may wait up to 10 s for writes and run for as long again; then a person has waited enough. */
const DEADLINE_MS = 25_000;

export type ErrorDetail = { path: string; message: string };

export class ApiError extends Error {
  override name = 'ApiError';
  /** 0: no answer came. */
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly details: readonly ErrorDetail[];
  constructor(status: number, code: string, message: string, requestId = '', details: readonly ErrorDetail[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.requestId = requestId;
    this.details = details;
  }
}

export type Answer<T> = { value: T; incomplete: boolean; etag: string | null };
type Options = {
  body?: unknown;
  rawBody?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Keys of the answer whose values are kept as text. */
  kept?: readonly string[];
  /** The call goes by this key alone, and says nothing about who is signed in. */
  key?: string;
};

let onSignedOut: () => void = () => undefined;
/** Sign-ins so far: a refusal of a call from before one says nothing about it. */
let signIns = 0;
export function signedIn(): void {
  signIns++;
}

/** The session that this page goes by. A cookie of another one is refused. */
let sessionId = '';
export function goBy(id: string): void {
  sessionId = id;
}

/** Called when the session is no longer valid. */
export function whenSignedOut(tell: () => void): void {
  onSignedOut = tell;
}

/** `path` is behind the service's address, without a slash before it: `v1/events?limit=50`. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const { body, rawBody, headers = {}, signal, kept = PAYLOADS, key } = options;
  const sent = rawBody ?? (body === undefined ? undefined : JSON.stringify(body));
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const begunAt = signIns;
  let response: Response;
  let text: string;
  try {
    response = await fetch(`../${path}`, {
      method,
      credentials: key === undefined ? 'same-origin' : 'omit',
      headers: {
        'Gatehouse-Client': 'dashboard',
        ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }),
        ...(key !== undefined || sessionId === '' ? {} : { 'Gatehouse-Session': sessionId }),
        ...(sent === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(sent === undefined ? {} : { body: sent }),
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted === true) throw error;
    if (deadline.aborted) throw new ApiError(0, 'timeout', `No answer within ${DEADLINE_MS / 1000} seconds.`);
    throw new ApiError(0, 'unreachable', 'The service cannot be reached.');
  }
  if (!response.ok) {
    const error = refusalOf(response, text);
    if (['invalid_token', 'other_session'].includes(error.code) && key === undefined && begunAt === signIns) onSignedOut();
    throw error;
  }
  return {
    value: (text === '' ? undefined : parseKeeping(text, kept)) as T,
    incomplete: response.headers.get('Gatehouse-Incomplete') !== null,
    etag: response.headers.get('ETag'),
  };
}

export function read<T>(path: string, options: Pick<Options, 'signal' | 'kept'> = {}): Promise<Answer<T>> {
  return call<T>('GET', path, options);
}

/** A query string from what is set; lists repeat their parameter. */
export function query(values: Record<string, string | number | boolean | readonly string[] | undefined>): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) parts.append(name, String(one));
  }
  const text = parts.toString();
  return text === '' ? '' : `?${text}`;
}

function refusalOf(response: Response, text: string): ApiError {
  let error: { code?: string; message?: string; request_id?: string; details?: ErrorDetail[] } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // A proxy answered; what it says is not for people.
  }
  const { code = 'unknown', message = `The answer was ${response.status}.`, request_id: id, details } = error;
  return new ApiError(response.status, code, message, id ?? response.headers.get('X-Request-Id') ?? '', details);
}
