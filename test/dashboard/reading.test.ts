// How the dashboard reads texts of callers, without a browser: characters that cannot be seen, strings decoded for
// reading, words looked for, numbers of any length, bars and labels of charts, commands for a shell.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { dashboardModule } from '../support/dashboard-module.ts';

type Layout = { count: number };
type Told = { values: string[]; has_other?: boolean; buckets: { counts: Record<string, number>; total: number }[] };
const { visible } = await dashboardModule<{ visible(text: string): string }>('visible');
const tokens = await dashboardModule<{
  layOut(text: string): Layout;
  readable(value: string): string;
  readablePreview(text: string): string;
  searchedOf(layout: Layout): string[];
  linesWith(searched: readonly string[], words: string): number[];
}>('tokens');
const json = await dashboardModule<{ parseKeeping(text: string, names: readonly string[]): unknown }>('json');
const differences = await dashboardModule<{ differencesOf(before: string, after: string): unknown[] }>('differences');
const chart = await dashboardModule<{
  COLOURS: string[];
  OTHERS: string;
  OTHERS_COLOUR: string;
  drawnSeries(data: Told): Told;
  axisLabel(time: string, stepSeconds: number): string;
  stackedHeights(
    data: { buckets: { counts: Record<string, number>; total: number }[] },
    names: readonly string[],
  ): number[][];
}>('chart');
const amounts = await dashboardModule<{ changeText(now: number, before: number, few?: number): string }>('amounts');
const { curlOf } = await dashboardModule<{ curlOf(event: object, url: string): string }>('curl');

t.test('what draws nothing, or turns the order of others, is named', async (t) => {
  for (const code of [
    ...[0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069, 0x200e, 0x200f, 0x061c],
    ...[0x200b, 0x2060, 0xfeff, 0x00ad, 0x034f, 0x180e, 0x115f, 0x1160, 0x3164, 0xffa0, 0x17b4, 0x2800],
    ...[0x2061, 0x2064, 0x206a, 0x206f, 0xfff9, 0xfffb, 0xe0041, 0xe0001, 0xe007f, 0xe0100, 0xfe00, 0xfe0f],
    ...[0x200c, 0x200d, 0x2028, 0x2029, 0x0085, 0x0000, 0x0007, 0x0008, 0x000a, 0x000d, 0x001b, 0x007f, 0x009b],
    ...[0xfffe, 0xfdd0, 0xe000, 0xd800, 0xdc00, 0x1d173, 0x1bca0],
  ]) {
    const name = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
    t.equal(visible(`a${String.fromCodePoint(code)}b`), `a[${name}]b`, name);
  }
  t.equal(visible('\u202etset-yrd--\u202c'), '[U+202E]tset-yrd--[U+202C]');
  t.equal(visible('a\u200b\u200b\u200b\u202eb'), 'a[U+200B×3 U+202E]b', 'many in short');
  t.equal(visible('\u{1f3f4}\u{e0061}\u{e007f}'), '\u{1f3f4}[U+E0061 U+E007F]', 'a flag that there is none of');
  t.equal(visible('\u200d'.repeat(2)), '[U+200D×2]');
  t.equal(visible('e\ufe0f'), 'e[U+FE0F]');
  t.equal(visible('1\ufe0f'), '1[U+FE0F]');
  t.equal(visible('می\u200c\u200cخواهم'), 'می[U+200C×2]خواهم', 'one is needed, two are not');
  t.equal(visible('😀\ufe0f\ufe0f'), '😀\ufe0f[U+FE0F]');
});

t.test('what a script needs stays as it is', async (t) => {
  for (const text of [
    ...['plain', 'Grüße, façade', 'e\u0301', '日本語', '안녕하세요', 'שלום עולם', 'مرحبا بالعالم', 'هذه ٣ كتب'],
    ...['می\u200cخواهم', 'کار\u200cها', 'हिन्दी', 'क्\u200dष', 'क्\u200c', 'ක්\u200dෂ', 'র\u200d্য', 'ᠮᠣᠩᠭᠣᠯ', 'ᠨ\u180b'],
    ...[
      '👨\u200d👩\u200d👧\u200d👦',
      '🏳\ufe0f\u200d🌈',
      '👩🏽\u200d💻',
      '❤\ufe0f\u200d🔥',
      '1\ufe0f\u20e3',
      '✔\ufe0f',
      '☎\ufe0e',
      '🇩🇪',
    ],
    ...[
      '\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}',
      '葛\u{e0100}城',
      '\u0600١',
      'a\u00a0b',
      '　',
    ],
  ])
    t.equal(visible(text), text);
});

t.test('a value for reading', async (t) => {
  t.equal(tokens.readable('"\\u8bf7\\u67e5 M\\u00fcller"'), '请查 Müller');
  t.equal(tokens.readable('"line one\\nline \\"two\\""'), 'line one\nline "two"');
  t.equal(tokens.readable('"\\ud83d\\ude00"'), '😀');
  t.equal(tokens.readable('12345678901234567890.10'), '12345678901234567890.10');
  t.equal(
    tokens.readable(JSON.stringify('{"amount":5000.10,"to":"M\\u00fcller","inner":"{\\"n\\":1e400}"}')),
    '{\n  "amount": 5000.10,\n  "to": "Müller",\n  "inner": "{\n      "n": 1e400\n    }"\n}',
    'JSON inside of a string, number by number',
  );
  t.equal(tokens.readable('"{not json"'), '{not json');
  t.equal(tokens.readable(JSON.stringify('['.repeat(50_000))), '['.repeat(50_000));
  t.ok(
    tokens.readable(JSON.stringify('['.repeat(5_000) + ']'.repeat(5_000))).length < 2_000_000,
    'nested deep: bounded',
  );
  t.equal(
    tokens.readablePreview('{"q":"\\u8bf7\\u67e5","say":"\\"hi\\"\\nyou","path":"C:\\\\new"'),
    '{"q":"请查","say":""hi" you","path":"C:\\new"',
  );
  t.equal(
    tokens.readablePreview('{"arguments":"{\\"q\\": \\"\\\\u8bf7\\"}","cut":"\\u8b'),
    '{"arguments":"{"q": "请"}","cut":"\\u8b',
  );
});

t.test('words are found as they are read and as they were sent', async (t) => {
  const found = (payload: string, words: string) => tokens.linesWith(tokens.searchedOf(tokens.layOut(payload)), words);
  const sent = '{"prompt":"\\u8bf7\\u67e5\\u8be2","name":"M\\u00fcller","note":"line one\\nsay \\"hi\\"","n":1.50}';
  for (const [words, line] of [
    ...[
      ['请查询', 1],
      ['\\u8bf7', 1],
      ['müller', 2],
      ['MÜLLER', 2],
      ['M\\u00FCller', 2],
      ['say "hi"', 3],
    ],
    ...[
      ['\\"hi\\"', 3],
      ['"n": 1.50', 4],
      ['"n":1.50', 4],
      ['line one\\n', 3],
    ],
  ] as [string, number][])
    t.same(found(sent, words), [line], words);
  const city =
    '{"city":"İstanbul","tool":"send_money","street":"Straße","find":"ﬁle","cafe":"cafe\u0301","who":"ΟΔΟΣ"}';
  for (const [words, line] of [
    ...[
      ['send_money', 2],
      ['istanbul', 1],
      ['İSTANBUL', 1],
      ['strasse', 3],
      ['STRASSE', 3],
      ['straße', 3],
      ['file', 4],
    ],
    ...[
      ['café', 5],
      ['οδος', 6],
      ['οδοσ', 6],
    ],
  ] as [string, number][])
    t.same(found(city, words), [line], words);
  t.same(found('{"user":"ad\u200bmin"}', 'admin'), [1], 'through what cannot be seen');
  t.same(found('{"a":"{\\"tool\\":\\"p\\\\u0061y\\"}"}', '"tool": "pay"'), [1], 'JSON inside of a string');
  t.same(found(city, ''), []);
  t.same(found(city, 'nothing of it'), []);
});

t.test('numbers of any length stay what they are', async (t) => {
  const [old, now] = ['9'.repeat(70), '8'.repeat(71)];
  const kept = json.parseKeeping(`{"details":{"n":${old},"r":1.50},"other":[{"details":${now}}]}`, ['details']);
  t.same(kept, { details: { text: `{"n":${old},"r":1.50}` }, other: [{ details: { text: now } }] });
  t.same(differences.differencesOf(`{"a":{"n":${old}}}`, `{"a":{"n":${now}}}`), [
    { path: '/a/n', before: { text: old }, after: { text: now } },
  ]);
  t.throws(() => json.parseKeeping('{"details":}', ['details']), SyntaxError);
  t.throws(() => json.parseKeeping('{"details":', ['details']), SyntaxError);
});

t.test('every bar can be seen beside a tall one', async (t) => {
  const bucket = (counts: Record<string, number>) => ({
    counts,
    total: Object.values(counts).reduce((sum, one) => sum + one, 0),
  });
  const buckets = [bucket({ a: 100_000 }), bucket({ a: 1 }), bucket({ a: 50, b: 1 }), bucket({})];
  const [a, b] = chart.stackedHeights({ buckets }, ['a', 'b']) as [number[], number[]];
  t.equal(a[0], 100_000, 'a tall one is as tall as it is');
  t.ok(a[1]! >= 2_000 && a[2]! >= 2_000 && b[2]! - a[2]! >= 2_000, 'each has a fiftieth of the chart');
  t.same([a[3], b[3], b[0], b[1]], [0, 0, a[0], a[1]], 'nothing is nothing');
  const even = chart.stackedHeights({ buckets: [bucket({ a: 3, b: 4 }), bucket({ a: 5 })] }, ['a', 'b']);
  t.same(
    even,
    [
      [3, 5],
      [7, 5],
    ],
    'where all are alike they are as they are',
  );
});

t.test('a change is told as a share where a share says something', async (t) => {
  for (const [now, before, told] of [
    [112, 100, '+12 %'],
    [88, 100, '−12 %'],
    [0, 100, '−100 %'],
    [989, 100, '+889 %'],
    [1_000, 100, 'over 10 times'],
    [169_150, 100, 'over 10 times'],
    [3_385, 2, ''],
    [2, 9, ''],
    [5, 0, ''],
    [0, 0, ''],
    [1_000_001, 1_000_000, ''],
  ] as const)
    t.equal(amounts.changeText(now, before), told, `${before} to ${now}`);
  t.equal(amounts.changeText(0.5, 0.4, 0), '+25 %', 'an amount of money is no count');
});

t.test('no two series of a chart look the same, and what has no colour is one series', async (t) => {
  const all = [...chart.COLOURS, chart.OTHERS_COLOUR];
  for (const see of SIGHTS)
    for (const [i, one] of all.entries())
      for (const other of all.slice(0, i)) {
        const far = Math.hypot(...labOf(one, see).map((part, k) => part - labOf(other, see)[k]!));
        t.ok(far > 0.08, `${one} and ${other}: ${far}`);
      }
  const values = Array.from({ length: 12 }, (_, n) => `a${n}`);
  const counts = Object.fromEntries(values.map((name, n) => [name, 20 - n]));
  const sum = Object.values(counts).reduce((a, b) => a + b);
  const told = chart.drawnSeries({ values, buckets: [{ counts, total: sum }] });
  t.same(told.values, [...values.slice(0, 8), chart.OTHERS]);
  t.equal(told.buckets[0]!.counts[chart.OTHERS], 12 + 11 + 10 + 9, 'the last four');
  const more = chart.drawnSeries({ values, has_other: true, buckets: [{ counts, total: sum + 5 }] });
  t.equal(more.buckets[0]!.counts[chart.OTHERS], 12 + 11 + 10 + 9 + 5, 'and those that are not told apart');
  t.same(chart.drawnSeries({ values: ['a0'], buckets: [{ counts, total: 20 }] }).values, ['a0']);
});

/** Sight of all colours, no green, no red (Machado et al., 2009): matrices of three rows. */
const SIGHTS = [
  [1, 0, 0, 0, 1, 0, 0, 0, 1],
  [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
];
const CONES = [0.41222, 0.536333, 0.051446, 0.211903, 0.6807, 0.107397, 0.088302, 0.281719, 0.629979];
const OKLAB = [0.210454, 0.793618, -0.004072, 1.977998, -2.428592, 0.450594, 0.025904, 0.782772, -0.808676];
/** A colour as three numbers; how far two are apart in them is how far they are to an eye (OKLab). */
function labOf(colour: string, sight: number[]): number[] {
  const times = (matrix: number[], by: number[]) =>
    [0, 3, 6].map((at) => by.reduce((all, one, k) => all + one * matrix[at + k]!, 0));
  const sent = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255);
  const light = sent.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  const seen = times(sight, light).map((part) => Math.min(1, Math.max(0, part)));
  return times(OKLAB, times(CONES, seen).map(Math.cbrt));
}

t.test('no two labels of an axis are the same', async (t) => {
  for (const step of [
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.25,
    0.5,
    1,
    5,
    30,
    60,
    3600,
    86_400,
    31 * 86_400,
    366 * 86_400,
  ]) {
    const first = Date.parse('2026-11-25T18:04:05Z');
    const labels = Array.from({ length: 12 }, (_, n) =>
      chart.axisLabel(new Date(first + Math.round(n * step * 1000)).toISOString().replace('T', ' ').slice(0, -1), step),
    );
    t.equal(new Set(labels).size, labels.length, `${step} s: ${labels.slice(0, 3).join(' ')}`);
  }
});

t.test('a command runs in bash as it is copied', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-curl-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const bin = path.join(folder, 'curl');
  // keeps what it is given: its last argument, or its input
  writeFileSync(
    bin,
    '#!/bin/bash\neval last=\\$$#\nif [ "$last" = @- ]; then cat > body; else printf %s "$last" > body; fi\nprintf %s "$3" > url\n',
    { mode: 0o755 },
  );
  for (const payload of [
    '{"a":"it\'s"}',
    '{"a":"\'\'\'","b":"\\u0000 \\\\ $HOME `id` $(id) !!"}',
    '{\n"a": 1.0,\n"é": "請求 😀"\n}\n',
    `{"long":"${'x'.repeat(130_000)}"}`,
    `{"long":"${'請'.repeat(40_000)}'"}`,
    `{"long":"${"'".repeat(320_000)}","b":"$HOME \`id\` \\\\"}`,
    `{"long":"${'x'.repeat(130_000)}"}\nEOF\nEOF2\n`, // no JSON; whatever it is, it is passed on
  ]) {
    const event = { agent_id: 'agt_1', type: 'custom', trace_id: "it's\u202e", payload: { text: payload } };
    const script = path.join(folder, 'script.sh');
    writeFileSync(script, curlOf(event, 'http://127.0.0.1:1/a(b)&c'));
    const ran = spawnSync('bash', [script], { cwd: folder, env: { PATH: `${folder}:${process.env['PATH']}` } });
    t.equal(ran.status, 0, String(ran.stderr).slice(0, 200));
    const body = readFileSync(path.join(folder, 'body'), 'utf8');
    t.ok(
      body.trimEnd() === `{"type":"custom","trace_id":"it's\u202e","payload":${payload}}`.trimEnd(),
      `${payload.length} characters`,
    );
    t.equal(readFileSync(path.join(folder, 'url'), 'utf8'), 'http://127.0.0.1:1/a(b)&c/v1/agents/agt_1/events');
  }
});
