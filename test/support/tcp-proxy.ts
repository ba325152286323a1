// A cable to a server on this machine that a test can cut, or through which it can keep answers from coming.
// Used for what kills cannot show: an answer that is lost after the work was done, a cable that is dead without being
// closed.
import net from 'node:net';
import type { Test } from 'tap';

type TcpProxy = {
  port: number;
  /** From now on nothing the server says arrives. */
  swallowAnswers(): void;
  /** Ends all connections; new ones are sound. */
  cut(): void;
  /** Leaves all connections open and dead; new ones are sound. */
  healNew(): void;
};

/** `change`: what becomes of the server's words on their way. */
export async function startTcpProxy(
  t: Test,
  to: number,
  change: (data: Buffer) => Buffer = (data) => data,
): Promise<TcpProxy> {
  let swallowing = false;
  const pairs = new Set<{ near: net.Socket; dead: boolean }>();
  const server = net.createServer((near) => {
    const far = net.connect(to, '127.0.0.1');
    const pair = { near, dead: false };
    pairs.add(pair);
    near.pipe(far);
    far.on('data', (data) => {
      if (!swallowing && !pair.dead) near.write(change(data));
    });
    for (const socket of [near, far]) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        near.destroy();
        far.destroy();
        pairs.delete(pair);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    swallowing = false;
    for (const { near } of pairs) near.destroy();
  };
  t.teardown(() => {
    cut();
    server.close();
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    swallowAnswers: () => {
      swallowing = true;
    },
    cut,
    healNew: () => {
      swallowing = false;
      for (const pair of pairs) pair.dead = true;
    },
  };
}
