// A receiver of webhooks and chats by https on loopback: keeps what it was sent, and answers as the test sets.
// Invariant: it is closed with the test, its connections too.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { type Certificate, certificate } from './certificate.ts';

export type Received = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The body as it came. */
  bytes: Buffer;
  atMs: number;
};
export type Answering = (request: Received, response: ServerResponse, raw: IncomingMessage) => void;

export type Receiver = {
  /** `https://localhost:PORT` */
  url: string;
  port: number;
  ca: string;
  received: Received[];
  /** TCP connections so far. */
  connections(): number;
  /** 200 with no body until something else is set. */
  answer: Answering;
};

export async function startReceiver(
  t: Pick<Test, 'teardown'>,
  options: { certificate?: Certificate; host?: string; answer?: Answering } = {},
): Promise<Receiver> {
  const { key, cert, ca } = options.certificate ?? (await certificate());
  let connections = 0;
  const server = createServer({ key, cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const received: Received = {
        method: request.method!,
        path: request.url!,
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
        bytes: Buffer.concat(chunks),
        atMs: Date.now(),
      };
      receiver.received.push(received);
      receiver.answer(received, response, request);
    });
  });
  server.on('connection', () => connections++);
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, options.host ?? '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `https://localhost:${port}`,
    port,
    ca,
    received: [],
    connections: () => connections,
    answer: options.answer ?? ((_request, response) => void response.end()),
  };
  t.teardown(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return receiver;
}
