// Servers that are not the service: they say nothing, drip, talk nonsense, send elsewhere or die. Clients that ask them
// must come back in their own time, with their own error, and the key must reach no one else. Ended with the test.
import net, { type AddressInfo } from 'node:net';
import type { Test } from 'tap';

type OddServer = { url: string; heads: string[] };

/** `answer`: what is sent, or what is done with the connection, when the head of a request is there. */
export async function oddServer(t: Test, answer: string | ((socket: net.Socket) => void)): Promise<OddServer> {
  const heads: string[] = [];
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let read = '';
    socket.on('data', (data) => {
      read += data.toString('latin1');
      if (!read.includes('\r\n\r\n')) return;
      heads.push(read.slice(0, read.indexOf('\r\n\r\n')));
      read = '';
      if (typeof answer === 'string') socket.end(answer);
      else answer(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heads };
}

/** An answer of HTTP, whole unless `length` says that there is more to come. */
export function answerOf(
  status: number,
  body: string,
  headers: string[] = [],
  length = Buffer.byteLength(body),
): string {
  const head = [`HTTP/1.1 ${status} Odd`, 'content-type: application/json', `content-length: ${length}`, ...headers];
  return `${head.join('\r\n')}\r\nconnection: close\r\n\r\n${body}`;
}

/** A byte now and then, for longer than a caller waits. */
export function dripping(text: string, everyMs = 100): (socket: net.Socket) => void {
  return (socket) => {
    let at = 0;
    const timer = setInterval(() => socket.write(text[at++ % text.length]!), everyMs);
    socket.on('close', () => clearInterval(timer));
  };
}
