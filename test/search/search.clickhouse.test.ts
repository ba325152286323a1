// What is found, against the real engine: the project's own pairs and those of users' reports where they are there;
// every word of a payload, alone and with its neighbour; random texts and questions against a second reading of the
// definition; which questions the index answers. Each time before a merge has built the index, and after.
import { existsSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { ClickHouse, QueryParams } from '../../clickhouse/client.ts';
import { migrate } from '../../clickhouse/migrate.ts';
import { listAuditLogs } from '../../clickhouse/queries/list-audit-logs.ts';
import { listEvents } from '../../clickhouse/queries/list-events.ts';
import { parseSearch, payloadCondition, textCondition } from '../../clickhouse/queries/search.ts';
import { mintId } from '../../src/common/ids.ts';
import { folded, wordsOf } from '../../src/common/search/words.ts';
import { encodeStored, plainEvent, startClickHouse } from '../support/clickhouse.ts';
import { runs, SEED } from '../support/seed.ts';
import { PAIRS } from './pairs.ts';
import { referenceFinds, referenceWords, textsOf } from './reference.ts';

const REPORTS = '../shared/reports/search.ndjson';
const NOW = Date.UTC(2026, 10, 27);
const account = mintId('account', NOW);
const agent = mintId('agent', NOW);

const { makeDatabase } = await startClickHouse(t);

async function makeTable(): Promise<ClickHouse> {
  const clickhouse = makeDatabase();
  await migrate(clickhouse, { retentionDays: 36_500 });
  return clickhouse;
}

let inserts = 0;
/** Ids in the order of the payloads. */
async function store(clickhouse: ClickHouse, payloads: readonly string[]): Promise<string[]> {
  const events = payloads.map((payload, i) =>
    plainEvent({ account_id: account, agent_id: agent, received_at: NOW + i, payload }),
  );
  await clickhouse.insertEvents(events.map(encodeStored), `insert-${++inserts}`);
  return events.map(({ id }) => id);
}

/** Numbers of questions that are asked as of parts without the index. */
const UNINDEXED = 1_000;

/**
 * Finds for each question the ids, by either of its conditions. Many in one statement: each by itself costs the engine
 * 20 ms.
 */
async function foundBy(clickhouse: ClickHouse, questions: readonly string[]): Promise<Map<string, Set<string>>> {
  const found = new Map(questions.map((q) => [q, new Set<string>()]));
  for (let i = 0; i < questions.length; i += 25) {
    const some = questions.slice(i, i + 25);
    const all: QueryParams = { account };
    const asked = some.flatMap((q, k) => {
      const { sql, params, unindexed } = payloadCondition(parseSearch(q));
      for (const [name, value] of Object.entries(params)) all[`q${k}_${name}`] = value;
      const named = (text: string) => text.replace(/\{(\w+):/g, `{q${k}_$1:`);
      const ours = 'account_id = {account:String}';
      const asked = [`SELECT ${k} AS k, id FROM events WHERE ${ours} AND ${named(sql)}`];
      if (unindexed !== undefined)
        asked.push(
          `SELECT ${k + UNINDEXED} AS k, id FROM events PREWHERE ${ours} AND ${named(unindexed.first)} WHERE ${named(unindexed.exact)}`,
        );
      return asked;
    });
    const rows = await clickhouse.query<{ k: number; id: string }>(asked.join(' UNION ALL '), all, {
      settings: { optimize_use_projections: 0 },
    });
    const unindexed = new Map<number, Set<string>>();
    for (const { k, id } of rows)
      if (k < UNINDEXED) found.get(some[k]!)!.add(id);
      else unindexed.set(k - UNINDEXED, (unindexed.get(k - UNINDEXED) ?? new Set()).add(id));
    for (const [k, q] of some.entries()) {
      if (payloadCondition(parseSearch(q)).unindexed === undefined) continue;
      const [is, wanted] = [[...(unindexed.get(k) ?? [])], [...found.get(q)!]].map((ids) => ids.sort().join());
      if (is !== wanted) throw new Error(`${q}: without the index ${is} instead of ${wanted}`);
    }
  }
  return found;
}

/** As parts are after an insert, and as merges leave them. */
async function beforeAndAfterMerge(t: Test, clickhouse: ClickHouse, check: (t: Test) => Promise<void>): Promise<void> {
  await t.test('without the index', check);
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  await t.test('with the index', check);
  // Other rows, so that some parts have the index and some have none.
  await clickhouse.insertEvents(
    [plainEvent({ account_id: mintId('account', NOW), agent_id: agent, received_at: NOW })].map(encodeStored),
    `more-${++inserts}`,
  );
  await t.test('with the index in one part of two', check);
}

type SearchCase = { payload: string; q: string; found: boolean };

async function checkPairs(t: Test, asked: readonly SearchCase[]): Promise<void> {
  const clickhouse = await makeTable();
  const payloads = [...new Set(asked.map(({ payload }) => payload))];
  const ids = await store(clickhouse, payloads);
  await beforeAndAfterMerge(t, clickhouse, async (t) => {
    const wrong: SearchCase[] = [];
    const hits = await foundBy(clickhouse, [...new Set(asked.map(({ q }) => q))]);
    for (const one of asked)
      if (hits.get(one.q)!.has(ids[payloads.indexOf(one.payload)]!) !== one.found) wrong.push(one);
    t.same(wrong, [], `${asked.length} questions`);
  });
}

t.test('pairs of text and question in 20 scripts and more', async (t) => {
  const asked = PAIRS.flatMap(([, text, finds, not]) => {
    // Written as it is and with escapes, as Python writes it by default.
    const plain = JSON.stringify({ text });
    const escaped = plain.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
    return [plain, escaped].flatMap((payload) => [
      ...finds.map((q) => ({ payload, q, found: true })),
      ...not.map((q) => ({ payload, q, found: false })),
    ]);
  });
  await checkPairs(t, asked);
});

const reports = existsSync(REPORTS) ? readFileSync(REPORTS, 'utf8').trim().split('\n') : [];
t.test('what users reported', { skip: reports.length === 0 && 'the reports are not there' }, async (t) => {
  await checkPairs(
    t,
    reports.map((line) => JSON.parse(line) as SearchCase),
  );
});

/** Payloads of texts that meet at every border there is; some written with escapes, some as text inside text. */
const PAYLOAD = fc
  .tuple(
    fc.array(
      fc.array(
        fc.oneof(
          fc.constantFrom(...PAIRS.map(([, text]) => text)),
          fc.constantFrom(' ', '-', '+', '\n', '"', '\\', '{', '\u200b', '\u001b[31m', 'ß'),
          fc.string({ unit: 'grapheme', maxLength: 3 }),
          fc.string({ maxLength: 8 }),
        ),
        { maxLength: 4 },
      ),
      { minLength: 1, maxLength: 3 },
    ),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom('plain', 'escaped', 'inner'),
  )
  .map(([texts, n, how]) => {
    const value = { texts: texts.map((pieces) => pieces.join('').toWellFormed()), n };
    const text = JSON.stringify(value);
    if (how === 'inner') return JSON.stringify({ arguments: text });
    if (how === 'plain') return text;
    return text.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
  });

t.test('every word of a payload is found by asking for it, alone and with its neighbour', async (t) => {
  const clickhouse = await makeTable();
  const payloads = [...new Set(fc.sample(PAYLOAD, { seed: SEED, numRuns: runs(13) }))];
  const ids = await store(clickhouse, payloads);
  const questions = new Map<string, Set<string>>();
  for (const [i, payload] of payloads.entries()) {
    const words = textsOf(payload).flatMap(referenceWords);
    for (const [k, { text }] of words.entries()) {
      const next = words[k + 1]?.text;
      for (const q of next === undefined ? [text] : [text, `"${text} ${next}"`])
        questions.set(q, (questions.get(q) ?? new Set()).add(ids[i]!));
    }
  }
  await beforeAndAfterMerge(t, clickhouse, async (t) => {
    const wrong: string[] = [];
    const hits = await foundBy(clickhouse, [...questions.keys()]);
    for (const [q, wanted] of questions) if ([...wanted].some((id) => !hits.get(q)!.has(id))) wrong.push(q);
    t.same(wrong, [], `${questions.size} questions`);
  });
});

t.test('a question finds what a second reading of the definition finds, and nothing else', async (t) => {
  const clickhouse = await makeTable();
  const payloads = [...new Set(fc.sample(PAYLOAD, { seed: SEED + 1, numRuns: runs(15) }))];
  const ids = await store(clickhouse, payloads);
  // Parts of the texts, cut anywhere: words, beginnings, ends, and what goes across borders.
  const cuts = fc
    .tuple(fc.constantFrom(...payloads), fc.nat(), fc.integer({ min: 1, max: 12 }), fc.boolean())
    .map(([payload, at, length, isPhrase]) => {
      const text = textsOf(payload).join(' ');
      const cut = [...text].slice(at % text.length, (at % text.length) + length).join('');
      return isPhrase ? `"${cut.replaceAll('"', '')}"` : cut;
    })
    .filter((q) => q !== '');
  const questions = [...new Set(fc.sample(cuts, { seed: SEED, numRuns: runs(60) }))];
  await beforeAndAfterMerge(t, clickhouse, async (t) => {
    const wrong: unknown[] = [];
    for (const [q, hits] of await foundBy(clickhouse, questions)) {
      const wanted = ids.filter((_, i) => referenceFinds(payloads[i]!, q) === true);
      if (hits.size !== wanted.length || wanted.some((id) => !hits.has(id)))
        wrong.push({ q, found: hits.size, wanted: wanted.length });
    }
    t.same(wrong, [], `${questions.length} questions`);
  });
});

t.test('other texts are searched by the same words, folded by ClickHouse', async (t) => {
  const clickhouse = await makeTable();
  const wrong: unknown[] = [];
  for (const [script, text, finds, not] of PAIRS) {
    // Colours, text inside text and what is there for itself are a payload's.
    if (/Terminal|Text inside|dressed/.test(script)) continue;
    const all: QueryParams = { text };
    const asked = [...finds, ...not].map((q, k) => {
      const { sql, params } = textCondition(parseSearch(q), '{text:String}');
      for (const [name, value] of Object.entries(params)) all[`q${k}_${name}`] = value;
      return sql.replace(/\{(text\d+):/g, `{q${k}_$1:`);
    });
    const [row] = await clickhouse.query<{ hits: number[] }>(`SELECT [${asked.join(', ')}] AS hits`, all);
    for (const [k, q] of [...finds, ...not].entries())
      if (Number(row!.hits[k]) !== (k < finds.length ? 1 : 0)) wrong.push({ text, q });
  }
  t.same(wrong, []);
});

t.test('a question of as many words as there may be is asked', async (t) => {
  const clickhouse = await makeTable();
  const words = Array.from({ length: 125 }, (_, i) => String.fromCodePoint(0x3b1 + (i % 25), 0x430 + (i % 32)));
  const [id] = await store(clickhouse, [JSON.stringify({ text: words.join(' ') })]);
  for (const q of [words.join(' '), words.join('-'), words.map((word) => `${word[0]}-${word[1]}`).join(' ')]) {
    const { items } = await listEvents(clickhouse, account, { q, limit: 1, offset: 0 });
    t.equal(items[0]?.id, q.includes('-') && q.includes(' ') ? undefined : id);
    t.equal((await listAuditLogs(clickhouse, account, { q, limit: 1, offset: 0 })).total, 0);
  }
  const unfinished = makeDatabase();
  await migrate(unfinished, { retentionDays: 36_500 });
  t.equal((await listEvents(unfinished, account, { q: words.join(' '), limit: 1, offset: 0 })).total, 0);
});

t.test("ClickHouse's NFKC_Casefold is that of the tokenizer, for every character", async (t) => {
  const clickhouse = await makeTable();
  const points = Array.from({ length: 0x110000 }, (_, point) => point).filter(
    (p) => p > 0 && (p < 0xd800 || p > 0xdfff),
  );
  const wrong: string[] = [];
  for (let i = 0; i < points.length; i += 100_000) {
    const some = points.slice(i, i + 100_000);
    const bytes = some.map((point) => Buffer.from(String.fromCodePoint(point)).toString('hex')).join(' ');
    const [row] = await clickhouse.query<{ all: string }>(
      "SELECT arrayStringConcat(arrayMap(c -> hex(normalizeUTF8NFKCCasefold(unhex(c))), splitByChar(' ', {bytes:String})), ' ') AS all",
      { bytes },
    );
    for (const [k, hex] of row!.all.split(' ').entries()) {
      const character = String.fromCodePoint(some[k]!);
      const theirs = Buffer.from(hex, 'hex')
        .toString()
        .replace(/\p{Cf}/gu, '')
        .replace('i\u0307', 'i');
      if (folded(character) !== theirs) wrong.push(`${some[k]!.toString(16)}: ${theirs} ${folded(character)}`);
    }
  }
  t.same(wrong, []);
});

t.test('the index answers for words, parts of two characters and beginnings alone', async (t) => {
  const clickhouse = await makeTable();
  await store(clickhouse, ['{"a":"hello wörld 价格好 서울에서 ✅ x=y"}']);
  await clickhouse.command('OPTIMIZE TABLE events FINAL');
  const explained = async (q: string) => {
    const { sql, params } = payloadCondition(parseSearch(q));
    const rows = await clickhouse.query<{ explain: string }>(
      `EXPLAIN indexes = 1, actions = 1 SELECT id FROM events WHERE account_id = {account:String} AND ${sql}`,
      { account, ...params },
      { settings: { optimize_use_projections: 0 } },
    );
    return rows.map(({ explain }) => explain).join('\n');
  };
  for (const q of ['hello', 'WÖRLD', '价', '价格', '서울', '✅', 'hello 价格']) {
    const plan = await explained(q);
    t.match(plan, /Name: search_words/, `${q}: the index is used`);
    t.match(plan, /__text_index_search_words/, `${q}: and its answer read`);
    t.notMatch(plan, /match\(/, `${q}: nothing else is`);
  }
  for (const q of ['"hello wörld"', '价格好', 'x=y', '"서울 x"']) {
    const plan = await explained(q);
    t.match(plan, /Name: search_words/, `${q}: the index is used`);
    t.match(plan, /match\(/, `${q}: and the rows that it leaves are inspected`);
  }
});

t.test('a beginning longer than the index has is found, and a longer word is not', async (t) => {
  const clickhouse = await makeTable();
  const long = '가나다라마바사아자차'.repeat(5);
  const [id] = await store(clickhouse, [JSON.stringify({ text: `${long} 끝` })]);
  const finds = [long.slice(0, 8), long.slice(0, 9), long, `"${long.slice(0, 40)} 끝"`];
  const not = [`${long}가`, `${long.slice(0, 9)}하`, long.slice(1, 5)];
  const hits = await foundBy(clickhouse, [...finds, ...not]);
  for (const q of finds) t.ok(hits.get(q)!.has(id!), `${q.length}`);
  for (const q of not) t.notOk(hits.get(q)!.has(id!), `${q.length}`);
  t.equal(wordsOf(long).length, 1);
});
