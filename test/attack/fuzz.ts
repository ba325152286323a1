// Fuzzing: `npm run test:attack` runs every kind for ten minutes, `-- --seconds N --kind K` otherwise. Inputs come from
// the corpus beside this file (test/attack/corpus), which `npm test` runs once through (corpus.test.ts), by mutation.
// A finding is an unexpected error, an input that takes over 100 ms of processor time, or memory over its
// bound; of the service over raw bytes: a process that ended, a request that was not answered within a second, memory;
// of `framing` (framing.ts): one request that was answered as two, or one that is none and was executed.
// A finding's input is written into build/findings, to be mended and then kept in the corpus. Exit status 1 where there
// is one. Bounded in time; begins elsewhere each time, and says where.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { VERBS } from '../../src/http/transport/router.ts';
import { assetPath } from '../../src/process/assets.ts';
import { cpuMsOf } from '../support/own-time.ts';
import { pause, RawConnection } from '../support/raw-http.ts';
import { randomFrom } from '../support/seed.ts';
import { launchService, makeDataDir, type TestService } from '../support/service.ts';
import { framed, type Targets, whatIsWrong } from './framing.ts';
import { KINDS, type Kind, mutated } from './mutate.ts';
import { Finding, STALL_MS, TARGETS } from './targets.ts';

const RSS_BYTES_MAX = 900 * 1024 * 1024;
const FINDINGS_MAX = 20;
/** The number of runs, at most, of an input that seems to stall. */
const RUNS_MAX = 5;
const FOLDER = 'build/findings';
/** The inputs between two looks at the memory: memory of one run that is not collected yet is no finding. */
const LOOK_EVERY = 2_000;
const PAUSE_EVERY = 100;

export function corpusOf(kind: Kind): string[] {
  const folder = assetPath(`test/attack/corpus/${kind}`);
  return readdirSync(folder)
    .sort()
    .map((name) => readFileSync(path.join(folder, name), 'latin1'));
}

type Result = { kind: Kind; inputs: number; seconds: number; longestMs: number; rssMb: number; findings: string[] };

function note(result: Result, input: string, sentence: string): void {
  mkdirSync(assetPath(FOLDER), { recursive: true });
  const name = `${result.kind}-${Date.now()}-${result.findings.length}`;
  writeFileSync(assetPath(`${FOLDER}/${name}`), input, 'latin1');
  result.findings.push(`${FOLDER}/${name}: ${sentence}`);
  process.stdout.write(`finding: ${result.findings.at(-1)}\n`);
}

async function fuzzHere(
  kind: Exclude<Kind, 'http' | 'framing'>,
  seconds: number,
  random: () => number,
): Promise<Result> {
  const result: Result = { kind, inputs: 0, seconds, longestMs: 0, rssMb: 0, findings: [] };
  const corpus = corpusOf(kind);
  for (const input of corpus) TARGETS[kind](input); // compiled code, tables
  const untilMs = performance.now() + seconds * 1000;
  while (performance.now() < untilMs && result.findings.length < FINDINGS_MAX) {
    const input = mutated(kind, corpus, random);
    result.inputs++;
    try {
      const ms = leastMs(() => TARGETS[kind](input));
      if (ms > STALL_MS) note(result, input, `took ${Math.round(ms)} ms`);
      result.longestMs = Math.max(result.longestMs, ms);
    } catch (error) {
      note(result, input, error instanceof Finding ? error.message : String((error as Error).stack));
    }
    // What an input has left to be done later (a stream that is closed) is done.
    if (result.inputs % PAUSE_EVERY === 0) await new Promise((resolve) => setImmediate(resolve));
    if (result.inputs % LOOK_EVERY === 0) result.rssMb = Math.max(result.rssMb, process.memoryUsage.rss() >> 20);
  }
  if (process.memoryUsage.rss() > RSS_BYTES_MAX)
    note(result, '', `memory grew to ${process.memoryUsage.rss() >> 20} MB`);
  return result;
}

/**
 * Processor time of a work, ms. What seems to stall is done again, and the least counts: compilation, the collector and
 * what shares the core make one of two runs three times as slow.
 */
function leastMs(work: () => void): number {
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS_MAX && least > STALL_MS; run++) least = Math.min(least, cpuMsOf(work));
  return least;
}

const CONNECTIONS = 8;
const ANSWER_MS_MAX = 1_000;
/** A connection that is neither answered nor closed by then is left: it may be waiting for the rest of a body. */
const LEFT_MS = 50;

/** Raw bytes, over connections that are dropped again; beside them one caller, who must be answered all the time. */
async function fuzzService(seconds: number, random: () => number): Promise<Result> {
  const result: Result = { kind: 'http', inputs: 0, seconds, longestMs: 0, rssMb: 0, findings: [] };
  const service = await launch({});
  try {
    const { port } = new URL(service.url);
    const front = (await service.children()).find(({ name }) => name.startsWith('front'))!;
    const agent = await newAgent(service);
    const corpus = corpusOf('http').map((text) => text.replaceAll('KEY', service.key).replaceAll('AGENT', agent));
    const untilMs = performance.now() + seconds * 1000;
    const isOver = () => performance.now() > untilMs || result.findings.length >= FINDINGS_MAX;
    let last = '';
    const loops = Array.from({ length: CONNECTIONS }, async () => {
      while (!isOver()) {
        last = mutated('http', corpus, random);
        result.inputs++;
        await thrown(Number(port), last);
      }
    });
    const caller = (async () => {
      while (!isOver()) {
        const startedMs = performance.now();
        const answer = await fetch(`${service.url}/v1/agents/${agent}/events`, {
          method: 'POST',
          headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
          body: '{"type":"prompt","payload":{"a":1}}',
          signal: AbortSignal.timeout(ANSWER_MS_MAX * 5),
        }).catch((error: unknown) => String(error));
        const ms = performance.now() - startedMs;
        result.longestMs = Math.max(result.longestMs, ms);
        if (typeof answer === 'string' || answer.status !== 201)
          note(result, last, `another caller heard ${typeof answer === 'string' ? answer : answer.status}`);
        else if (ms > ANSWER_MS_MAX) note(result, last, `another caller waited ${Math.round(ms)} ms`);
        result.rssMb = Math.max(result.rssMb, rssMbOf(front.pid));
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    await Promise.all([...loops, caller]);
    const now = (await service.children()).find(({ name }) => name === front.name);
    if (now?.pid !== front.pid) note(result, last, 'the front was started again');
    if (result.rssMb * 1024 * 1024 > RSS_BYTES_MAX) note(result, last, `its memory grew to ${result.rssMb} MB`);
  } finally {
    await service.stop();
  }
  return result;
}

async function launch(env: Record<string, string>): Promise<TestService> {
  const [perSecond, burst] = ['GATEHOUSE_REQUESTS_PER_SECOND', 'GATEHOUSE_REQUESTS_BURST'];
  const common = { GATEHOUSE_FRONTS: '1', GATEHOUSE_LOG_LEVEL: 'error', [perSecond]: '100000', [burst]: '100000' };
  return await launchService({ dataDir: await makeDataDir(), env: { ...common, ...env } });
}

/** Requests that can be read in two ways, on both HTTP servers, half of the time each. */
async function fuzzFraming(seconds: number, random: () => number): Promise<Result> {
  const result: Result = { kind: 'framing', inputs: 0, seconds, longestMs: 0, rssMb: 0, findings: [] };
  for (const server of ['uws', 'node']) {
    const service = await launch({ GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_CORS_ORIGINS: 'https://app.example' });
    try {
      await frameAll(service, seconds / 2, result, random);
    } finally {
      await service.stop();
    }
  }
  return result;
}

const FRAMING_CONNECTIONS = 16;
const PACKET_MS = 3;

async function frameAll(service: TestService, seconds: number, result: Result, random: () => number): Promise<void> {
  const port = Number(new URL(service.url).port);
  const headers = { authorization: `Bearer ${service.key}` };
  const openapi = await fetch(`${service.url}/v1/openapi.json`);
  const paths = Object.keys(((await openapi.json()) as { paths: object }).paths);
  const targets: Targets = {
    methods: [...VERBS, 'FOO'],
    paths: [
      '/',
      '/ui',
      '/ui/',
      '/ui/events',
      '/ui/assets/none.js',
      '/nope',
      '/v1',
      ...paths.map((one) => one.replaceAll(/\{\w+\}/g, 'some')),
    ],
    callers: ['', `Authorization: Bearer ${service.key}\r\n`],
    inner: (id, leavesTrace) => {
      const head = (line: string) =>
        `${line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\nX-Request-Id: ${id}\r\n`;
      const body = `{"name":"smuggled ${id}"}`;
      if (!leavesTrace) return `${head('GET /v1/account')}\r\n`;
      return `${head('POST /v1/agents')}Content-Length: ${body.length}\r\n\r\n${body}`;
    },
  };
  const untilMs = performance.now() + seconds * 1000;
  const loop = async () => {
    while (performance.now() < untilMs && result.findings.length < FINDINGS_MAX) {
      const one = framed(targets, random, `r${result.inputs++}`);
      const connection = await RawConnection.open(port);
      for (const packet of one.packets) {
        connection.write(packet);
        await pause(PACKET_MS);
      }
      await connection.waitForClose(LEFT_MS).catch(() => undefined);
      connection.destroy();
      const fault = whatIsWrong(one, connection.text);
      if (fault !== undefined) note(result, one.what, fault);
    }
  };
  await Promise.all(Array.from({ length: FRAMING_CONNECTIONS }, loop));
  const agents = await fetch(`${service.url}/v1/agents?limit=100`, { headers });
  const { items } = (await agents.json()) as { items: { name: string }[] };
  for (const { name } of items) note(result, name, `${name} was executed`);
  const front = (await service.children()).find(({ name }) => name.startsWith('front'))!;
  result.rssMb = Math.max(result.rssMb, rssMbOf(front.pid));
}

function thrown(port: number, input: string): Promise<void> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => socket.write(input, 'latin1'));
    const end = () => {
      clearTimeout(timer);
      socket.destroy();
      resolve();
    };
    const timer = setTimeout(end, LEFT_MS);
    socket.on('data', () => undefined);
    for (const event of ['end', 'error', 'close']) socket.once(event, end);
  });
}

async function newAgent({ url, key }: TestService): Promise<string> {
  const answer = await fetch(`${url}/v1/agents`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{"name":"fuzzed"}',
  });
  return ((await answer.json()) as { id: string }).id;
}

function rssMbOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) >> 10;
  } catch {
    return 0;
  }
}

if (process.argv[1] === assetPath('build/test/attack/fuzz.js')) {
  const { values } = parseArgs({
    options: { seconds: { type: 'string', default: '600' }, kind: { type: 'string' }, seed: { type: 'string' } },
  });
  const seed = Number(values.seed ?? Date.now() % 2 ** 31);
  process.stdout.write(`seed ${seed}\n`);
  let found = 0;
  for (const kind of KINDS) {
    if (values.kind !== undefined && values.kind !== kind) continue;
    const random = randomFrom(seed);
    const seconds = Number(values.seconds);
    const result = await (kind === 'http'
      ? fuzzService(seconds, random)
      : kind === 'framing'
        ? fuzzFraming(seconds, random)
        : fuzzHere(kind, seconds, random));
    found += result.findings.length;
    process.stdout.write(
      `${kind}: ${result.inputs} inputs in ${result.seconds} s, longest ${Math.round(result.longestMs)} ms, ${result.rssMb} MB, ${result.findings.length} findings\n`,
    );
  }
  process.exit(found > 0 ? 1 : 0);
}
