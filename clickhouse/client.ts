// The one way to ClickHouse: @clickhouse/client over HTTP, whether the embedded engine or a server answers.
// The store pipeline inserts through it; clickhouse/queries ask through it. Values are bound as parameters, never
// spliced into SQL.
// Invariant: an insert with a token takes effect at most once, however often it is sent (the tables keep the last
// tokens); async_insert is off, so that an answer means stored. But where an engine was killed during a try before, the
// answer may come from its token alone (pipelines/store/verify-insert.ts). Every failure is a ClickHouseError that says
// whether to try again. Payloads are never logged: the client's own log is off.
import { Readable } from 'node:stream';
import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
  ClickHouseError as ServerError,
} from '@clickhouse/client';
import { EVENT_ROW_COLUMNS } from '../schemas/event-row.ts';
import type { FairQueue } from '../src/common/fair-queue.ts';
import { ClickHouseError } from './errors.ts';
import { type KeptOf, KeptReads, OLDEST_ROW } from './kept-reads.ts';

export { ClickHouseError } from './errors.ts';

type ClickHouseOptions = {
  /** HTTP address; may carry `user:password@`. */
  url: string;
  database: string;
  /** Queries are stopped after that by ClickHouse, and a little later by us. */
  queryTimeoutSeconds: number;
  /** Accounts take turns with what they ask; left out: everything is asked at once. */
  fair?: FairQueue;
  /** The rows that reads in the name of an account may see; left out: all that is stored. */
  keptOf?: KeptOf;
};

export type QueryParams = Record<string, string | number | boolean | null | readonly string[] | readonly number[]>;
export type QueryOptions = { signal?: AbortSignal; settings?: ClickHouseSettings };

/** An insert may wait behind others and behind merges; to give it up early only means to send it again. */
const INSERT_TIMEOUT_SECONDS = 120;
/** ClickHouse should be the one that stops a slow query: it says why. */
const GRACE_MS = 5_000;
const CONNECTIONS_MAX = 32;
/** Under the 3 s after which older servers close an idle socket, so that no request meets a closing one. */
const IDLE_SOCKET_MS = 2_000;

/**
 * Indexes over words, the set of models and the filter of matches are built by merges, not at insert: an insert then
 * costs 14 us of CPU a row instead of 32, and makes fewer files. Until a part has been merged its rows are inspected
 * one by one, with the same result.
 */
export const EVENT_INSERT_SETTINGS: ClickHouseSettings = {
  exclude_materialize_skip_indexes_on_insert: 'model_set,prompt_words,response_words,search_words,matched_bloom',
};

export class ClickHouse {
  readonly database: string;
  readonly #options: ClickHouseOptions;
  readonly #queries: ClickHouseClient;
  readonly #inserts: ClickHouseClient;
  readonly #kept: KeptReads | undefined;

  constructor(options: ClickHouseOptions) {
    this.#options = options;
    this.database = options.database;
    this.#queries = makeClient(options, options.queryTimeoutSeconds);
    this.#inserts = makeClient(options, INSERT_TIMEOUT_SECONDS);
    const oldest = async () => (await this.query<{ oldest: number | null }>(OLDEST_ROW))[0]!.oldest;
    this.#kept = options.keptOf && new KeptReads(options.keptOf, oldest);
  }

  /** The same server, another database: `default` is there before ours is. The caller closes it. */
  withDatabase(database: string): ClickHouse {
    return new ClickHouse({ ...this.#options, database });
  }

  /**
   * Writes event rows (RowBinary, columns of EVENT_ROW_COLUMNS, and behind each row its search text, what shadows said,
   * what it cost and what budgets are charged). All rows must have been received in one month: then they are one part,
   * all there or not at all.
   * Sent again with the same token they are written once.
   */
  async insertEvents(rows: readonly Buffer[], token: string): Promise<void> {
    await this.#insertBytes(
      `events (${EVENT_ROW_COLUMNS.join(', ')}, words, shadow, cost, priced_by, settled)`,
      rows,
      insertSettings(token, EVENT_INSERT_SETTINGS),
    );
  }

  /** Writes rows given as RowBinary of these columns. `token` as for insertRows. */
  async insertBinary(table: string, columns: string, rows: readonly Buffer[], token?: string): Promise<void> {
    await this.#insertBytes(`${table} (${columns})`, rows, insertSettings(token, {}));
  }

  async #insertBytes(into: string, rows: readonly Buffer[], settings: ClickHouseSettings): Promise<void> {
    if (rows.length === 0) return;
    const result = await wrapped(() =>
      this.#inserts.exec({
        query: `INSERT INTO ${into} FORMAT RowBinary`,
        values: Readable.from(rows, { objectMode: false }),
        clickhouse_settings: settings,
      }),
    );
    result.stream.destroy();
  }

  /**
   * Writes rows given as objects, times as ISO text. `token` as for insertEvents; without one the table must allow
   * repetition.
   */
  async insertRows(table: string, rows: readonly object[], token?: string): Promise<void> {
    if (rows.length === 0) return;
    await wrapped(() =>
      this.#inserts.insert({
        table,
        values: rows as object[],
        format: 'JSONEachRow',
        clickhouse_settings: insertSettings(token, {}),
      }),
    );
  }

  async query<Row>(sql: string, params: QueryParams = {}, options: QueryOptions = {}): Promise<Row[]> {
    const ask = () => this.#ask<Row>(sql, params, options);
    const { fair } = this.#options;
    const account = params['account']; // every query that is made for one has it (queries/conditions.ts)
    return fair === undefined || typeof account !== 'string' ? ask() : fair.run(account, options.signal, ask);
  }

  async #ask<Row>(sql: string, params: QueryParams, options: QueryOptions): Promise<Row[]> {
    const settings = await this.#settingsOf(params, options);
    return wrapped(async () => {
      const result = await this.#queries.query({
        query: sql,
        query_params: params as Record<string, unknown>,
        format: 'JSONEachRow',
        ...(options.signal === undefined ? {} : { abort_signal: options.signal }),
        ...(settings === undefined ? {} : { clickhouse_settings: settings }),
      });
      return result.json<Row>();
    });
  }

  async #settingsOf(params: QueryParams, { settings }: QueryOptions): Promise<ClickHouseSettings | undefined> {
    const account = params['account'];
    if (this.#kept === undefined || typeof account !== 'string') return settings;
    return { ...settings, ...(await this.#kept.settingsFor(account)) };
  }

  /** The rows as RowBinary or in another format, all of them: the caller bounds how many. */
  async queryBinary(
    sql: string,
    params: QueryParams = {},
    options: QueryOptions & { format?: 'Parquet' } = {},
  ): Promise<Buffer> {
    const settings = await this.#settingsOf(params, options);
    return wrapped(async () => {
      const { stream } = await this.#queries.exec({
        query: `${sql} FORMAT ${options.format ?? 'RowBinary'}`,
        query_params: params as Record<string, unknown>,
        ...(options.signal === undefined ? {} : { abort_signal: options.signal }),
        ...(settings === undefined ? {} : { clickhouse_settings: settings }),
      });
      const pieces: Buffer[] = [];
      for await (const piece of stream) pieces.push(piece as Buffer);
      return Buffer.concat(pieces);
    });
  }

  /** A statement without rows in its answer. */
  async command(sql: string, params: QueryParams = {}, settings: ClickHouseSettings = {}): Promise<void> {
    await wrapped(() =>
      this.#inserts.command({
        query: sql,
        query_params: params as Record<string, unknown>,
        clickhouse_settings: settings,
      }),
    );
  }

  /** Throws ClickHouseError when ClickHouse does not answer or the database is not there. */
  async ping(): Promise<void> {
    await this.query('SELECT 1');
  }

  async close(): Promise<void> {
    await Promise.all([this.#queries.close(), this.#inserts.close()]);
  }
}

function makeClient({ url, database }: ClickHouseOptions, timeoutSeconds: number): ClickHouseClient {
  return createClient({
    url,
    database,
    application: 'gatehouse',
    request_timeout: timeoutSeconds * 1000 + GRACE_MS,
    max_open_connections: CONNECTIONS_MAX,
    keep_alive: { enabled: true, idle_socket_ttl: IDLE_SOCKET_MS, eagerly_destroy_stale_sockets: true },
    // Long lists of ids do not fit into an address.
    use_multipart_params_auto: true,
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: {
      max_execution_time: timeoutSeconds,
      // Counting by ranges of the primary key alone is wrong in tables with projections (engine 26.7): 207 of 124 rows,
      // in every other random table, of small rows and of large ones; never in tables without, and never without it.
      optimize_use_implicit_projections: 0,
      output_format_json_quote_64bit_integers: 0,
      // Errors come with a status instead of in the middle of rows.
      wait_end_of_query: 1,
    },
  });
}

function insertSettings(token: string | undefined, more: ClickHouseSettings): ClickHouseSettings {
  // Without a token rows would be known by a hash of theirs.
  const deduplication: ClickHouseSettings =
    token === undefined ? { insert_deduplicate: 0 } : { insert_deduplicate: 1, insert_deduplication_token: token };
  return { ...more, async_insert: 0, date_time_input_format: 'best_effort', ...deduplication };
}

async function wrapped<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof ServerError)
      throw new ClickHouseError(cause.message, { code: Number(cause.code), codeName: cause.type, cause });
    throw new ClickHouseError(`no answer from ClickHouse: ${(cause as Error).message}`, { code: null, cause });
  }
}
