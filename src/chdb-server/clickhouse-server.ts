// The embedded ClickHouse: a small HTTP server on loopback that puts chdb behind the part of ClickHouse's HTTP
// interface that the official client and curl use. A process of its own (clickhouse-server-main.ts), since chdb allows
// one process per directory; every other process uses it as it would any ClickHouse.
// Path of a request: guard -> read the statement -> rows of an insert go to a spool file -> chdb-sessions.ts -> one
// answer with a true status.
// Invariants: an insert whose body was cut off is never run; an answer is sent whole or not at all; nothing is served
// from a directory that data-directory.ts refuses. A reader that goes away has its query killed; a writer's statement
// is finished, for it may be retried.
// Failure: a projection that cannot be read fails every query that would use it. The engine leaves such a projection
// out when it loads its parts, so `onDamage` asks for a new process.
import { createHash, timingSafeEqual } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm, statfs } from 'node:fs/promises';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Engine, type EngineAnswer } from './chdb-sessions.ts';
import {
  addBody,
  decodedBody,
  type InsertTarget,
  insertTarget,
  isReading,
  ProtocolError,
  quoted,
  readStatement,
  readWhole,
  SQL_BYTES_MAX,
  type Statement,
  sendError,
} from './clickhouse-protocol.ts';
import { DataDirectory } from './data-directory.ts';
import { EXHAUSTED_BYTES } from './torn-parts.ts';

export type ClickHouseServerOptions = {
  /** Data directory; made if it is not there. */
  path: string;
  /** 0: any free one. */
  port: number;
  host?: string;
  /** Memory ceiling of the engine. */
  memoryBytes?: number;
  /** When set, every request must carry it (basic authentication, any user). */
  password?: string;
  writers?: number;
  readers?: number;
  queueMax?: number;
  timeoutSeconds?: number;
  insertBytesMax?: number;
  drainMs?: number;
  /**
   * How long a server runs at least before it asks to be replaced: what stays damaged must not end every server at
   * once.
   */
  damageAfterMs?: number;
};

export type ClickHouseServer = { port: number; close(): Promise<void> };

const DEFAULTS = {
  host: '127.0.0.1',
  memoryBytes: 4 * 1024 ** 3,
  writers: 2,
  readers: 8,
  queueMax: 1000,
  timeoutSeconds: 120,
  insertBytesMax: 512 * 1024 * 1024,
  drainMs: 20_000,
  damageAfterMs: 30_000,
};

/** A merge that meets a full disk may leave the files of a projection empty. The rows of the part itself are whole. */
const DAMAGED_PROJECTION = /while reading from part \S+\.proj\//;

/**
 * Clients of @clickhouse/client give up an idle socket after 2.5 s; the server must wait longer than that, or requests
 * meet a closing socket.
 */
const KEEP_ALIVE_MS = 30_000;
const CONNECTIONS_MAX = 2000;
/** Pieces of a body that arrive while one is being written go to the file together. */
const SPOOL_BUFFER_BYTES = 1024 * 1024;
/** Three numbers with their names. */
const STATISTICS_BYTES_MAX = 256;

type Context = {
  engine: Engine;
  directory: DataDirectory;
  options: Required<Omit<ClickHouseServerOptions, 'password'>>;
  password: string | undefined;
  startedMs: number;
  onDamage: () => void;
};

/**
 * Opens the directory, checks it, listens. Throws DataDirectoryError with one sentence when the directory must not be
 * served. `onDamage`: called when the server should be replaced by a new process.
 */
export async function runClickHouseServer(
  given: ClickHouseServerOptions,
  onDamage: () => void = () => undefined,
): Promise<ClickHouseServer> {
  const options = { ...DEFAULTS, ...given };
  const directory = DataDirectory.open(options.path);
  const engine = await Engine.open({ ...options, enginePath: directory.enginePath });
  try {
    await directory.check(engine);
    if (directory.gaveUp.length > 0) process.stderr.write(`goes on without ${directory.gaveUp.join(', ')}\n`);
  } catch (error) {
    await engine.close({ drainMs: 0 });
    throw error;
  }
  const startedMs = performance.now();
  const context: Context = { engine, directory, options, password: given.password, startedMs, onDamage };
  const server = http.createServer(
    { keepAliveTimeout: KEEP_ALIVE_MS },
    (request, response) => void serve(context, request, response),
  );
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) =>
    server.once('error', reject).listen(options.port, options.host, resolve),
  );
  return { port: (server.address() as AddressInfo).port, close: () => close(server, context) };
}

/** Stops accepting, finishes what runs, notes that all is well, leaves. */
async function close(server: http.Server, { engine, directory, options }: Context): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeIdleConnections();
  await engine.close({ drainMs: options.drainMs, beforeClose: () => directory.seal(engine) });
  server.closeAllConnections();
  await closed;
}

async function serve(context: Context, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  request.on('error', () => gone.abort());
  try {
    guard(context, request);
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (url.pathname === '/ping') response.end('Ok.\n');
    else if (url.pathname !== '/') throw new ProtocolError('BAD_ARGUMENTS', 'there is nothing at this path', 404);
    else await answerStatement(context, request, response, { url, signal: gone.signal });
  } catch (error) {
    sendError(response, error);
    if (isDamage(error) && performance.now() - context.startedMs >= context.options.damageAfterMs) context.onDamage();
  }
}

function isDamage(error: unknown): boolean {
  return error instanceof Error && DAMAGED_PROJECTION.test(error.message);
}

/** Keeps out what a web page in a browser could send to loopback, and callers without the password. */
function guard({ password }: Context, request: http.IncomingMessage): void {
  if (request.headers.origin !== undefined || request.headers['sec-fetch-site'] !== undefined) {
    throw new ProtocolError('AUTHENTICATION_FAILED', 'requests from web pages are refused', 403);
  }
  if (request.method !== 'GET' && request.method !== 'POST')
    throw new ProtocolError('BAD_ARGUMENTS', 'GET and POST only', 405);
  if (password === undefined || request.url === '/ping') return;
  const given = Buffer.from(request.headers.authorization?.replace(/^Basic /i, '') ?? '', 'base64')
    .toString()
    .replace(/^[^:]*:/, '');
  const [a, b] = [given, password].map((text) => createHash('sha256').update(text).digest()) as [Buffer, Buffer];
  if (!timingSafeEqual(a, b)) throw new ProtocolError('AUTHENTICATION_FAILED', 'wrong password', 403);
}

async function answerStatement(
  context: Context,
  request: http.IncomingMessage,
  response: http.ServerResponse,
  { url, signal }: { url: URL; signal: AbortSignal },
): Promise<void> {
  const statement = readStatement(request.method ?? 'GET', url);
  const target = insertTarget(statement.sql);
  if (target) {
    send(response, await insert(context, request, { statement, target, signal }), { inserted: true });
    return;
  }
  addBody(statement, await readWhole(decodedBody(request), SQL_BYTES_MAX), request.headers['content-type']);
  if (statement.sql.trim() === '') throw new ProtocolError('SYNTAX_ERROR', 'Empty query', 400);
  const answer = await execute(context, statement, signal);
  const compress =
    url.searchParams.get('enable_http_compression') === '1' &&
    /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
  if (compress) send(response, answer, { gzipped: await promisify(gzip)(answer.bytes) });
  else send(response, answer, {});
}

function execute({ engine, directory }: Context, statement: Statement, signal: AbortSignal): Promise<EngineAnswer> {
  const run = () => engine.run(statement, 'read', signal);
  return isReading(statement.sql) || !changesTables(statement.sql) ? run() : directory.changing(engine, run);
}

/** Anything that could make, drop or rename a table. Too wide does no harm: the marker is then written again. */
function changesTables(sql: string): boolean {
  return /\b(?:CREATE|DROP|RENAME|EXCHANGE|ATTACH|DETACH|UNDROP|REPLACE)\b/i.test(sql);
}

/**
 * Spools the rows to a file, then has the engine read it: the only way in for binary rows, and memory stays flat for
 * all of them.
 */
async function insert(
  { engine, directory, options }: Context,
  request: http.IncomingMessage,
  { statement, target, signal }: { statement: Statement; target: InsertTarget; signal: AbortSignal },
): Promise<EngineAnswer> {
  const file = path.join(directory.spoolPath, `rows-${process.hrtime.bigint()}-${Math.random().toString(36).slice(2)}`);
  try {
    await pipeline(
      decodedBody(request),
      limited(options.insertBytesMax),
      createWriteStream(file, { mode: 0o600, highWaterMark: SPOOL_BUFFER_BYTES }),
    );
    if (!request.complete || signal.aborted) throw new ProtocolError('ABORTED', 'the request was cut off');
    const settings = target.settings === '' ? '' : ` SETTINGS ${target.settings}`;
    const sql = `${target.head} FROM INFILE ${quoted(file)} COMPRESSION 'none'${settings} FORMAT ${target.format}`;
    const answer = await engine.run({ ...statement, sql }, 'write', signal);
    await ensureRoom(directory.path);
    return answer;
  } finally {
    await rm(file, { force: true });
  }
}

/**
 * On a full disk the engine may answer an insert whose part it could not write whole. So one that ends there is not
 * answered as done: the rows are sent again, and whether they are there is asked of a new process.
 */
async function ensureRoom(folder: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize < EXHAUSTED_BYTES)
    throw new ProtocolError('NOT_ENOUGH_SPACE', 'the disk is full; the rows may not be there', 500);
}

function limited(bytesMax: number): Transform {
  let bytes = 0;
  return new Transform({
    highWaterMark: SPOOL_BUFFER_BYTES,
    transform(chunk: Buffer, _encoding, next) {
      bytes += chunk.length;
      if (bytes > bytesMax)
        next(new ProtocolError('TOO_LARGE_STRING_SIZE', `an insert may have ${bytesMax} bytes`, 413));
      else next(null, chunk);
    },
  });
}

function send(
  response: http.ServerResponse,
  answer: EngineAnswer,
  { gzipped, inserted }: { gzipped?: Uint8Array; inserted?: boolean },
): void {
  const read = inserted ? { rows: answer.rows, bytes: answer.rowBytes } : readStatistics(answer.bytes);
  const summary = {
    ...(read === null ? {} : { read_rows: String(read.rows), read_bytes: String(read.bytes) }),
    written_rows: String(inserted ? answer.rows : 0),
    written_bytes: String(inserted ? answer.rowBytes : 0),
    result_rows: String(inserted ? 0 : answer.rows),
    result_bytes: String(inserted ? 0 : answer.rowBytes),
    elapsed_ns: String(Math.round(answer.elapsedSeconds * 1e9)),
  };
  response.writeHead(200, {
    'content-type': 'text/plain; charset=UTF-8',
    'content-length': (gzipped ?? answer.bytes).length,
    'x-clickhouse-summary': JSON.stringify(summary),
    ...(gzipped === undefined ? {} : { 'content-encoding': 'gzip' }),
  });
  response.end(gzipped ?? answer.bytes);
}

/**
 * The rows and bytes that a query has read: chdb gives them only in the statistics at the end of an answer in FORMAT
 * JSON or JSONCompact. Null: not known, and then the summary is silent about it.
 */
function readStatistics(bytes: Uint8Array): { rows: string; bytes: string } | null {
  const tail = Buffer.from(bytes.subarray(-STATISTICS_BYTES_MAX)).toString('latin1');
  const found =
    /"statistics":\s*\{\s*"elapsed":[^,{}]*,\s*"rows_read":\s*(\d+),\s*"bytes_read":\s*(\d+)\s*\}\s*\}\s*$/.exec(tail);
  return found && { rows: found[1]!, bytes: found[2]! };
}
