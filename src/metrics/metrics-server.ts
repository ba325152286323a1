// Serves `/metrics` and `/healthz` on a port of its own (GATEHOUSE_METRICS_PORT), away from the callers of the API.
// Under `gatehouse start` the supervisor has it and shows all processes; a front or pipelines process run alone shows
// itself. Plain node:http: it is asked every few seconds. Failure: a port that is taken ends the start with a sentence.
import { createServer, type Server } from 'node:http';
import type { Part } from '../process/lifecycle.ts';
import { METRICS_CONTENT_TYPE } from './metrics.ts';

type MetricsServerOptions = { host: string; port: number; text: () => Promise<string> };

export class MetricsServer implements Part {
  readonly name = 'metrics port';
  readonly #options: MetricsServerOptions;
  readonly #server: Server;

  constructor(options: MetricsServerOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      const path = request.url?.split('?')[0];
      if (path === '/healthz') return void response.end('ok\n');
      if (path !== '/metrics') return void response.writeHead(404).end();
      options.text().then(
        (text) => response.setHeader('Content-Type', METRICS_CONTENT_TYPE).end(text),
        () => response.writeHead(500).end(),
      );
    });
  }

  start(): Promise<void> {
    const { host, port } = this.#options;
    return new Promise((resolve, reject) => {
      this.#server.once('error', (cause: NodeJS.ErrnoException) => {
        reject(new Error(`GATEHOUSE_METRICS_PORT: cannot listen on ${host}:${port} (${cause.code})`, { cause }));
      });
      this.#server.listen({ host, port }, resolve);
    });
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
