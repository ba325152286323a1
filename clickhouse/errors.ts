// What ClickHouse can say, as far as a decision depends on it: code, name, and whether the same request may succeed
// later. The adapter (client.ts) wraps every failure in a ClickHouseError; no caller matches on message text.
// Rule: only an error that lies in the rows themselves cannot be retried. Everything else can, even what looks like our
// own mistake (an unknown column): the store pipeline must then wait for an operator to mend it rather than dead-letter
// every event.
import { UserFacingError } from '../src/common/user-facing-error.ts';

type KnownError = { name: string; canRetry: boolean };

const data = (name: string): KnownError => ({ name, canRetry: false });
const passing = (name: string): KnownError => ({ name, canRetry: true });

const CLICKHOUSE_ERRORS: ReadonlyMap<number, KnownError> = new Map([
  [6, data('CANNOT_PARSE_TEXT')],
  [25, data('CANNOT_PARSE_ESCAPE_SEQUENCE')],
  [26, data('CANNOT_PARSE_QUOTED_STRING')],
  [27, data('CANNOT_PARSE_INPUT_ASSERTION_FAILED')],
  [32, data('ATTEMPT_TO_READ_AFTER_EOF')],
  [33, data('CANNOT_READ_ALL_DATA')],
  [38, data('CANNOT_PARSE_DATE')],
  [41, data('CANNOT_PARSE_DATETIME')],
  [53, data('TYPE_MISMATCH')],
  [69, data('ARGUMENT_OUT_OF_BOUND')],
  [70, data('CANNOT_CONVERT_TYPE')],
  [72, data('CANNOT_PARSE_NUMBER')],
  [117, data('INCORRECT_DATA')],
  [128, data('TOO_LARGE_ARRAY_SIZE')],
  [131, data('TOO_LARGE_STRING_SIZE')],
  [321, data('VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE')],
  [349, data('CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN')],
  [376, data('CANNOT_PARSE_UUID')],
  [467, data('CANNOT_PARSE_BOOL')],
  [691, data('UNKNOWN_ELEMENT_OF_ENUM')],
  [57, passing('TABLE_ALREADY_EXISTS')],
  [60, passing('UNKNOWN_TABLE')],
  [81, passing('UNKNOWN_DATABASE')],
  [158, passing('TOO_MANY_ROWS')],
  [159, passing('TIMEOUT_EXCEEDED')],
  [202, passing('TOO_MANY_SIMULTANEOUS_QUERIES')],
  [209, passing('SOCKET_TIMEOUT')],
  [210, passing('NETWORK_ERROR')],
  [236, passing('ABORTED')],
  [241, passing('MEMORY_LIMIT_EXCEEDED')],
  [242, passing('TABLE_IS_READ_ONLY')],
  [243, passing('NOT_ENOUGH_SPACE')],
  [252, passing('TOO_MANY_PARTS')],
  [285, passing('TOO_FEW_LIVE_REPLICAS')],
  [319, passing('UNKNOWN_STATUS_OF_INSERT')],
  [394, passing('QUERY_WAS_CANCELLED')],
  [396, passing('TOO_MANY_ROWS_OR_BYTES')],
  [999, passing('KEEPER_EXCEPTION')],
]);

export class ClickHouseError extends UserFacingError {
  override name = 'ClickHouseError';
  /** May the very same request succeed later? False only where the rows are at fault. */
  readonly canRetry: boolean;
  /** ClickHouse's own code; null: it did not answer (network, time). */
  readonly code: number | null;
  /** Name of the code; `NO_ANSWER` where there is none. */
  readonly codeName: string;

  constructor(message: string, options: { code: number | null; codeName?: string | undefined; cause?: unknown }) {
    super(message, { cause: options.cause });
    const known = options.code === null ? undefined : CLICKHOUSE_ERRORS.get(options.code);
    this.code = options.code;
    this.codeName = known?.name ?? options.codeName ?? (options.code === null ? 'NO_ANSWER' : `CODE_${options.code}`);
    this.canRetry = known?.canRetry ?? true;
  }

  /** `gatehouse migrate` has not made what was asked for yet. */
  get isNotMigrated(): boolean {
    return this.codeName === 'UNKNOWN_TABLE' || this.codeName === 'UNKNOWN_DATABASE';
  }
}
