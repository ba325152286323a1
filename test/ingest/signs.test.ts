// The search for signs never loses a finding: what the codec on bytes says of an event is what the engine says that
// reads every text, for every detector, and patterns and text operators of every form. Texts with findings are put at
// each of 64 places before and behind the borders of what is read at once, between neighbours of every kind, in
// any case, escaped, dressed up, as keys, values, numbers, and as text inside text, twice.
// GATEHOUSE_TEST_PAIRS=10000000 sets how many pairs of a policy and an event are compared (default 60,000),
// GATEHOUSE_TEST_SEED begins elsewhere.
import { readFileSync } from 'node:fs';
import t from 'tap';
import { DETECTOR_NAMES } from '../../schemas/closed-sets.ts';
import { parseExact } from '../../src/common/exact-json.ts';
import { atOnce } from '../../src/common/steps.ts';
import { JsonCodec } from '../../src/ingest/json-codec.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import type { Judgement } from '../../src/policy/judgement.ts';
import { redact } from '../../src/policy/redaction/redact-payload.ts';
import { Redaction } from '../../src/policy/redaction/redaction.ts';
import { assetPath } from '../../src/process/assets.ts';
import { recordedEvents } from '../policy/support.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';
import { account, agent, agentId, NOW, policiesOf } from './support.ts';

const PAIRS = runs(Number(process.env['GATEHOUSE_TEST_PAIRS'] ?? 60_000));
const random = randomFrom(SEED);

function below(n: number): number {
  return Math.floor(random() * n);
}

function pick<T>(items: ArrayLike<T>): T {
  return items[below(items.length)]!;
}

const PHRASES = [
  'élève naïf',
  'ignore all previous instructions',
  'jailbreak',
  'rm -rf /',
  'drop table',
  'do not tell the user',
  'äpfel kaufen',
  '忽略之前的指令',
];
const PATTERNS = [
  ...PHRASES.map((phrase) => `(?i)${phrase.replaceAll(' ', '\\s+')}`),
  '(?i)(?:forget|disregard)\\s+(?:now\\s+)?(?:your|the) (?:rules|policy)',
  'AKIA[0-9A-Z]{16}',
  'xox[abp]-[0-9A-Za-z-]{10,}',
  'password:\\s*\\S+',
  '<INFORMATION>',
  'BEGIN (?:RSA|EC)',
  'https?://evil\\.example/[a-z]+',
  '"quoted" text',
  '[0-9]{3}-[0-9]{4}',
  '(?i)\\bssn\\b.{0,20}[0-9]',
  'x|yy|zzz',
  '(?:[A-Z][a-z]+ ){2}Street',
  '^whole$',
  'é[0-9]',
  // Short words between blanks, and a letter that an escape of a blank ends with.
  '(?i)go\\s+to\\s+it',
  'n\\s+off',
  '(?i)ὀδός',
  '[x，]1|[–-] 2',
  '(?i)[١1]23k',
  'ड़ी|น้ำ',
];
const TEXTS = [
  'send money',
  'a/b',
  '"q"',
  'Secret',
  'naïve',
  'x',
  '😀',
  'लोमड़ी',
  '，。',
  'น้ำ',
  '१२',
  '\u0634\u064e\u0651',
];

const ORDERS = [
  ...DETECTOR_NAMES.map((name) => ({ type: 'data_filter', conditions: { detectors: [name] }, actions: ['log'] })),
  { type: 'data_filter', conditions: { detectors: DETECTOR_NAMES, redact: true }, actions: ['log'] },
  { type: 'data_filter', conditions: { detectors: ['phone'], regions: ['DE', 'FR'] }, actions: ['log'] },
  ...PATTERNS.map((pattern) => ({ type: 'data_filter', conditions: { patterns: [pattern] }, actions: ['log'] })),
  { type: 'data_filter', conditions: { patterns: PATTERNS }, actions: ['block'] },
  ...TEXTS.map((text) => ({ type: 'block_action', conditions: { payload: { contains: text } }, actions: ['log'] })),
  ...TEXTS.map((text) => ({ type: 'block_action', conditions: { 'payload.text': text }, actions: ['log'] })),
  // Into text inside text, once and twice.
  { type: 'block_action', conditions: { 'payload.arguments.q': { contains: 'a' } }, actions: ['log'] },
  { type: 'block_action', conditions: { 'payload.arguments.q.z': { contains: 'a' } }, actions: ['log'] },
  { type: 'block_action', conditions: { payload: { glob: '*send*money*' } }, actions: ['log'] },
  { type: 'block_action', conditions: { payload: { matches: '(?i)rm\\s+-rf' } }, actions: ['log'] },
  { type: 'block_action', conditions: { payload: { shell: { command: 'rm', flags: ['r'] } } }, actions: ['log'] },
  { type: 'block_action', conditions: { payload: { sql: { statement: 'drop' } } }, actions: ['log'] },
];

const corpus = readFileSync(assetPath('test/policy/corpus/detectors.ndjson'), 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line) => (JSON.parse(line) as { text: string }).text);

const LOWER = 'abcdefghijklmnopqrstuvwxyz';
const UPPER = LOWER.toUpperCase();
const DIGITS = '0123456789';
const row = (of: string, length: number) => Array.from({ length }, () => pick(of)).join('');

function card(): string {
  const head = pick(['4', '51', '37', '6011', '35', '2221', '62', '30', '5018']);
  const start = head + row(DIGITS, pick([12, 13, 14, 15, 15, 15, 18]) - head.length);
  const digits = Array.from({ length: 10 }, (_, c) => `${start}${c}`).find(luhn)!;
  if (random() < 0.5) return digits;
  const by = pick([' ', '-', '  ', '.', ' - ', '%20', '•', '/']);
  return digits.replaceAll(/(\d{4})(?=\d)/g, `$1${by}`);
}

function luhn(digits: string): boolean {
  let sum = 0;
  [...digits].reverse().forEach((digit, i) => {
    const value = Number(digit) * (i % 2 === 1 ? 2 : 1);
    sum += value > 9 ? value - 9 : value;
  });
  return sum % 10 === 0;
}

const NEEDLES: (() => string)[] = [
  () => pick(corpus),
  () => pick(corpus),
  card,
  card,
  () => 'DE89370400440532013000'.replaceAll(/(.{4})(?=.)/g, `$1${pick(['', ' ', '·', '-', '.'])}`),
  () => `+1${pick(['', '()()()', ' ((', '-('])}2125550${row(DIGITS, 3)}`,
  () => `${pick(['AKIA', 'ASIA'])}${row(UPPER + DIGITS, 16)}`,
  () =>
    `${pick(['ghp_', 'glpat-', 'sk-', 'xoxb-', 'hf_', 'AIza', 'npm_', 'SG.', 'ya29.', 'sk_live_'])}${row(UPPER + LOWER + DIGITS, 40)}`,
  () =>
    `${pick(['api_key', 'API-KEY', 'apiKey', 'client secret', 'secretAccessKey', 'access_token'])}${pick([' = ', ': ', '=', '":"'])}${row(LOWER + DIGITS, 32)}`,
  () => `Authorization: Bearer ${row(LOWER + UPPER + DIGITS, 40)}`,
  () => `${row(LOWER, 5)}${pick(['@', '%40', '&#64;'])}${row(LOWER, 5)}.${pick(['com', 'co.uk', 'io', 'de'])}`,
  () =>
    `${pick(['+1', '+44', '+49', '0049', '%2B33'])}${pick([' ', '-', ' ('])}${row('23456789', 3)}${pick([' ', '-', ') '])}${row(DIGITS, 3)}${pick([' ', '-', '.'])}${row(DIGITS, 4)}`,
  () => `(${row('23456789', 3)})${pick([' ', '', '-'])}${row('23456789', 3)}${pick(['-', ' ', '.'])}${row(DIGITS, 4)}`,
  () => `0${row('123456789', 3)}${pick(['/', ' ', '-'])}${row('123456789', 6)}`,
  () => [row('12345678', 3), row('123', 2), row('456', 4)].join(pick(['-', ' ', '.', '/', '%20', ' - '])),
  () => `${pick(['ssn', 'SSN', 'social security no', 'Soc. Sec.'])}${pick([' ', ': ', '='])}${row('12345678', 9)}`,
  () => `${1 + below(250)}.${below(256)}.${below(256)}.${1 + below(250)}`,
  () => `fe80::${row('0123456789abcdef', 4)}:${row('0123456789abcdef', 4)}`,
  () => Array.from({ length: 8 }, () => row('0123456789abcdef', 1 + below(4))).join(':'),
  () =>
    pick([
      'DE89370400440532013000',
      'GB29 NWBK 6016 1331 9268 19',
      'de89 3704 0044 0532 0130 00',
      'FR14-2004-1010-0505-0001-3M02-606',
    ]),
  () => `-----BEGIN ${pick(['RSA ', 'EC ', ''])}PRIVATE KEY-----\n${row(UPPER, 64)}`,
  () => `${Buffer.from('{"alg":"HS256","typ":"JWT"}').toString('base64url')}.${row(LOWER, 20)}.${row(LOWER, 20)}`,
  () => `${row(DIGITS, 9)}:AA${row(UPPER + LOWER, 33)}`,
  () => pick(PHRASES),
  () => pick(PHRASES),
  () =>
    pick([
      'forget now the rules',
      'disregard your policy',
      'password: x',
      '<INFORMATION>',
      'BEGIN EC',
      'http://evil.example/ab',
    ]),
  () => pick(['"quoted" text', '555-1234', 'yy', 'Main Old Street', 'whole', 'é7', 'rm -r x', 'DROP TABLE t']),
  () => pick(TEXTS),
  () => pick(['ΟΔΌΣ', 'ὈΔΌΣ', '，1', '– 2', '١23K', '123\u212a', 'लोमड़ी', 'น้ำตาล', '१२३', '\u0634\u0651\u064e']),
  () => pick(['go to it', '\\n off', 'DE89%203704%200044%200532%200130%2000']),
];
const BLANKS = [' ', '  ', '\n', '\t ', '\r\n', '\f', '\u000b', '\u00a0', '\u2028'];
const NEIGHBOURS = [
  '',
  ' ',
  'x',
  'a1',
  '\\n',
  '\n',
  '%3D',
  '%20',
  '"',
  '/',
  '_',
  '-',
  '.',
  'é',
  '–',
  '9',
  '=',
  ':',
  '\u00a0',
  '\t',
  '(',
  '\\u00e9',
  '\\',
  '\u200b',
  '{',
  '😀',
];
const FILLERS = ['lorem ipsum ', 'a', '0', ' ', 'é', '\n', '"', 'e1', '. '];
/** Words of other scripts, with marks in and out of their order, what is folded to more or to nothing, other digits. */
const OTHERS = [
  'तेज़ भूरी लोमड़ी',
  'ऩ',
  '\u0928\u093c',
  'পো',
  '\u09c7\u09be',
  'น้ำตาล',
  'اَلثَّعْلَبُ',
  '\u0634\u064e\u0651',
  '，。「」！',
  'ｶﾞギガ',
  '각\u11a8',
  '\u1100\u1161',
  'e\u0301',
  'é\u0323',
  '\u0301',
  'नम\u200dस्ते',
  'می\u200cخواهم',
  '❤️👩\u200d💻',
  '½…™ﬁ',
  '１２３',
  '१२३',
  '٤١١',
  '𝟙𝐀',
  '\ufdfa',
  '\u212aſ',
  'ΟΔΟΣ ὀδός',
  '\u0007\u007f',
  '｛"a": 1｝',
];
/** Characters of which something follows by chance, with marks before and behind. */
const LETTERS = [...'aezक़नরேเกأب가ギ，１'];
const MARKS = [...'\u0301\u0323\u0308\u093c\u094d\u09be\u0e49\u0e33\u064e\u0651\u3099\u200d\ufe0f\u0338\u0345'];

/** Letters and marks by chance: what counts is what stands behind what. */
function marked(): string {
  return Array.from({ length: 1 + below(6) }, () => pick(random() < 0.5 ? LETTERS : MARKS)).join('');
}

/** As someone writes it who would slip past. */
function dressed(text: string): string {
  const kind = random();
  if (kind < 0.5) return text;
  if (kind < 0.65) return text.replaceAll(' ', () => pick(BLANKS));
  if (kind < 0.75) return text.toUpperCase();
  if (kind < 0.8) return text.replace(/s/i, 'ſ').replace(/k/i, '\u212a');
  if (kind < 0.85) return [...text].join(pick(['\u200b', '\u00ad', '\u007f', '\b', '\u0000']));
  if (kind < 0.9) return text.replaceAll(/[a-z0-9]/g, (c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0));
  if (kind < 0.94) return text.replaceAll(/\d/g, (d) => String.fromCharCode(0x0660 + Number(d)));
  const apart = text.replaceAll('-', pick(['\u2011', '\u2013', '\u2212'])).normalize('NFD');
  // Between a letter and its mark: what shows nothing, another mark, a wide letter.
  return random() < 0.5
    ? apart
    : apart.replaceAll(/(?=[\u0300-\u036f])/g, pick(['\u200d', '\u0338', '\u0345', '\u0323', 'ｅ']));
}

const filler = (length: number) => {
  if (random() < 0.3) return random() < 0.5 ? pick(OTHERS) : marked();
  let text = '';
  const by = pick(FILLERS);
  while (text.length < length) text += by;
  return text.slice(0, length);
};

/** A payload that holds the text somewhere. */
const PAYLOADS: ((text: string) => object)[] = [
  (text) => ({ text }),
  (text) => ({ text }),
  (text) => ({ a: 1, messages: [{ content: text }] }),
  (text) => ({ [text]: 1 }),
  (text) => ({ arguments: JSON.stringify({ q: text, n: [text] }) }),
  (text) => ({ arguments: JSON.stringify({ q: JSON.stringify({ z: text }) }) }),
  (text) => ({ arguments: ` ${JSON.stringify([JSON.stringify(text)])}` }),
  (text) => ({ arguments: JSON.stringify(JSON.stringify({ q: { z: text } })) }),
  (text) => ({ code: `{'a': '${text}', 'b': None}` }),
  (text) => ({
    code: `${pick(['\u00a0', '\ufeff', '\u0085 ', ' \u2003'])}{'a': '${text.replaceAll(/[a-z]/g, hexEscaped)}'}`,
  }),
  (text) => ({ code: `# ${text}\n{"a": ["${text}"` }),
  // As other languages write it: all escapes of one letter, one quote or the other.
  (text) => ({
    code: `{'a': '${oneLetterEscapes(text).replaceAll("'", "\\'")}', 'b': [None, '${oneLetterEscapes(text)}']}`,
  }),
  (text) => ({ code: `{'${oneLetterEscapes(text)}': "${oneLetterEscapes(text).replaceAll('"', '\\"')}"}` }),
  // As most write what is beyond ASCII, in a document and in prose.
  (text) => ({ arguments: JSON.stringify({ q: text, n: [text] }).replaceAll(/[^ -~]/g, escapedUnit) }),
  (text) => ({ text: `see ${JSON.stringify({ q: text }).replaceAll(/[^ -~]/g, escapedUnit)}`, b: text }),
  (text) => ({ arguments: JSON.stringify({ q: JSON.stringify({ z: text }).replaceAll(/[^ -~]/g, escapedUnit) }) }),
  (text) => ({ arguments: JSON.stringify({ q: JSON.stringify({ z: text }) }).replaceAll(/[^ -~]/g, escapedUnit) }),
  (text) => ({ name: 'API_KEY', value: text }),
  (text) => ({ api_key: text, ssn: text }),
  (text) => ({ env: ['--token', text] }),
  (text) => ({ n: /^\d{9,16}$/.test(text) ? Number(text) : text, ssn: /^\d{9}$/.test(text) ? Number(text) : text }),
  (text) => ({ list: text.split('\n'), text: `${text}${text}` }),
  () => ({ n: Number(card().replaceAll(/\D/g, '').slice(0, 15)), ssn: Number(row('12345678', 9)) }),
  // Only to be read by who reads what is inside: escapes there, and behind more texts than are noted.
  (text) => ({ arguments: JSON.stringify({ q: text }).replaceAll(/(?<=[a-z ])[a-z](?=[a-z])/g, escapedUnit) }),
  (text) => ({
    list: ['[1]', '[2]', '{}', '[3]', '["x y"]', '[4]', `{'a': '${text.replaceAll(/[a-z]/g, hexEscaped)}'}`],
  }),
];

function oneLetterEscapes(text: string): string {
  return text.replaceAll(/[\\\n\r\t\f]/g, (c) => JSON.stringify(c).slice(1, -1));
}

function escapedUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function neighbour(): string {
  return random() < 0.8 ? pick(NEIGHBOURS) : marked();
}

function hexEscaped(unit: string): string {
  return `\\x${unit.charCodeAt(0).toString(16)}`;
}

const ESCAPES: ((json: string) => string)[] = [
  ...Array.from({ length: 5 }, () => (json: string) => json),
  (json) => json.replaceAll(/[^ -~]/g, escapedUnit),
  (json) => json.replaceAll('/', '\\/'),
  (json) => json.replaceAll(/(?<!\\)\\"/g, () => escapedUnit('"')),
  (json) => json.replace(/(?<!\\)[a-z]/, escapedUnit),
  (json) => json.replaceAll(/(?<!\\)[a-z](?=[\u0300-\u036f])/g, escapedUnit),
  (json) => json.replaceAll(/(?<=:)(\d)(\d{8,15})(?=[,}])/g, (_, first, rest) => `${first}.${rest}e${rest.length}`),
  (json) => json.replaceAll(':', ' : '),
];

function shown({ found, redacted }: Judgement): string {
  return JSON.stringify([
    found.map(({ entry, detail }) => [entry.order, detail]),
    redacted?.payloadText,
    redacted?.traceId,
  ]);
}

const [wasm, json] = [new WasmCodec(), new JsonCodec()];
const rules = new RuleSet(policiesOf(ORDERS as never));
/** One, and as few as are searched for by masks alone. */
const small = [
  ...policiesOf(ORDERS as never).map((one) => new RuleSet([one])),
  ...Array.from({ length: 100 }, () => new RuleSet(policiesOf([pick(ORDERS), pick(ORDERS), pick(ORDERS)] as never))),
];

/** undefined: it is not read on its bytes. Else what both say, and whether the engine was asked. */
function judged(body: Buffer, set: RuleSet): { is: string; wanted: string; found: number } | undefined {
  const request = { account, agentId, shape: 'one' as const, body, requestId: 'r', idempotencyKey: undefined };
  const options = { rules: set, nowMs: NOW, eventBytesMax: 1 << 20 };
  const fast = wasm.decode(request, options);
  if (fast === undefined) return undefined;
  const is = atOnce(fast.judging(0, agent, set));
  fast.release();
  const wanted = atOnce(json.decode(request, options).judging(0, agent, set))!;
  return {
    is: shown(is),
    wanted: shown({ ...wanted, redacted: redactedByAll(body, wanted) }),
    found: wanted.found.length,
  };
}

/** The payload of an event where each filter that matched redacts all that it looks for, not only what was found. */
function redactedByAll(body: Buffer, { found, redacted }: Judgement): Judgement['redacted'] {
  if (redacted === null) return null;
  const text = body.toString();
  const payloadText = text.slice(text.indexOf('"payload":') + '"payload":'.length, -1);
  const event = { payload: parseExact(payloadText), payloadText, trace_id: /"trace_id":"([^"]*)"/.exec(text)?.[1] };
  const redactions = found.flatMap(({ entry }) => {
    const terms = entry.rule.terms;
    return terms.type === 'data_filter' && terms.redact ? [new Redaction(terms.needles, terms)] : [];
  });
  return redact(event, redactions);
}

t.test('what is found is found on bytes, wherever and however it is written', (t) => {
  const counts = { pairs: 0, found: 0, notRead: 0 };
  for (let place = 0; counts.pairs < PAIRS; place++) {
    const text =
      filler(place % 64) +
      neighbour() +
      dressed(random() < 0.2 ? dressed(pick(NEEDLES)()) : pick(NEEDLES)()) +
      neighbour() +
      filler(below(40));
    const trace = random() < 0.1 ? `"trace_id":"${text.replaceAll(/[^ -~]|["\\]/g, '').slice(0, 190) || 't'}",` : '';
    let body = Buffer.from(
      `{"type":"custom",${trace}"payload":${pick(ESCAPES)(JSON.stringify(pick(PAYLOADS)(text)))}}`,
    );
    try {
      JSON.parse(body.toString());
    } catch {
      body = Buffer.from(`{"type":"custom","payload":${JSON.stringify({ text })}}`);
    }
    const set = place % 2 === 0 ? pick(small) : rules;
    counts.pairs += set.size;
    const both = judged(body, set);
    if (both === undefined) {
      counts.notRead++;
      continue;
    }
    counts.found += both.found;
    if (both.is === both.wanted) continue;
    t.fail(`${body}\non bytes ${both.is}\nengine   ${both.wanted}`);
    t.end();
    return;
  }
  t.comment(JSON.stringify(counts));
  t.ok(counts.found > counts.pairs / 100, `${counts.found} findings`);
  t.end();
});

t.test('recorded events get the same verdicts on bytes as by the engine', (t) => {
  const events = recordedEvents();
  if (events === null) {
    t.comment('no recorded events here');
    t.end();
    return;
  }
  const step = process.env['GATEHOUSE_TEST_PAIRS'] === undefined ? 97 : 1;
  let found = 0;
  for (let i = 0; i < events.length; i += step) {
    const { type, payloadText, trace_id } = events[i]!;
    const trace = trace_id === undefined ? '' : `"trace_id":${JSON.stringify(trace_id)},`;
    const both = judged(Buffer.from(`{"type":"${type}",${trace}"payload":${payloadText}}`), rules);
    if (both === undefined) continue;
    found += both.found;
    if (both.is !== both.wanted) t.fail(`event ${i}\non bytes ${both.is}\nengine   ${both.wanted}`);
  }
  t.ok(found > 0, `${found} findings`);
  t.end();
});
