// Describes the API (OpenAPI 3.1) from the table of routes and the schemas that validate it, so that it cannot say
// anything else than what is done (GET /v1/openapi.json). Made once, when a server starts.
// Schemas and their names: schemas.ts.
import Type from 'typebox';
import { exampleId } from '../../../schemas/described.ts';
import { ErrorBody } from '../../../schemas/error.ts';
import { RpcStatus } from '../../../schemas/spans.ts';
import { ERRORS, type ErrorCode } from '../../common/errors.ts';
import { readAsset } from '../../process/assets.ts';
import { type Route, route, SCOPE_OF, takesGzip } from '../route.ts';
import { exampleOf } from './examples.ts';
import { componentSchemas, describedSchema } from './schemas.ts';
import { describeWebhooks } from './webhooks.ts';

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Any text of 1 to 255 printable ASCII characters, of your making. The first answer is kept for 24 h and given again, byte for byte, to a retry with the same key and body.',
  schema: { type: 'string', pattern: '^[\\x20-\\x7e]{1,255}$' },
  example: 'conversation-1-part-1',
};
const IF_MATCH = {
  name: 'If-Match',
  in: 'header',
  description:
    'The `ETag` that was read: it is done only while that is the present revision, so that no other change came first, else 412. Several are separated by commas; `*`, or left out: whatever the revision is.',
  schema: { type: 'string' },
  example: '"3"',
};
const CONTENT_ENCODING = {
  name: 'Content-Encoding',
  in: 'header',
  description:
    '`gzip`: the body is compressed; the bounds hold for what it is inflated to. `identity`, or left out: it is not. Any other is refused with 415.',
  schema: { type: 'string', enum: ['gzip', 'identity'] },
  example: 'gzip',
};
const REQUEST_ID = {
  name: 'X-Request-Id',
  in: 'header',
  description:
    "Names the request: 1 to 128 letters, digits, `.`, `_` or `-`. It comes back on the answer, and stands in errors, logs and audit entries. Left out or of another form: the service's own.",
  schema: { type: 'string' },
  example: 'checkout-7f3a',
};
const PARAMETERS = {
  IdempotencyKey: IDEMPOTENCY_KEY,
  IfMatch: IF_MATCH,
  ContentEncoding: CONTENT_ENCODING,
  RequestId: REQUEST_ID,
};
const HEADERS = {
  RequestId: {
    description: 'Names this request: yours, or the one that the service made. Give it when you ask about an answer.',
    schema: { type: 'string' },
    example: 'checkout-7f3a',
  },
  Incomplete: {
    description:
      '`true` where writes acknowledged before this read may be missing from it. Absent: nothing is missing.',
    schema: { type: 'string', const: 'true' },
    example: 'true',
  },
  ShortPage: {
    description:
      '`true` where the page ended early, since more would have passed 16 MiB: fewer items than `limit`, though more follow; `next_cursor` goes on. Absent: it did not.',
    schema: { type: 'string', const: 'true' },
    example: 'true',
  },
  ETag: {
    description: 'The revision, in quotes; for `If-Match`.',
    schema: { type: 'string' },
    example: '"3"',
  },
  RetryAfter: {
    description: 'Whole seconds after which to come back.',
    schema: { type: 'integer', minimum: 1 },
    example: 1,
  },
  RateLimit: {
    description:
      'What is left of the limit (`r`) and the seconds until there is more (`t`), as draft-ietf-httpapi-ratelimit-headers-10 has it.',
    schema: { type: 'string' },
    example: '"requests";r=0;t=1',
  },
  RateLimitPolicy: {
    description: 'The limit: requests at once (`q`), and the seconds in which they come back (`w`).',
    schema: { type: 'string' },
    example: '"requests";q=2000;w=2',
  },
  AcceptEncoding: {
    description:
      'Where the `Content-Encoding` of the body is not taken: which is. `identity`: the body must not be compressed.',
    schema: { type: 'string', enum: ['gzip', 'identity'] },
    example: 'gzip',
  },
  WwwAuthenticate: {
    description: 'The scheme to authenticate with.',
    schema: { type: 'string', const: 'Bearer' },
    example: 'Bearer',
  },
};

const SECURITY_SCHEMES = {
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-gatehouse',
    description:
      'For pages: the cookie that `POST /v1/session` hands over (`gatehouse` over plain HTTP beyond loopback). Calls that change something must come from a page of this origin and carry `Gatehouse-Client`. A page that sends the id of the session that it was drawn for as `Gatehouse-Session` is refused (401 `other_session`) once the cookie is of another; the address of a file takes it as `session`.',
  },
  operatorKey: {
    type: 'http',
    scheme: 'bearer',
    description:
      'A key of an operator, `gop_…`, of the setting GATEHOUSE_OPERATOR_KEYS. It belongs to no account, and opens what is under `/v1/admin` alone; no key of an account opens that.',
  },
  apiKey: {
    type: 'http',
    scheme: 'bearer',
    description:
      'An API key; its scope is `read`, `write` or `admin`, each including the ones before. It may be confined to some permissions of its scope (`submit`, `read`, `decide`, `configure`) and to one agent: what is of other agents is then unknown (404), what concerns the whole account is refused (403).',
  },
};

/** The kind of id that `{id}` of a path is, by the segment before it. */
const PATH_IDS: Record<string, [prefix: string, what: string]> = {
  agents: ['agt', 'the agent'],
  events: ['evt', 'the event'],
  policies: ['pol', 'the policy'],
  backtests: ['bkt', 'the backtest'],
  alerts: ['alr', 'the alert'],
  deliveries: ['dlv', 'the delivery'],
  approvals: ['apr', 'the approval'],
  anomalies: ['ano', 'the anomaly'],
  'audit-logs': ['log', 'the entry'],
  accounts: ['acc', 'the account'],
  'api-keys': ['key', 'the API key'],
  sessions: ['ses', 'the session'],
  views: ['viw', 'the view'],
  holds: ['hld', 'the hold'],
  connections: ['con', 'the connection'],
  checks: ['chk', 'the check'],
  'outgoing-feeds': ['ofd', 'the outgoing feed'],
  erasures: ['agt', 'the agent that was deleted'],
};

const TAGS: Record<string, string> = {
  Agents: 'The AI systems that are watched.',
  Events: 'What agents do. Each event is judged by the policies before its answer, and kept.',
  'Decision points': 'Tools that ask in a form of their own whether something may be done.',
  Traces: 'Events that share a `trace_id`, over all agents.',
  Policies: 'Rules that block, ask a person, alert or record.',
  Backtests: 'A policy replayed over recorded events: what would have become of them.',
  Alerts: 'Who is told of which signals, and what became of each notification.',
  Approvals: 'Pending events that wait for a decision.',
  Anomalies: 'Unusual behaviour, flagged without configuration.',
  'Audit log': 'Who did what, in hash chains that can be verified.',
  'API keys': 'Keys of the account.',
  Sessions: 'Browsers that are signed in.',
  Budgets: 'What is left of what calls of models may use up.',
  Prices: 'What tokens of each model cost, by which the cost of events is reckoned.',
  Views: 'Lists of the dashboard with their filters, saved under a name.',
  Connections: 'Products that send each prompt and call of a tool to be judged.',
  Checks: 'Services outside that judge texts, which policies of the type `external_check` ask.',
  Stream: 'What comes in, live.',
  Feed: 'What was committed, without gaps, for other systems.',
  'Outgoing feeds': 'What was committed, sent to a receiver in batches.',
  Account: 'The account of the key.',
  Admin: 'All accounts, for those who run the service, with a key of theirs.',
  Operations: 'For those who run the service.',
};

const ABOUT = `Gatehouse monitors, governs and audits AI agents.

**Keys.** Send \`Authorization: Bearer <key>\`. \`x-required-scope\` says which scope an operation needs; a key of a scope may do what the
scopes below it may: \`read\`, \`write\`, \`admin\`.

**Times** are UTC in answers; requests may use any ISO 8601 date-time with an offset or \`Z\`.

**null** in an optional field of a body is the same as leaving it out, unless the field says what it means.

**Errors** have one body, \`Error\`. \`x-error-codes\` of an answer lists its codes.

**Lists** show what was acknowledged before they began. If that took too long they say \`Gatehouse-Incomplete: true\`. A page
ends early before it passes 16 MiB, and says \`Gatehouse-Short-Page: true\`: go on by \`next_cursor\`.`;

const Described = Type.Object(
  { openapi: Type.String({ description: 'Version of the form that the description has.', examples: ['3.1.0'] }) },
  { additionalProperties: true, description: 'An OpenAPI document.' },
);

export type OpenApiDocument = {
  openapi: string;
  info: object;
  servers: object[];
  security: object[];
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, object>>;
  webhooks: Record<string, { post: object }>;
  components: {
    schemas: Record<string, object>;
    securitySchemes: object;
    parameters: object;
    headers: object;
    responses: object;
  };
};

export function openApiRoute(others: readonly Route[], publicUrl: string | undefined): Route {
  const own: Route = route({
    method: 'GET',
    path: '/v1/openapi.json',
    // It holds nothing of an account, so generating a client from it, in a build, needs no key.
    needs: null,
    operation: {
      id: 'getOpenApi',
      tag: 'Operations',
      summary: 'This description',
      description: 'OpenAPI 3.1, made from the schemas that validate requests. Needs no key.',
      answers: { 200: { description: 'OpenAPI 3.1', schema: Described } },
    },
    handle: () => ({ status: 200, body }),
  });
  const body = JSON.stringify(describeApi([...others, own], publicUrl));
  return own;
}

/** `publicUrl`: undefined where the service does not know by which address it is reached. */
export function describeApi(routes: readonly Route[], publicUrl?: string): OpenApiDocument {
  const paths: OpenApiDocument['paths'] = {};
  const responses: Record<string, object> = {};
  for (const one of routes) {
    const path = paths[one.path] ?? {};
    path[one.method.toLowerCase()] = operation(one, responses);
    paths[one.path] = path;
  }
  const { version } = JSON.parse(readAsset('package.json')) as { version: string };
  return {
    openapi: '3.1.0',
    info: {
      title: 'Gatehouse',
      version,
      description: ABOUT,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [
      publicUrl === undefined
        ? { url: '/', description: 'The service that this was asked of' }
        : { url: publicUrl.replace(/\/+$/, ''), description: 'The service at its public address' },
    ],
    security: [{ apiKey: [] }, { session: [] }],
    tags: [...new Set(routes.map((one) => one.operation.tag))].map((name) => ({
      name,
      ...(TAGS[name] === undefined ? {} : { description: TAGS[name] }),
    })),
    paths,
    webhooks: describeWebhooks(),
    components: {
      schemas: componentSchemas(),
      securitySchemes: SECURITY_SCHEMES,
      parameters: PARAMETERS,
      headers: HEADERS,
      responses,
    },
  };
}

function operation(one: Route, shared: Record<string, object>): object {
  const { id, tag, summary, description, answers, bodyExample, canBeIncomplete } = one.operation;
  const responses: Record<string, object> = {};
  for (const [status, answer] of Object.entries(answers)) {
    const media = answer.schema && mediaType(describedSchema(answer.schema), answer.example);
    const type = answer.contentType ?? 'application/json';
    responses[status] = {
      description: answer.description,
      headers: {
        'X-Request-Id': header('RequestId'),
        ...(answer.etag ? { ETag: header('ETag') } : {}),
        ...(canBeIncomplete ? { 'Gatehouse-Incomplete': header('Incomplete') } : {}),
        ...(one.query?.['limit'] && one.query['cursor'] ? { 'Gatehouse-Short-Page': header('ShortPage') } : {}),
        ...Object.fromEntries(
          Object.entries(answer.headers ?? {}).map(([name, description]) => [
            name,
            { description, schema: { type: 'string', const: 'true' }, example: 'true' },
          ]),
        ),
      },
      ...(media ? { content: { [type]: media, ...(takesOtlp(one) ? BINARY : {}) } } : {}),
    };
  }
  const errors = errorResponses(errorsOf(one), {
    canBeIncomplete: canBeIncomplete ?? false,
    isStatus: takesOtlp(one),
  });
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(description === undefined ? {} : { description }),
    ...needed(one),
    parameters: parameters(one),
    ...(one.body ? { requestBody: requestBody(one, bodyExample) } : {}),
    responses: { ...responses, ...referred(errors, shared) },
  };
}

/** Puts them into `shared`, and a reference in their place. */
function referred(responses: Record<string, Shared>, shared: Record<string, object>): Record<string, object> {
  return Object.fromEntries(
    Object.entries(responses).map(([status, { name, response }]) => {
      shared[name] = response;
      return [status, { $ref: `#/components/responses/${name}` }];
    }),
  );
}

function header(name: keyof typeof HEADERS): object {
  return { $ref: `#/components/headers/${name}` };
}

/** `x-required-permission` where a permission represents it: `admin` is a scope alone. */
function needed({ needs }: Route): object {
  if (needs === null) return { security: [] };
  if (needs === 'operator') return { security: [{ operatorKey: [] }] };
  return {
    'x-required-scope': SCOPE_OF[needs],
    ...(needs === 'admin' || needs === 'any' ? {} : { 'x-required-permission': needs }),
  };
}

function parameters(one: Route): object[] {
  const inPath = [...one.path.matchAll(/([^/]+)\/\{(\w+)\}/g)].map(([, collection, name]) => ({
    name,
    in: 'path',
    required: true,
    ...pathParameter(collection!, name!),
  }));
  const inQuery = Object.entries(one.query ?? {}).map(([name, { description, schema }]) => ({
    name,
    in: 'query',
    description,
    schema: describedSchema(schema),
  }));
  const inHeader = [
    { $ref: '#/components/parameters/RequestId' },
    ...(one.conditional ? [{ $ref: '#/components/parameters/IfMatch' }] : []),
    ...(takesGzip(one) ? [{ $ref: '#/components/parameters/ContentEncoding' }] : []),
    ...(one.idempotency === 'heeded' ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  return [...inPath, ...inQuery, ...inHeader];
}

function pathParameter(collection: string, name: string): object {
  const schema = { type: 'string' };
  if (name === 'trace_id') {
    return { description: 'The `trace_id` that the events share, percent-encoded.', schema, example: 'conversation-1' };
  }
  if (name === 'revision')
    return { description: 'Number of the revision. Any other text is unknown: 404.', schema, example: '3' };
  if (name === 'connection')
    return { description: 'Id of the connection. Any other text is denied.', schema, example: exampleId('con') };
  const [prefix, what] = PATH_IDS[collection] ?? [];
  if (prefix === undefined) return { schema };
  return {
    description: `Id of ${what}, \`${prefix}_…\`. Any other text is unknown: 404.`,
    schema,
    example: exampleId(prefix),
  };
}

function requestBody(one: Route, example: unknown): object {
  const media = mediaType(describedSchema(one.body!.schema), example);
  const description = `${one.body!.kind === 'json' ? `The ${one.body!.what}` : one.operation.summary}, as JSON.`;
  return { required: true, description, content: { 'application/json': media, ...(takesOtlp(one) ? BINARY : {}) } };
}

/** Says whether the route is one of OTLP's: every body is in one of two forms, and errors are google.rpc.Status. */
function takesOtlp(one: Route): boolean {
  return one.body?.kind === 'otlp';
}

const BINARY = { 'application/x-protobuf': { schema: { type: 'string', contentEncoding: 'binary' } } };

function mediaType(schema: object, given: unknown): object {
  const example = given ?? exampleOf(schema);
  return { schema, ...(example === undefined ? {} : { example }) };
}

/** The error codes of a route: those that follow from its row, and those that the row adds. */
export function errorsOf(one: Route): Set<ErrorCode> {
  const codes = new Set<ErrorCode>(one.operation.errors ?? []);
  const add = (...more: ErrorCode[]) => {
    for (const code of more) codes.add(code);
  };
  if (one.needs !== null) add('validation_failed', 'invalid_token', 'rate_limited', 'unavailable', 'payload_too_large');
  if (one.needs !== null && one.needs !== 'operator') {
    add('other_session', 'insufficient_scope', 'account_suspended');
    if (one.method !== 'GET') add('cross_site_request');
  }
  if (one.conditional) add('revision_conflict');
  if (one.body) add('unsupported_media_type', 'malformed_json');
  // Of any request, before it is known what it asks for.
  add('request_timeout', 'length_required', 'headers_too_large', 'internal');
  // In a query: another agent, asked for with a key that is bound to one.
  if (one.path.includes('{') || one.bound === 'query') add('not_found');
  return codes;
}

/** Answers of many operations are the same: each stands once among the components. */
type ErrorForm = { canBeIncomplete: boolean; isStatus: boolean };

function errorResponses(codes: Set<ErrorCode>, { canBeIncomplete, isStatus }: ErrorForm): Record<string, Shared> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    if (codes.has(code)) byStatus.set(ERRORS[code].status, [...(byStatus.get(ERRORS[code].status) ?? []), code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, of]) => {
      const isIncomplete = status === 404 && canBeIncomplete;
      const name = `${of.map(pascal).join('Or')}${isIncomplete ? 'OrIncomplete' : ''}${isStatus ? 'AsStatus' : ''}`;
      return [String(status), { name, response: errorResponse(status, of, { isIncomplete, isStatus }) }];
    }),
  );
}

type Shared = { name: string; response: object };

function pascal(code: string): string {
  return code.replace(/(?:^|_)(\w)/g, (_all, letter: string) => letter.toUpperCase());
}

function errorResponse(
  status: number,
  codes: ErrorCode[],
  { isIncomplete, isStatus }: { isIncomplete: boolean; isStatus: boolean },
): object {
  const media = isStatus
    ? mediaType(describedSchema(RpcStatus), undefined)
    : mediaType(describedSchema(ErrorBody), errorExample(codes[0]!));
  return {
    description: codes.map((code) => `\`${code}\`: ${ERRORS[code].when}`).join('; '),
    headers: {
      'X-Request-Id': header('RequestId'),
      ...(status === 415 ? { 'Accept-Encoding': header('AcceptEncoding') } : {}),
      ...(status === 401 ? { 'WWW-Authenticate': header('WwwAuthenticate') } : {}),
      ...(status === 429 ? { RateLimit: header('RateLimit'), 'RateLimit-Policy': header('RateLimitPolicy') } : {}),
      ...(status === 429 || status === 503 ? { 'Retry-After': header('RetryAfter') } : {}),
      ...(isIncomplete ? { 'Gatehouse-Incomplete': header('Incomplete') } : {}),
    },
    content: { 'application/json': media, ...(isStatus ? BINARY : {}) },
    'x-error-codes': codes,
  };
}

function errorExample(code: ErrorCode): object {
  const { when } = ERRORS[code];
  return {
    error: { code, message: `${when[0]!.toUpperCase()}${when.slice(1)}.`, request_id: HEADERS.RequestId.example },
  };
}
