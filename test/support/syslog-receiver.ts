// A receiver of syslog over TLS on loopback, which reads frames by octet counting (RFC 6587) and messages by RFC 5424.
// Invariant: what is no frame, or no message, is a fault that the test sees; it is closed with the test.
import type { AddressInfo } from 'node:net';
import { createServer, type TLSSocket } from 'node:tls';
import type { Test } from 'tap';
import { certificate } from './certificate.ts';

export type Message = { priority: number; atMs: number; host: string; app: string; msgId: string; text: string };
/** The reaction to a connection of which so much was read; `take` makes what was read count. */
type Behaviour = (read: string, socket: TLSSocket, take: () => void) => void;

const MESSAGE = /^<(\d{1,3})>1 (\S+) (\S+) (\S+) - (\S{1,32}) - (.*)$/s;

export async function startSyslog(t: Test) {
  const { key, cert } = await certificate();
  const receiver = {
    port: 0,
    messages: [] as Message[],
    faults: [] as string[],
    connections: 0,
    /** At the end of what is sent: takes it, and ends its side. */
    atEnd: ((_read, socket, take) => {
      take();
      socket.end();
    }) as Behaviour,
    /** At each piece. */
    onData: (() => undefined) as Behaviour,
  };
  const server = createServer({ key, cert, allowHalfOpen: true }, (socket) => {
    receiver.connections++;
    const chunks: Buffer[] = [];
    const read = () => Buffer.concat(chunks).toString();
    const take = () => receiver.messages.push(...messagesOf(Buffer.concat(chunks), receiver.faults));
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      receiver.onData(read(), socket, take);
    });
    socket.on('end', () => receiver.atEnd(read(), socket, take));
  });
  server.on('tlsClientError', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  receiver.port = (server.address() as AddressInfo).port;
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return receiver;
}

function messagesOf(bytes: Buffer, faults: string[]): Message[] {
  const messages: Message[] = [];
  for (let at = 0; at < bytes.length; ) {
    const space = bytes.indexOf(' ', at);
    const length = Number(bytes.toString('latin1', at, space));
    const frame = bytes.toString('utf8', space + 1, space + 1 + length);
    const [, priority, time, host, app, msgId, text] = MESSAGE.exec(frame) ?? [];
    if (text === undefined || space + 1 + length > bytes.length) {
      faults.push(bytes.toString('utf8', at, at + 100));
      return messages;
    }
    messages.push({
      ...{ priority: Number(priority), atMs: Date.parse(time!), host: host!, app: app!, msgId: msgId!, text },
    });
    at = space + 1 + length;
  }
  return messages;
}
