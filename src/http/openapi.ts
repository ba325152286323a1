// Describes the API (OpenAPI 3.1) from the table of routes and the schemas that validate it, so that it cannot say anything
// else than what is done (GET /v1/openapi.json, decisions 9). Made once, when a server starts.
// A schema that has a name stands under `components` and is referred to wherever it occurs, inside others too.
import Type, { type TSchema } from 'typebox';
import { Account, AccountPatch } from '../../schemas/account.ts';
import { Agent, AgentCreate, AgentPatch } from '../../schemas/agent.ts';
import { Alert, AlertCreate, AlertCreated, AlertPatch } from '../../schemas/alert.ts';
import { Anomaly } from '../../schemas/anomaly.ts';
import { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../schemas/api-key.ts';
import { AuditLog } from '../../schemas/audit-log.ts';
import { ErrorBody, ErrorDetail } from '../../schemas/error.ts';
import {
  Batch,
  BatchResult,
  Event,
  EventError,
  PolicyMatch,
  PolicyResult,
  Submission,
  Trace,
  TraceWithEvents,
} from '../../schemas/event.ts';
import { Policy, PolicyCreate, PolicyPatch } from '../../schemas/policy.ts';
import { readAsset } from '../assets.ts';
import { ERRORS, type ErrorCode } from '../errors.ts';
import { type Route, route } from './route.ts';

const NAMED: Record<string, TSchema> = {
  Account,
  AccountPatch,
  Agent,
  AgentCreate,
  AgentPatch,
  Submission,
  Batch,
  Event,
  EventError,
  BatchResult,
  PolicyResult,
  PolicyMatch,
  Trace,
  TraceWithEvents,
  Policy,
  PolicyCreate,
  PolicyPatch,
  Alert,
  AlertCreate,
  AlertCreated,
  AlertPatch,
  Anomaly,
  AuditLog,
  ApiKey,
  ApiKeyCreate,
  ApiKeyCreated,
  ErrorBody,
  ErrorDetail,
};
const NAMES = new Map(Object.entries(NAMED).map(([name, schema]) => [JSON.stringify(schema), name]));

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'The first answer is kept for 24 h and given again to a retry with the same key and body',
  schema: { type: 'string', pattern: '^[\\x20-\\x7e]{1,255}$' },
};
const REQUEST_ID = {
  name: 'X-Request-Id',
  in: 'header',
  description:
    "Comes back on the answer, and stands in errors, logs and audit entries; left out or of another form: the service's own",
  schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
};
const INCOMPLETE_HEADER = {
  description: '`true` where writes acknowledged before this read may be missing from it',
  schema: { type: 'string', const: 'true' },
};
const REQUEST_ID_HEADER = { description: 'Names this request', schema: { type: 'string' } };

export type OpenApiDocument = {
  openapi: string;
  info: object;
  servers: object[];
  security: object[];
  tags: { name: string }[];
  paths: Record<string, Record<string, object>>;
  components: { schemas: Record<string, object>; securitySchemes: object; parameters: object };
};

export function openApiRoute(others: readonly Route[]): Route {
  const own: Route = route({
    method: 'GET',
    path: '/v1/openapi.json',
    // It tells nothing of an account: whoever generates a client from it, in a build, needs no key for that.
    scope: null,
    operation: {
      id: 'getOpenApi',
      tag: 'Operations',
      summary: 'This description',
      answers: { 200: { description: 'OpenAPI 3.1', schema: Type.Object({}) } },
    },
    handle: () => ({ status: 200, body }),
  });
  const body = JSON.stringify(describeApi([...others, own]));
  return own;
}

export function describeApi(routes: readonly Route[]): OpenApiDocument {
  const paths: OpenApiDocument['paths'] = {};
  for (const one of routes) {
    const path = paths[one.path] ?? {};
    path[one.method.toLowerCase()] = operation(one);
    paths[one.path] = path;
  }
  const { version } = JSON.parse(readAsset('package.json')) as { version: string };
  return {
    openapi: '3.1.0',
    info: { title: 'Gatehouse', version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }],
    tags: [...new Set(routes.map((one) => one.operation.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(NAMED).map(([name, schema]) => [name, referring(plain(schema), false)]),
      ),
      securitySchemes: {
        apiKey: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key; its scope is read, write or admin, each including the ones before',
        },
      },
      parameters: { IdempotencyKey: IDEMPOTENCY_KEY, RequestId: REQUEST_ID },
    },
  };
}

function operation(one: Route): object {
  const { id, tag, summary, description, answers, bodyExample, canBeIncomplete } = one.operation;
  const responses: Record<string, object> = {};
  for (const [status, answer] of Object.entries(answers)) {
    const type = answer.contentType ?? 'application/json';
    const media = answer.schema && {
      schema: referring(plain(answer.schema), true),
      ...(answer.example ? { example: answer.example } : {}),
    };
    responses[status] = {
      description: answer.description,
      headers: {
        'X-Request-Id': REQUEST_ID_HEADER,
        ...(canBeIncomplete ? { 'Gatehouse-Incomplete': INCOMPLETE_HEADER } : {}),
      },
      ...(media ? { content: { [type]: media } } : {}),
    };
  }
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...(one.scope === null ? { security: [] } : { 'x-required-scope': one.scope }),
    parameters: parameters(one),
    ...(one.body ? { requestBody: requestBody(one, bodyExample) } : {}),
    responses: { ...responses, ...errorResponses(errorsOf(one), canBeIncomplete ?? false) },
  };
}

function parameters(one: Route): object[] {
  const inPath = [...one.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const inQuery = Object.entries(one.query ?? {}).map(([name, { description, schema }]) => ({
    name,
    in: 'query',
    description,
    schema,
  }));
  const inHeader = [
    { $ref: '#/components/parameters/RequestId' },
    ...(one.idempotency === 'heeded' ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  return [...inPath, ...inQuery, ...inHeader];
}

function requestBody(one: Route, example: unknown): object {
  const schema = referring(plain(one.body!.schema), true);
  return { required: true, content: { 'application/json': { schema, ...(example === undefined ? {} : { example }) } } };
}

/** What follows from the row, then what the row adds. */
function errorsOf(one: Route): Set<ErrorCode> {
  const codes = new Set<ErrorCode>(one.operation.errors ?? []);
  const add = (...more: ErrorCode[]) => {
    for (const code of more) codes.add(code);
  };
  if (one.scope !== null)
    add('validation_failed', 'invalid_token', 'insufficient_scope', 'rate_limited', 'unavailable');
  if (one.scope !== null) add('payload_too_large');
  if (one.body) add('malformed_json', 'unsupported_media_type');
  add('internal');
  if (one.path.includes('{')) add('not_found');
  return codes;
}

function errorResponses(codes: Set<ErrorCode>, canBeIncomplete: boolean): Record<string, object> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    if (codes.has(code)) byStatus.set(ERRORS[code].status, [...(byStatus.get(ERRORS[code].status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, of]) => [String(status), errorResponse(status, of, canBeIncomplete)]),
  );
}

function errorResponse(status: number, codes: ErrorCode[], canBeIncomplete: boolean): object {
  const headers: Record<string, object> = { 'X-Request-Id': REQUEST_ID_HEADER };
  if (status === 401) headers['WWW-Authenticate'] = { schema: { type: 'string', const: 'Bearer' } };
  if (status === 429 || status === 503)
    headers['Retry-After'] = { description: 'Seconds', schema: { type: 'integer', minimum: 1 } };
  if (status === 404 && canBeIncomplete) headers['Gatehouse-Incomplete'] = INCOMPLETE_HEADER;
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].when}`).join('; '),
    headers,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorBody' } } },
  };
}

/** Without what typebox keeps for itself. */
function plain(schema: TSchema): unknown {
  return JSON.parse(JSON.stringify(schema));
}

/** The same schema with `$ref` in the place of each named one; `whole`: it may be a named one itself. */
function referring(schema: unknown, whole: boolean): object {
  return refer(schema, whole) as object;
}

function refer(value: unknown, whole: boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => refer(item, true));
  if (typeof value !== 'object' || value === null) return value;
  const name = whole ? NAMES.get(JSON.stringify(value)) : undefined;
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, refer(item, true)]));
}
