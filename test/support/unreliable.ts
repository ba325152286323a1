// An HTTP proxy to the service that fails as networks and overloaded services do, request by request (clients and
// exporters behind it must lose nothing and double nothing). Ended with the test.
import http from 'node:http';
import type { Test } from 'tap';
import { listening } from './listening.ts';
import { pause } from './raw-http.ts';

/** `lost`: the service has answered, and the connection ends before the answer. `limited`: 429. `refused`: 503. */
export type Fate = 'through' | 'refused' | 'limited' | 'hangs' | 'slow' | 'lost';
type Unreliable = { url: string; seen: () => number };

const SLOW_MS = 300;
const PASSED = /^(authorization|content-type|content-encoding|idempotency-key)$/;

/** `fateOf`: what becomes of the request of that number, counted from 0. */
export async function unreliable(t: Test, to: string, fateOf: (request: number) => Fate): Promise<Unreliable> {
  let seen = 0;
  const server = http.createServer((req, res) => {
    const fate = fateOf(seen++);
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', async () => {
      if (fate === 'hangs') return;
      if (fate === 'refused' || fate === 'limited') {
        res.writeHead(fate === 'refused' ? 503 : 429, { 'retry-after': '1' }).end();
        return;
      }
      if (fate === 'slow') await pause(SLOW_MS);
      const headers = Object.entries(req.headers).filter(([name]) => PASSED.test(name)) as [string, string][];
      const body = chunks.length === 0 ? null : Buffer.concat(chunks);
      const answer = await fetch(`${to}${req.url}`, { method: req.method!, headers, body });
      if (fate === 'lost') return void req.socket.destroy();
      res.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'application/json' });
      res.end(Buffer.from(await answer.arrayBuffer()));
    });
  });
  return { url: `http://127.0.0.1:${await listening(t, server)}`, seen: () => seen };
}
