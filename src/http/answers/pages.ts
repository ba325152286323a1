// The dashboard's pages (beside the routes of the interface): the shell and its files, from memory, as the build left
// them there. The shell needs no key: it holds no data of an account. Every address in it is relative, so it works
// behind any path prefix.
// Invariant: a page can load nothing and run nothing that did not come from here (content security policy, trusted
// types).
// Failure: where the build holds no pages (a package without them), `/ui/` says so with 404; the interface works
// without them.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { ServiceError } from '../../common/errors.ts';
import { assetPath } from '../../process/assets.ts';
import type { Reply } from '../route.ts';

const FOLDER = 'build/dashboard';
/** The Cache-Control of a file that never changes: its name has the hash of what it holds. */
const FOR_EVER = 'public, max-age=31536000, immutable';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const GUARDS: Record<string, string> = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
};

/** The forms in which one file is answered, by what the browser takes. Most wanted first. */
type Forms = { encoding: 'br' | 'gzip' | ''; reply: Reply }[];

/** The headers of a request by which the form is chosen. '' where absent. */
export type PageRequest = { acceptEncoding: string; ifNoneMatch: string };

export class Pages {
  readonly #shell: Forms;
  /** By screen, for those whose script is a file of its own: it is named in the answer, and comes beside the first. */
  readonly #shells = new Map<string, Forms>();
  readonly #files = new Map<string, Forms>();

  /** Reads all files at once: about 400 kB with their compressed forms. */
  constructor(folder = assetPath(FOLDER)) {
    const shell = path.join(folder, 'index.html');
    this.#shell = existsSync(shell) ? formsOf(shell, 'no-cache') : [];
    const files = path.join(folder, 'assets');
    for (const name of existsSync(files) ? readdirSync(files) : []) {
      if (path.extname(name) in TYPES) this.#files.set(name, formsOf(path.join(files, name), FOR_EVER));
      const [, screen] = /^([a-z]+)-[\w-]{8}\.js$/.exec(name) ?? [];
      const link = { Link: `<./assets/${name}>; rel=modulepreload` };
      if (screen !== undefined && this.#shell.length > 0) this.#shells.set(screen, formsOf(shell, 'no-cache', link));
    }
  }

  /** The same page of every screen, '' the first: which screen it is, the page itself finds in its address. */
  shell(asked: PageRequest, screen = ''): Reply {
    if (this.#shell.length === 0)
      throw new ServiceError('not_found', 'The dashboard is not part of this build: `npm run build` makes it.');
    return chosen(this.#shells.get(screen) ?? this.#shell, asked);
  }

  file(name: string, asked: PageRequest): Reply {
    const forms = this.#files.get(name);
    if (forms === undefined) throw new ServiceError('not_found', 'No such file of the dashboard.');
    return chosen(forms, asked);
  }
}

/** Relative, as a path prefix before the service demands. */
export function redirectTo(place: string): Reply {
  // Without a length a client would wait for a body until the connection ends.
  return { status: 302, body: '', contentType: 'text/plain; charset=utf-8', headers: { Location: place } };
}

function chosen(forms: Forms, { acceptEncoding, ifNoneMatch }: PageRequest): Reply {
  const taken = forms.find(({ encoding }) => encoding === '' || takes(acceptEncoding, encoding))!.reply;
  const etag = taken.headers!['ETag']!;
  if (!ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === etag)) return taken;
  const { 'Content-Encoding': _encoding, ...headers } = taken.headers!;
  return { status: 304, headers };
}

/** `br;q=0` refuses it. */
function takes(acceptEncoding: string, encoding: string): boolean {
  return acceptEncoding.split(',').some((part) => {
    const [name, ...parameters] = part.trim().split(/\s*;\s*/);
    return name === encoding && !parameters.some((one) => /^q=0(\.0*)?$/.test(one));
  });
}

function formsOf(file: string, cacheControl: string, more: Record<string, string> = {}): Forms {
  const contentType = TYPES[path.extname(file)]!;
  const hash = createHash('sha256').update(readFileSync(file)).digest('base64url').slice(0, 22);
  const forms: Forms = [];
  for (const [encoding, suffix] of [
    ['br', '.br'],
    ['gzip', '.gz'],
    ['', ''],
  ] as const) {
    const headers = {
      ...GUARDS,
      ...more,
      Vary: 'Accept-Encoding',
      ETag: `"${hash}${suffix}"`,
      ...(encoding === '' ? {} : { 'Content-Encoding': encoding }),
    };
    forms.push({
      encoding,
      reply: { status: 200, body: readFileSync(file + suffix), contentType, cacheControl, headers },
    });
  }
  return forms;
}
