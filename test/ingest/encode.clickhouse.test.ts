// The row encoder against the engine itself: what is encoded is what ClickHouse reads back, for any text and any
// number.
import fc from 'fast-check';
import t from 'tap';
import { migrate } from '../../clickhouse/migrate.ts';
import { storedRows } from '../../pipelines/store/stored-rows.ts';
import type { EventSummary } from '../../schemas/entry.ts';
import { mintId } from '../../src/common/ids.ts';
import { type AcceptedEvent, encodeEvents } from '../../src/ingest/encode.ts';
import { ALLOWED } from '../../src/policy/judgement.ts';
import { startClickHouse } from '../support/clickhouse.ts';

const NOW = Date.now();
const wellFormed = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed());

const accepted = fc
  .record({
    payload: fc.dictionary(wellFormed, fc.jsonValue({ maxDepth: 3 })),
    escaped: fc.boolean(),
    model: fc.option(wellFormed, { nil: undefined }),
    tokens: fc.option(fc.oneof(fc.nat(), fc.constantFrom(0, -1, 1.5, 2 ** 53, 2 ** 40)), { nil: undefined }),
    traceId: fc.option(
      wellFormed.filter((text) => text !== ''),
      { nil: undefined },
    ),
    occurredAt: fc.integer({ min: Date.UTC(2000, 0, 1), max: NOW }),
    type: fc.constantFrom(
      'prompt' as const,
      'completion' as const,
      'tool_call' as const,
      'error' as const,
      'custom' as const,
    ),
  })
  .map(({ payload, escaped, model, tokens, traceId, occurredAt, type }): AcceptedEvent => {
    const full = {
      ...payload,
      ...(model === undefined ? {} : { model }),
      ...(tokens === undefined ? {} : { tokens_used: tokens }),
    };
    const plain = JSON.stringify(full);
    const payloadText = escaped
      ? plain.replace(/[\u0080-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : plain;
    return {
      account: 'acc_1',
      agent: { id: 'agt_1', name: 'a', metadata: {}, status: 'active', created_at: '', updated_at: '' },
      id: mintId('event', NOW),
      submission: { type, payload: JSON.parse(payloadText), payloadText, traceId, occurredAt },
      receivedAt: NOW,
      decision: ALLOWED,
      requestId: 'req-1',
    };
  });

t.test('any event reads back as it was encoded', async (t) => {
  const clickhouse = (await startClickHouse(t)).makeDatabase();
  await migrate(clickhouse, { retentionDays: 365 });
  const events = fc.sample(accepted, { numRuns: 400, seed: 7 });
  const { rows, summaries } = encodeEvents(events);
  const sizes = summaries.map((text) => (JSON.parse(text) as EventSummary).rowBytes);
  t.equal(
    sizes.reduce((sum, bytes) => sum + bytes, 0),
    rows.length,
    'the summaries say where each row ends',
  );
  const each: Buffer[] = [];
  for (let [i, at] = [0, 0]; i < sizes.length; at += sizes[i++]!) each.push(rows.subarray(at, at + sizes[i]!));
  await clickhouse.insertEvents(await storedRows(each), 'once');

  const stored = await clickhouse.query<{
    id: string;
    trace: string;
    payload: string;
    model: string;
    at: string;
    tokens: string | null;
  }>(
    `SELECT id, base64Encode(trace_id) AS trace, base64Encode(payload) AS payload, base64Encode(model) AS model,
       toString(toUnixTimestamp64Milli(timestamp)) AS at, toString(tokens_used) AS tokens FROM events`,
  );
  const byId = new Map(stored.map((row) => [row.id, row]));
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  for (const { id, submission } of events) {
    const { model, tokens_used: tokens } = submission.payload as { model?: string; tokens_used?: number };
    const isCount = typeof tokens === 'number' && tokens >= 0 && Math.round(tokens) <= Number.MAX_SAFE_INTEGER;
    const row = byId.get(id);
    t.match(
      row,
      {
        trace: base64(submission.traceId ?? ''),
        payload: base64(submission.payloadText),
        model: base64(model !== undefined && model.length <= 200 ? model : ''),
        at: String(submission.occurredAt),
      },
      id,
    );
    t.equal(row?.tokens, isCount ? String(Math.round(tokens)) : null, `${id}: tokens`);
  }
});
