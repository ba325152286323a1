// Bodies and policies for the comparison with the reference, by fast-check: JSON of every kind as text (escapes,
// surrogates, keys twice, numbers that no double holds, deep nesting, long keys, flaws), policies of every type, action
// and operator. Words, keys and paths come from short lists, so that policies and payloads meet.
import fc from 'fast-check';
import type { Meaning } from './judge.ts';
import { FINDINGS } from './patterns.ts';

const DETECTORS = Object.keys(FINDINGS);
/** Words that policies ask for and payloads hold, so that they meet. */
export const WORDS = [
  'rm',
  'ab',
  'a',
  'send_money',
  'secret',
  'SECRET',
  'sk-0123!',
  'päss',
  'x/y',
  '"q"',
  '\\',
  'line\nend',
].concat(['😀', '😀!', '7', '', '@', 'abab', 'a. ', '\ud83d', '\ude00x', '\u0000', 'ſecret', 'K', '\u2028', 'a~b']);
export const KEYS = [
  'tool',
  'model',
  'token_count',
  'tokens_used',
  'arguments',
  'amount',
  'text',
  'list',
  '0',
  '1',
].concat(['constructor', '__proto__', 'päss', '', 'tokens_use', 'toString', 'type', 'payload']);
/** Such as redaction could make equal, must not show, or has to cut. */
/** Blanks, and what a text is dressed up with. */
const BLANKS = ['\t', '\n', '\u000b', '\u00a0', '\u2800', '\u0000', '\u007f', '\b', '\u001b', '\u0336', '\ufffc'];
const ODD_KEYS = ['to\u200bol', 'too\u0000l', '\uff41mount', 'pay\u00adload']
  .concat([...WORDS, 'secret 1', 'secret 2', '[redacted:pattern]', '[redacted:pattern]~2', 'k'.repeat(150)])
  .concat([`see ${FINDINGS['email']} now`, 'a/b~c', 'jay@', `${'long secret '.repeat(50)}`]);

const word = fc.constantFrom(...WORDS);
const framed = fc.constantFrom(...DETECTORS).map((name) => `see ${FINDINGS[name]} now`);
const text = fc.oneof(
  { weight: 4, arbitrary: word },
  { weight: 3, arbitrary: fc.array(word, { maxLength: 5 }).map((words) => words.join(' ')) },
  { weight: 1, arbitrary: fc.array(word, { maxLength: 5 }).map((words) => words.join('')) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(fc.array(word, { maxLength: 4 }), fc.constantFrom(...BLANKS))
      .map(([words, b]) => words.join(b)),
  },
  { weight: 1, arbitrary: framed },
  { weight: 1, arbitrary: fc.tuple(word, framed, word).map((parts) => parts.join(' | ')) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 10 }) },
);

/** How one string is written. */
const HOW: ((json: string) => string)[] = [
  (json) => json,
  (json) => json,
  (json) => json,
  (json) => json.replaceAll('/', '\\/'),
  (json) => (json.includes('\\') ? json : json.replace(/[a-e]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)),
  (json) =>
    json.includes('\\')
      ? json
      : `"${Array.from(
          { length: json.length - 2 },
          (_, i) =>
            `\\u${json
              .charCodeAt(i + 1)
              .toString(16)
              .toUpperCase()
              .padStart(4, '0')}`,
        ).join('')}"`,
];
/** Mostly as they are: else no body would be plain. */
const written = (weight: number) => (arbitrary: fc.Arbitrary<string>) =>
  fc
    .tuple(arbitrary, fc.oneof({ weight, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(HOW.length - 1) }))
    .map(([decoded, how]) => HOW[how]!(JSON.stringify(decoded)));
const RAW = ['"\\uD83D\\uDE00"', '"\\ud83d\\u0061"', '"a\\\\u0061"', '"\\u0000"', '"\\b\\f"', '"\\u2028"'];
const string = fc.oneof({ weight: 30, arbitrary: written(4)(text) }, { weight: 1, arbitrary: fc.constantFrom(...RAW) });
const key = fc.oneof(
  { weight: 40, arbitrary: written(60)(fc.constantFrom(...KEYS)) },
  { weight: 2, arbitrary: written(4)(fc.constantFrom(...ODD_KEYS)) },
);
const NUMBERS = [
  '0',
  '-0',
  '5',
  '3',
  '3.0',
  '4',
  '1e400',
  '-1e400',
  '12345678901234567890',
  '0.1',
  '4111111111111111',
  '4111111111111112',
  '1E+2',
  '1e-400',
].concat(['999999999999999', '1000000000000000', '9007199254740993', '-7', '2.5', '1e21', '-0.0e-0', '123']);
/** Between tokens: where white space may go. */
const GAP = '\u0001';

const { value } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    { weight: 8, arbitrary: string },
    { weight: 4, arbitrary: fc.constantFrom(...NUMBERS) },
    { weight: 2, arbitrary: fc.constantFrom('true', 'false', 'null') },
    { weight: 3, arbitrary: tie('array') },
    { weight: 4, arbitrary: tie('object') },
  ),
  array: fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(`${GAP},${GAP}`)}]`),
  object: object(fc.array(fc.tuple(key, tie('value')), { maxLength: 5 })),
}));

/** Keys that stand twice are left out, but for one in a hundred objects. */
function object(members: fc.Arbitrary<[string, string][]>): fc.Arbitrary<string> {
  return fc.tuple(members, fc.nat(99)).map(([list, twice]) => {
    const seen = new Set<unknown>();
    const kept = list.filter(([name]) => {
      const decoded = JSON.parse(name) as string;
      if (seen.has(decoded) && twice !== 0) return false;
      seen.add(decoded);
      return true;
    });
    return `{${kept.map(([name, item]) => `${GAP}${name}${GAP}:${GAP}${item}`).join(',')}${GAP}}`;
  });
}

const deep = fc
  .tuple(fc.constantFrom(1, 20, 58, 60, 61, 62, 63, 64, 70), value)
  .map(([depth, inner]) => `${'['.repeat(depth)}${inner}${']'.repeat(depth)}`);
/** The names by which providers report tokens, and names like them. */
const COUNTED = [
  ...['total_tokens', 'totalTokens', 'totalTokenCount', 'total_token_count', 'input_tokens', 'output_tokens'],
  ...['cache_creation_input_tokens', 'cache_read_input_tokens', 'prompt_tokens', 'completion_tokens', 'inputTokens'],
  ...['outputTokens', 'cacheReadInputTokens', 'cacheWriteInputTokens', 'promptTokens', 'completionTokens'],
  ...[
    'responseTokenCount',
    'promptTokenCount',
    'candidatesTokenCount',
    'thoughtsTokenCount',
    'toolUsePromptTokenCount',
  ],
  ...['prompt_token_count', 'candidates_token_count', 'thoughts_token_count', 'tool_use_prompt_token_count'],
  ...['total_token', 'Total_tokens', 'input_tokens_details', 'tokens_used', 'reasoningTokens', 'output_tokenz'],
];
const counted = object(
  fc.array(
    fc.tuple(
      fc.constantFrom(...COUNTED).map((name) => JSON.stringify(name)),
      fc.oneof(
        { weight: 12, arbitrary: fc.nat(100_000).map(String) },
        { weight: 1, arbitrary: fc.constantFrom(...NUMBERS) },
        { weight: 2, arbitrary: fc.constant('null') },
        { weight: 1, arbitrary: value },
        { weight: 1, arbitrary: fc.constantFrom('{"total":5}', '{"total":2.5,"raw":1}', '{"total":null}', '2.5') },
      ),
    ),
    { maxLength: 4 },
  ),
);
const usage = fc.tuple(
  fc.constantFrom(
    ...['"usage"', '"usage"', '"usageMetadata"', '"usage_metadata"', '"usages"', '"usage_Metadata"', '"totalUsage"'],
    ...['"totalusage"'],
  ),
  fc.oneof({ weight: 9, arbitrary: counted }, { weight: 1, arbitrary: value }),
);
const held = fc.tuple(
  fc.constantFrom('"response"', '"message"', '"result"', '"output"', '"completion"', '"metadata"', '"responses"'),
  object(fc.array(fc.oneof(usage, fc.tuple(key, value)), { maxLength: 3 })),
);
const member = fc.tuple(key, fc.oneof({ weight: 60, arbitrary: value }, { weight: 1, arbitrary: deep }));
const payload = object(
  fc.array(
    fc.oneof({ weight: 8, arbitrary: member }, { weight: 1, arbitrary: usage }, { weight: 1, arbitrary: held }),
    {
      maxLength: 6,
    },
  ),
);

/** The times that the timestamps mean that are sent; null: refused. */
export const TIMES: ReadonlyMap<string, number | null> = new Map([
  ['2026-11-20T17:28:00.123Z', Date.UTC(2026, 10, 20, 17, 28, 0, 123)],
  ['2026-11-20T17:28:00Z', Date.UTC(2026, 10, 20, 17, 28)],
  ['2001-01-01T00:00:00+01:00', Date.UTC(2000, 11, 31, 23)],
  ['2000-06-01T00:00:00.5-00:30', Date.UTC(2000, 5, 1, 0, 30, 0, 500)],
  ['2026-11-20T17:28:00.123456Z', Date.UTC(2026, 10, 20, 17, 28, 0, 123) + 0.456],
  ['2026-11-20T17:28:00.1234509Z', Date.UTC(2026, 10, 20, 17, 28, 0, 123) + 0.45],
  ['2026-11-20T17:28:00.000001+00:00', Date.UTC(2026, 10, 20, 17, 28) + 0.001],
  ['20261120 172800.25+0000', Date.UTC(2026, 10, 20, 17, 28, 0, 250)],
  ['2026-11-19T24:00:00Z', Date.UTC(2026, 10, 20)],
  ['2026-11-19T23:59:60Z', Date.UTC(2026, 10, 20)],
  ['1999-12-31T23:59:59Z', null],
  ['2026-11-22T00:00:00Z', null],
  ['2026-02-30T00:00:00Z', null],
  ['2026-11-20T17:28:00', null],
  ['yesterday', null],
]);
const TYPES = ['prompt', 'completion', 'tool_call', 'error', 'custom'];
const flawless = <T>(weight: number, good: fc.Arbitrary<T>, bad: fc.Arbitrary<T>) =>
  fc.oneof({ weight, arbitrary: good }, { weight: 1, arbitrary: bad });
const type = flawless(
  80,
  fc.constantFrom(...TYPES).map((name) => JSON.stringify(name)),
  fc.constantFrom('"other"', '"\\u0065rror"', '5', 'null', '""', '"tool_calls"'),
);
const trace = flawless(
  20,
  fc.constantFrom('"t-1"', '"abc"', '"0b7c1c1e-0000-4000-8000-000000000001"'),
  fc.oneof(
    string,
    fc.constantFrom(`"${'t'.repeat(200)}"`, `"${'t'.repeat(201)}"`, `"${'😀'.repeat(101)}"`, '7', 'nul', '"null"'),
    fc.constantFrom('null', '"."', '".."', '"..."', '".a"', '"a."', '"\\u002e"', '". "'),
  ),
);
const time = flawless(
  20,
  fc.constant('"2026-11-20T17:28:00.123Z"'),
  fc.constantFrom(...[...TIMES.keys()].map((at) => `"${at}"`), 'null', 'null', 'nulL'),
);
const maybe = <T>(weight: number, arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });

const event = fc
  .record({
    type,
    payload: flawless(100, payload, value),
    trace: maybe(1, trace),
    time: maybe(3, time),
    extra: maybe(200, value),
    backwards: fc.boolean(),
    escaped: maybe(100, fc.constant(true)),
  })
  .map(({ type, payload, trace, time, extra, backwards, escaped }) => {
    const members = [
      ['type', type],
      [escaped === null ? 'payload' : 'p\\u0061yload', payload],
      ['trace_id', trace],
      ['timestamp', time],
      ['extra', extra],
    ].filter(([, json]) => json !== null);
    if (backwards) members.reverse();
    return `{${members.map(([name, json]) => `${GAP}"${name}"${GAP}:${GAP}${json}`).join(`${GAP},`)}${GAP}}`;
  });

const FLAWS = [
  '',
  '"',
  '}',
  ',',
  '\\',
  '\u0002',
  '{"a":1,"a":2}',
  '01',
  '\xff',
  '\ufeff',
  '\u00a0',
  ']',
  '1',
  '-',
  '.',
];

/** A body of one event (`single`) or of a batch, how many events it was made of, and whether it was damaged. */
export const body: fc.Arbitrary<{ bytes: Buffer; shape: 'one' | 'many'; events: number; isDamaged: boolean }> = fc
  .record({
    events: fc.array(event, { minLength: 1, maxLength: 12 }),
    space: fc.constantFrom('', '', '', ' ', '\n', '\t ', '\r\n'),
    wrapped: fc.boolean(),
    flaw: maybe(20, fc.tuple(fc.nat(), fc.constantFrom(...FLAWS))),
  })
  .map(({ events, space, wrapped, flaw }) => {
    const list = `[${GAP}${events.join(`${GAP},${GAP}`)}${GAP}]`;
    const shape = events.length === 1 ? 'one' : 'many';
    const whole = (shape === 'one' ? events[0]! : wrapped ? `{"events":${GAP}${list}${GAP}}` : list).replaceAll(
      GAP,
      space,
    );
    return { bytes: flawed(whole, flaw), shape, events: events.length, isDamaged: flaw !== null };
  });

function flawed(whole: string, flaw: [number, string] | null): Buffer {
  if (flaw === null) return Buffer.from(whole);
  const at = flaw[0] % (whole.length + 1);
  const inserted = flaw[1] === '\xff' ? Buffer.from([0xff]) : Buffer.from(flaw[1]);
  return Buffer.concat([Buffer.from(whole.slice(0, at)), inserted, Buffer.from(whole.slice(at))]);
}

// -- policies

const PLAIN_WORDS = WORDS.filter((word) => word !== '' && word.isWellFormed());
const plainWord = fc.constantFrom(...PLAIN_WORDS);
const number = fc.constantFrom(0, -0, 3, 5, 2.5, 1e21, -7, 100, 123, 999999999999999);
const scalar = fc.oneof(word, number, fc.boolean(), fc.constant(null));
const scalars = fc.oneof(
  { weight: 2, arbitrary: fc.array(plainWord, { minLength: 1, maxLength: 3 }) },
  { weight: 1, arbitrary: fc.array(scalar, { minLength: 1, maxLength: 3 }) },
);

const atom = fc.oneof(
  fc.constantFrom(
    'a',
    'b',
    'ab',
    'secret',
    '[a-c]',
    '[^a]',
    '\\d',
    '\\w',
    '.',
    '@',
    'ä',
    '😀',
    '[0-9]',
    ' ',
    '\\.',
    'sk-',
    '\\s',
  ),
  fc.constantFrom('(?:a|ab)', '(?:ab|a|)', '(?:x|😀)!', '[ä-ü]', 'm', '_', '[^\\n]', '/', '"', '\\\\', '~'),
);
const piece = fc
  .tuple(atom, fc.constantFrom('', '', '', '', '*', '+', '?', '{1,3}', '*?', '+?', '{2}'))
  .map(([a, many]) => (many === '' ? a : `(?:${a})${a.startsWith('(') && many !== '?' ? '{1,3}' : many}`));
const pattern = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.constantFrom('secret', 'sk-[0-9]+', '(?i)secret', '(?i)Ab', '(?s)line.end', 'line.end', '^rm$'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('\\bab\\b', '\\Bb', 'x*', 'send_(?:money|note)', '[a-z]+@', 'a b', '\\p{Lu}'),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.boolean(), fc.array(piece, { minLength: 1, maxLength: 4 }), fc.boolean(), maybe(4, piece))
      .map(([from, pieces, to, other]) => {
        const one = `${from ? '^' : ''}${pieces.join('')}${to ? '$' : ''}`;
        return other === null ? one : `${one}|${other}`;
      }),
  },
);

const texts = fc.oneof(
  fc.record({ contains: plainWord }),
  fc.record({ starts_with: plainWord }),
  fc
    .tuple(plainWord, fc.constantFrom('*', '?', ''))
    .map(([word, wild]) => ({ glob: `${word.slice(0, 2)}${wild}` || '*' })),
  fc.record({ ends_with: plainWord }),
  fc.record({ matches: pattern }),
  fc.record({ contains: plainWord, starts_with: plainWord }),
  fc.record({ exists: fc.constant(true), contains: plainWord }),
);
const condition = fc.oneof(
  scalar,
  scalars,
  fc.record({ gt: number, lte: number }),
  fc.constantFrom('gt', 'gte', 'lt', 'lte').chain((name) => number.map((n) => ({ [name]: n }))),
  fc.record({ eq: scalar }),
  fc.record({ ne: scalar }),
  fc.record({ in: scalars }),
  fc.record({ not_in: scalars }),
  fc.record({ exists: fc.boolean() }),
  fc.record({ exists: fc.constant(true), ne: scalar }),
  fc.record({ ne: word, gt: number }),
  texts,
  texts,
);
const PATHS = [
  'tool',
  'payload.tool',
  'amount',
  'arguments.amount',
  'payload.arguments',
  'arguments.0',
  'list.0.tool',
].concat([
  'list.tool',
  'trace_id',
  'päss',
  'model',
  'constructor',
  '__proto__',
  'agent_id',
  'payload',
  '0',
  'list.list',
  'text',
]);
const field = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constant('type'),
      fc.oneof(condition, fc.constantFrom<unknown>(...TYPES, ['error', 'prompt'])),
    ),
  },
  { weight: 4, arbitrary: fc.tuple(fc.constantFrom(...PATHS), condition) },
);

function own(event: { payload: object }, name: string): unknown {
  if (!Object.hasOwn(event.payload, name)) throw new Error('no such key');
  return (event.payload as Record<string, unknown>)[name];
}

function of<T>(value: unknown, type: 'string' | 'number'): T {
  if (typeof value !== type) throw new Error('no such overload');
  return value as T;
}

/** Expressions, and what they mean. */
export const MEANINGS: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ['event.type == "error" || agent.metadata.team == "blue"', ({ type }) => type === 'error'],
  ['event.payload.amount > 3.0', (event) => of<number>(own(event, 'amount'), 'number') > 3],
  ['event.payload.amount + 1 > 5', (event) => of<number>(own(event, 'amount'), 'number') + 1 > 5],
  ['"model" in event.payload && agent.metadata.team == "red"', ({ payload }) => Object.hasOwn(payload, 'model')],
  ['event.payload.tool.startsWith("send")', (event) => of<string>(own(event, 'tool'), 'string').startsWith('send')],
  ['event.payload.text.matches("sk-[0-9]+")', (event) => /sk-[0-9]+/.test(of<string>(own(event, 'text'), 'string'))],
  ['size(event.payload) > 3', ({ payload }) => Object.keys(payload).length > 3],
  ['!has(event.payload.tool)', ({ payload }) => !Object.hasOwn(payload, 'tool')],
]);

const SCHEMAS = [
  { type: 'object', required: ['tool'] },
  { properties: { tool: { pattern: '^[a-z_]+$' }, amount: { type: 'number', maximum: 10 } } },
  { maxProperties: 3 },
  { additionalProperties: { type: ['string', 'number', 'object'] } },
  { properties: { list: { items: { type: 'string', maxLength: 5 } } }, propertyNames: { minLength: 1 } },
  { required: ['constructor'] },
  { not: { required: ['__proto__'] } },
];
const extras = fc.record(
  { expression: fc.constantFrom(...MEANINGS.keys()), payload_schema: fc.constantFrom(...SCHEMAS) },
  { requiredKeys: [], noNullPrototype: true },
);
const FIELDS = [
  ['arguments'],
  ['tool', 'model'],
  ['payload.list.0', 'arguments'],
  ['list'],
  ['payload'],
  ['0.tool'],
  ['trace_id'],
  ['text', 'trace_id'],
];
const kind = fc.oneof(
  fc.constant({ type: 'block_action', conditions: {} }),
  fc
    .constantFrom({}, { timeout: '5m' }, { on_timeout: 'approve' })
    .map((conditions) => ({ type: 'require_approval', conditions })),
  fc
    .record({
      threshold: fc.constantFrom(1, 3, 1000),
      window: fc.constantFrom('1m', '30s', '1h'),
      per: fc.constantFrom('agent', 'account', 'payload.tool', 'amount', 'type', 'trace_id', 'list.tool', 'arguments'),
    })
    .map((conditions) => ({ type: 'rate_limit', conditions })),
  fc
    .record(
      {
        patterns: fc.array(pattern, { minLength: 1, maxLength: 4 }),
        fields: fc.constantFrom(...FIELDS),
        redact: fc.boolean(),
        detectors: fc.uniqueArray(fc.constantFrom(...DETECTORS), { minLength: 1, maxLength: 3 }),
      },
      { requiredKeys: ['redact'], noNullPrototype: true },
    )
    .map((conditions) => ({ type: 'data_filter', conditions })),
);
const order = fc.record({
  kind,
  fields: fc.array(field, { maxLength: 2 }),
  extras: fc.oneof({ weight: 5, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: extras }),
  actions: fc.constantFrom(['block'], ['alert'], ['log'], ['block', 'alert'], ['alert', 'log']),
  severity: fc.constantFrom(null, 'low', 'critical'),
  mine: fc.constantFrom<boolean | null>(null, null, true, false),
  description: fc.constantFrom('', 'Ask for "help" \u2028 instead.'),
});
export type Order = typeof order extends fc.Arbitrary<infer T> ? T : never;
/** The input of `policiesOf`; some of the policies would be refused when they are created. `me`: the agent's id. */
export function orders(me: string) {
  return fc.array(order, { maxLength: 6 }).map((list) =>
    list.map(({ kind, fields, extras, actions, severity, mine, description }) => ({
      type: kind.type,
      conditions: { ...Object.fromEntries(fields), ...kind.conditions, ...extras },
      actions,
      severity,
      description,
      agent_id: mine === null ? null : mine ? me : `${me.slice(0, -1)}0`,
    })),
  );
}
