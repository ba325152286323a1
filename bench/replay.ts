// Replays recorded agent runs (NDJSON: agent, framework, type, payload, trace_id, timestamp a line) through the batch
// endpoint, with policies that only log, and counts what each policy matches. Payloads are sent as the file's own text.
// The demo command and the test on real data both stand on this.
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseMarked } from '../src/ingest/json.ts';
import { assetPath } from '../src/process/assets.ts';
import type { HttpClient } from './http-client.ts';

const BATCH_EVENTS = 100;
const BATCH_BYTES_MAX = 4 * 1024 * 1024;

export type RecordedEvent = {
  agent: string;
  framework: string;
  type: string;
  traceId: string;
  timestamp: string;
  payloadText: string;
};
type Line = { agent: string; framework: string; type: string; trace_id: string; timestamp: string };

/**
 * The policies of the demo, each with the number of events of the recorded runs that it must match. Three events hold
 * text that begins like JSON and cannot be read: every filter that looks there matches them (`not_json`).
 */
export const POLICIES: { name: string; type: string; conditions: object; matches: number }[] = [
  {
    name: 'payment to the attacker',
    type: 'block_action',
    conditions: { type: 'tool_call', tool: 'send_money', 'payload.arguments.recipient': 'US133000000121212121212' },
    matches: 28,
  },
  {
    name: 'mail to the attacker',
    type: 'block_action',
    conditions: {
      type: 'tool_call',
      tool: 'send_email',
      'payload.arguments.recipients': ['jay@google.com', 'mark.black-2134@gmail.com'],
    },
    matches: 22,
  },
  {
    name: "the attacker's page",
    type: 'block_action',
    conditions: {
      type: 'tool_call',
      tool: 'get_webpage',
      'payload.arguments.url': { contains: 'true-informations.com' },
    },
    matches: 27,
  },
  { name: 'injection marker', type: 'data_filter', conditions: { patterns: ['<INFORMATION>'] }, matches: 198 },
  {
    name: 'e-mail address in an answer',
    type: 'block_action',
    conditions: {
      type: 'completion',
      'payload.response': { matches: '[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}' },
    },
    matches: 40,
  },
  {
    name: 'bookings need a person',
    type: 'require_approval',
    conditions: { tool: ['book_reservation', 'cancel_reservation', 'send_certificate'], type: 'tool_call' },
    matches: 69,
  },
  {
    name: 'means of payment in a result',
    type: 'data_filter',
    conditions: {
      type: 'tool_call',
      fields: ['payload.result'],
      patterns: ['(?:credit_card|gift_card|certificate)_[0-9]{7}'],
    },
    matches: 339,
  },
  {
    name: 'long completions',
    type: 'block_action',
    conditions: { type: 'completion', tokens_used: { gt: 5000 } },
    matches: 34,
  },
];

const BESIDE = '../shared/data';
/** Ten short runs of our own making, in which every policy of the demo matches something. */
export const OWN_RUNS = 'bench/demo-runs.ndjson';

/** Those that lie beside the project, if any do. */
export function recordedRuns(folder = assetPath(BESIDE)): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith('.ndjson'))
    .toSorted()
    .map((name) => path.join(folder, name));
}

/** The runs that the demo replays where no file is named: those beside the project, or ours. */
export function demoRuns(folder = assetPath(BESIDE)): string[] {
  const beside = recordedRuns(folder);
  return beside.length > 0 ? beside : [assetPath(OWN_RUNS)];
}

export async function readRecorded(file: string): Promise<RecordedEvent[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  return lines.map((line) => {
    const { value, text, payloads } = parseMarked(Buffer.from(line), 'one');
    const { agent, framework, type, trace_id: traceId, timestamp } = value as Line;
    const [start, end] = payloads[0]!;
    return { agent, framework, type, traceId, timestamp, payloadText: text.slice(start, end) };
  });
}

type Replay = {
  /** Agent name -> id. */
  agents: Map<string, string>;
  /** Event ids in the order of the recording, by agent name. */
  recorded: Map<string, { id: string; payloadText: string }[]>;
  events: number;
  /** Policy name -> events matched. */
  matches: Map<string, number>;
  /** Events that were blocked or are pending. */
  interrupted: number;
};

type Answer = {
  total: number;
  results: { id: string; error?: unknown; policy_result: { outcome: string; matches: { name: string }[] } }[];
};

/**
 * Sends all events of the files, agent by agent in their order. `endMs`: the newest of each file has this time, and the
 * others are as long before it as they were; without it all have the times of the recording.
 */
export async function replay(
  client: HttpClient,
  files: string[],
  { onFile, endMs }: { onFile?: (file: string, events: number) => void; endMs?: number } = {},
): Promise<Replay> {
  const result: Replay = { agents: new Map(), recorded: new Map(), events: 0, matches: new Map(), interrupted: 0 };
  for (const file of files) {
    const recorded = await readRecorded(file);
    const events = endMs === undefined ? recorded : endingAt(recorded, endMs);
    for (const [name, ofAgent] of groupByAgent(events)) {
      for (const batch of batches(ofAgent)) await sendBatch(client, result, name, batch);
    }
    onFile?.(path.basename(file), events.length);
  }
  return result;
}

function endingAt(events: readonly RecordedEvent[], endMs: number): RecordedEvent[] {
  const later = endMs - events.reduce((newest, { timestamp }) => Math.max(newest, Date.parse(timestamp)), 0);
  return events.map((event) => ({
    ...event,
    timestamp: new Date(Date.parse(event.timestamp) + later).toISOString(),
  }));
}

export function groupByAgent(events: RecordedEvent[]): Map<string, RecordedEvent[]> {
  const groups = new Map<string, RecordedEvent[]>();
  for (const event of events) {
    const group = groups.get(event.agent);
    if (group === undefined) groups.set(event.agent, [event]);
    else group.push(event);
  }
  return groups;
}

/** Cuts the events into batches of one agent each, as large as a request may be. */
export function* batches(events: RecordedEvent[]): Generator<RecordedEvent[]> {
  let [batch, bytes]: [RecordedEvent[], number] = [[], 0];
  for (const event of events) {
    if (batch.length === BATCH_EVENTS || (batch.length > 0 && bytes + event.payloadText.length > BATCH_BYTES_MAX)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(event);
    bytes += event.payloadText.length;
  }
  if (batch.length > 0) yield batch;
}

async function sendBatch(client: HttpClient, result: Replay, name: string, batch: RecordedEvent[]): Promise<void> {
  const agent = result.agents.get(name) ?? (await register(client, name, batch[0]!.framework));
  result.agents.set(name, agent);
  const texts = batch.map(
    ({ type, traceId, timestamp, payloadText }) =>
      `{"type":${JSON.stringify(type)},"trace_id":${JSON.stringify(traceId)},"timestamp":${JSON.stringify(timestamp)},"payload":${payloadText}}`,
  );
  const answer = await client.send('POST', `/v1/agents/${agent}/events/batch`, `{"events":[${texts.join(',')}]}`);
  if (answer.status !== 200) throw new Error(`batch of ${name}: ${answer.status} ${answer.body.slice(0, 300)}`);
  const { total, results } = JSON.parse(answer.body) as Answer;
  if (total !== batch.length) throw new Error(`batch of ${name}: ${total} of ${batch.length} recorded`);
  result.events += total;
  const recorded = result.recorded.get(name) ?? [];
  result.recorded.set(name, recorded);
  results.forEach((event, i) => {
    recorded.push({ id: event.id, payloadText: batch[i]!.payloadText });
    if (event.policy_result.outcome !== 'allowed') result.interrupted++;
    for (const match of event.policy_result.matches)
      result.matches.set(match.name, (result.matches.get(match.name) ?? 0) + 1);
  });
}

async function register(client: HttpClient, name: string, framework: string): Promise<string> {
  return (await client.json<{ id: string }>('POST', '/v1/agents', { name, framework })).id;
}
