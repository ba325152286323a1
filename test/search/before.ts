// A database of before migration 013 with rows in it, brought up to date and not rebuilt yet; and what must be found of
// these rows, before and after.
import { randomUUID } from 'node:crypto';
import type { ClickHouse } from '../../clickhouse/client.ts';
import { migrate, readMigrations } from '../../clickhouse/migrate.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { mintId } from '../../src/common/ids.ts';
import { encodeRow, plainEvent, type TestEvent } from '../support/clickhouse.ts';
import { referenceFinds } from './reference.ts';

const BASE = Date.UTC(2026, 9, 30);
const DAY = 86_400_000;
export const account = mintId('account', BASE);
export const agents = [0, 1, 2].map((i) => mintId('agent', BASE + i));

/** What the front of before wrote into search_text. */
const TEXTS = [
  'plain words alpha',
  'Straße München gamma',
  '请查询iPhone的价格',
  '서울에서 만나요',
  'نص عربي، مرحبا',
  'well done 🙂',
  'C:\\new "alpha" beta',
];
const QUESTIONS = [
  'alpha',
  'gamma',
  'münchen',
  'straße',
  'STRASSE',
  '价格',
  'iPhone',
  '서울',
  'مرحبا',
  'عربي',
  '🙂',
  'beta',
  'new',
];
/** By the rule of before; what else is found meanwhile is welcome. */
const FOUND_BEFORE: Record<string, number[]> = {
  ...{ alpha: [0, 6], gamma: [1], münchen: [1], straße: [1], 价格: [2], عربي: [4], beta: [6], new: [6] },
};

export function makeEvents(count: number): TestEvent[] {
  return Array.from({ length: count }, (_, i) => {
    const text = TEXTS[i % TEXTS.length]!;
    const plain = JSON.stringify({ n: i, text });
    const isEscaped = i % 3 === 0 && /[\u007f-\uffff]/.test(text);
    return plainEvent({
      ...{ account_id: account, agent_id: agents[i % 3]!, received_at: BASE + (i % 4) * DAY + i },
      payload: isEscaped
        ? plain.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
        : plain,
      search_text: isEscaped ? `n\n${i}\ntext\n${text}` : '',
    });
  });
}

/** With tables of before, and rows in them, in two months and some parts. */
export async function bringUpToDate(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<void> {
  const old = readMigrations().filter(({ version }) => version < 13);
  await migrate(clickhouse, { retentionDays: 36_500, migrations: old });
  await storeAsBefore(clickhouse, events);
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  await migrate(clickhouse, { retentionDays: 36_500 });
}

async function storeAsBefore(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<void> {
  for (const month of [9, 10]) {
    const some = events.filter(({ received_at: at }) => new Date(at).getUTCMonth() === month);
    if (some.length > 0)
      await clickhouse.insertBinary('events', EVENT_ROW_COLUMNS.join(', '), some.map(encodeRow), randomUUID());
  }
}

async function found(clickhouse: ClickHouse, q: string): Promise<Set<string>> {
  const { items, total } = await listEvents(clickhouse, account, { q, limit: 10_000, offset: 0, payload: 'none' });
  const ids = new Set(items.map(({ id }) => id));
  if (ids.size !== items.length || total !== items.length)
    throw new Error(`${q}: ${items.length} events, ${ids.size} of them different, a total of ${total}`);
  return ids;
}

export async function foundAsBefore(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<string[]> {
  const missing: string[] = [];
  for (const [q, texts] of Object.entries(FOUND_BEFORE)) {
    const hits = await found(clickhouse, q);
    const lacks = events.filter(({ id }, i) => texts.includes(i % TEXTS.length) && !hits.has(id));
    if (lacks.length > 0) missing.push(`${q}: ${lacks.length}`);
  }
  return missing;
}

/** Found and not, as the definition says. */
export async function wrong(clickhouse: ClickHouse, events: readonly TestEvent[]): Promise<string[]> {
  const faults: string[] = [];
  for (const q of QUESTIONS) {
    const hits = await found(clickhouse, q);
    const wanted = events.filter(({ payload }) => referenceFinds(payload, q) === true);
    if (hits.size !== wanted.length || wanted.some(({ id }) => !hits.has(id)))
      faults.push(`${q}: ${hits.size} instead of ${wanted.length}`);
  }
  return faults;
}

export const rowsOf = async (clickhouse: ClickHouse) =>
  (await clickhouse.queryBinary(`SELECT ${EVENT_ROW_COLUMNS.join(', ')} FROM events ORDER BY id`)).toString('base64');
