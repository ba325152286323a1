// Browsers that are signed in (in admission; docs/keys.md): the cookie, and which calls with one are taken.
// A page signs in with a key and gets a cookie; the key itself is in no storage of the browser. A browser sends the
// cookie with whatever page asks, so a call that changes something must come from a page of this very origin, and say
// so by a header of ours.
// Invariant: a cookie alone changes nothing. Calls with an Authorization header are not inspected here: no browser adds
// one by itself.
// Failure: 403 `cross_site_request`, before anything is looked up.
import { ServiceError } from '../common/errors.ts';
import type { BrowserHead } from './head.ts';

/** The browser itself refuses to let another host, a path or plain HTTP write a cookie of this name. */
const STRICT_NAME = '__Host-gatehouse';
/** Over plain HTTP beyond loopback a `Secure` cookie is dropped, and signing in would lead back to signing in. */
const PLAIN_NAME = 'gatehouse';
const LOOPBACK = /^(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?$/i;

export class BrowserSessions {
  readonly #public: URL | undefined;
  readonly #isTrusted: (peer: string) => boolean;

  /** `isTrusted`: may this peer say by `X-Forwarded-Proto` how the browser reached it? */
  constructor(options: { publicUrl: string | undefined; isTrusted: (peer: string) => boolean }) {
    this.#public = options.publicUrl === undefined ? undefined : new URL(options.publicUrl);
    this.#isTrusted = options.isTrusted;
  }

  /** The session's secret; undefined: no cookie of ours. */
  secretOf(browser: BrowserHead | undefined): string | undefined {
    if (browser === undefined || browser.cookie === '') return undefined;
    return cookieOf(browser.cookie, STRICT_NAME) ?? cookieOf(browser.cookie, PLAIN_NAME);
  }

  /** Will the browser keep a cookie that is marked `Secure`? */
  isSecure(browser: BrowserHead | undefined, peer: string): boolean {
    if (browser === undefined || browser.host === '') return false;
    if (LOOPBACK.test(browser.host)) return true;
    if (this.#public?.protocol === 'https:' && this.#public.host === browser.host) return true;
    return browser.forwardedProto === 'https' && this.#isTrusted(peer);
  }

  /** Before a call with a cookie that changes something. Throws ServiceError cross_site_request. */
  checkChange(browser: BrowserHead): void {
    if (!this.#isSameOrigin(browser)) throw crossSite('comes from a page of another origin');
    if (browser.client === '') throw crossSite('has no Gatehouse-Client header');
  }

  /**
   * Before signing in: a page of another origin must not sign a person in to an account of its choice. Programs send
   * none of these headers.
   */
  checkSignIn(browser: BrowserHead | undefined): void {
    if (browser === undefined || (browser.fetchSite === '' && browser.origin === '')) return;
    if (!this.#isSameOrigin(browser)) throw crossSite('comes from a page of another origin');
  }

  /** Another port of the same host is another origin, though the same site. */
  #isSameOrigin({ fetchSite, origin, host }: BrowserHead): boolean {
    if (fetchSite !== '') return fetchSite === 'same-origin';
    if (!URL.canParse(origin)) return false;
    return new URL(origin).host === host || origin === this.#public?.origin;
  }
}

/** The header that hands the secret over, until `maxAgeSeconds` from now. */
export function sessionCookie(secret: string, maxAgeSeconds: number, isSecure: boolean): string {
  const name = isSecure ? STRICT_NAME : PLAIN_NAME;
  return `${name}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${isSecure ? '; Secure' : ''}`;
}

/** Takes a cookie of either name away: the lines of one header, as answers are written. */
export const CLEARED_COOKIES =
  `${STRICT_NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Secure\r\n` +
  `Set-Cookie: ${PLAIN_NAME}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`;

function cookieOf(header: string, name: string): string | undefined {
  for (const part of header.split(';')) {
    const at = part.indexOf('=');
    if (at > 0 && part.slice(0, at).trim() === name) return part.slice(at + 1).trim();
  }
  return undefined;
}

function crossSite(what: string): ServiceError {
  return new ServiceError('cross_site_request', `A call with a session's cookie that changes something ${what}.`, {
    recorded: false,
  });
}
