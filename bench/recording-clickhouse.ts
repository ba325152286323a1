// A ClickHouse client that also adds up how many rows its queries read, by the statistics of ClickHouse's JSON format
// (the embedded engine gives it nowhere else). The service's own query functions run on it, so what is counted is what
// the service asks; its settings are those of clickhouse/client.ts.
import { type ClickHouseClient, createClient } from '@clickhouse/client';
import { ClickHouse, type QueryOptions, type QueryParams } from '../clickhouse/client.ts';

const QUERY_SECONDS_MAX = 60;

export class RecordingClickHouse extends ClickHouse {
  rowsRead = 0;
  readonly #recorded: ClickHouseClient;

  constructor({ url, database }: { url: string; database: string }) {
    super({ url, database, queryTimeoutSeconds: QUERY_SECONDS_MAX });
    this.#recorded = createClient({
      url,
      database,
      request_timeout: QUERY_SECONDS_MAX * 1000,
      clickhouse_settings: {
        optimize_use_implicit_projections: 0,
        output_format_json_quote_64bit_integers: 0,
        wait_end_of_query: 1,
      },
    });
  }

  override async query<Row>(sql: string, params: QueryParams = {}, options: QueryOptions = {}): Promise<Row[]> {
    const result = await this.#recorded.query({
      query: sql,
      query_params: params as Record<string, unknown>,
      format: 'JSON',
      ...(options.settings === undefined ? {} : { clickhouse_settings: options.settings }),
    });
    const { data, statistics } = await result.json<Row>();
    this.rowsRead += statistics?.rows_read ?? 0;
    return data;
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.#recorded.close()]);
  }
}
