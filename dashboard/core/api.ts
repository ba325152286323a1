// Calls of the service (under every screen). Addresses are relative to the page, so that a path prefix needs no
// setting.
// Invariant: every call has a deadline, and every failure is an ApiError with a sentence for people and, where there is
// one, the request id. Each call says which session the page was drawn for (stream and downloads too): the service
// refuses it once the cookie is of another.
import { noteDate } from './clock.ts';
import { PAYLOADS, parseKeeping } from './json.ts';

/** A read may wait up to 10 s for writes and run for as long again; then a person has waited enough. */
const DEADLINE_MS = 25_000;

type ErrorDetail = { path: string; message: string };

export class ApiError extends Error {
  override name = 'ApiError';
  /** 0: no answer came. */
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly details: readonly ErrorDetail[];
  /** When to come back; 0: it was not said. */
  retryAfterMs = 0;
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

/** Called when the session is no longer valid, or not the one of the cookie. */
export function whenSignedOut(tell: () => void): void {
  onSignedOut = tell;
}

/** `path` is behind the service's address, without a slash before it: `v1/events?limit=50`. */
export async function call<T>(method: string, path: string, options: Options = {}): Promise<Answer<T>> {
  const { body, rawBody, headers = {}, signal, kept = PAYLOADS, key } = options;
  const sent = rawBody ?? (body === undefined ? undefined : JSON.stringify(body));
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  const begun = { signIns, at: Date.now() };
  let response: Response;
  let text: string;
  try {
    response = await fetch(`../${path}`, {
      method,
      credentials: key === undefined ? 'same-origin' : 'omit',
      headers: {
        ...(key === undefined ? ownHeaders() : { Authorization: `Bearer ${key}` }),
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
  noteDate(response.headers.get('Date'), begun.at, Date.now());
  if (!response.ok) throw refusalOf(response, text, key === undefined && begun.signIns === signIns);
  return {
    value: (text === '' ? undefined : parseKeeping(text, kept)) as T,
    incomplete: response.headers.get('Gatehouse-Incomplete') !== null,
    etag: response.headers.get('ETag'),
  };
}

function ownHeaders(): Record<string, string> {
  return { 'Gatehouse-Client': 'dashboard', ...(sessionId === '' ? {} : { 'Gatehouse-Session': sessionId }) };
}

/** An answer that goes on until `signal`. `lastId`: of the last row that has come. Rejects with ApiError or as fetch does. */
export async function open(path: string, lastId: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const begun = signIns;
  const headers = { ...ownHeaders(), ...(lastId === '' ? {} : { 'Last-Event-ID': lastId }) };
  const response = await fetch(`../${path}`, { headers, signal, cache: 'no-store' });
  if (response.ok && response.body !== null) return response.body;
  throw refusalOf(response, await response.text(), begun === signIns);
}

/** The address of a file that the browser saves: it sends no headers of ours. */
export function fileUrl(path: string): string {
  return `../${path}${sessionId === '' ? '' : `${path.includes('?') ? '&' : '?'}session=${sessionId}`}`;
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

/** `isOfPage`: it speaks of the session that this page goes by. */
function refusalOf(response: Response, text: string, isOfPage: boolean): ApiError {
  let error: { code?: string; message?: string; request_id?: string; details?: ErrorDetail[] } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {};
  } catch {
    // A proxy answered; what it says is not for people.
  }
  const { code = 'unknown', message = `The answer was ${response.status}.`, request_id: id, details } = error;
  if (isOfPage && SIGNED_OUT.has(code)) onSignedOut();
  const refusal = new ApiError(
    response.status,
    code,
    message,
    id ?? response.headers.get('X-Request-Id') ?? '',
    details,
  );
  refusal.retryAfterMs = Number(response.headers.get('Retry-After') ?? 0) * 1_000 || 0;
  return refusal;
}
const SIGNED_OUT = new Set(['invalid_token', 'other_session']);
