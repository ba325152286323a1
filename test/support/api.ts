// Calls the API of a service under test and holds every answer against the service's own description (OpenAPI).
// An answer with a status, a header or a shape that the description does not have is a failed test, wherever it happens.
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Test } from 'tap';
import { parseTime } from '../../schemas/time.ts';
import { pause } from './raw-http.ts';

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  /** The body as JSON.parse reads it; undefined where there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it as it likes, and fails where it is otherwise
  json: any;
};
export type CallOptions = {
  body?: unknown;
  key?: string | null;
  headers?: Record<string, string>;
  /** A 503 is the answer that is wanted. */
  mayBeAway?: boolean;
};

type Document = {
  paths: Record<string, Record<string, { responses: Record<string, { content?: Record<string, object> }> }>>;
};

/** A machine on which everything takes its time is not what these tests are about; `bench -- fresh-reads` is. */
const BEHIND_MS_MAX = 90_000;
const PAUSE_MS = 50;

export class Api {
  readonly url: string;
  readonly #t: Test;
  readonly #key: string;
  readonly #ajv: Ajv2020;
  #document: Document | undefined;
  /** `POST /v1/agents 201` for each kind of answer that was seen. */
  readonly seen = new Set<string>();

  constructor(t: Test, service: { url: string; key: string }) {
    this.#t = t;
    this.url = service.url;
    this.#key = service.key;
    this.#ajv = new Ajv2020({ strict: false, allErrors: true });
    this.#ajv.addFormat('date-time', (text) => parseTime(text) !== null);
  }

  /** The same service, another key. */
  as(key: string): Api {
    const other = new Api(this.#t, { url: this.url, key });
    if (this.#document !== undefined) other.#know(this.#document);
    return other;
  }

  async describe(): Promise<Document> {
    const { json } = await this.#send('GET', '/v1/openapi.json', { key: null });
    this.#know(json as Document);
    return json as Document;
  }

  #know(document: Document): void {
    this.#document = document;
    this.#ajv.addSchema({ $id: 'api', ...document });
  }

  /**
   * Strings and Buffers are sent as they are, anything else as JSON. Asked again is whoever says that he is behind, or that a store
   * gave no answer in time and nothing was recorded.
   */
  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const deadline = performance.now() + BEHIND_MS_MAX;
    for (;;) {
      const answer = await this.#send(method, path, options);
      if (this.#document !== undefined) this.#check(method, path, answer);
      const isBehind = answer.headers.has('gatehouse-incomplete');
      const isAway = answer.status === 503 && answer.json?.error?.recorded !== 'unknown' && options.mayBeAway !== true;
      if ((!isBehind && !isAway) || performance.now() > deadline) return answer;
      await pause(PAUSE_MS);
    }
  }

  /**
   * Sends again until the answer is as wanted: a change is in force everywhere within a second, but which second that is on a
   * machine that others use nobody knows. The promise itself is kept to in test/registry/cache.redis.test.ts.
   */
  async until(send: () => Promise<Answer>, isWanted: (answer: Answer) => boolean): Promise<Answer> {
    const deadline = performance.now() + BEHIND_MS_MAX;
    for (;;) {
      const answer = await send();
      if (isWanted(answer) || performance.now() > deadline) return answer;
      await pause(PAUSE_MS);
    }
  }

  get = (path: string, options?: CallOptions) => this.call('GET', path, options);
  post = (path: string, body: unknown, options?: CallOptions) => this.call('POST', path, { ...options, body });
  patch = (path: string, body: unknown, options?: CallOptions) => this.call('PATCH', path, { ...options, body });
  delete = (path: string, options?: CallOptions) => this.call('DELETE', path, options);

  async #send(method: string, path: string, { body, key, headers }: CallOptions): Promise<Answer> {
    const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key ?? this.#key}` }),
        ...(bytes === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(bytes === undefined ? {} : { body: bytes as string }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json' && text !== '';
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
  }

  #check(method: string, path: string, answer: Answer): void {
    const pathname = path.split('?')[0]!;
    const template = this.#templateOf(pathname, method.toLowerCase());
    if (template === undefined) return; // an unknown path, or a method that the path does not have
    const name = `${method} ${template} ${answer.status}`;
    this.seen.add(name);
    const described = this.#document!.paths[template]![method.toLowerCase()]!.responses[answer.status];
    if (described === undefined) {
      this.#t.fail(`${name} is not described`, { answer: answer.text.slice(0, 500) });
      return;
    }
    if (answer.json === undefined) return;
    const pointer = [
      'paths',
      template,
      method.toLowerCase(),
      'responses',
      String(answer.status),
      'content',
      'application/json',
      'schema',
    ];
    const check = this.#ajv.getSchema(
      `api#/${pointer.map((step) => encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`,
    );
    if (!check) this.#t.fail(`${name} has no schema`);
    else if (!check(answer.json))
      this.#t.fail(`${name} is not as described`, {
        errors: check.errors?.slice(0, 5),
        answer: answer.text.slice(0, 500),
      });
  }

  #templateOf(pathname: string, method: string): string | undefined {
    const steps = pathname.split('/');
    const fits = Object.keys(this.#document!.paths).filter((template) => {
      const wanted = template.split('/');
      return wanted.length === steps.length && wanted.every((step, i) => step.startsWith('{') || step === steps[i]);
    });
    return fits
      .sort((a, b) => a.split('{').length - b.split('{').length)
      .find((template) => method in this.#document!.paths[template]!);
  }
}
