// Question: how fast are spans taken, and what does another account notice of them?
// Method: requests of spans as an exporter of a traced agent sends them (calls of a model with their messages, 2 kB
// each, tools between them), in protobuf. First what the bytes cost by themselves: our decoder alone, in this process,
// over and over. Then the service, 512 spans a request from four senders, each answered before the next. Then, as in
// the line `neighbour`, single events of another account, 200 a second in an open loop, with nothing beside them and
// with one sender of requests of 5 MB. No request has the bytes of another, since the same bytes are recorded once.
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { decodeProtobuf } from '../src/otlp/decode-protobuf.ts';
import { eventsOf } from '../src/otlp/events-of.ts';
import { openLoad, summarize } from './open-loop.ts';
import { beginLine, hand, progress, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { makeAccounts, makeAgents, setPolicies } from './setup.ts';
import { rounded } from './statistics.ts';
import { bodiesOf, FIVE_POLICIES } from './workload.ts';

const SPANS = 512;
const LARGE_BYTES = 5 * 1024 * 1024;
const SENDERS = 4;
const VICTIM_RATE = 200;
const VICTIM_CONNECTIONS = 16;
const WARM_SECONDS = 1;
const { LengthDelimited, Bit64, Varint } = WireType;

export async function spans({ seconds }: { seconds: number }): Promise<boolean> {
  const machine = beginLine('spans');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  try {
    const [victimKey, key] = (await makeAccounts(service, 2)) as [string, string];
    const victim = { url: service.url, key: victimKey };
    const agents = await makeAgents(victim, 8, 'victim');
    await setPolicies(victim, FIVE_POLICIES);
    await setPolicies({ ...victim, key }, FIVE_POLICIES);
    const usual = requestOf(SPANS);
    const large = requestOf(Math.ceil((SPANS * LARGE_BYTES) / usual.length));
    const decoded = decodeAlone(usual, seconds);
    const taken = await send(service.url, key, usual, {
      senders: SENDERS,
      untilMs: performance.now() + seconds * 1000,
    });
    const rows: Row[] = [
      rateRow('decoded alone', { spansPerSecond: decoded, to: decoded }),
      rateRow('recorded by the service', { spansPerSecond: (taken * SPANS) / seconds, to: decoded }),
    ];
    for (const [name, body] of [
      ['single events, nothing beside them', undefined],
      [`single events beside ${(large.length / 1024 / 1024).toFixed(1)} MB of spans a request`, large],
    ] as const) {
      const until = performance.now() + (seconds + WARM_SECONDS) * 1000;
      const beside = body === undefined ? 0 : send(service.url, key, body, { senders: 1, untilMs: until });
      const bodies = bodiesOf(1);
      const requests = bodies.map((_, i) => ({
        ...{ path: `/v1/agents/${agents[i % agents.length]}/events`, key: victim.key, body: i },
      }));
      const phases = [{ requestsPerSecond: VICTIM_RATE, seconds: seconds + WARM_SECONDS }];
      const load = { url: victim.url, requests, bodies, phases, connections: VICTIM_CONNECTIONS };
      const { p50Ms, p99Ms, maxMs, failed, refused, unsent } = summarize(await openLoad(load), WARM_SECONDS * 1000);
      const answered = await beside;
      const row = { '': name, 'p50 ms': p50Ms, 'p99 ms': p99Ms, 'longest ms': maxMs };
      rows.push({ ...row, 'not answered well': failed + refused + unsent, 'requests of spans': answered });
      progress(`${name}: p50 ${p50Ms}, p99 ${p99Ms} ms`);
    }
    const question = 'how fast are spans taken, and what does another account notice of them?';
    hand(
      { line: 'spans', question, command: `npm run bench -- spans --seconds ${seconds}`, rows, charts: [] },
      machine,
    );
    return true;
  } finally {
    await service.stop();
  }
}

function rateRow(name: string, { spansPerSecond, to }: { spansPerSecond: number; to: number }): Row {
  progress(`${name}: ${Math.round(spansPerSecond)} spans a second`);
  return { '': name, 'spans/s': rounded(spansPerSecond), 'to decoding': rounded(spansPerSecond / to, 2) };
}

/** Spans a second, made into events as well. */
function decodeAlone(body: Uint8Array, seconds: number): number {
  const began = performance.now();
  let read = 0;
  while (performance.now() - began < seconds * 1000) read += eventsOf(decodeProtobuf(body).spans).length;
  return read / ((performance.now() - began) / 1000);
}

/** How many requests were answered well. */
async function send(
  url: string,
  key: string,
  body: Buffer,
  { senders, untilMs }: { senders: number; untilMs: number },
): Promise<number> {
  let answered = 0;
  await Promise.all(
    Array.from({ length: senders }, async () => {
      while (performance.now() < untilMs) {
        const response = await fetch(`${url}/v1/traces`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/x-protobuf' },
          body: fresh(body) as unknown as string,
        });
        await response.arrayBuffer();
        if (response.ok) answered++;
      }
    }),
  );
  return answered;
}

const TRACE = Buffer.alloc(16, 0xab);
let made = 0;

/** The same spans in another trace. */
function fresh(body: Buffer): Buffer {
  const copy = Buffer.from(body);
  copy.writeUInt32BE(++made, copy.indexOf(TRACE));
  return copy;
}

function requestOf(spans: number): Buffer {
  const writer = new BinaryWriter();
  writer.tag(1, LengthDelimited).fork();
  writer.tag(1, LengthDelimited).fork();
  attribute(writer, 1, 'service.name', 'traced');
  writer.join();
  writer.tag(2, LengthDelimited).fork();
  for (let i = 0; i < spans; i++) span(writer, i);
  return Buffer.from(writer.join().join().finish());
}

const MESSAGES = JSON.stringify([
  {
    role: 'system',
    parts: [{ type: 'text', content: 'You help customers of a shop. Be brief and friendly. '.repeat(8) }],
  },
  { role: 'user', parts: [{ type: 'text', content: 'Where is my order, and when will it be here? '.repeat(20) }] },
]);

function span(writer: BinaryWriter, index: number): void {
  const at = BigInt(Date.now()) * 1_000_000n + BigInt(index) * 1_000_000n;
  const id = Buffer.alloc(8);
  id.writeUInt32BE(index + 1, 4);
  writer.tag(2, LengthDelimited).fork();
  writer
    .tag(1, LengthDelimited)
    .bytes(TRACE)
    .tag(2, LengthDelimited)
    .bytes(id)
    .tag(5, LengthDelimited)
    .string('chat m');
  writer
    .tag(7, Bit64)
    .fixed64(at)
    .tag(8, Bit64)
    .fixed64(at + 500_000n);
  if (index % 4 === 3) {
    attribute(writer, 9, 'gen_ai.operation.name', 'execute_tool');
    attribute(writer, 9, 'gen_ai.tool.name', 'find_order');
    attribute(writer, 9, 'gen_ai.tool.call.arguments', '{"order": 7}');
  } else {
    attribute(writer, 9, 'gen_ai.operation.name', 'chat');
    attribute(writer, 9, 'gen_ai.request.model', 'm-1');
    attribute(writer, 9, 'gen_ai.input.messages', MESSAGES);
    attribute(
      writer,
      9,
      'gen_ai.output.messages',
      '[{"role":"assistant","parts":[{"type":"text","content":"Tomorrow."}]}]',
    );
    for (const [name, count] of [
      ['gen_ai.usage.input_tokens', 400],
      ['gen_ai.usage.output_tokens', 7],
    ] as const) {
      writer.tag(9, LengthDelimited).fork().tag(1, LengthDelimited).string(name);
      writer.tag(2, LengthDelimited).fork().tag(3, Varint).int64(count).join().join();
    }
  }
  writer.join();
}

function attribute(writer: BinaryWriter, field: number, name: string, value: string): void {
  writer.tag(field, LengthDelimited).fork().tag(1, LengthDelimited).string(name);
  writer.tag(2, LengthDelimited).fork().tag(1, LengthDelimited).string(value).join().join();
}
