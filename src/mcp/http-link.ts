// A server of MCP at an address, for a client on standard input and output: streamable HTTP, and the older HTTP+SSE
// where the server speaks only that. Each message is a POST; its answer is a body or a stream, and a stream of its own
// carries what the server says without being asked.
// Invariant: what a request waits for comes, or an error: of the connection, of HTTP, of a stream that ended. A body of
// an error goes through the exchange as an answer, where it is judged.
// Failure: a stream that breaks is taken up again where it can be; the server's own stream is opened again.
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { backoffMs, withTimeout } from '../common/async.ts';
import { membersOf, stringAt } from '../common/json-text.ts';
import { headersOf } from './headers.ts';
import {
  failureText,
  type Id,
  INTERNAL_ERROR,
  type Incoming,
  type McpMessage,
  readMessages,
  tooLarge,
} from './message.ts';
import type { FromServer, ServerLink } from './pipe.ts';
import { ask, bodyText, eventsOf, isStream, type Upstream } from './upstream.ts';

/** The longest time for which messages wait behind `initialized`. */
const NOTIFIED_MS = 5_000;
/** Within it a server of HTTP+SSE says where it takes messages. */
const ENDPOINT_MS = 10_000;
const ERROR_TEXT_MAX = 10_000;
const RETRY = { minMs: 1_000, maxMs: 30_000 };
const TRIES_MAX = 5;
/** Since this revision a request is cancelled by the end of its stream. */
const STATELESS = '2026';

export class HttpLink implements ServerLink {
  readonly #upstream: Upstream;
  readonly #report: (text: string) => void;
  readonly #closing = new AbortController();
  readonly #requests = new Map<string, AbortController>();
  #listener!: FromServer;
  #session: string | undefined;
  #version: string | undefined;
  #initialize: Id | undefined;
  #notified: Promise<unknown> = Promise.resolve();
  /** The address of a server of HTTP+SSE. */
  #endpoint: URL | undefined;

  constructor(upstream: Upstream, report: (text: string) => void) {
    this.#upstream = upstream;
    this.#report = report;
  }

  run(listener: FromServer): Promise<void> {
    this.#listener = listener;
    return new Promise((resolve) => this.#closing.signal.addEventListener('abort', () => resolve(), { once: true }));
  }

  async send(text: string, messages: readonly McpMessage[]): Promise<void> {
    if (messages.every((message) => this.#endsRequest(message))) return;
    await this.#notified;
    const isNotified = messages.some(({ method }) => method === 'notifications/initialized');
    const posted = this.#post(text, messages);
    if (!isNotified) return posted;
    this.#notified = withTimeout(
      posted.catch(() => undefined),
      NOTIFIED_MS,
      () => undefined,
    );
    await posted;
    if (this.#endpoint === undefined) void this.#listen();
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  /** Is it a cancellation that the server learns by the end of the request's stream? */
  #endsRequest({ method, text, params }: McpMessage): boolean {
    if (method !== 'notifications/cancelled') return false;
    const at = params.get('requestId');
    const controller = at === undefined ? undefined : this.#requests.get(text.slice(at.start, at.end));
    controller?.abort();
    return controller !== undefined;
  }

  async #post(text: string, messages: readonly McpMessage[]): Promise<void> {
    const requests = messages.filter(({ kind }) => kind === 'request');
    for (const { method, id } of requests) {
      if (method !== 'initialize') continue;
      this.#initialize = id;
      this.#session = undefined;
    }
    const [first] = messages;
    const own = messages.length === 1 ? headersOf(first!) : {};
    const controller = new AbortController();
    const signal = AbortSignal.any([this.#closing.signal, controller.signal]);
    const isStateless = requests.length === 1 && (own['mcp-protocol-version'] ?? '') >= STATELESS;
    if (isStateless) this.#requests.set(requests[0]!.id!.text, controller);
    try {
      const headers = { ...this.#headers(), ...own, 'content-type': 'application/json' };
      const to = this.#endpoint === undefined ? {} : { url: this.#endpoint };
      const response = await ask(this.#upstream, { method: 'POST', headers, body: text, signal, ...to });
      if (await this.#isOlder(response, requests)) return await this.#post(text, messages);
      await this.#answered(response, requests, signal);
    } catch (error) {
      // Cancelled, or closed.
      if (!signal.aborted) throw error;
    } finally {
      if (isStateless) this.#requests.delete(requests[0]!.id!.text);
    }
  }

  #headers(): Record<string, string> {
    return {
      accept: 'application/json, text/event-stream',
      ...(this.#session === undefined ? {} : { 'mcp-session-id': this.#session }),
      ...(this.#version === undefined ? {} : { 'mcp-protocol-version': this.#version }),
    };
  }

  async #answered(response: IncomingMessage, requests: readonly McpMessage[], signal: AbortSignal): Promise<void> {
    const { statusCode: status = 0, headers } = response;
    const isOk = status >= 200 && status < 300;
    const session = headers['mcp-session-id'];
    if (typeof session === 'string') this.#session = session;
    if (isOk && isStream(response)) await this.#streamed(response, requests, signal);
    else {
      const text = await bodyText(response);
      // HTTP+SSE answers on the server's own stream.
      if (isOk && this.#endpoint !== undefined) return;
      if (isOk && text === '' && requests.length === 0) return;
      const incoming = text === undefined ? tooLarge('', '') : readMessages(text, 'server');
      const isAnswer = incoming.items.every(({ kind }) => kind === 'answer');
      if (isOk || (isAnswer && requests.length > 0)) await this.#came(incoming, requests.length === 1);
      else await this.#refused(status, text ?? '', requests);
    }
    for (const { id } of requests) await this.#listener.failed(id!, 'the server did not answer the request');
  }

  /** An error of HTTP is an error of each request, and what it says is judged as their answer. */
  async #refused(status: number, text: string, requests: readonly McpMessage[]): Promise<void> {
    const why = `the server answered with the status ${status} of HTTP: ${text.slice(0, ERROR_TEXT_MAX)}`;
    if (requests.length === 0) this.#report(why.slice(0, 500));
    for (const { id } of requests)
      await this.#came(readMessages(failureText(id!.text, INTERNAL_ERROR, why), 'server'), false);
  }

  async #streamed(response: IncomingMessage, requests: readonly McpMessage[], signal: AbortSignal): Promise<void> {
    const isDone = () => signal.aborted || !requests.some(({ id }) => this.#listener.isWaiting(id!));
    const again = (lastEventId: string) =>
      ask(this.#upstream, { method: 'GET', headers: { ...this.#headers(), 'last-event-id': lastEventId }, signal });
    for await (const item of eventsOf(response, again, { isDone, signal }))
      if ('data' in item) await this.#event(item, requests.length === 1);
  }

  async #event({ data, event = 'message' }: { data: string; event?: string }, isAlone: boolean): Promise<void> {
    if (event === 'message' && data !== '') await this.#came(readMessages(data, 'server'), isAlone);
  }

  async #came(incoming: Incoming, isAlone: boolean): Promise<void> {
    for (const item of incoming.items) {
      if (item.kind !== 'answer' || item.id === undefined || item.id.key !== this.#initialize?.key) continue;
      const result = membersOf(item.text, item.members.get('result')?.start ?? item.text.length);
      this.#version = stringAt(item.text, result?.get('protocolVersion')) ?? this.#version;
    }
    await this.#listener.came(incoming, isAlone);
  }

  /** The server's own stream, for as long as it has one. */
  async #listen(): Promise<void> {
    const { signal } = this.#closing;
    const open = (more: Record<string, string> = {}) =>
      ask(this.#upstream, {
        method: 'GET',
        headers: { ...this.#headers(), accept: 'text/event-stream', ...more },
        signal,
      });
    for (let tries = 1; tries <= TRIES_MAX && !signal.aborted; tries++) {
      try {
        const response = await open();
        if (response.statusCode !== 200 || !isStream(response)) return void response.destroy();
        const again = (id: string) => open({ 'last-event-id': id });
        for await (const item of eventsOf(response, again, { isDone: () => signal.aborted, signal })) {
          tries = 0;
          if ('data' in item) await this.#event(item, false);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#report(`the server's stream broke: ${(error as Error).message}`);
      }
      await sleep(backoffMs(Math.max(1, tries), RETRY), undefined, { signal }).catch(() => undefined);
    }
  }

  /**
   * Is it a server of the first revision, which takes no POST at its address? Then its stream is open, and it has said
   * where it takes messages.
   */
  async #isOlder(response: IncomingMessage, requests: readonly McpMessage[]): Promise<boolean> {
    const { statusCode: status = 0 } = response;
    const isFirst = requests.some(({ method }) => method === 'initialize') && this.#endpoint === undefined;
    if (!isFirst || ![400, 404, 405].includes(status) || /json/.test(response.headers['content-type'] ?? ''))
      return false;
    const { signal } = this.#closing;
    const stream = await ask(this.#upstream, { method: 'GET', headers: { accept: 'text/event-stream' }, signal });
    if (stream.statusCode !== 200 || !isStream(stream)) {
      stream.destroy();
      return false;
    }
    const endpoint = new Promise<URL | undefined>((resolve) => void this.#readOlder(stream, resolve));
    this.#endpoint = await withTimeout(endpoint, ENDPOINT_MS, () => undefined);
    if (this.#endpoint === undefined) stream.destroy();
    else response.destroy();
    return this.#endpoint !== undefined;
  }

  async #readOlder(stream: IncomingMessage, found: (endpoint: URL | undefined) => void): Promise<void> {
    const never = () => Promise.reject(new Error('a stream of HTTP+SSE cannot be taken up again'));
    try {
      for await (const item of eventsOf(stream, never, { isDone: () => true, signal: this.#closing.signal })) {
        if (!('data' in item)) continue;
        if (item.event !== 'endpoint') await this.#event(item, false);
        else {
          const { url } = this.#upstream;
          const to = URL.canParse(item.data, url.href) ? new URL(item.data, url) : undefined;
          found(to?.origin === url.origin ? to : undefined);
        }
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#report(`the server's stream broke: ${(error as Error).message}`);
    }
    found(undefined);
    // With its stream the server is gone.
    if (this.#endpoint !== undefined) this.#closing.abort();
  }
}
