// Ports for the embedded engines and the check that the public one is free.
// Engine ports lie below the range that the system hands out to outgoing connections (32768 and up): a client that
// keeps trying a dead engine's port inside that range can be given the very port as its own and connect to itself.
import net from 'node:net';

const LOWEST = 20_000;
const HIGHEST = 32_000;
/**
 * An engine listens seconds after its port was looked up. Drawn at random, two of many services that start beside each
 * other met on one port now and then; processes that run at one time have different ids, so each looks from a place of
 * its own.
 */
const APART = 8;
const ATTEMPTS = 400;
/** Launches, each on another port: other programs took the first two in between. */
const LAUNCHES = 3;

let looks = 0;

/** A port that nothing listens on at this moment; another program may still take it before its user does. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = LOWEST + ((process.pid * APART + looks++) % (HIGHEST - LOWEST));
    if (await isFree(host, port)) return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST} on ${host}`);
}

/** Launches what will listen on a free port; again on another one if it failed and its port is no longer free. */
export async function onFreePort<T>(launch: (port: number) => Promise<T>, host = '127.0.0.1'): Promise<T> {
  for (let launches = 1; ; launches++) {
    const port = await freePort(host);
    try {
      return await launch(port);
    } catch (error) {
      if (launches === LAUNCHES || (await isFree(host, port))) throw error;
    }
  }
}

/** Whether one could listen there alone. The fronts share their port (SO_REUSEPORT), so they would not notice. */
async function isFree(host: string, port: number): Promise<boolean> {
  return (await whyNotFree(host, port)) === undefined;
}

/** The system's code (`EADDRINUSE`, `EACCES`, `EADDRNOTAVAIL`, …), or undefined when the port can be had. */
export function whyNotFree(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const server = net.createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}
