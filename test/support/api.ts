// Calls the API of a service under test and holds every answer, and every request that it took, against the service's
// own description (OpenAPI). An answer with a status, a header or a field that the description does not have is a
// failed test, wherever it happens, and so is a request that the service takes and the description would refuse.
import { gunzipSync } from 'node:zlib';
import type { Test } from 'tap';
import { at, escaped, OpenApiChecker } from './openapi.ts';
import { pause } from './raw-http.ts';

export type Answer = {
  status: number;
  headers: Headers;
  text: string;
  /** The body as JSON.parse reads it; undefined where there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it as it likes, and fails where it is otherwise
  json: any;
};
type CallOptions = {
  body?: unknown;
  key?: string | null;
  headers?: Record<string, string>;
  /** A 503 is the answer that is wanted. */
  mayBeAway?: boolean;
};

type Body = { content?: Record<string, object> };
type Operation = {
  parameters: { $ref?: string; name?: string; in?: string; schema?: object }[];
  requestBody?: Body;
  security?: object[];
  responses: Record<string, Body & { $ref?: string; headers?: Record<string, object> }>;
};
type Document = { paths: Record<string, Record<string, Operation>> };

/** Headers of answers that mean something to callers; the others are those of every HTTP server. */
const OURS = /^(x-request-id|retry-after|www-authenticate|allow|accept-encoding|etag|link|ratelimit.*|gatehouse-.*)$/;

/** A machine on which everything takes its time is not what these tests are about; `bench -- fresh-reads` is. */
const BEHIND_MS_MAX = 90_000;
const PAUSE_MS = 50;

export class Api {
  readonly url: string;
  readonly #t: Test;
  readonly #key: string;
  #document: Document | undefined;
  /** The schemas of what the service takes, and, with every object closed, of what it answers. */
  #requests: OpenApiChecker | undefined;
  #answers: OpenApiChecker | undefined;
  /** `POST /v1/agents 201` for each kind of answer that was seen. */
  readonly seen = new Set<string>();

  constructor(t: Test, service: { url: string; key: string }) {
    this.#t = t;
    this.url = service.url;
    this.#key = service.key;
  }

  /** One that holds every answer against the description of the API. */
  static async described(t: Test, service: { url: string; key: string }): Promise<Api> {
    const api = new Api(t, service);
    await api.describe();
    return api;
  }

  /** The same service, another key. */
  as(key: string): Api {
    const other = new Api(this.#t, { url: this.url, key });
    other.#document = this.#document;
    other.#requests = this.#requests;
    other.#answers = this.#answers;
    return other;
  }

  async describe(): Promise<Document> {
    const { json } = await this.#send('GET', '/v1/openapi.json', { key: null });
    this.#know(json as Document);
    // That took seconds where the machine is shared: connections that were closed meanwhile are noticed first.
    await pause(1);
    return json as Document;
  }

  #know(document: Document): void {
    this.#document = document;
    this.#requests = new OpenApiChecker(document);
    this.#answers = new OpenApiChecker(document, { closed: true });
  }

  /**
   * Strings and Buffers are sent as they are, anything else as JSON. A front that says it is behind is asked again, or
   * that a store gave no answer in time and nothing was recorded.
   */
  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const deadline = performance.now() + BEHIND_MS_MAX;
    for (;;) {
      const answer = await this.#send(method, path, options);
      if (this.#document !== undefined) this.#check(method, path, options.body, answer);
      const isBehind = answer.headers.has('gatehouse-incomplete');
      const isAway = answer.status === 503 && answer.json?.error?.recorded !== 'unknown' && options.mayBeAway !== true;
      if ((!isBehind && !isAway) || performance.now() > deadline) return answer;
      await pause(PAUSE_MS);
    }
  }

  /**
   * Sends again until the answer is as wanted: a change is in force everywhere within a second, but which second that
   * is unknown on a shared machine. The promise itself is tested in test/registry/cache.redis.test.ts.
   */
  async until<Got = Answer>(send: () => Promise<Got>, isWanted: (got: Got) => boolean): Promise<Got> {
    const deadline = performance.now() + BEHIND_MS_MAX;
    for (;;) {
      const answer = await send();
      if (isWanted(answer) || performance.now() > deadline) return answer;
      await pause(PAUSE_MS);
    }
  }

  /** Until the policies make that of the event that is sent. */
  untilOutcome(outcome: string, send: () => Promise<Answer>): Promise<Answer> {
    return this.until(send, ({ json }) => json.policy_result.outcome === outcome);
  }

  submitUntil(outcome: string, agent: string, event: unknown): Promise<Answer> {
    return this.untilOutcome(outcome, () => this.post(`/v1/agents/${agent}/events`, event));
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

  #check(method: string, path: string, body: unknown, answer: Answer): void {
    const [pathname, query] = path.split('?') as [string, string?];
    const verb = method.toLowerCase();
    const template = this.#templateOf(pathname, verb);
    if (template === undefined) return; // an unknown path, or a method that the path does not have
    const name = `${method} ${template} ${answer.status}`;
    this.seen.add(name);
    const operation = this.#document!.paths[template]![verb]!;
    const found = operation.responses[answer.status];
    if (found === undefined) {
      this.#t.fail(`${name} is not described`, { answer: answer.text.slice(0, 500) });
      return;
    }
    const pointer = `#/paths/${escaped(template)}/${verb}`;
    const place = found.$ref ?? `${pointer}/responses/${answer.status}`;
    const described = at(this.#document, place) as typeof found;
    this.#checkHeaders(name, described.headers ?? {}, answer);
    if (answer.json !== undefined) {
      const schema = `${place}/content/application~1json/schema`;
      this.#fits(this.#answers!, schema, answer.json, `${name} is not as described`);
    }
    if (answer.status >= 300) return;
    if (operation.requestBody !== undefined && body !== undefined) {
      const schema = `${pointer}/requestBody/content/application~1json/schema`;
      this.#fits(
        this.#requests!,
        schema,
        taken(body, answer.json),
        `${name}: the request that it took is not as described`,
      );
    }
    this.#checkQuery(name, pointer, operation, new URLSearchParams(query ?? ''));
  }

  #fits(checker: OpenApiChecker, pointer: string, value: unknown, sentence: string): void {
    const check = checker.schema(pointer);
    if (check(value)) return;
    this.#t.fail(sentence, { errors: check.errors?.slice(0, 5), value: JSON.stringify(value).slice(0, 500) });
  }

  #checkHeaders(name: string, described: Record<string, object>, { headers }: Answer): void {
    const known = Object.keys(described).map((header) => header.toLowerCase());
    for (const header of headers.keys()) {
      if (OURS.test(header) && !known.includes(header)) this.#t.fail(`${name}: header ${header} is not described`);
    }
  }

  #checkQuery(name: string, pointer: string, { parameters, security }: Operation, query: URLSearchParams): void {
    // Who answers without a key reads no query.
    if (security?.length === 0) return;
    for (const [key, text] of query) {
      const index = parameters.findIndex((one) => one.in === 'query' && one.name === key);
      if (index < 0) {
        this.#t.fail(`${name}: parameter ${key} is not described`);
        continue;
      }
      const { type } = parameters[index]!.schema as { type?: string };
      const value = parameterValue(type, query, key, text);
      this.#fits(
        this.#requests!,
        `${pointer}/parameters/${index}/schema`,
        value,
        `${name}: ${key} is not as described`,
      );
    }
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

/** A body as it was taken: of a batch, without the elements that were refused one by one. */
function taken(body: unknown, answer: unknown): unknown {
  const text = Buffer.isBuffer(body) ? textOf(body) : body;
  const value = typeof text === 'string' ? (JSON.parse(text) as unknown) : JSON.parse(JSON.stringify(text));
  const results = (answer as { results?: object[] } | undefined)?.results;
  if (results === undefined) return value;
  const sound = (events: unknown[]) => events.filter((_, i) => !('error' in results[i]!));
  return Array.isArray(value)
    ? sound(value)
    : { ...(value as object), events: sound((value as { events: unknown[] }).events) };
}

/** Inflated where it is gzip, without a byte-order mark. */
function textOf(body: Buffer): string {
  const isGzip = body[0] === 0x1f && body[1] === 0x8b;
  return new TextDecoder().decode(isGzip ? gunzipSync(body) : body);
}

/** A parameter as what its schema says it is. */
function parameterValue(type: string | undefined, query: URLSearchParams, key: string, text: string): unknown {
  if (type === 'integer') return Number(text);
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  if (type === 'array') return query.getAll(key);
  // A `+` that is not escaped is read as a space, and as an offset's sign where a time is wanted.
  return text.replace(/ (?=\d\d:\d\d$)/, '+');
}
