// Cross-origin calls of browsers (in exchange.ts and admission.ts). Off unless GATEHOUSE_CORS_ORIGINS names origins.
// A page of such an origin may call the API with a key of its own: answers, errors among them, name the origin, and a
// preflight is answered. Cookies are never allowed: `Access-Control-Allow-Credentials` is not sent.
// Invariant: an origin that is not named gets the very answers that it gets without this setting.

export class Cors {
  readonly #any: boolean;
  readonly #origins: ReadonlySet<string>;

  /** `origins`: `*`, or origins separated by commas, as addresses.ts finds them sound. */
  constructor(origins: string) {
    this.#any = origins.trim() === '*';
    this.#origins = new Set(origins.split(',').map((origin) => origin.trim()));
  }

  allows(origin: string): boolean {
    return origin !== '' && (this.#any || this.#origins.has(origin));
  }

  /**
   * The headers of every answer. `origin`: '' where the header is absent; a cache must know all the same that the
   * answer depends on it.
   */
  headersFor(origin: string): Record<string, string> {
    const vary = this.#any ? undefined : { Vary: 'Origin' };
    if (!this.allows(origin)) return { ...vary };
    return {
      'Access-Control-Allow-Origin': this.#any ? '*' : origin,
      'Access-Control-Expose-Headers': EXPOSED,
      ...vary,
    };
  }
}

/** The headers of the answer to a preflight. `methods`: of the path. */
export function preflightHeaders(methods: string): Record<string, string> {
  return {
    'Access-Control-Allow-Methods': methods,
    'Access-Control-Allow-Headers':
      'Authorization, Content-Encoding, Content-Type, Idempotency-Key, If-Match, X-Request-Id',
    'Access-Control-Max-Age': '600',
  };
}

/** Headers of ours that a script may read. */
const EXPOSED =
  'ETag, Gatehouse-Incomplete, Gatehouse-Short-Page, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id';
