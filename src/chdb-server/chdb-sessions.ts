// Runs statements on chdb for the embedded engine's HTTP server, several at once and each for itself.
// Before it: clickhouse-protocol.ts has read a statement. After it: the engine, in this very process.
// A chdb session is serial and keeps every setting and parameter it was ever given. So a statement gets a session of
// its own and the session is closed behind it (0.5 ms): nothing can leak into the next one. A session_id keeps its
// session, until it expires. What runs at once is bounded, what waits is bounded, what takes too long is stopped by
// max_execution_time, and a query whose caller has left is killed from the control session, since chdb itself never
// stops a query. A full queue is refused with ClickHouse's code 202.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Session } from 'chdb';
import { isReading, ProtocolError, quoted, type Statement } from './clickhouse-protocol.ts';
import { DataDirectoryError } from './data-directory-error.ts';
import { engineHolder } from './engine-holder.ts';

type EngineOptions = {
  enginePath: string;
  memoryBytes: number;
  /** Statements with a body of rows that run at once. */
  writers: number;
  /**
   * All other statements that run at once. Writers, readers and the control session together must stay under
   * UV_THREADPOOL_SIZE.
   */
  readers: number;
  /** Statements of each kind that may wait for a slot. */
  queueMax: number;
  /** For every statement that does not set max_execution_time itself. */
  timeoutSeconds: number;
};

/** `rows`, `rowBytes`: of the answer, or of what was inserted. What was read for it chdb does not say. */
export type EngineAnswer = { bytes: Uint8Array; rows: number; rowBytes: number; elapsedSeconds: number };

/** A result is held in memory on its way out. */
const RESULT_BYTES_MAX = 256 * 1024 * 1024;
/** Text of one statement that the engine's parser takes; parameters arrive as statements, too. */
const QUERY_BYTES_MAX = 32 * 1024 * 1024;
const SET_CHARACTERS_MAX = 60_000;
const STICKY_SESSIONS_MAX = 64;
/** A kill may come before the statement is known to the engine: it is repeated until the statement has ended. */
const KILL_AGAIN_MS = 50;

type Chdb = typeof import('chdb');
type Sticky = { session: Session; busy: boolean; timer: NodeJS.Timeout };

export class Engine {
  readonly #chdb: Chdb;
  readonly #options: EngineOptions;
  readonly #control: Session;
  readonly #writes: SessionSemaphore;
  readonly #reads: SessionSemaphore;
  readonly #sticky = new Map<string, Sticky>();
  #lastId = 0;

  /** Opens the engine on its directory. Throws DataDirectoryError where it will not open. */
  static async open(options: EngineOptions): Promise<Engine> {
    let chdb: Chdb;
    try {
      chdb = await import('chdb');
    } catch (cause) {
      throw new DataDirectoryError(
        'unusable',
        'the package chdb is not installed here: install it, or set GATEHOUSE_CLICKHOUSE_URL',
        { cause },
      );
    }
    return new Engine(chdb, options);
  }

  private constructor(chdb: Chdb, options: EngineOptions) {
    this.#chdb = chdb;
    this.#options = options;
    this.#writes = new SessionSemaphore(options.writers, options.queueMax);
    this.#reads = new SessionSemaphore(options.readers, options.queueMax);
    this.#control = openSession(chdb, options);
  }

  /** Our own questions, on the control session, which never gets a setting. */
  async ask<Row>(sql: string): Promise<Row[]> {
    const result = await this.#control.queryAsync(sql, { format: 'JSON' });
    const text = result.text();
    return text === '' ? [] : (JSON.parse(text) as { data: Row[] }).data;
  }

  /**
   * Runs a statement. `kind` write: it has a file of rows and is never stopped half-way. Aborting `signal` stops a
   * reading one.
   */
  async run(statement: Statement, kind: 'read' | 'write', signal: AbortSignal): Promise<EngineAnswer> {
    const leave = await (kind === 'write' ? this.#writes : this.#reads).enter(signal);
    try {
      return statement.session
        ? await this.#runSticky(statement, statement.session, signal)
        : await this.#runAlone(statement, signal);
    } finally {
      leave();
    }
  }

  async #runAlone(statement: Statement, signal: AbortSignal): Promise<EngineAnswer> {
    const session = new this.#chdb.Session(this.#options.enginePath);
    try {
      return await this.#runOn(session, statement, signal);
    } finally {
      session.close();
    }
  }

  async #runSticky(
    statement: Statement,
    wanted: NonNullable<Statement['session']>,
    signal: AbortSignal,
  ): Promise<EngineAnswer> {
    const sticky = this.#takeSticky(wanted);
    try {
      return await this.#runOn(sticky.session, statement, signal);
    } finally {
      // A setting of one request must not stay for the next one of the session.
      const names = [...statement.settings.keys(), 'log_comment', 'max_execution_time', 'max_result_bytes', 'readonly'];
      await sticky.session
        .queryAsync(`SET ${names.map((name) => `${name} = DEFAULT`).join(', ')}`)
        .catch(() => this.#forget(wanted.id));
      sticky.busy = false;
      sticky.timer = this.#expiry(wanted);
    }
  }

  #takeSticky(wanted: NonNullable<Statement['session']>): Sticky {
    const known = this.#sticky.get(wanted.id);
    if (known?.busy)
      throw new ProtocolError('SESSION_IS_LOCKED', `Session ${wanted.id} is locked by a concurrent client`);
    if (known) {
      clearTimeout(known.timer);
      known.busy = true;
      return known;
    }
    if (wanted.check) throw new ProtocolError('SESSION_NOT_FOUND', `Session ${wanted.id} not found`, 404);
    if (this.#sticky.size >= STICKY_SESSIONS_MAX)
      throw new ProtocolError('TOO_MANY_SIMULTANEOUS_QUERIES', 'too many sessions', 503);
    const made: Sticky = {
      session: new this.#chdb.Session(this.#options.enginePath),
      busy: true,
      timer: this.#expiry(wanted),
    };
    clearTimeout(made.timer);
    this.#sticky.set(wanted.id, made);
    return made;
  }

  #expiry(wanted: NonNullable<Statement['session']>): NodeJS.Timeout {
    return setTimeout(() => this.#forget(wanted.id), wanted.seconds * 1000).unref();
  }

  #forget(id: string): void {
    this.#sticky.get(id)?.session.close();
    this.#sticky.delete(id);
  }

  async #runOn(session: Session, statement: Statement, signal: AbortSignal): Promise<EngineAnswer> {
    const id = `gatehouse-${++this.#lastId}`;
    const running = session.queryAsync(`${this.#prologue(statement, id)}${statement.sql}`, {
      format: statement.format,
    });
    const kill = () => void this.#killUntilDone(id, running);
    const stoppable = isReading(statement.sql);
    if (stoppable && signal.aborted) kill();
    if (stoppable) signal.addEventListener('abort', kill, { once: true });
    try {
      const result = await running;
      return {
        bytes: result.bytes(),
        rows: result.rowsRead,
        rowBytes: result.bytesRead,
        elapsedSeconds: result.elapsed,
      };
    } finally {
      signal.removeEventListener('abort', kill);
    }
  }

  /**
   * The text before the statement: all settings in one SET, for each statement more costs 0.2 ms. Its name for KILL is
   * among them; `readonly` would forbid a later SET.
   */
  #prologue(statement: Statement, id: string): string {
    const settings = new Map<string, string>([
      ['max_query_size', String(QUERY_BYTES_MAX)],
      ['max_execution_time', String(this.#options.timeoutSeconds)],
      ['max_result_bytes', String(RESULT_BYTES_MAX)],
      ...(statement.readOnly ? [['readonly', '2'] as const] : []),
      ...statement.settings,
      ['log_comment', id],
    ]);
    for (const [name, value] of statement.params) settings.set(`param_${name}`, value);
    const use = statement.database === undefined ? '' : `USE \`${statement.database.replace(/[`\\]/g, '\\$&')}\`;`;
    const set = `SET ${[...settings].map(([name, value]) => `${name} = ${quoted(value)}`).join(', ')};\n`;
    // The parser's own default is 256 KiB: long parameters need the higher limit in force before their own statement.
    const room = set.length > SET_CHARACTERS_MAX ? `SET max_query_size = ${QUERY_BYTES_MAX};` : '';
    return use + room + set;
  }

  async #killUntilDone(id: string, running: Promise<unknown>): Promise<void> {
    let done = false;
    const end = () => {
      done = true;
    };
    running.then(end, end);
    while (!done) {
      await this.#control.queryAsync(`KILL QUERY WHERE Settings['log_comment'] = ${quoted(id)} ASYNC`).catch(end);
      await sleep(KILL_AGAIN_MS);
    }
  }

  /** Statements that run or wait. */
  get busy(): number {
    return this.#writes.busy + this.#reads.busy;
  }

  /** Waits until nothing runs; what still does after `drainMs` is killed. Then closes every session. */
  async close(options: { drainMs: number; beforeClose?: () => Promise<void> }): Promise<void> {
    const deadline = Date.now() + options.drainMs;
    while (this.busy > 0) {
      if (Date.now() > deadline)
        await this.#control
          .queryAsync("KILL QUERY WHERE startsWith(Settings['log_comment'], 'gatehouse-') ASYNC")
          .catch(() => {});
      await sleep(20);
    }
    await options.beforeClose?.();
    for (const [id, sticky] of this.#sticky) {
      clearTimeout(sticky.timer);
      this.#forget(id);
    }
    this.#control.close();
    await this.#chdb.drainPending();
  }
}

/** The first session decides how the whole engine of this process is set up. */
function openSession(chdb: Chdb, options: EngineOptions): Session {
  try {
    return new chdb.Session(options.enginePath, {
      connectionArgs: [
        // Tables are loaded before the first statement, so that the integrity check sees all that is wrong.
        '--async_load_databases=0',
        `--max_server_memory_usage=${options.memoryBytes}`,
        // Default 5 GB; marks of 100 million rows fit into this.
        '--mark_cache_size=268435456',
      ],
    });
  } catch (cause) {
    // The engine itself writes its reason to stderr and does not return it.
    const holder = engineHolder(options.enginePath);
    if (holder !== undefined && holder !== process.pid) {
      throw new DataDirectoryError('busy', `${options.enginePath} is in use by another process (${holder})`, { cause });
    }
    const hint = 'the engine cannot open it, for the reason in the line before';
    throw new DataDirectoryError('damaged', `${options.enginePath} is damaged: ${hint}`, { cause });
  }
}

/** Lets `places` in at once and `queueMax` wait; first come, first served. */
class SessionSemaphore {
  readonly #places: number;
  readonly #queueMax: number;
  #inside = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number, queueMax: number) {
    this.#places = places;
    this.#queueMax = queueMax;
  }

  get busy(): number {
    return this.#inside + this.#waiting.length;
  }

  /**
   * Resolves with the function that leaves again. Throws ProtocolError when the queue is full or the caller has gone.
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) throw new ProtocolError('ABORTED', 'the client has gone');
    if (this.#inside >= this.#places) await this.#wait(signal);
    else this.#inside++;
    return () => this.#leave();
  }

  async #wait(signal: AbortSignal): Promise<void> {
    if (this.#waiting.length >= this.#queueMax)
      throw new ProtocolError('TOO_MANY_SIMULTANEOUS_QUERIES', `${this.#queueMax} statements are waiting already`, 503);
    await new Promise<void>((resolve, reject) => {
      const enter = () => {
        signal.removeEventListener('abort', give);
        resolve();
      };
      const give = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        reject(new ProtocolError('ABORTED', 'the client has gone'));
      };
      this.#waiting.push(enter);
      signal.addEventListener('abort', give, { once: true });
    });
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#inside--;
  }
}
