// A server of MCP for tests that answers exactly as a file says, over standard input and output, or over HTTP
// when it is given a port (0: any; it prints its address). RAW_ANSWERS: a file of JSON, the answer by the name of the
// tool that is called, or else by the method: `$ID` in it stands for the id as it was written. RAW_LOG: a file that
// gets each line or body as it came; with HTTP, `RAW_LOG.http` gets what the request was.
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export type RawAnswer = {
  /** Left out: a result. */
  text?: string;
  /** Lines, or events of a stream, before it. */
  before?: string[];
  delayMs?: number;
  /** The server ends behind it. */
  isLast?: boolean;
  /** The answer by HTTP as a stream of events, each as it is written here. */
  events?: string[];
  status?: number;
  type?: string;
  headers?: Record<string, string>;
};

const { RAW_ANSWERS: answers = '', RAW_LOG: log = '' } = process.env;
const PLAIN = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}';

function answerTo(text: string): (RawAnswer & { text: string }) | undefined {
  const find = (pattern: RegExp) => pattern.exec(text)?.[1];
  const id = find(/"id"\s*:\s*("(?:[^"\\]|\\.)*"|[^,}\s]+)/);
  const known = JSON.parse(readFileSync(answers, 'utf8')) as Record<string, RawAnswer>;
  const method = find(/"method"\s*:\s*"([^"]*)"/) ?? '';
  const answer = known[find(/"params"\s*:\s*\{\s*"name"\s*:\s*"([^"]*)"/) ?? ''] ?? known[method];
  if (id === undefined || (method === '' && answer === undefined)) return undefined;
  const filled = (template: string) => template.replaceAll('$ID', () => id);
  const { text: said = PLAIN, before = [], events, ...rest } = answer ?? {};
  return {
    ...rest,
    text: filled(said),
    before: before.map(filled),
    ...(events === undefined ? {} : { events: events.map(filled) }),
  };
}

async function onLines(): Promise<void> {
  let rest = '';
  process.stdin.setEncoding('utf8');
  process.stdin.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop()!;
    for (const line of lines) void onLine(line);
  });
  if (process.env['RAW_STAYS'] !== undefined) setInterval(() => undefined, 1_000);
  else process.stdin.on('end', () => process.exit(0));
}

async function onLine(line: string): Promise<void> {
  appendFileSync(log, `${line}\n`);
  const answer = answerTo(line);
  if (answer === undefined) return;
  await sleep(answer.delayMs ?? 0);
  const all = [...answer.before!, answer.text].map((text) => `${text}\n`).join('');
  process.stdout.write(all, () => {
    if (answer.isLast) process.exit(0);
  });
}

async function onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += chunk;
  const { method, url, headers } = request;
  appendFileSync(`${log}.http`, `${JSON.stringify({ method, url, headers })}\n`);
  if (text !== '') appendFileSync(log, `${text}\n`);
  const about = method === 'POST' ? text : `{"id":0,"method":"${method}"}`;
  const answer = answerTo(about);
  if (method !== 'POST' && JSON.parse(readFileSync(answers, 'utf8'))[method!] === undefined)
    return void response.writeHead(405).end();
  if (answer === undefined) return void response.writeHead(202).end();
  await sleep(answer.delayMs ?? 0);
  const { status = 200, events, type = events ? 'text/event-stream' : 'application/json' } = answer;
  response.writeHead(status, { 'content-type': type, ...answer.headers });
  for (const event of events ?? []) {
    response.write(event);
    await sleep(20);
  }
  if (!answer.isLast && events !== undefined && method === 'GET') return;
  response.end(events === undefined ? answer.text : undefined);
}

const [port] = process.argv.slice(2);
if (port === undefined || port.startsWith('-')) await onLines();
else {
  const server = createServer((request, response) => void onRequest(request, response));
  server.listen(Number(port), '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  });
}
