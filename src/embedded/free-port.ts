// Ports for the embedded engines and the check that the public one is free.
// Engine ports lie below the range that the system hands out to outgoing connections (32768 and up): a client that keeps
// trying a dead engine's port inside that range can be given the very port as its own and connect to itself.
import net from 'node:net';

const LOWEST = 20_000;
const HIGHEST = 32_000;
const ATTEMPTS = 50;

/** A port that nothing listens on at this moment; another program may still take it before its user does. */
export async function freePort(host = '127.0.0.1'): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const port = LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (await isFree(host, port)) return port;
  }
  throw new Error(`no free port between ${LOWEST} and ${HIGHEST} on ${host}`);
}

/** Whether one could listen there alone. The fronts share their port (SO_REUSEPORT), so they would not notice. */
export async function isFree(host: string, port: number): Promise<boolean> {
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
