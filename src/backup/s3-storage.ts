// S3-compatible storage that holds backups: small objects are written and read here, names are listed, and it is said
// to ClickHouse where to put its own. Paths name the bucket (`HOST/BUCKET/PREFIX/…`), which every such storage takes.
// Invariant: the secret is in no error and in no address. Redirects are not followed.
// Failure: BackupError with the host and what it answered, never with its own words.
import type { S3Credentials } from '../egress/sign-s3.ts';
import { signedForS3 } from '../egress/sign-s3.ts';
import { BackupError } from './backup-manifest.ts';

export type StoredObject = { name: string; size: number; etag: string };

const ASK_MS = 60_000;
const REGION = 'us-east-1';
const NOTHING = Buffer.alloc(0);
/** Names that need no percent code in a path, and that no parser mends. */
const PLACE = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,62})((?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*)\/?$/;

export function isS3Place(text: string): boolean {
  return text.startsWith('s3:');
}

export class S3Storage {
  /** `s3://BUCKET/PREFIX` */
  readonly shown: string;
  readonly #origin: string;
  readonly #host: string;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #credentials: S3Credentials;

  /** `address`: `https://KEY_ID:SECRET@HOST?region=REGION`, whose form was checked. Throws BackupError. */
  constructor(place: string, address: string | undefined) {
    if (address === undefined) throw new BackupError(`GATEHOUSE_BACKUP_S3_URL is not set: it says where ${place} is`);
    const [, bucket, prefix = ''] = PLACE.exec(place) ?? [];
    if (bucket === undefined)
      throw new BackupError(`${place} is no s3://BUCKET/PREFIX of letters, digits and . _ ~ - without empty parts`);
    const { origin, host, username, password, searchParams } = new URL(address);
    this.#origin = origin;
    this.#host = host;
    this.#bucket = bucket;
    this.#prefix = `${prefix.slice(1)}${prefix === '' ? '' : '/'}`;
    const region = searchParams.get('region') ?? REGION;
    this.#credentials = { keyId: decodeURIComponent(username), secret: decodeURIComponent(password), region };
    this.shown = `s3://${bucket}${prefix}`;
  }

  /** The destination of a `BACKUP`, the source of a `RESTORE`. */
  engine(name: string): string {
    const { keyId, secret } = this.#credentials;
    const words = [`${this.#origin}${this.#pathOf(name)}`, keyId, secret];
    return `S3(${words.map((word) => `'${word.replace(/['\\]/g, '\\$&')}'`).join(', ')})`;
  }

  async write(name: string, text: string): Promise<void> {
    await this.#ask({ method: 'PUT', path: this.#pathOf(name), body: Buffer.from(text) });
  }

  /** undefined: it is not there. */
  async read(name: string): Promise<string | undefined> {
    const answer = await this.#ask({ method: 'GET', path: this.#pathOf(name), mayBeMissing: true });
    return answer?.text();
  }

  /** All objects below, in the order of their names, which begin behind PREFIX. */
  async objects(below: string): Promise<StoredObject[]> {
    const found: StoredObject[] = [];
    for await (const page of this.#pages(below, false))
      for (const [, text = ''] of page.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const name = unescaped(textOf(text, 'Key')).slice(this.#prefix.length);
        found.push({ name, size: Number(textOf(text, 'Size')), etag: unescaped(textOf(text, 'ETag')) });
      }
    return found;
  }

  /** Names of the folders in PREFIX, in their order. */
  async folders(): Promise<string[]> {
    const found: string[] = [];
    for await (const page of this.#pages('', true))
      for (const [, text = ''] of page.matchAll(/<CommonPrefixes>(.*?)<\/CommonPrefixes>/gs))
        found.push(unescaped(textOf(text, 'Prefix')).slice(this.#prefix.length, -1));
    return found.sort();
  }

  async *#pages(below: string, asFolders: boolean): AsyncGenerator<string> {
    for (let token: string | undefined; ; ) {
      const asked: Record<string, string> = {
        ...(token === undefined ? {} : { 'continuation-token': token }),
        ...(asFolders ? { delimiter: '/' } : {}),
        ...{ 'list-type': '2', prefix: `${this.#prefix}${below}` },
      };
      const query = Object.entries(asked).map(([name, value]) => `${name}=${encoded(value)}`);
      const answer = await this.#ask({ method: 'GET', path: `/${this.#bucket}`, query: query.join('&') });
      const page = await answer!.text();
      yield page;
      if (textOf(page, 'IsTruncated') !== 'true') return;
      token = unescaped(textOf(page, 'NextContinuationToken'));
    }
  }

  async #ask(asked: {
    method: 'GET' | 'PUT';
    path: string;
    query?: string;
    body?: Buffer;
    mayBeMissing?: boolean;
  }): Promise<Response | undefined> {
    const { method, path, query = '', body = NOTHING } = asked;
    const request = { method, path, query, headers: { host: this.#host }, body, atMs: Date.now() };
    const headers = signedForS3(request, this.#credentials);
    let answer: Response;
    try {
      answer = await fetch(`${this.#origin}${path}${query === '' ? '' : `?${query}`}`, {
        ...{ method, headers, redirect: 'manual', signal: AbortSignal.timeout(ASK_MS) },
        ...(method === 'PUT' ? { body } : {}),
      });
    } catch (cause) {
      const { code = 'no answer' } = ((cause as Error).cause ?? {}) as NodeJS.ErrnoException;
      throw new BackupError(`cannot reach ${this.#host} (${code})`, { cause });
    }
    if (answer.ok) return answer;
    await answer.body?.cancel();
    if (answer.status === 404 && asked.mayBeMissing === true) return undefined;
    throw new BackupError(`${this.#host} answers ${answer.status} to ${method} ${path}`);
  }

  #pathOf(name: string): string {
    return `/${this.#bucket}/${this.#prefix}${name}`;
  }
}

function textOf(xml: string, element: string): string {
  return new RegExp(`<${element}>(.*?)</${element}>`, 's').exec(xml)?.[1] ?? '';
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescaped(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) =>
    name === undefined
      ? String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal))
      : (ENTITIES[name] ?? whole),
  );
}

/** As the signature wants it. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`);
}
