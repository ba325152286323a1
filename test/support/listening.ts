// A server of a test's own, on the loopback until the test ends.
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import type { Test } from 'tap';

/** Answers its port. An HTTP server's connections end with it. */
export async function listening(t: Test, server: Server & { closeAllConnections?(): void }): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
