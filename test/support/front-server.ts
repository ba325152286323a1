// An HTTP server for tests: on a real transport with a few tiny routes behind it. Nothing here needs an engine.
// Tests that name no transport run on uWebSockets.js where it loads; `onEach` runs a test on every one there is.
// Three keys, one of each scope, and one that has expired; handlers that fail in every way there is, or wait for the
// test.

import { createHash } from 'node:crypto';
import tap, { type Test } from 'tap';
import Type from 'typebox';
import type { Scope } from '../../schemas/closed-sets.ts';
import { BufferPool } from '../../src/common/buffer-pool.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { oneOf, paging } from '../../src/http/reading/query.ts';
import { eventBody, jsonBody, type Route, route } from '../../src/http/route.ts';
import { Server, type ServerOptions } from '../../src/http/server.ts';
import { NodeTransport } from '../../src/http/transport/node-http.ts';
import type { Transport } from '../../src/http/transport/transport.ts';
import { loadUws, UwsTransport } from '../../src/http/transport/uws.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { createLog } from '../../src/process/log.ts';
import { PERMISSIONS_OF, rightsOf } from '../../src/registry/accounts/principal.ts';
import { pause } from './raw-http.ts';

export const KEYS: Record<Scope, string> = {
  read: 'read'.padEnd(40, 'r'),
  write: 'write'.padEnd(40, 'w'),
  admin: 'admin'.padEnd(40, 'a'),
};
export const EXPIRED = 'expired'.padEnd(40, 'x');
/** The rights of a key of this scope that has all of it and is bound to no agent. */
function rightsIn(scope: Scope) {
  const of = { scope, permissions: PERMISSIONS_OF[scope], agentId: null };
  return { ...of, rights: rightsOf(of) };
}
const principals = new Map(
  [...Object.entries(KEYS), ['expired', EXPIRED] as const].map(([name, key]) => [
    createHash('sha256').update(key).digest('hex'),
    {
      account: 'acc_1',
      keyId: `key_${name}`,
      ...rightsIn((name === 'expired' ? 'admin' : name) as Scope),
      expiresAtMs: name === 'expired' ? 1 : null,
      requestLimit: null,
      quotas: null,
      sessionId: null,
    },
  ]),
);

type Waiting = { resolve: (body: string) => void; reject: (error: Error) => void };
/** Handlers that wait until a test lets them continue, by their `n`. */
export const waiting = new Map<string, Waiting>();
const operation = { id: 'x', tag: 'x', summary: 'x', answers: {} };

export const ROUTES: Route[] = [
  route({
    method: 'GET',
    path: '/open',
    needs: null,
    operation,
    handle: () => ({ status: 200, body: '{"open":true}' }),
  }),
  route({
    method: 'GET',
    path: '/things',
    needs: 'read',
    bound: 'handler',
    query: { ...paging({ default: 20, maximum: 100 }), color: oneOf('', ['red', 'blue']) },
    operation,
    handle: ({ query }) => ({ status: 200, body: JSON.stringify(query) }),
  }),
  route({
    method: 'POST',
    path: '/things',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(Type.Object({ name: Type.String() }, { additionalProperties: false }), 'thing'),
    idempotency: 'heeded',
    operation,
    handle: ({ body, idempotency }) => ({
      status: 201,
      body: JSON.stringify({ name: body.name, key: idempotency?.key ?? null }),
    }),
  }),
  route({
    method: 'GET',
    path: '/things/{id}',
    needs: 'read',
    bound: 'handler',
    operation,
    handle: ({ params }) => ({ status: 200, body: JSON.stringify({ id: params[0] }) }),
  }),
  route({
    method: 'DELETE',
    path: '/things/{id}',
    needs: 'configure',
    bound: 'handler',
    operation,
    handle: () => ({ status: 204 }),
  }),
  route({
    method: 'POST',
    path: '/things/{id}/echo',
    needs: 'configure',
    bound: 'handler',
    body: eventBody('event', Type.Object({})),
    operation,
    handle: async ({ body }) => ({ status: 200, body }),
  }),
  route({
    method: 'POST',
    path: '/keys',
    needs: 'admin',
    bound: 'refused',
    body: jsonBody(Type.Object({}), 'key'),
    idempotency: 'refused',
    operation,
    handle: () => ({ status: 201, body: '{}' }),
  }),
  route({ method: 'GET', path: '/fail/{how}', needs: null, operation, handle: ({ requestId }) => fail(requestId) }),
  route({
    method: 'POST',
    path: '/fail/{how}',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(Type.Object({ how: Type.String() }), 'thing'),
    operation,
    handle: ({ body }) => fail(body.how),
  }),
];

function fail(how: string) {
  if (how === 'throws') throw new Error('a secret of ours');
  if (how === 'rejects') return Promise.reject(new Error('a secret of ours'));
  if (how === 'throws-nothing') throw undefined;
  if (how === 'bad-header') return { status: 200, body: '{}', headers: { 'X-Bad': 'a\r\nX-Evil: 1' } };
  if (how === 'bad-body') return { status: 200, body: 7 as unknown as string };
  if (how === 'unavailable')
    throw new ServiceError('unavailable', 'Away.', { recorded: false, retryAfterSeconds: 2.2 });
  if (how === 'unknown') throw new ServiceError('unavailable', 'Away.', { recorded: 'unknown' });
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    waiting.set(how, { resolve: (body) => resolve({ status: 200, body }), reject });
  });
}

export type TransportName = Transport['name'];
/** Those that load here: everywhere the one of Node.js, on the platforms that it has a binary for uWebSockets.js. */
export const TRANSPORTS: TransportName[] = await loadUws().then(
  (): TransportName[] => ['uws', 'node'],
  (): TransportName[] => ['node'],
);

export async function makeTransport(name: TransportName): Promise<Transport> {
  return name === 'node' ? new NodeTransport({ sharePort: false }) : new UwsTransport(await loadUws());
}

type FrontServerOptions = Partial<ServerOptions> & { on?: TransportName; settings?: Partial<ServerOptions['config']> };

export async function startServer(t: Test, { settings, ...more }: FrontServerOptions = {}) {
  const server = new Server({
    transport: await makeTransport(more.on ?? TRANSPORTS[0]!),
    config: {
      host: '127.0.0.1',
      port: 0,
      metricsPort: undefined,
      eventBytesMax: 100_000,
      batchBytesMax: 1_000_000,
      bodyBytesMax: 2_000,
      queryTimeoutSeconds: 15,
      ...settings,
    },
    routes: ROUTES,
    cache: { principal: (sha256: string) => principals.get(sha256) ?? null },
    limiter: { admit: () => true },
    backlogFull: () => false,
    refusal: () => undefined,
    requestLimit: { perSecond: 1_000, burst: 2_000 },
    quotas: { reserve: () => undefined },
    registry: { apiKeys: { touch: async () => undefined }, sessions: { touch: async () => undefined } },
    buffers: new BufferPool(),
    metrics: new Metrics({ processName: 'test' }),
    log: createLog({ level: 'silent', processName: 'test' }),
    ...more,
  } as unknown as ServerOptions);
  const port = await server.listen();
  t.teardown(() => server.drain());
  return { server, port };
}

export const get = (path: string, { key, headers = '' }: { key?: string; headers?: string } = {}) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\n${key === undefined ? '' : `Authorization: Bearer ${key}\r\n`}${headers}\r\n`;
export const post = (path: string, body: string, { key = KEYS.write, headers = '', length = body.length } = {}) =>
  `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${headers}Content-Length: ${length}\r\n\r\n${body}`;
export const method = (name: string, path: string, key?: string) =>
  get(path, key === undefined ? {} : { key }).replace('GET', name);

/**
 * The client is asked to close: torn down under a client that is still sending, the connection would take the answer
 * with it.
 */
export function refusedAndLast(status: number) {
  return { status, headers: new Map([['connection', 'close']]) };
}

export async function until(done: () => boolean, timeoutMs = 60_000): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!done()) {
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms`);
    await pause(2);
  }
}

/** A test for each transport that loads here. */
export function onEach(name: string, run: (t: Test, on: TransportName) => Promise<void>): void {
  for (const on of TRANSPORTS) tap.test(`${name} (${on})`, (t) => run(t, on));
}
