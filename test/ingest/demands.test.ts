// Demands never lose a match: what the codec on bytes says of an event without values, by its rules' demands, is what
// the engine says that judges every rule. Policies of every form of demand (conditions on paths, expressions, schemas,
// limits by a value) against payloads in which paths lead to everything they can. GATEHOUSE_TEST_PAIRS=1000000 sets how
// many pairs of a policy and an event are compared (default 20,000), GATEHOUSE_TEST_SEED begins elsewhere.
import t from 'tap';
import { atOnce } from '../../src/common/steps.ts';
import { JsonCodec } from '../../src/ingest/json-codec.ts';
import { WasmCodec } from '../../src/ingest/wasm-codec.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import type { EntryCheck, Judgement } from '../../src/policy/judgement.ts';
import { randomFrom, runs, SEED } from '../support/seed.ts';
import { account, agent, agentId, NOW, policiesOf, ruleSet } from './support.ts';

const PAIRS = runs(Number(process.env['GATEHOUSE_TEST_PAIRS'] ?? 20_000));
const POLICIES = 40;
const random = randomFrom(SEED);

function pick<T>(items: readonly T[]): T {
  return items[Math.floor(random() * items.length)]!;
}

const TYPES = ['prompt', 'completion', 'tool_call', 'error', 'custom'];
const KEYS = ['tool', 'a', 'b', 'code', 'amount', 'arguments', 'model', 'usage', 'response', 'ｔool', 'a\u00ad'];
const PATHS = [
  ...KEYS,
  'arguments.amount',
  'a.b',
  'a.b.code',
  'usage.amount',
  'response.usage.a',
  'a.0',
  'arguments.tool',
];
const TEXTS = [
  'send',
  'retired-1',
  'E9',
  '7',
  'x',
  '',
  'a b',
  'päss',
  // As they are, and folded to one of the others.
  'ｓｅｎｄ',
  'se\u200bnd',
  'ज़ x',
  'น้ำ',
  '７',
  '٧',
  'long text '.repeat(40),
  '{"amount":7}',
  '["send"]',
  '{bad: json',
];
const SCALARS = [...TEXTS, 5, 7, 12.5, -1, true, null, 1e21];
const scalar = () => pick(SCALARS);

const conditions: (() => object)[] = [
  () => ({ [pick(PATHS)]: scalar() }),
  () => ({ [pick(PATHS)]: [scalar(), scalar()] }),
  () => ({ [pick(PATHS)]: { ne: scalar() } }),
  () => ({ [pick(PATHS)]: { not_in: [scalar(), scalar()] } }),
  () => ({ [pick(PATHS)]: { exists: pick([true, false]) } }),
  () => ({ [pick(PATHS)]: { [pick(['gt', 'gte', 'lt', 'lte'])]: pick([5, 7, 12.5]) } }),
  () => ({
    [pick(PATHS)]: { [pick(['contains', 'starts_with', 'ends_with', 'glob'])]: pick(['send', 'x', 'a b', 'E*']) },
  }),
  () => ({ [pick(PATHS)]: { matches: pick(['^send$', '(?i)e9', '[0-9]+', 'x|y']) } }),
  () => ({ [pick(PATHS)]: { shell: { command: 'send' } } }),
  () => ({ type: pick(TYPES) }),
  () => ({ type: { ne: pick(TYPES) } }),
  () => ({ tool: pick(['send', 'x']) }),
  () => ({ trace_id: pick(['t-1', { ne: 't-1' }, { exists: false }, { starts_with: 't' }]) }),
  () => ({ expression: expression(2) }),
  () => ({ payload_schema: schema(2) }),
];

function celPath(): string {
  const keys = pick(PATHS).split('.');
  return keys.reduce(
    (path, key) => (/^\d/.test(key) || random() < 0.2 ? `${path}["${key}"]` : `${path}.${key}`),
    'event.payload',
  );
}

function expression(depth: number): string {
  const path = celPath();
  if (depth > 0 && random() < 0.7) {
    const parts = Array.from({ length: 2 + Math.floor(random() * 2) }, () => expression(depth - 1));
    return `(${parts.join(pick([' && ', ' && ', ' || ']))})`;
  }
  const member = pick(['tool', 'a', 'arguments.amount', 'a.b', 'a.b.code', 'usage.amount']);
  return pick([
    `event.type == "${pick(TYPES)}"`,
    `has(event.payload.${member}) && event.payload.${member} == "${pick(['send', 'long text'])}"`,
    `has(event.payload.${member}) && event.payload.${member}.contains("send")`,
    `event.type in ["${pick(TYPES)}", "prompt"]`,
    `event.type != "${pick(TYPES)}"`,
    `has(event.payload.${pick(KEYS)})`,
    `has(event.payload.${pick(['arguments.amount', 'a.b', 'a.b.code', 'usage.amount'])})`,
    `!has(event.payload.${pick(KEYS)})`,
    `${path} == "${pick(['send', 'E9', 'x'])}"`,
    `${path} != "${pick(['send', 'E9', 'x'])}"`,
    `${path} in ["send", "x"]`,
    `${path}.startsWith("${pick(['send', 'long', 'E'])}")`,
    `${path}.contains("${pick(['send', 'text', 'b'])}")`,
    `${path} ${pick(['>', '>=', '<', '<=', '==', '!='])} ${pick(['5', '7.0', '12.5', '100'])}`,
    `size(event.payload) > ${pick(['1', '3'])}`,
    `event.payload.tool.matches("^s")`,
    `agent.metadata.team == "red"`,
    `event.trace_id == "t-1"`,
  ]);
}

function schema(depth: number): object {
  const properties = Object.fromEntries(
    Array.from({ length: 1 + Math.floor(random() * 2) }, () => [
      pick(KEYS),
      depth > 0 && random() < 0.5 ? schema(depth - 1) : leaf(),
    ]),
  );
  return {
    ...(random() < 0.7 ? { type: pick(['object', ['object', 'null'], 'object', 'string']) } : {}),
    ...(random() < 0.6 ? { required: [pick(KEYS)] } : {}),
    ...(random() < 0.9 ? { properties } : {}),
    ...(random() < 0.1 ? { additionalProperties: true } : {}),
  };
}

function leaf(): object {
  return pick([
    { type: 'string', maxLength: pick([3, 200]) },
    { type: ['string', 'integer'], minLength: 2 },
    { type: 'integer', minimum: 6 },
    { type: 'number', maximum: 7 },
    { enum: ['send', 'x', null, 5] },
    { const: pick(['send', 7, true]) },
    { type: 'boolean' },
    { type: 'object', required: ['amount'] },
    { title: 'any' },
    { pattern: '^s' },
  ]);
}

function order(): object {
  const given = Object.assign({}, ...Array.from({ length: 1 + Math.floor(random() * 2) }, () => pick(conditions)()));
  const kind = random();
  if (kind < 0.15)
    return {
      type: 'rate_limit',
      conditions: {
        threshold: 5,
        window: '1m',
        ...(random() < 0.8 ? { per: pick([...PATHS.map((p) => `payload.${p}`), 'type', 'trace_id', 'account']) } : {}),
        ...(random() < 0.6 ? {} : given),
      },
      actions: ['block'],
    };
  if (kind < 0.3)
    return {
      type: 'data_filter',
      conditions: { patterns: [pick(['send', 'retired', 'text lon'])], ...given },
      actions: ['log'],
    };
  return { type: 'block_action', conditions: given, actions: ['log'] };
}

function value(depth: number): unknown {
  const kind = random();
  if (depth > 0 && kind < 0.4) return payload(depth - 1);
  if (depth > 0 && kind < 0.5) return Array.from({ length: Math.floor(random() * 3) }, () => value(depth - 1));
  if (depth > 0 && kind < 0.55) return JSON.stringify(payload(depth - 1));
  return scalar();
}

const ODD_KEYS = ['to\u200bol', '\uff41mount', 'cöde', 'a\u007f'];

function payload(depth: number): Record<string, unknown> {
  const members = Array.from({ length: Math.floor(random() * 5) }, () => [
    random() < 0.04 ? pick(ODD_KEYS) : random() < 0.05 ? '0' : pick(KEYS),
    value(depth),
  ]);
  return Object.fromEntries(members);
}

/** As it may be written: blanks between tokens, escapes in texts. */
function written(value: object): string {
  const kind = random();
  const json = kind < 0.2 ? JSON.stringify(value, null, 1) : JSON.stringify(value);
  return kind > 0.9
    ? json.replaceAll(/(?<=: ?"[^"\\]{0,20})[sx](?=[^":]*"[,}])/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)
    : json;
}

function shown(rules: RuleSet, { found, rateChecks, redacted }: Judgement): string {
  return JSON.stringify([
    found.map(({ entry, detail }) => [entry.order, detail]),
    (rateChecks as readonly EntryCheck[]).map(({ entry, counterScope, counterValue, unevaluated }) => [
      entry.order,
      counterScope,
      counterValue,
      unevaluated,
    ]),
    redacted?.payloadText,
    rules.size,
  ]);
}

t.test('a policy says the same by its demands and by the engine alone', (t) => {
  const [wasm, json] = [new WasmCodec(), new JsonCodec()];
  const counts = { pairs: 0, matched: 0, counted: 0, notRead: 0 };
  while (counts.pairs < PAIRS) {
    const orders = Array.from({ length: POLICIES }, order);
    const rules = orders.flatMap((one) => ruleSet(policiesOf([one] as never)) ?? []);
    const together = ruleSet(policiesOf(orders as never));
    if (together !== null) rules.push(together);
    for (let i = 0; i < 20; i++) {
      const trace = pick([undefined, 't-1', 'other']);
      const body = Buffer.from(
        `{"type":"${pick(TYPES)}"${trace === undefined ? '' : `,"trace_id":"${trace}"`},"payload":${written(payload(3))}}`,
      );
      for (const set of rules) {
        const request = { account, agentId, shape: 'one' as const, body, requestId: 'r', idempotencyKey: undefined };
        const options = { rules: set, nowMs: NOW, eventBytesMax: 1 << 20 };
        const fast = wasm.decode(request, options);
        counts.pairs++;
        if (fast === undefined) {
          counts.notRead++;
          continue;
        }
        const judged = atOnce(fast.judging(0, agent, set));
        const expected = atOnce(json.decode(request, options).judging(0, agent, set))!;
        fast.release();
        if (judged.found.length > 0) counts.matched++;
        if (judged.rateChecks.length > 0) counts.counted++;
        const [is, wanted] = [shown(set, judged), shown(set, expected)];
        if (is !== wanted) {
          t.fail(
            `${body}\n${JSON.stringify(set.policies.map(({ type, conditions }) => [type, conditions]))}\nby demands ${is}\nby engine  ${wanted}`,
          );
          t.end();
          return;
        }
      }
    }
  }
  t.comment(JSON.stringify(counts));
  t.ok(counts.matched > counts.pairs / 50 && counts.counted > counts.pairs / 50, JSON.stringify(counts));
  t.end();
});
