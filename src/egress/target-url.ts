// Whether a URL that a user gave may be asked for (when it is set, and again before each connection).
// https, no user info, port 443 or 8443, and a host in its one usual spelling: what a URL parser would mend (`127.1`,
// `0x7f.1`, `%31…`, full-width digits, a trailing dot) is refused before it is known what it would become.
// Invariant: the URL that is returned is the one that was read; no code parses the text a second time with another
// result. A name proves nothing here: its addresses are checked at each connection (guarded-https.ts).
import { isIP } from 'node:net';
import { isPublicAddress } from './public-address.ts';

/**
 * The ports where public services listen. Others mostly serve to reach what speaks another protocol (SMTP, Redis).
 */
const PORTS: ReadonlySet<number> = new Set([443, 8443]);
const HTTPS_PORT = 443;
/** `https://HOST[:PORT]` and what follows, in characters that no parser drops or rewrites. */
const FORM = /^https:\/\/(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?(?:[/?#]|$)/i;
/**
 * Local by definition (RFC 6761, 6762, 8375) or by long habit; and names without a dot, which only a local resolver
 * knows.
 */
const LOCAL_NAME = /^[^.]+$|(^|\.)(localhost|local|localdomain|internal|home\.arpa)$/;
/**
 * The names that the public name system may know: labels of at most 63, the last one of letters, so that none is read
 * as a number.
 */
const PUBLIC_NAME = /^(?=.{4,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?:[a-z]{2,63}|xn--[a-z0-9-]{1,59})$/;
const UNUSUAL = 'must name its host in the usual form';

export type TargetUrl = {
  url: URL;
  /** Lower case; an IPv6 address without its brackets. */
  host: string;
  port: number;
  /** The operator named it: any port, any address. */
  isAllowed: boolean;
};

/**
 * Hosts that the operator lets through (GATEHOUSE_EGRESS_ALLOWED_HOSTS): `host` for every port of it, or `host:port`.
 */
export function allowedHostsOf(setting: string | undefined): ReadonlySet<string> {
  const entries = (setting ?? '')
    .toLowerCase()
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  return new Set(entries.map((entry) => (isIP(entry) === 6 ? bare(new URL(`https://[${entry}]`).hostname) : entry)));
}

/** The URL; or what is wrong with it, for the person who set it. */
export function targetUrl(
  text: string,
  allowedHosts: ReadonlySet<string>,
  ports: ReadonlySet<number> = PORTS,
): TargetUrl | string {
  if (/[^\x21-\x7e]|\\/.test(text) || !/^https:\/\/[^/]/i.test(text) || !URL.canParse(text))
    return 'must be an https URL';
  if (/^https:\/\/[^/?#]*@/i.test(text)) return 'must not hold a user name or password';
  const url = new URL(text);
  const [, spelt, digits] = FORM.exec(text) ?? [];
  const port = digits === undefined ? HTTPS_PORT : Number(digits);
  if (spelt?.toLowerCase() !== url.hostname || spelt.endsWith('.') || port === 0) return UNUSUAL;
  const host = bare(url.hostname);
  const isAllowed = allowedHosts.has(host) || allowedHosts.has(`${host}:${port}`);
  if (isAllowed) return { url, host, port, isAllowed };
  const isName = isIP(host) === 0;
  if (isName ? LOCAL_NAME.test(host) : !isPublicAddress(host)) return 'must not name a private address';
  if (isName && !PUBLIC_NAME.test(host)) return UNUSUAL;
  if (!ports.has(port)) return `must use port ${[...ports].join(' or ')}`;
  return { url, host, port, isAllowed };
}

/** RFC 5425. */
const SYSLOG_PORT = 6514;
const SYSLOG_PORTS: ReadonlySet<number> = new Set([...PORTS, SYSLOG_PORT]);
const SYSLOG_FORM = /^syslog\+tls:\/\/([^/?#]+?)(:[0-9]{1,5})?\/?$/;

export function isSyslogAddress(text: string): boolean {
  return text.startsWith('syslog+tls:');
}

/** The target of `syslog+tls://HOST[:PORT]`; or what is wrong with it, for the person who set it. */
export function syslogTarget(text: string, allowedHosts: ReadonlySet<string>): TargetUrl | string {
  const [, host, port = `:${SYSLOG_PORT}`] = SYSLOG_FORM.exec(text) ?? [];
  if (host === undefined) return 'must be syslog+tls://HOST or syslog+tls://HOST:PORT';
  return targetUrl(`https://${host}${port}`, allowedHosts, SYSLOG_PORTS);
}

/** The host, the path under which objects are put, and the region. */
const S3_FORM = /^s3\+https:\/\/([^/?#]+)(\/[^?#]*)?(?:\?region=([a-z0-9-]{1,64}))?$/;
/** The paths that are signed as they stand: segments that need no percent code, and that no parser mends. */
const S3_PATH = /^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)*\/?$/;
const S3_REGION = 'us-east-1';

export type S3Target = { target: TargetUrl; region: string };

export function isS3Address(text: string): boolean {
  return text.startsWith('s3+https:');
}

/** The target of `s3+https://HOST[:PORT]/PATH[?region=REGION]`; or what is wrong with it, for the person who set it. */
export function s3Target(text: string, allowedHosts: ReadonlySet<string>): S3Target | string {
  const [, host, path = '/', region = S3_REGION] = S3_FORM.exec(text) ?? [];
  if (host === undefined) return 'must be s3+https://HOST/PATH, with ?region=REGION behind it where there is one';
  if (!S3_PATH.test(path)) return 'may hold letters, digits and . _ ~ - in its path, and no empty part';
  const target = targetUrl(`https://${host}${path}`, allowedHosts);
  return typeof target === 'string' ? target : { target, region };
}

/** The fault of an address that is kept and shown without its query; undefined: none. */
export function urlProblem(text: string, allowedHosts: ReadonlySet<string>): string | undefined {
  const target = targetUrl(text, allowedHosts);
  if (typeof target === 'string') return target;
  if (target.url.hash !== '') return 'must have no fragment';
  return text.endsWith(HIDDEN_QUERY) ? 'must say what stands behind the `?`, which is not shown' : undefined;
}

const HIDDEN_QUERY = '?…';

/** The address without its query, which may hold a secret, as in addresses of functions (`?code=…`). */
export function withoutQuery(url: string): string {
  const at = url.indexOf('?');
  return at < 0 ? url : url.slice(0, at) + HIDDEN_QUERY;
}

function bare(hostname: string): string {
  return hostname.replace(/^\[|\]$/g, '');
}
