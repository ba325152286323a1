// Browsers that are signed in (in admission; docs/keys.md): the cookie, and which calls with one are taken.
// A page signs in with a key and gets a cookie; the key itself is in no storage of the browser. A browser sends the
// cookie with whatever page asks, so a call that changes something must come from a page of this very origin, and say
// so by a header of ours.
// Cookies know no ports, and a sibling of a domain or plain HTTP can write those that have no `__Host-`: so only where
// the browser keeps no other is the plain one read, and a page says which session it goes by.
// Invariant: a cookie alone changes nothing, and none replaces the session that a page was signed in to. Calls with an
// Authorization header are not inspected here: no browser adds one by itself.
// Failure: 403 `cross_site_request`, before anything is looked up.
import { ServiceError } from '../../common/errors.ts';
import type { Head } from '../reading/head.ts';

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

  /** The session's secret; undefined: no cookie of ours. `peer`: the connection's other end. */
  secretOf(head: Head, peer: () => string): string | undefined {
    const { cookie = '' } = head.browser ?? {};
    if (cookie === '') return undefined;
    const strict = cookieOf(cookie, STRICT_NAME);
    if (strict !== undefined || this.isSecure(head, peer)) return strict;
    return cookieOf(cookie, PLAIN_NAME);
  }

  /** Will the browser keep a cookie that is marked `Secure`? */
  isSecure(head: Head, peer: () => string): boolean {
    return LOOPBACK.test(head.host) || this.#isByHttps(head, peer);
  }

  /** Before a call with a cookie that changes something. Throws ServiceError cross_site_request. */
  checkChange(head: Head, peer: () => string): void {
    if (!this.#isSameOrigin(head, peer)) throw crossSite('comes from a page of another origin');
    if ((head.browser?.client ?? '') === '') throw crossSite('has no Gatehouse-Client header');
  }

  /**
   * Before signing in: a page of another origin must not sign a person in to an account of its choice. Programs send
   * none of these headers.
   */
  checkSignIn(head: Head, peer: () => string): void {
    const { fetchSite = '', origin = '' } = head.browser ?? {};
    if (fetchSite === '' && origin === '') return;
    if (!this.#isSameOrigin(head, peer)) throw crossSite('comes from a page of another origin');
  }

  /**
   * Another port of the same host is another origin, though the same site; so is the same host by another scheme. Who
   * does not say `Sec-Fetch-Site` is an old browser, or a page that came over plain HTTP.
   */
  #isSameOrigin(head: Head, peer: () => string): boolean {
    const { fetchSite = '', origin = '' } = head.browser ?? {};
    if (fetchSite !== '') return fetchSite === 'same-origin';
    if (!URL.canParse(origin)) return false;
    if (origin === this.#public?.origin) return true;
    const isByHttps = this.#isByHttps(head, peer);
    if (!isByHttps && head.forwardedProto === 'https') return false; // says a proxy that is not trusted
    const own = `${isByHttps ? 'https' : 'http'}://${head.host}`;
    return URL.canParse(own) && new URL(own).origin === new URL(origin).origin;
  }

  /**
   * Before a call with the cookie of this session is taken. Throws ServiceError other_session where the page that asks
   * was drawn for another one (`named`; '': it does not say): a person has signed in again in another tab, or another
   * page has written the cookie.
   */
  checkSession(named: string, sessionId: string | null): void {
    if (named === '' || named === sessionId) return;
    throw new ServiceError('other_session', 'The cookie is of another session than this page: sign in again.');
  }

  /** Did the browser come by https, as far as we or a trusted proxy know? */
  #isByHttps({ host, forwardedProto }: Head, peer: () => string): boolean {
    if (this.#public?.protocol === 'https:' && this.#public.host === host) return true;
    return forwardedProto === 'https' && this.#isTrusted(peer());
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
