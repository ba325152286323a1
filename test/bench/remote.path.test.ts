// The suite on a service of the caller's own (`--url`), as a load-tester calls it, and what it leaves when it is ended
// half-way.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import http from 'node:http';
import https from 'node:https';
import path from 'node:path';
import t from 'tap';
import { KINDS } from '../../bench/workload.ts';
import { assetPath } from '../../src/process/assets.ts';
import { authorityFile, certificate } from '../support/certificate.ts';
import { folderOf } from '../support/folder.ts';
import { listening } from '../support/listening.ts';
import { programEnvironment } from '../support/programs.ts';
import { pause } from '../support/raw-http.ts';
import { runCli, startService } from '../support/service.ts';

const folder = folderOf(t);
const LIMIT = { GATEHOUSE_REQUESTS_PER_SECOND: '100', GATEHOUSE_REQUESTS_BURST: '100' };
const service = await startService(t, { env: LIMIT });

type Ran = { code: number | null; stdout: string; stderr: string };

function start(
  args: string[],
  env: Record<string, string> = {},
): { child: ChildProcess; ran: Promise<Ran>; said: Ran } {
  const child = spawn(process.execPath, [assetPath('build/bench/main.js'), ...args], {
    env: programEnvironment({ PATH: process.env['PATH'] ?? '', ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: Ran = { code: null, stdout: '', stderr: '' };
  child.stdout!.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()));
  child.stderr!.on('data', (chunk: Buffer) => (said.stderr += chunk.toString()));
  const ran = once(child, 'close').then(([code]) => ({ ...said, code: code as number | null }));
  return { child, ran, said };
}

const bench = (args: string[], env?: Record<string, string>) => start(args, env).ran;
const target = ['--url', service.url, '--key', service.key];

async function rowsOf(out: string, line: string): Promise<Record<string, number>[]> {
  return JSON.parse(await readFile(path.join(out, `${line}.json`), 'utf8')).rows;
}

async function get<T>(at: string): Promise<T> {
  const answer = await fetch(service.url + at, { headers: { authorization: `Bearer ${service.key}` } });
  return (await answer.json()) as T;
}

/** Events of the agent, once all of them can be found. */
async function whenStored(agent: string): Promise<number> {
  for (const until = performance.now() + 90_000; performance.now() < until; ) {
    const headers = { authorization: `Bearer ${service.key}` };
    const answer = await fetch(`${service.url}/v1/agents/${agent}/events?limit=1`, { headers });
    const { total } = (await answer.json()) as { total: number };
    if (answer.headers.get('gatehouse-incomplete') === null) return total;
  }
  throw new Error('the events are not stored');
}

t.test('what cannot be measured is a sentence, and nothing is sent', async (t) => {
  const agents = async () => (await get<{ total: number }>('/v1/agents')).total;
  const elsewhere = http.createServer((_req, res) => res.end('hello'));
  const other = `http://127.0.0.1:${await listening(t, elsewhere)}`;
  const wrong: [string[], RegExp][] = [
    [['--url', service.url], /--url needs a key of that service/],
    [['--key', service.key, 'ingest'], /--key belongs to a --url/],
    [
      [...target, 'durability'],
      /durability looks inside the service, so it takes no --url; these do without: ingest, /,
    ],
    [[...target, 'query', '--events', '5'], /query of a --url takes no --events; it takes --tries, --out/],
    [['--url', 'gatehouse.example', '--key', 'k'], /--url takes the address of a service/],
    [['--url', 'http://127.0.0.1:1', '--key', 'k'], /http:\/\/127\.0\.0\.1:1 cannot be reached: ECONNREFUSED/],
    [['--url', other, '--key', 'k'], /answers, but is not Gatehouse/],
    [['--url', service.url, '--key', 'nobodys-key'.padEnd(40, 'x')], /does not know this key/],
    [[...target, '--out', '/dev/null/x'], /no results can be written to \/dev\/null\/x: ENOTDIR/],
  ];
  const told = await Promise.all(wrong.map(([args]) => bench(args, { GATEHOUSE_KEY: '' })));
  for (const [i, [args, sentence]] of wrong.entries()) {
    t.equal(told[i]!.code, 2, args.join(' '));
    t.match(told[i]!.stderr, new RegExp(`^bench: [^\n]*${sentence.source}[^\n]*\n$`), args.join(' '));
  }
  t.equal(await agents(), 0);
});

t.test('under a request limit it says that the limit is measured, and what raises it', async (t) => {
  const out = path.join(folder, 'limited');
  const { code, stdout, stderr } = await bench([...target, 'ingest', '--seconds', '1', '--turns', '1', '--out', out]);
  t.equal(code, 0, stderr);
  const [single] = await rowsOf(out, 'ingest');
  t.ok(single!['refused, %']! > 50, `${single!['refused, %']} % refused`);
  t.ok(single!['accepted events/s']! <= 300, 'no more than the limit lets through is called accepted');
  t.match(stdout, /were refused: what is measured is a limit, of the key \(100 requests\/s\)/);
  const [, command] = /raises the first: npx gatehouse (account limit .*)\.$/m.exec(stdout)!;
  const args = command!.replace('NAME', 'default').split(' ');
  const raised = await runCli(args, { GATEHOUSE_DATA_DIR: service.dataDir });
  t.equal(raised.code, 0, raised.stderr);
});

t.test('every line from outside: figures that the service confirms, and one page', async (t) => {
  const out = path.join(folder, 'whole', 'results');
  const one = (line: string, ...args: string[]) => bench([...target, line, ...args, '--out', out]);
  const ingest = await one('ingest', '--seconds', '1', '--turns', '1');
  t.equal(ingest.code, 0, ingest.stderr);
  const [single, batch] = await rowsOf(out, 'ingest');
  t.same([single!['refused, %'], single!['failed'], batch!['refused, %']], [0, 0, 0], 'the limit was raised');
  const [, agent] = /left at the agent (agt_\w+); this erases it: curl -X DELETE/.exec(ingest.stdout)!;
  const counted = Number(single!['events in all']) + Number(batch!['events in all']);
  const recorded = await whenStored(agent!);
  // When a turn ends, of each connection what is under way is recorded and not counted, and an answer that came in the
  // same moment.
  const underWay = 2 * KINDS.reduce((sum, { connections, events }) => sum + connections * events, 0);
  t.ok(recorded >= counted && recorded <= counted + underWay, `${recorded} recorded, ${counted} counted`);
  t.match(single!['least and most'], /^[\d,]+ to [\d,]+$/, 'the spread');

  for (const [line, args] of Object.entries({
    latency: ['--seconds', '1', '--rate', '300'],
    query: ['--tries', '3'],
    'fresh-reads': ['--tries', '8'],
  })) {
    const { code, stderr, stdout } = await one(line, ...args);
    t.equal(code, 0, `${line}: ${stderr}`);
    t.match(stdout, `report.html, JSON, tables and charts are in ${out}`);
    t.notMatch(stdout, service.key);
  }
  const latency = await rowsOf(out, 'latency');
  t.same(
    latency.map((row) => row['answered']),
    [300, 3],
    'as many as were due',
  );
  t.equal((await rowsOf(out, 'query')).length, 8);
  t.match(await rowsOf(out, 'fresh-reads'), [{ tries: 8, missing: 0 }]);

  const page = await readFile(path.join(out, 'report.html'), 'utf8');
  t.match(page, /^<!doctype html>/);
  t.match(page, /fresh-reads --url .* --key … fresh-reads|--key … fresh-reads/, 'the call, without the key');
  t.match(page, new RegExp(`Gatehouse ${(await get<{ info: { version: string } }>('/v1/openapi.json')).info.version}`));
  t.match(page, /CPUs \(.*Node v/);
  for (const file of await readdir(out)) {
    const text = await readFile(path.join(out, file), 'utf8');
    t.notMatch(text, service.key, file);
    if (file.endsWith('.html')) t.notMatch(text, /<script|<link|src=|href=|@import|url\(/, 'nothing is fetched');
  }
});

t.test('a service behind TLS and a path is measured like any other', async (t) => {
  const { key, cert } = await certificate();
  const proxy = https.createServer({ key, cert }, (req, res) => {
    if (!req.url!.startsWith('/gate/v1/')) return void res.writeHead(404).end();
    const { host: _host, ...headers } = req.headers;
    const inner = http.request(new URL(req.url!.slice('/gate'.length), service.url), { method: req.method, headers });
    inner.on('response', (answer) => answer.pipe(res.writeHead(answer.statusCode!, answer.headers)));
    return void req.pipe(inner);
  });
  const url = `https://localhost:${await listening(t, proxy)}/gate/`;
  const env = { NODE_EXTRA_CA_CERTS: await authorityFile(t), GATEHOUSE_KEY: service.key };
  const out = path.join(folder, 'tls');
  for (const [line, ...args] of [
    ['ingest', '--seconds', '1', '--turns', '1'],
    ['latency', '--seconds', '1', '--rate', '50'],
  ]) {
    const { code, stderr } = await bench(['--url', url, line!, ...args, '--out', out], env);
    t.equal(code, 0, `${line}: ${stderr}`);
  }
  t.ok((await rowsOf(out, 'ingest')).every((row) => row['accepted events/s']! > 0 && row['failed'] === 0));
  t.equal((await rowsOf(out, 'latency'))[0]!['answered'], 50);
});

for (const [signal, status] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  t.test(`ended by ${signal} half-way it leaves no process and no folder`, async (t) => {
    const temporary = path.join(folder, signal);
    await mkdir(temporary);
    const out = path.join(folder, `${signal}-results`);
    const { child, ran, said } = start(['ingest', '--seconds', '20', '--turns', '1', '--out', out], {
      TMPDIR: temporary,
    });
    // One is ended under load, the other while its service starts.
    const hasBegun = async () => (await readdir(temporary)).length > 0;
    const isAsWanted = () => (signal === 'SIGINT' ? /warm-up/.test(said.stdout) : hasBegun());
    for (
      const until = performance.now() + 120_000;
      !(await isAsWanted()) && performance.now() < until;
      await pause(30)
    );
    t.ok(await hasBegun(), 'it had begun');
    child.kill(signal);
    t.equal((await ran).code, status, said.stderr);
    t.same(await readdir(temporary), []);
    t.same(await processesWith(temporary), []);
    t.match(await readFile(path.join(out, 'report.html'), 'utf8'), /ended while <b>ingest<\/b> was measured/);
  });

/** Command lines of what runs with this folder for its temporary files. */
async function processesWith(temporary: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
    if (environment.includes(`TMPDIR=${temporary}\0`))
      found.push(await readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => pid));
  }
  return found;
}
