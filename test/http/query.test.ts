// Query strings, read strictly; and the API's description, held against the table of routes and the schemas it is made from.
import Ajv2020 from 'ajv/dist/2020.js';
import t from 'tap';
import { Compile } from 'typebox/compile';
import { STATUSES } from '../../schemas/common.ts';
import type { ServiceError } from '../../src/errors.ts';
import { describeApi, type OpenApiDocument } from '../../src/http/openapi.ts';
import { oneOf, paging, parseQuery, text, time } from '../../src/http/query.ts';
import { makeRoutes } from '../../src/http/routes.ts';

const parameters = {
  ...paging({ default: 20, maximum: 100 }),
  status: oneOf('', STATUSES),
  from: time(''),
  q: text('', 10),
};

t.test('what is not there has its default', async (t) => {
  const absent = { limit: 20, offset: 0, status: undefined, from: undefined, q: undefined };
  t.same(parseQuery(parameters, ''), absent);
  t.same(parseQuery(parameters, '&&'), absent);
});

t.test('values are read as what they are', async (t) => {
  const read = parseQuery(
    parameters,
    'limit=100&offset=7&status=active&from=2026-11-20T12:00:00%2B01:00&q=a+b%20%C3%A9',
  );
  t.same(read, { limit: 100, offset: 7, status: 'active', from: Date.UTC(2026, 10, 20, 11), q: 'a b é' });
  t.equal(
    parseQuery(parameters, 'from=2026-11-20T12:00:00+01:00').from,
    Date.UTC(2026, 10, 20, 11),
    'an offset whose + nobody escaped',
  );
  t.equal(parseQuery(parameters, 'q=%22a%3Db%26%22').q, '"a=b&"');
  t.equal(parseQuery(parameters, 'q=a=b').q, 'a=b');
});

t.test('whatever does not fit is refused, and named', async (t) => {
  const refused: [string, string][] = [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=0x10', 'limit'],
    ['limit= 5', 'limit'],
    ['limit=٣', 'limit'],
    ['limit=', 'limit'],
    ['limit', 'limit'],
    ['limit=99999999999999999999', 'limit'],
    ['offset=-1', 'offset'],
    ['offset=1000000001', 'offset'],
    ['limit=5&limit=5', 'limit'],
    ['status=ACTIVE', 'status'],
    ['status=', 'status'],
    ['from=yesterday', 'from'],
    ['from=2026-11-20', 'from'],
    ['from=2026-11-20T12:00:00', 'from'],
    ['from=2026-02-30T12:00:00Z', 'from'],
    ['q=', 'q'],
    [`q=${'x'.repeat(11)}`, 'q'],
    ['q=%zz', 'q'],
    ['q=%C3', 'q'],
    ['q=%ED%A0%80', 'q'],
    ['q=100%', 'q'],
    ['%zz=1', '%zz'],
    ['limt=5', 'limt'],
    ['LIMIT=5', 'LIMIT'],
    ['limit[]=5', 'limit[]'],
    ['__proto__=1', '__proto__'],
    ['constructor=1', 'constructor'],
    ['=1', ''],
  ];
  for (const [raw, path] of refused) {
    t.throws(() => parseQuery(parameters, raw), { code: 'validation_failed', details: [{ path }] }, raw);
  }
  try {
    parseQuery(parameters, 'limit=0&offset=x&nope=1');
    t.fail('must be refused');
  } catch (error) {
    t.same(
      (error as ServiceError).details?.map(({ path }) => path),
      ['limit', 'offset', 'nope'],
      'all at once',
    );
  }
  t.throws(
    () => parseQuery({}, 'x=1'),
    { code: 'validation_failed', details: [{ path: 'x' }] },
    'where nothing is known',
  );
});

const routes = makeRoutes({ metrics: true });
const described = describeApi(routes);

t.test('the description has every route, and each reference leads somewhere', async (t) => {
  for (const { method, path, operation } of routes) {
    const found = described.paths[path]?.[method.toLowerCase()] as { operationId: string } | undefined;
    t.equal(found?.operationId, operation.id, `${method} ${path}`);
  }
  t.equal(new Set(routes.map(({ operation }) => operation.id)).size, routes.length, 'operation ids are unique');
  const refs = [...JSON.stringify(described).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, to]) => to!);
  t.ok(refs.length > 50, `${refs.length} references`);
  for (const ref of new Set(refs)) {
    const target = ref
      .split('/')
      .reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], described);
    t.ok(target, ref);
  }
  t.match(
    JSON.stringify(described.components.schemas.Event),
    /#\/components\/schemas\/PolicyResult/,
    'named schemas are referred to inside others',
  );
});

t.test('the description is OpenAPI 3.1 in form', async (t) => {
  const ajv = new Ajv2020.default({ strict: false, allErrors: true, validateFormats: false });
  const check = ajv.compile(OPENAPI_FORM);
  t.ok(check(described), JSON.stringify(check.errors?.slice(0, 5)));
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
  for (const [name, schema] of Object.entries(described.components.schemas)) {
    t.ok(
      ajv.validateSchema({ ...schema, $schema: 'https://json-schema.org/draft/2020-12/schema' }),
      `${name} is JSON Schema 2020-12`,
    );
  }
});

t.test('keys are asked for everywhere but where operators look, and for the description', async (t) => {
  const open = routes.filter(({ scope }) => scope === null).map(({ path }) => path);
  t.same(open.sort(), ['/healthz', '/metrics', '/readyz', '/v1/openapi.json']);
  for (const { method, path, scope } of routes) {
    if (scope === null) continue;
    const isAdmins = path.startsWith('/v1/api-keys') || (path === '/v1/account' && method !== 'GET');
    const wanted = isAdmins ? 'admin' : method === 'GET' ? 'read' : 'write';
    t.equal(scope, wanted, `${method} ${path}`);
  }
});

t.test('examples of bodies fit their schemas', async (t) => {
  for (const { method, path, body, operation } of routes) {
    if (body === undefined) continue;
    t.ok(operation.bodyExample, `${method} ${path} has one`);
    t.ok(Compile(body.schema).Check(operation.bodyExample), `${method} ${path}`);
  }
});

t.test('the description says what each route answers', async (t) => {
  const statuses = (path: string, method: string) =>
    Object.keys((described.paths[path]![method] as { responses: OpenApiDocument['paths'] }).responses).map(Number);
  t.same(statuses('/v1/agents', 'post'), [200, 201, 400, 401, 403, 413, 415, 429, 500, 503]);
  t.same(statuses('/v1/policies', 'post'), [201, 400, 401, 403, 409, 413, 415, 429, 500, 503]);
  t.same(statuses('/v1/agents/{id}', 'delete'), [204, 400, 401, 403, 404, 413, 429, 500, 503]);
  t.same(statuses('/healthz', 'get'), [200, 500]);
});

/** What the OpenAPI 3.1 specification demands of the parts that we use. */
const OPENAPI_FORM = {
  type: 'object',
  required: ['openapi', 'info', 'paths', 'components'],
  properties: {
    openapi: { const: '3.1.0' },
    info: {
      type: 'object',
      required: ['title', 'version'],
      properties: { title: { type: 'string' }, version: { type: 'string' } },
    },
    servers: { type: 'array', items: { type: 'object', required: ['url'] } },
    tags: {
      type: 'array',
      items: {
        type: 'object',
        required: ['name'],
        additionalProperties: false,
        properties: { name: { type: 'string' } },
      },
    },
    security: { type: 'array', items: { type: 'object', additionalProperties: { type: 'array' } } },
    paths: {
      type: 'object',
      propertyNames: { pattern: '^/' },
      additionalProperties: {
        type: 'object',
        propertyNames: { enum: ['get', 'post', 'patch', 'delete'] },
        additionalProperties: { $ref: '#/$defs/operation' },
      },
    },
    components: {
      type: 'object',
      propertyNames: { enum: ['schemas', 'securitySchemes', 'parameters'] },
      properties: {
        schemas: {
          type: 'object',
          propertyNames: { pattern: '^[A-Za-z0-9._-]+$' },
          additionalProperties: { type: 'object' },
        },
        securitySchemes: {
          type: 'object',
          additionalProperties: {
            type: 'object',
            required: ['type', 'scheme'],
            properties: { type: { const: 'http' }, scheme: { const: 'bearer' } },
          },
        },
        parameters: { type: 'object', additionalProperties: { $ref: '#/$defs/parameter' } },
      },
    },
  },
  additionalProperties: false,
  $defs: {
    operation: {
      type: 'object',
      required: ['operationId', 'responses'],
      properties: {
        operationId: { type: 'string' },
        parameters: { type: 'array', items: { anyOf: [{ $ref: '#/$defs/reference' }, { $ref: '#/$defs/parameter' }] } },
        requestBody: { type: 'object', required: ['content'], properties: { content: { $ref: '#/$defs/content' } } },
        responses: {
          type: 'object',
          minProperties: 1,
          propertyNames: { pattern: '^[1-5][0-9][0-9]$' },
          additionalProperties: { $ref: '#/$defs/response' },
        },
      },
      propertyNames: {
        enum: [
          'operationId',
          'tags',
          'summary',
          'description',
          'security',
          'parameters',
          'requestBody',
          'responses',
          'x-required-scope',
        ],
      },
    },
    reference: { type: 'object', required: ['$ref'], properties: { $ref: { type: 'string' } } },
    parameter: {
      type: 'object',
      required: ['name', 'in', 'schema'],
      properties: {
        name: { type: 'string' },
        in: { enum: ['query', 'path', 'header'] },
        required: { type: 'boolean' },
        schema: { type: 'object' },
      },
      if: { properties: { in: { const: 'path' } } },
      // biome-ignore lint/suspicious/noThenProperty: JSON Schema's word
      then: { required: ['required'], properties: { required: { const: true } } },
    },
    response: {
      type: 'object',
      required: ['description'],
      properties: {
        description: { type: 'string', minLength: 1 },
        headers: { type: 'object', additionalProperties: { type: 'object', required: ['schema'] } },
        content: { $ref: '#/$defs/content' },
      },
      additionalProperties: false,
    },
    content: {
      type: 'object',
      minProperties: 1,
      additionalProperties: { type: 'object', required: ['schema'], properties: { schema: { type: 'object' } } },
    },
  },
};
