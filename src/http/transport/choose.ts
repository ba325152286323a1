// Chooses the HTTP server of a front (before server.ts): uWebSockets.js where its binary loads, else the Node.js HTTP
// server. `GATEHOUSE_HTTP_SERVER`: `auto` chooses so by itself and says in one line why and what it costs; `uws` and
// `node` insist.
// Failure: `uws` where it does not load, and several fronts where Node.js cannot share a port, end the start with a
// sentence.

import { TransportRefused } from '../../common/user-facing-error.ts';
import type { Config } from '../../process/config.ts';
import type { Log } from '../../process/log.ts';
import { canSharePort, NodeTransport } from './node-http.ts';
import type { Transport } from './transport.ts';
import { loadUws, UwsTransport } from './uws.ts';

/** As measured by `bench ingest` (bench/README.md). */
const COST = 'about half of the single events a second and four fifths of the batches';

type TransportChoice = Pick<Config, 'httpServer' | 'fronts'>;

/** Throws TransportRefused. */
export async function chooseTransport({ httpServer, fronts }: TransportChoice, log: Log): Promise<Transport> {
  if (httpServer === 'node') return nodeTransport(fronts);
  try {
    return new UwsTransport(await loadUws());
  } catch (error) {
    const reason = reasonOf(error);
    if (httpServer === 'uws')
      throw new TransportRefused(`GATEHOUSE_HTTP_SERVER=uws, but uWebSockets.js does not load here: ${reason}`);
    log.warn({ reason, cost: COST }, 'http.node_server');
    return nodeTransport(fronts);
  }
}

function nodeTransport(fronts: number): Transport {
  if (fronts > 1 && !canSharePort())
    throw new TransportRefused(
      `GATEHOUSE_FRONTS=${fronts}: several fronts share a port by uWebSockets.js, or by Node.js from 22.12; this is ${process.version} with the HTTP server of Node.js.`,
    );
  return new NodeTransport({ sharePort: canSharePort() });
}

/** Its loader's message ends with the reason of the operating system, which is what an operator can act on. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const library = /version `(GLIBC_[0-9.]+)' not found/.exec(text);
  if (library) return `its binary for Node.js ${process.versions.node} needs ${library[1]}`;
  if (/cannot find module|MODULE_NOT_FOUND/i.test(text))
    return `it has no binary for Node.js ${process.versions.node} (ABI ${process.versions.modules}) on ${process.platform}-${process.arch}`;
  return (
    text
      .split('\n')
      .filter((line) => line.trim() !== '')
      .at(-1)
      ?.trim() ?? 'for an unknown reason'
  );
}
