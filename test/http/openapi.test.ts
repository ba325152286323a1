// The API's description, held against the table of routes, the schemas it is made from, and what the policy engine
// takes. What is checked here needs no service; that real requests and answers fit is checked wherever a test calls one
// (support/api.ts).

import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { Compile } from 'typebox/compile';
import { POLICY_TYPES, type PolicyType } from '../../schemas/closed-sets.ts';

import { OPERATORS } from '../../schemas/condition.ts';
import { ConditionOperators, RESERVED_KEYS } from '../../schemas/policy-conditions.ts';
import { PayloadSchema } from '../../schemas/schema-keywords.ts';
import { ERRORS } from '../../src/common/errors.ts';
import { describeApi, type OpenApiDocument } from '../../src/http/openapi/document.ts';
import { SCOPE_OF } from '../../src/http/route.ts';
import { makeRoutes } from '../../src/http/routes.ts';
import { checkPolicy } from '../../src/policy/compile.ts';
import { blockAction } from '../../src/policy/kinds/block-action.ts';
import { dataFilter } from '../../src/policy/kinds/data-filter.ts';
import { externalCheck } from '../../src/policy/kinds/external-check.ts';
import { rateLimit } from '../../src/policy/kinds/rate-limit.ts';
import { requireApproval } from '../../src/policy/kinds/require-approval.ts';
import { sequence } from '../../src/policy/kinds/sequence.ts';
import { budget } from '../../src/policy/kinds/spend-budget.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { at, escaped, OpenApiChecker } from '../support/openapi.ts';

const routes = makeRoutes({ metrics: true });
const described = JSON.parse(JSON.stringify(describeApi(routes))) as OpenApiDocument;
const checker = new OpenApiChecker(described);

type Node = Record<string, unknown>;

t.test('the description has every route, and each reference leads somewhere', async (t) => {
  for (const { method, path, operation } of routes) {
    const found = described.paths[path]?.[method.toLowerCase()] as { operationId: string } | undefined;
    t.equal(found?.operationId, operation.id, `${method} ${path}`);
  }
  t.equal(new Set(routes.map(({ operation }) => operation.id)).size, routes.length, 'operation ids are unique');
  const refs = [...JSON.stringify(described).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, to]) => to!);
  t.ok(refs.length > 200, `${refs.length} references`);
  for (const ref of new Set(refs)) {
    const target = ref
      .split('/')
      .reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], described);
    t.ok(target, ref);
  }
  const named = new Set(refs.map((ref) => ref.split('/').at(-1)!));
  t.same(
    Object.keys(described.components.schemas).filter((name) => !named.has(name)),
    [],
    'nothing has a name and is not used',
  );
});

t.test('the description is OpenAPI 3.1, and each of its schemas is strict JSON Schema', async (t) => {
  const result = await new Validator().validate(structuredClone(described) as unknown as Record<string, unknown>);
  t.ok(result.valid, JSON.stringify(result.errors)?.slice(0, 2_000));
  for (const [path, operations] of Object.entries(described.paths)) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    for (const operation of Object.values(operations) as { parameters: { in?: string; name?: string }[] }[]) {
      t.same(
        operation.parameters.filter((one) => one.in === 'path').map((one) => one.name),
        named,
        `path parameters of ${path}`,
      );
    }
  }
  for (const pointer of checker.schemaPointers()) t.doesNotThrow(() => checker.schema(pointer), pointer);
});

t.test('what is answered or sent has a name, and no form is written out twice', async (t) => {
  for (const { at, schema } of bodies()) {
    const isPlain = schema['type'] === 'string' || /openapi\.json/.test(at);
    t.ok(
      '$ref' in schema || isPlain || Array.isArray(schema['anyOf']),
      `${at}: ${JSON.stringify(schema).slice(0, 120)}`,
    );
  }
  const forms = new Map<string, string[]>();
  for (const { at, node } of nodes(described)) {
    if (Object.keys(node['properties'] ?? {}).length === 0) continue;
    const key = JSON.stringify([node['properties'], node['required']]);
    forms.set(key, [...(forms.get(key) ?? []), at]);
  }
  t.same(
    [...forms.values()].filter((places) => places.length > 1),
    [],
    'each object once',
  );
});

t.test('keys are asked for everywhere but where operators look, and for the description', async (t) => {
  const open = routes.filter(({ needs }) => needs === null).map(({ path }) => path);
  const signed = '/v1/hooks/inference/{connection}';
  const state = ['/healthz', '/metrics', '/readyz', '/readyz/traffic'];
  t.same(open.sort(), [...state, signed, '/v1/openapi.json', '/v1/session']);
  for (const { method, path, needs } of routes) {
    const said = described.paths[path]![method.toLowerCase()] as { security?: object[] } & Record<string, unknown>;
    if (path.startsWith('/v1/admin/') || needs === 'operator') {
      t.same([said.security, needs], [[{ operatorKey: [] }], 'operator'], `${method} ${path}`);
      continue;
    }
    t.same(said.security, needs === null ? [] : undefined, `${method} ${path}`);
    t.equal(said['x-required-scope'], needs === null ? undefined : SCOPE_OF[needs]);
    t.equal(said['x-required-permission'], needs === null || needs === 'admin' || needs === 'any' ? undefined : needs);
    if (needs === null || needs === 'any') continue;
    const isAdmins =
      /^\/v1\/(api-keys|sessions)/.test(path) || (/^\/v1\/(account|holds)/.test(path) && method !== 'GET');
    const isRead = method === 'GET' || path === '/v1/audit-logs/compare';
    const wanted = isAdmins ? 'admin' : isRead ? 'read' : 'write';
    t.equal(SCOPE_OF[needs], wanted, `${method} ${path}`);
    if (method === 'GET' && !isAdmins) t.equal(needs, 'read', 'every GET but those of keys and sessions is `read`');
  }
});

t.test('every body and answer has an example, and each fits its schema', async (t) => {
  for (const { method, path, body, operation } of routes) {
    if (body === undefined) continue;
    t.ok(operation.bodyExample, `${method} ${path} has one`);
    t.ok(Compile(body.schema).Check(operation.bodyExample), `${method} ${path}: as it is validated`);
  }
  // Nothing is made up that is not described.
  const strict = new OpenApiChecker(described, { closed: true });
  let count = 0;
  for (const { at, node } of nodes(described)) {
    const content = node['content'] as Record<string, { example?: unknown }> | undefined;
    if (typeof content !== 'object' || content === null) continue;
    const json = content['application/json'];
    if (json === undefined) continue;
    t.ok('example' in json, `${at} has an example`);
    const check = strict.schema(`${at}/content/application~1json/schema`);
    t.ok(check(json.example), `${at}: ${JSON.stringify(check.errors?.slice(0, 2))}`);
    count++;
  }
  t.ok(count > 60, `${count} of them`);
  for (const { at, node } of schemas()) {
    if (!Array.isArray(node['examples'])) continue;
    for (const example of node['examples'])
      t.ok(
        strict.schema(at)(example),
        `${at}: ${JSON.stringify(example)} ${JSON.stringify(strict.schema(at).errors?.[0])}`,
      );
  }
});

t.test('every property, parameter, header, body, answer and operation is described', async (t) => {
  const bare: string[] = [];
  const needs = (at: string, node: Node) => {
    if (!isSaid(node['description'])) bare.push(at);
  };
  let properties = 0;
  for (const { at, node } of schemas()) {
    for (const [name, property] of Object.entries((node['properties'] ?? {}) as Record<string, Node>)) {
      needs(`${at}/properties/${name}`, property);
      properties++;
    }
  }
  for (const [name, schema] of Object.entries(described.components.schemas)) needs(name, schema as Node);
  for (const name of ['parameters', 'headers', 'responses', 'securitySchemes'] as const) {
    for (const [key, one] of Object.entries(described.components[name])) needs(`${name}/${key}`, one as Node);
  }
  for (const tag of described.tags) needs(`tag ${tag.name}`, tag);
  type Operation = Node & { parameters: Node[]; requestBody?: Node; responses: Record<string, Node> };
  const operations = [
    ...Object.entries(described.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, one]) => [`${method} ${path}`, one as Operation] as const),
    ),
    ...Object.entries(described.webhooks).map(([name, { post }]) => [name, post as Operation] as const),
  ];
  for (const [name, one] of operations) {
    needs(name, one);
    for (const parameter of one.parameters)
      if (!('$ref' in parameter)) needs(`${name} ${parameter['name']}`, parameter);
    if (one.requestBody !== undefined) needs(`${name} body`, one.requestBody);
    for (const [status, answer] of Object.entries(one.responses))
      if (!('$ref' in answer)) needs(`${name} ${status}`, answer);
  }
  t.same(bare, [], `${properties} properties`);
  t.ok(properties > 350, `${properties} properties`);
});

t.test('the description says what each route answers', async (t) => {
  type Responses = Record<string, { 'x-error-codes'?: string[] }>;
  const responses = (path: string, method: string) =>
    (described.paths[path]![method] as { responses: Responses }).responses;
  const codes = (path: string, method: string, status: string) =>
    (at(described, (responses(path, method)[status] as { $ref: string }).$ref) as Responses[string])['x-error-codes'];
  const statuses = (path: string, method: string) => Object.keys(responses(path, method)).map(Number);
  t.same(statuses('/v1/agents', 'post'), [200, 201, 400, 401, 403, 408, 411, 413, 415, 429, 431, 500, 503]);
  t.same(statuses('/v1/policies', 'post'), [201, 400, 401, 403, 408, 409, 411, 413, 415, 429, 431, 500, 503]);
  t.same(statuses('/v1/agents/{id}', 'delete'), [204, 400, 401, 403, 404, 408, 409, 411, 413, 429, 431, 500, 503]);
  t.same(statuses('/healthz', 'get'), [200, 408, 411, 431, 500]);
  t.same(statuses('/readyz/traffic', 'get'), [200, 408, 411, 431, 500, 503]);
  t.same(codes('/v1/policies', 'post', '409'), ['name_taken', 'idempotency_conflict', 'idempotency_in_progress']);
  t.same((described.components.schemas['ErrorCode'] as { enum: string[] }).enum, Object.keys(ERRORS), 'a closed set');
});

t.test('conditions are described with the words that the engine knows', async (t) => {
  t.same(Object.keys(ConditionOperators.properties), [...OPERATORS], 'operators');
  const kinds = {
    block_action: blockAction,
    rate_limit: rateLimit,
    data_filter: dataFilter,
    require_approval: requireApproval,
    sequence,
    external_check: externalCheck,
    budget,
  };
  for (const type of POLICY_TYPES) {
    t.same(RESERVED_KEYS[type], [...kinds[type].reserved, 'expression', 'payload_schema'], type);
  }
  const [, object] = (PayloadSchema as unknown as { anyOf: [object, { properties: Node }] }).anyOf;
  const keywords = Object.keys(object.properties);
  for (const keyword of keywords) {
    const wrong = { block_action: {}, conditions: { payload_schema: { [keyword]: undefined } } };
    t.notMatch(mistakes('block_action', wrong.conditions), /unknown keyword|not supported/, keyword);
  }
  t.match(mistakes('block_action', { payload_schema: { format: 'email' } }), /not supported/);
});

/** The conditions that the engine takes and refuses, by type: each is held against the description as well. */
const TAKEN: [PolicyType, object][] = [
  ['external_check', { check: 'guard', on_timeout: 'match', on_error: 'pending', on_overload: 'skip' }],
  ['external_check', { check: 'guard', redact: true, on_timeout: 'match', on_error: 'match', on_overload: 'skip' }],
  [
    'external_check',
    {
      ...{ type: 'completion', 'payload.origin': 'web', check: 'guard', fields: ['payload.text'] },
      when: { score: { gte: 0.8, lt: 1 }, labels: ['S1'] },
      ...{ on_timeout: 'match', on_error: 'match', on_overload: 'match' },
    },
  ],
  ['block_action', {}],
  [
    'block_action',
    { type: 'tool_call', tool: ['pay', 'send'], 'payload.a.0.b': { gt: 1, lte: 5.5 }, 'payload.timeout': null },
  ],
  ['block_action', { tool: { exists: false }, trace_id: { matches: '^a+$' }, x: { not_in: ['x', 1, true, null] } }],
  ['block_action', { expression: 'event.type == "prompt"', payload_schema: true }],
  [
    'block_action',
    {
      'payload.arguments': {
        shell: [
          { command: 'rm', flags: ['r|R|recursive', 'f'], operands: ['/*'] },
          { command: ['git', 'hg'], subcommand: 'push', last_operand: ['main'] },
          { redirect_to: '/dev/sd*' },
          { output_of: 'curl', run_by: ['sh', 'bash'] },
          { fork_bomb: true },
        ],
        sql: { statement: ['delete', 'update'], name: 'users', where: 'none' },
      },
      query: {
        sql: [
          { statement: 'drop', object: 'table' },
          { statement: 'alter', action: 'drop *' },
        ],
      },
    },
  ],
  [
    'block_action',
    {
      payload_schema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: ['object', 'null'],
        required: ['model'],
        properties: { model: { enum: ['a', 1, null] }, n: { type: 'integer', minimum: 0, multipleOf: 0.5 } },
        patternProperties: { '^x-': { type: 'string', maxLength: 5, pattern: 'a' } },
        additionalProperties: false,
        anyOf: [{ not: { const: 3 } }, true],
        if: {},
        // biome-ignore lint/suspicious/noThenProperty: JSON Schema's word
        then: { prefixItems: [{}], items: false, contains: {}, minContains: 1 },
        dependentRequired: { a: ['b'] },
        title: 't',
        examples: [1],
        default: {},
      },
    },
  ],
  ['rate_limit', { threshold: 1, window: 60 }],
  ['rate_limit', { threshold: 1_000_000_000, window: '86400s', per: 'account', tool: 'x' }],
  ['rate_limit', { threshold: 5, window: '1d', per: 'payload.tool' }],
  ['data_filter', { patterns: ['a+'], fields: ['payload.prompt', 'prompt'], redact: true, type: 'prompt' }],
  ['data_filter', { detectors: ['email', 'private_key'] }],
  ['require_approval', {}],
  ['require_approval', { timeout: 1, on_timeout: 'approve' }],
  ['require_approval', { timeout: '30d', tool: { in: ['a'], ne: 'b', contains: 'c' } }],
];
const SAID = { check: 'guard', on_timeout: 'match', on_error: 'match', on_overload: 'match' };
const REFUSED: [PolicyType, object][] = [
  ['external_check', { ...SAID, check: undefined }],
  ['external_check', { check: 'guard', on_error: 'match', on_overload: 'match' }],
  ['external_check', { check: 'guard', on_timeout: 'match', on_overload: 'match' }],
  ['external_check', { check: 'guard', on_timeout: 'match', on_error: 'match' }],
  ['external_check', { ...SAID, on_error: 'allow' }],
  ['external_check', { ...SAID, fields: [] }],
  ['external_check', { ...SAID, when: {} }],
  ['external_check', { ...SAID, when: { score: { gte: 2 } } }],
  ['external_check', { ...SAID, when: { score: { eq: 0.5 } } }],
  ['external_check', { ...SAID, when: { labels: [] } }],
  ['external_check', { ...SAID, when: { verdict: true } }],
  ['external_check', { ...SAID, redact: 'yes' }],
  ['external_check', { ...SAID, timeout: '1h' }],
  ['block_action', { tool: [] }],
  ['block_action', { tool: {} }],
  ['block_action', { tool: { grt: 5 } }],
  ['block_action', { tool: { gt: 'five' } }],
  ['block_action', { tool: [['nested']] }],
  ['block_action', { threshold: 5 }],
  ['block_action', { expression: 5 }],
  ['block_action', { payload_schema: { $ref: '#' } }],
  ['block_action', { payload_schema: { type: 'text' } }],
  ['rate_limit', { window: 60 }],
  ['rate_limit', { threshold: 5 }],
  ['rate_limit', { threshold: 0, window: 60 }],
  ['rate_limit', { threshold: 1.5, window: 60 }],
  ['rate_limit', { threshold: 5, window: '1w' }],
  ['rate_limit', { threshold: 5, window: 60, timeout: '1h' }],
  ['data_filter', { detectors: ['emails'] }],
  ['data_filter', { patterns: 'a' }],
  ['data_filter', { patterns: ['a'], redact: 'yes' }],
  ['require_approval', { on_timeout: 'ask' }],
  ['require_approval', { timeout: 0 }],
];

t.test('a policy that the engine takes fits the description, and no other form is described', async (t) => {
  const check = checker.schema('#/components/schemas/PolicyCreate');
  const patch = checker.schema('#/components/schemas/PolicyPatch');
  const policy = (type: PolicyType, conditions: object) => ({ name: 'p', type, conditions, actions: ['block'] });
  for (const [type, conditions] of TAKEN) {
    const text = `${type} ${JSON.stringify(conditions)}`;
    t.equal(mistakes(type, conditions), '', `the engine takes ${text}`);
    t.ok(check(policy(type, conditions)), `described: ${text} ${JSON.stringify(check.errors?.slice(0, 3))}`);
    t.ok(patch({ conditions }), `described as a change: ${text}`);
  }
  for (const [type, conditions] of REFUSED) {
    const text = `${type} ${JSON.stringify(conditions)}`;
    t.not(mistakes(type, conditions), '', `the engine refuses ${text}`);
    t.notOk(check(policy(type, conditions)), `not described: ${text}`);
  }
});

function mistakes(type: PolicyType, conditions: object): string {
  try {
    checkPolicy({ type, conditions, actions: ['block'] });
    return '';
  } catch (error) {
    if (error instanceof PolicyError) return error.message;
    throw error;
  }
}

/** Lists every schema in the description, those inside others too. */
function schemas(): { at: string; node: Node }[] {
  return nodes(described).filter(
    ({ at }) =>
      /^#\/components\/schemas\/|\/schema(\/|$)/.test(at) &&
      !/\/(properties|examples?|mapping)$|\/examples?\//.test(at),
  );
}

function isSaid(text: unknown): boolean {
  return typeof text === 'string' && text.trim().length >= 4;
}

/** Schemas of all bodies and answers. */
function bodies(): { at: string; schema: Node }[] {
  return nodes(described).flatMap(({ at, node }) => {
    const content = node['content'] as Record<string, { schema?: Node }> | undefined;
    if (typeof content !== 'object' || content === null) return [];
    return Object.values(content).flatMap(({ schema }) => (schema === undefined ? [] : [{ at, schema }]));
  });
}

function nodes(value: unknown, at = '#'): { at: string; node: Node }[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = Array.isArray(value) ? [] : [{ at, node: value as Node }];
  return [...own, ...Object.entries(value).flatMap(([key, item]) => nodes(item, `${at}/${escaped(key)}`))];
}
