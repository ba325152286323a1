// Makes a month of events for the line `query` inside ClickHouse, by INSERT … SELECT from numbers: a program beside it
// that made and sent ten million rows would take longer than all that is measured. The rows are such as the service
// writes (src/ingest/encode.ts). Most come in large inserts, as what merges have made of a month; the last ones in
// inserts of the store pipeline's size and with its settings, so that the newest parts are small, many, and without
// text indexes, as they are in use. Five hundred conversations are open at any time, each a trace of one agent with
// twenty events; one agent in a thousand has a twentieth of everything. Words are drawn so that few are common and most
// are rare; a tenth of the events is in Chinese and Japanese, with a Latin word inside, and their search texts are made
// here as the store pipeline would (checked on some). The same account and agents give the same month.
import { type ClickHouse, EVENT_INSERT_SETTINGS } from '../clickhouse/client.ts';
import { EVENT_ROW_COLUMNS } from '../schemas/event-row.ts';
import { INSERT_ROWS_MAX } from '../src/common/limits.ts';
import { searchTextOf } from '../src/common/search/payload-words.ts';
import { progress } from './report.ts';

const HISTORY_DAYS = 30;
const TRACE_EVENTS = 20;
const OPEN_TRACES = 500;
const VOCABULARY = 20_000;
const CHINESE_VOCABULARY = 8_000;
const CHINESE_WORDS = 24;
const CHECKED_ROWS = 200;
const WORDS_AN_EVENT = 40;
const TRACES_MAX = 10_000;
/** As many as are sorted and indexed within the time of an insert (120 s) on a machine that does other things, too. */
const BULK_ROWS = 250_000;
/** Inserts of the pipeline that no merge has taken in yet. */
const RECENT_INSERTS = 10;
const DAY_MS = 86_400_000;
const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet', 'llama-3-70b'];
const TYPES = ['prompt', 'completion', 'tool_call', 'tool_call', 'completion', 'tool_call', 'custom'];

export type History = {
  events: number;
  fromMs: number;
  toMs: number;
  agents: string[];
  /** Some of those that are whole. */
  traces: string[];
  /** From common to rare. */
  words: string[];
  /** Chinese and Japanese ones, from common to rare; found as parts of a text. */
  chinese: string[];
};

/** Numbers of 0 up to 1, the same for the same seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `toMs`: the newest event's time, epoch ms. The first agent is the heavy one. */
export type HistoryPlan = { account: string; agents: string[]; events: number; toMs: number };

/**
 * The account and its agents must be there. Goes on behind the rows that a run before, which was ended, has written of
 * the same plan; how many that were is `found`.
 */
export async function writeHistory(
  clickhouse: ClickHouse,
  { account, agents, events, toMs }: HistoryPlan,
): Promise<History & { found: number }> {
  const words = vocabulary(random(20261121));
  const chinese = chineseVocabulary(random(20261127));
  const fromMs = toMs - HISTORY_DAYS * DAY_MS;
  const [there] = await clickhouse.query<{ rows: number; next: number }>(
    'SELECT count() AS rows, toInt64OrZero(substring(max((length(request_id), request_id)).2, 7)) + 1 AS next FROM events',
  );
  const found = there?.rows ?? 0;
  // An insert that is cut at the end of a month may have left its first part alone.
  if (found > 0 && there!.next !== found)
    throw new Error(`an insert was cut: ${found} rows, the next is ${there!.next}`);
  const rows = rowsOf(agents, words, chinese); // too long for parameters, and all of it letters and digits
  const params = { account, fromMs, everyMs: (toMs - fromMs) / events };
  const bulk = Math.max(0, events - RECENT_INSERTS * INSERT_ROWS_MAX);
  const started = performance.now();
  for (let first = found; first < events; ) {
    const count = first < bulk ? Math.min(BULK_ROWS, bulk - first) : Math.min(INSERT_ROWS_MAX, events - first);
    await clickhouse.command(
      `INSERT INTO events (${EVENT_ROW_COLUMNS.join(', ')}, words) ${rows}`,
      { ...params, first, count },
      { ...(first < bulk ? BULK_SETTINGS : EVENT_INSERT_SETTINGS), max_query_size: '1000000' },
    );
    first += count;
    const perSecond = ((first - found) / (performance.now() - started)) * 1000;
    if (count === BULK_ROWS && first % (4 * BULK_ROWS) === 0)
      progress(`${first} of ${events} events written, ${Math.round(perSecond)} a second`);
  }
  await checkWords(clickhouse);
  const whole = Math.min(TRACES_MAX, Math.floor(events / (OPEN_TRACES * TRACE_EVENTS)) * OPEN_TRACES);
  const traces = await clickhouse.query<{ id: string }>(
    `SELECT ${traceOf('number')} AS id FROM numbers({whole:UInt64})`,
    { whole },
  );
  return { events, fromMs, toMs, agents, found, traces: traces.map(({ id }) => id), words, chinese };
}

async function checkWords(clickhouse: ClickHouse): Promise<void> {
  const rows = await clickhouse.query<{ payload: string; words: string }>(
    `SELECT payload, words FROM events LIMIT ${CHECKED_ROWS}`,
  );
  for (const { payload, words } of rows)
    if (searchTextOf(Buffer.from(payload)) !== words) throw new Error(`${payload} has the search text ${words}`);
}

/** One part an insert, its indexes built at once. */
const BULK_SETTINGS = {
  max_threads: 2,
  max_insert_threads: '1',
  min_insert_block_size_rows: String(BULK_ROWS),
  min_insert_block_size_bytes: '0',
};

/** A number of 0 up to `below` that follows from the expression `of`; different for every `salt`. */
const drawn = (salt: number, of: string, below: number) => `cityHash64(${salt}, ${of}) % ${below}`;

function traceOf(conversation: string): string {
  return `toString(reinterpretAsUUID(sipHash128(${conversation})))`;
}

// The alphabet of an id (src/common/ids.ts) beside that of base32Encode.
const AS_ID = "'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', '0123456789abcdefghjkmnpqrstvwxyz'";
const TIME_CHARACTERS = 'substring(base32Encode(reverse(reinterpretAsFixedString(bitShiftLeft(ms, 14)))), 1, 10)';
const RANDOM_CHARACTERS = "base32Encode(substring(sipHash128('event', i), 1, 10))";
const TEXT = `arrayStringConcat(arrayMap(k -> words[1 + toUInt32(${VOCABULARY} * pow(cityHash64(i, k) / 18446744073709551616., 3))], range(${WORDS_AN_EVENT})), ' ')`;
const chineseText = (salt: number) =>
  `arrayStringConcat(arrayMap(k -> chinese[1 + toUInt32(${CHINESE_VOCABULARY} * pow(cityHash64(${salt}, i, k) / 18446744073709551616., 3))], range(${CHINESE_WORDS})))`;
const POLICY = 'pol_01jd5x0f6w3q8z5n7r2k9v4t1m';
const BLOCKED = `{"outcome":"blocked","reason":"policy","policy_id":"${POLICY}","matches":[{"policy_id":"${POLICY}","name":"tools","type":"block_action","actions":["block"],"severity":null,"detail":{}}]}`;

/** In the order of EVENT_ROW_COLUMNS, and the search text of those that are not ASCII. */
const rowsOf = (agents: readonly string[], words: readonly string[], chinese: readonly string[]) => `
WITH splitByChar(' ', '${agents.join(' ')}') AS agents, splitByChar(' ', '${words.join(' ')}') AS words,
  splitByChar(' ', '${chinese.join(' ')}') AS chinese
SELECT {account:String}, agents[if(${drawn(1, 'conversation', 20)} = 0, 1, 1 + ${drawn(2, 'conversation', 1_000_000)} % length(agents))],
  concat('evt_', translate(concat(${TIME_CHARACTERS}, ${RANDOM_CHARACTERS}), ${AS_ID})),
  type, ${traceOf('conversation')}, at, at,
  multiIf(type = 'prompt', concat('{"model":"', model, '","prompt":"', text, '"}'),
    type = 'completion', concat('{"model":"', model, '","response":"', text, '","tokens_used":', toString(tokens), '}'),
    concat('{"tool":"tool_', toString(tokens % 40), '","arguments":{"reference":', toString(tokens * 7), '},"result":"', text, '","status":"ok"}')),
  if(blocked, 'blocked', 'allowed'), if(blocked, 'policy', ''), if(blocked, '${POLICY}', ''), '', if(blocked, '${BLOCKED}', ''),
  if(type IN ('prompt', 'completion'), model, ''), NULL, if(type = 'completion', tokens, NULL), concat('bench-', toString(i)), 0,
  if(isChinese, concat(multiIf(type = 'prompt', concat(' model ', spaced, ' prompt ', said),
    type = 'completion', concat(' model ', spaced, ' response ', said, ' tokens used ', toString(tokens)),
    concat(' tool tool ', toString(tokens % 40), ' arguments reference ', toString(tokens * 7), ' result ', said, ' status ok')), ' '), '')
FROM (
  SELECT number AS i, intDiv(i, ${OPEN_TRACES * TRACE_EVENTS}) * ${OPEN_TRACES} + i % ${OPEN_TRACES} AS conversation,
    toUInt64({fromMs:Float64} + i * {everyMs:Float64}) AS ms, fromUnixTimestamp64Milli(toInt64(ms), 'UTC') AS at,
    if(intDiv(i, ${OPEN_TRACES}) % ${TRACE_EVENTS} = 0, 'prompt', ['${TYPES.join("', '")}'][1 + ${drawn(3, 'i', TYPES.length)}]) AS type,
    ['${MODELS.join("', '")}'][1 + ${drawn(4, 'i', MODELS.length)}] AS model,
    toInt64(100 + ${drawn(5, 'i', 4_000)}) AS tokens, ${drawn(6, 'i', 100)} = 0 AS blocked,
    ${drawn(8, 'i', 10)} = 0 AS isChinese, ${chineseText(1)} AS left, ${chineseText(2)} AS right, replaceAll(model, '-', ' ') AS spaced,
    concat('\\x01', left, ' iphone \\x01', right) AS said, if(isChinese, concat(left, 'iPhone', right), ${TEXT}) AS text
  FROM numbers({first:UInt64}, {count:UInt64})
)`;

function vocabulary(next: () => number): string[] {
  const consonants = 'bcdfghjklmnprstvz';
  const vowels = 'aeiou';
  const syllable = () =>
    consonants[Math.floor(next() * consonants.length)]! + vowels[Math.floor(next() * vowels.length)]!;
  const words = new Set<string>();
  while (words.size < VOCABULARY) words.add(Array.from({ length: 2 + Math.floor(next() * 4) }, syllable).join(''));
  return [...words];
}

/** Makes words of two or three common characters, a third of them in Hiragana. */
function chineseVocabulary(next: () => number): string[] {
  const han = () => String.fromCodePoint(0x4e00 + Math.floor(3_000 * next() ** 2));
  const kana = () => String.fromCodePoint(0x3042 + Math.floor(80 * next()));
  const words = new Set<string>();
  while (words.size < CHINESE_VOCABULARY)
    words.add(Array.from({ length: 2 + Math.floor(next() * 2) }, next() < 1 / 3 ? kana : han).join(''));
  return [...words];
}
