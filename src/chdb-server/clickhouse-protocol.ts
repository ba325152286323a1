// Reads what a ClickHouse client says over HTTP and writes what it expects to hear (the embedded engine's process;
// nothing of Gatehouse itself). Before it: node:http. After it: chdb-sessions.ts runs the statement.
// Only what @clickhouse/client and curl use: SQL in `query=` and/or the body, `param_*`, settings as query parameters,
// `database`, `session_id`, gzip both ways, multipart parameters. Invariant: a setting's name is checked and its value
// quoted, so no statement can be smuggled in. A request that cannot be understood throws a ProtocolError, which is
// answered in ClickHouse's own words.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** A statement's own text; larger data belongs into an insert's body, which goes to a file. */
export const SQL_BYTES_MAX = 16 * 1024 * 1024;
const SESSION_SECONDS_DEFAULT = 60;
const SESSION_SECONDS_MAX = 3600;

/** Codes that we answer ourselves, with the names that ClickHouse gives them. */
const OWN_CODES = {
  NOT_ENOUGH_SPACE: 243,
  BAD_ARGUMENTS: 36,
  SYNTAX_ERROR: 62,
  TIMEOUT_EXCEEDED: 159,
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  AUTHENTICATION_FAILED: 516,
  TOO_LARGE_STRING_SIZE: 131,
  SESSION_NOT_FOUND: 372,
  SESSION_IS_LOCKED: 373,
  ABORTED: 236,
  UNKNOWN_SETTING: 115,
  STD_EXCEPTION: 1001,
} as const;
type OwnCode = keyof typeof OWN_CODES;

export class ProtocolError extends Error {
  override name = 'ProtocolError';
  readonly status: number;
  readonly code: number;

  constructor(code: OwnCode, message: string, status = 500) {
    super(`Code: ${OWN_CODES[code]}. DB::Exception: ${message} (${code})`);
    this.code = OWN_CODES[code];
    this.status = status;
  }
}

export type Statement = {
  sql: string;
  database: string | undefined;
  /** Name -> value in TSV escaping, as clients send them. */
  params: Map<string, string>;
  settings: Map<string, string>;
  /** Format to answer in where the statement names none. */
  format: string;
  queryId: string;
  session: { id: string; check: boolean; seconds: number } | undefined;
  readOnly: boolean;
};

/** An INSERT whose rows follow in the body. */
export type InsertTarget = { head: string; settings: string; format: string };

/** Query parameters that are not settings, beside `param_*`. */
const NOT_SETTINGS = new Set([
  'query',
  'query_id',
  'database',
  'default_format',
  'session_id',
  'session_check',
  'session_timeout',
  'user',
  'password',
  'role',
  'wait_end_of_query',
  'enable_http_compression',
  'compress',
  'decompress',
  'buffer_size',
  'quota_key',
  'send_progress_in_http_headers',
  'http_write_exception_in_output_format',
]);

/** Everything but the SQL text. Throws ProtocolError. */
export function readStatement(method: string, url: URL): Statement {
  const query = url.searchParams;
  const params = new Map<string, string>();
  const settings = new Map<string, string>();
  for (const [name, value] of query) {
    if (name.startsWith('param_')) params.set(checkedName(name.slice(6)), value);
    else if (!NOT_SETTINGS.has(name)) settings.set(checkedName(name), value);
  }
  return {
    sql: query.get('query') ?? '',
    database: query.get('database') ?? undefined,
    params,
    settings,
    format: checkedName(query.get('default_format') ?? 'TabSeparated'),
    queryId: query.get('query_id') ?? '',
    session: readSession(query),
    readOnly: method === 'GET',
  };
}

function readSession(query: URLSearchParams): Statement['session'] {
  const id = query.get('session_id');
  if (!id) return undefined;
  const seconds = Number(query.get('session_timeout') ?? SESSION_SECONDS_DEFAULT);
  if (!(seconds >= 1 && seconds <= SESSION_SECONDS_MAX))
    throw new ProtocolError('BAD_ARGUMENTS', 'session_timeout must lie between 1 and 3600', 400);
  return { id, check: query.get('session_check') === '1', seconds };
}

function checkedName(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name))
    throw new ProtocolError('UNKNOWN_SETTING', `bad name ${JSON.stringify(name.slice(0, 40))}`, 400);
  return name;
}

const INSERT_WITH_BODY =
  /^\s*(INSERT\s+INTO\s[\s\S]*?)(?:\s+SETTINGS\s+((?:(?!\sFORMAT\s)[\s\S])*?))?\s+FORMAT\s+([A-Za-z]+)\s*;?\s*$/i;
const READING =
  /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/|\()*(?:SELECT|WITH|SHOW|DESC|DESCRIBE|EXPLAIN|EXISTS|CHECK|VALUES)\b/i;

/** Is this `query=` an INSERT whose rows are in the body? Its head, its own settings and its format, else null. */
export function insertTarget(sql: string): InsertTarget | null {
  const match = INSERT_WITH_BODY.exec(sql);
  if (!match || /\b(?:SELECT|VALUES|INFILE)\b/i.test(match[1]!.replace(/`[^`]*`|"[^"]*"/g, ''))) return null;
  return { head: match[1]!, settings: match[2] ?? '', format: match[3]! };
}

/**
 * Statements that may be stopped when their reader goes away. Anything else is finished, since its caller may have to
 * know.
 */
export function isReading(sql: string): boolean {
  return READING.test(sql);
}

export function quoted(text: string): string {
  return `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'")}'`;
}

/** The body as it was before its content-encoding. */
export function decodedBody(request: IncomingMessage): Readable {
  const encoding = request.headers['content-encoding'];
  if (encoding === undefined || encoding === 'identity') return request;
  if (encoding !== 'gzip')
    throw new ProtocolError('BAD_ARGUMENTS', `content-encoding ${JSON.stringify(encoding)} is not spoken here`, 400);
  const gunzip = createGunzip();
  request.on('error', (error) => gunzip.destroy(error));
  request.on('aborted', () => gunzip.destroy(new ProtocolError('ABORTED', 'the request was cut off')));
  return request.pipe(gunzip);
}

/** Reads a body whole. Throws ProtocolError when it is longer than `bytesMax`. */
export async function readWhole(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax)
      throw new ProtocolError('TOO_LARGE_STRING_SIZE', `the statement is longer than ${bytesMax} bytes`, 413);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Adds the SQL (and, from multipart, the parameters) of a body to what the URL said. */
export function addBody(statement: Statement, body: Buffer, contentType: string | undefined): void {
  const boundary = /^multipart\/form-data;.*?boundary="?([^";]+)"?/i.exec(contentType ?? '')?.[1];
  if (boundary === undefined) {
    const text = body.toString('utf8');
    statement.sql = statement.sql === '' ? text : text === '' ? statement.sql : `${statement.sql}\n${text}`;
    return;
  }
  for (const [name, value] of parts(body, boundary)) {
    if (name === 'query') statement.sql = value;
    else if (name.startsWith('param_')) statement.params.set(checkedName(name.slice(6)), value);
    else throw new ProtocolError('BAD_ARGUMENTS', 'multipart carries `query` and `param_*` only', 400);
  }
}

function* parts(body: Buffer, boundary: string): Generator<[string, string]> {
  // latin1 keeps every byte, so that positions in the text are positions in the body.
  const pieces = body.toString('latin1').split(`--${boundary}`);
  for (const piece of pieces.slice(1, -1)) {
    const end = piece.indexOf('\r\n\r\n');
    const name = /name="([^"]*)"/i.exec(piece.slice(0, end))?.[1];
    if (end < 0 || name === undefined) throw new ProtocolError('BAD_ARGUMENTS', 'multipart body is damaged', 400);
    const value = piece.slice(end + 4).replace(/\r\n$/, '');
    yield [name, Buffer.from(value, 'latin1').toString('utf8')];
  }
}

/**
 * Answers an error the way ClickHouse does: a status, the code in a header, `Code: N. DB::Exception: …` as the body.
 */
export function sendError(response: ServerResponse, error: unknown): void {
  const { status, code, message } = describeError(error);
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.writeHead(status, {
    'content-type': 'text/plain; charset=UTF-8',
    'x-clickhouse-exception-code': String(code),
    // The rest of an unread body would be taken for the next request.
    ...(response.req.complete ? {} : { connection: 'close' }),
  });
  response.end(`${message}\n`);
}

/**
 * Engine errors carry `Code: N. DB::Exception: …` already; anything else is given code 1001, as ClickHouse does for
 * foreign exceptions.
 */
function describeError(error: unknown): { status: number; code: number; message: string } {
  if (error instanceof ProtocolError) return { status: error.status, code: error.code, message: error.message };
  const message = error instanceof Error ? error.message : String(error);
  const code = /^Code: (\d+)\. /.exec(message)?.[1];
  if (code !== undefined) return { status: 500, code: Number(code), message };
  return describeError(new ProtocolError('STD_EXCEPTION', message.replace(/\s+/g, ' ').slice(0, 500)));
}
