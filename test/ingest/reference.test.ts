// Ingestion against a plain, slow reference (test/reference), which shares no code with it: both codecs must answer,
// store, and pass to the pipelines, what the reference says, for generated bodies and policies.
// GATEHOUSE_TEST_EVENTS=100000 sets how many events are compared (default 800), GATEHOUSE_TEST_SEED repeats a run.
import fc from 'fast-check';
import t from 'tap';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import { body, MEANINGS, orders, TIMES } from '../reference/generate.ts';
import { readText } from '../reference/json.ts';
import { decoded, type Taken, takePlainly, Unknown, type World } from '../reference/take.ts';
import { areAllRun, runs, SEED } from '../support/seed.ts';
import {
  account,
  agentId,
  blotted,
  CODECS,
  COUNTED_AT,
  JSON_CODEC,
  NOW,
  policiesOf,
  requestId,
  ruleSet,
  type Seen,
  take,
} from './support.ts';

const EVENTS = Number(process.env['GATEHOUSE_TEST_EVENTS'] ?? 800);
/** With fewer bodies it is chance whether every outcome occurs among them. */
const BODIES_MIN = 60;
const EVENTS_PER_BODY = 6.5;
const world = { account, agentId, requestId, now: NOW, countedAt: COUNTED_AT, meanings: MEANINGS, times: TIMES };

const clock = Date.now;
t.before(() => {
  Date.now = () => NOW;
});
t.after(() => {
  Date.now = clock;
});

t.test('both codecs and the reference agree', async (t) => {
  const wasm = new WasmCodec();
  const counts = {
    bodies: 0,
    unknown: 0,
    events: 0,
    refused: 0,
    wasm: 0,
    blocked: 0,
    pending: 0,
    allowed: 0,
    matches: 0,
    redacted: 0,
  };
  await fc.assert(
    fc.asyncProperty(orders(agentId), body, async (given, { bytes, shape, events, isDamaged }) => {
      const policies = policiesOf(given);
      const rules = ruleSet(policies);
      if (rules === null) return;
      const expected = reference(bytes, shape, { ...world, policies, isDamaged });
      if (expected === null) {
        counts.unknown++;
        return;
      }
      const [general, fast] = [await take(rules, bytes, shape, JSON_CODEC), await take(rules, bytes, shape, CODECS)];
      compare('json', taken(general, shape), expected, bytes);
      compare('wasm', taken(fast, shape), expected, bytes);
      counts.bodies++;
      counts.events += events;
      const request = { account, agentId, shape, body: bytes, requestId, idempotencyKey: undefined };
      const decoded = wasm.decode(request, { rules, nowMs: NOW, eventBytesMax: bytes.length });
      if (decoded !== undefined) counts.wasm += events;
      decoded?.release();
      counts.refused += events - expected.stored.length;
      for (const { row } of expected.stored) {
        counts[(['allowed', 'blocked', 'pending'] as const)[(row['outcome'] as number) - 1]!]++;
        if (row['policy_result'] !== '') counts.matches++;
        if ((row['payload'] as string).includes('[redacted:')) counts.redacted++;
      }
    }),
    { numRuns: Math.max(BODIES_MIN, runs(Math.ceil(EVENTS / EVENTS_PER_BODY))), seed: SEED },
  );
  t.comment(JSON.stringify(counts));
  t.ok(counts.wasm > counts.events / 10, `${counts.wasm} of ${counts.events} events were read on their bytes`);
  t.ok(counts.blocked > counts.events / 100 && counts.allowed > counts.events / 20, 'every outcome occurs');
  t.ok(counts.redacted > 0 || !areAllRun, 'and texts are redacted');
});

/** null: a flaw made what the reference does not know. */
function reference(bytes: Buffer, shape: 'one' | 'many', world: World): Taken | null {
  try {
    return takePlainly(bytes, shape, world);
  } catch (error) {
    if (error instanceof Unknown) return null;
    throw error;
  }
}

function compare(who: string, seen: Taken, expected: Taken, bytes: Buffer): void {
  const [is, wanted] = [seen, expected].map((taken) => JSON.stringify(taken, null, 1)) as [string, string];
  if (is === wanted) return;
  const [a, b] = [is.split('\n'), wanted.split('\n')];
  const line = a.findIndex((text, i) => text !== b[i]);
  throw new Error(`${who}, line ${line}\nis     ${a[line]}\nwanted ${b[line]}\nbody ${bytes.toString()}`);
}

/** The answers and the stored rows of ingestion, in the reference's form. */
function taken({ answer, summaries, rows }: Seen, shape: 'one' | 'many'): Taken {
  const stored = JSON.parse(blotted(JSON.stringify(decoded(rows, summaries, EVENT_ROW_COLUMNS)))) as Taken['stored'];
  const ordered = stored.map(({ row, summary }) => ({ row, summary: inOrder(summary) }));
  if (answer instanceof ServiceError) return { answers: answer.code, stored: ordered };
  const text = blotted(answer);
  const root = readText(text, 100);
  if (shape === 'one') return { answers: [text], stored: ordered };
  const results = root.kind === 'object' ? root.members[0]!.value : root;
  const items = results.kind === 'array' ? results.items : [];
  const answers = items.map(({ start, end }) => {
    const item = text.slice(start, end);
    return item.startsWith('{"error":{"code":"validation_failed"') ? null : item;
  });
  if (text.slice(results.end) !== `,"total":${answers.filter((item) => item !== null).length}}`)
    throw new Error(`the total is wrong: ${text.slice(results.end)}`);
  return { answers, stored: ordered };
}

const SUMMARY = [
  'account',
  'agent',
  'id',
  'type',
  'occurredAt',
  'receivedAt',
  'outcome',
  'reason',
  'policyId',
  'approvalId',
].concat(['approval', 'traceId', 'tokensUsed', 'matches']);

/**
 * The order of a summary's fields says nothing; a field that the reference does not know would be lost, so it throws.
 */
function inOrder(summary: Record<string, unknown>): Record<string, unknown> {
  for (const key of Object.keys(summary)) if (!SUMMARY.includes(key)) throw new Error(`summary has ${key}`);
  return Object.fromEntries(SUMMARY.filter((key) => key in summary).map((key) => [key, summary[key]]));
}
