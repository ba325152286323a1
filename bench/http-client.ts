// A plain keep-alive HTTP client for harnesses that must know the fate of every single request.
// The address may have a path, which is put before every other.
// `send` resolves with the answer, or rejects where none came whole: then the request's fate is unknown to the caller.
import http from 'node:http';
import https from 'node:https';

type Answer = { status: number; body: string; headers: http.IncomingHttpHeaders };

const ANSWER_TIMEOUT_MS = 15_000;

export class HttpClient {
  readonly #url: URL;
  readonly #key: string;
  readonly #by: typeof http | typeof https;
  readonly #agent: http.Agent;

  constructor(options: { url: string; key: string; connections: number }) {
    this.#url = new URL(options.url);
    this.#key = options.key;
    this.#by = this.#url.protocol === 'https:' ? https : http;
    this.#agent = new this.#by.Agent({ keepAlive: true, maxSockets: options.connections, timeout: ANSWER_TIMEOUT_MS });
  }

  send(method: string, path: string, body?: string, headers: Record<string, string> = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const request = this.#by.request(
        {
          host: this.#url.hostname.replace(/^\[|\]$/g, ''),
          port: this.#url.port,
          path: this.#url.pathname.replace(/\/+$/, '') + path,
          method,
          agent: this.#agent,
          timeout: ANSWER_TIMEOUT_MS,
          headers: {
            authorization: `Bearer ${this.#key}`,
            ...(body === undefined
              ? {}
              : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
            ...headers,
          },
        },
        (response) => {
          const parts: Buffer[] = [];
          response.on('data', (part: Buffer) => parts.push(part));
          response.on('end', () =>
            resolve({
              status: response.statusCode ?? 0,
              body: Buffer.concat(parts).toString(),
              headers: response.headers,
            }),
          );
          response.on('error', reject);
          response.on('aborted', () => reject(new Error('the answer was cut off')));
        },
      );
      request.on('timeout', () => request.destroy(new Error('no answer in time')));
      request.on('error', reject);
      request.end(body);
    });
  }

  /** Sends JSON and reads the answer's JSON; throws on any other status than those given. */
  async json<T>(method: string, path: string, body?: unknown, statuses: number[] = [200, 201]): Promise<T> {
    const answer = await this.send(method, path, body === undefined ? undefined : JSON.stringify(body));
    if (!statuses.includes(answer.status))
      throw new Error(`${method} ${path}: ${answer.status} ${answer.body.slice(0, 300)}`);
    return JSON.parse(answer.body) as T;
  }

  close(): void {
    this.#agent.destroy();
  }
}
