// The open loop's generator against a real server that stalls: what had to wait behind the stall is charged to it, and
// nothing is lost. Only least waits are asked for, so a slow machine changes nothing.
import http from 'node:http';
import t, { type Test } from 'tap';
import { GIVEN_UP, openLoad, summarize } from '../../bench/open-loop.ts';
import { listening } from '../support/listening.ts';

const STALL_MS = 1_000;

t.test('latency counts from the moment a request was due, not from when it could be sent', async (t) => {
  const { url, seen } = await stallingServer(t);
  const requests = [
    { path: '/one', key: 'k', body: 0 },
    { path: '/two', key: 'k', body: 1 },
  ];
  const bodies = ['a', 'ü'.repeat(70_000)];
  const phases = [{ requestsPerSecond: 50, seconds: 1.2 }];
  const samples = await openLoad({ url, requests, bodies, phases, connections: 2 });
  const summary = summarize(samples);
  t.match(summary, { answered: 60, refused: 0, failed: 0, unsent: 0 });
  t.equal(seen.get('/one')!.requests + seen.get('/two')!.requests, 60);
  t.equal(seen.get('/two')!.bytes, 140_000 * seen.get('/two')!.requests, 'bodies arrive whole');
  // A request is due every 20 ms. What is due at 400 is, as a difference of clock readings, a hair before or behind it.
  const early = [...samples.dueMs.keys()].filter((i) => samples.dueMs[i]! < 390);
  t.equal(early.length, 20);
  for (const i of early) {
    const least = STALL_MS - samples.dueMs[i]! - 50; // the first request came a little before the stall began
    if (samples.latencyMs[i]! < least)
      t.fail('a wait behind the stall was left out', { latency: samples.latencyMs[i] });
  }
});

t.test('a caller that finds no connection in time goes away, and is counted', async (t) => {
  const { url } = await stallingServer(t);
  const requests = [{ path: '/one', key: 'k', body: 0 }];
  const phases = [{ requestsPerSecond: 50, seconds: 1 }];
  const samples = await openLoad({ url, requests, bodies: ['a'], phases, connections: 1, giveUpMs: 100 });
  const summary = summarize(samples);
  t.ok(summary.unsent > 0);
  t.equal(summary.unsent, samples.status.filter((status) => status === GIVEN_UP).length);
  t.equal(summary.answered + summary.unsent, 50);
});

/** Answers nothing for STALL_MS after its first request, then everything. */
async function stallingServer(t: Test) {
  const seen = new Map<string, { requests: number; bytes: number }>();
  let until = 0;
  const server = http.createServer((request, response) => {
    until ||= performance.now() + STALL_MS;
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    request.on('end', () => {
      const known = seen.get(request.url!) ?? { requests: 0, bytes: 0 };
      seen.set(request.url!, { requests: known.requests + 1, bytes: known.bytes + bytes });
      const body = 'x'.repeat(100_000);
      const answer = () => response.writeHead(200, { 'content-length': body.length }).end(body);
      setTimeout(answer, Math.max(0, until - performance.now()));
    });
  });
  return { url: `http://127.0.0.1:${await listening(t, server)}`, seen };
}
