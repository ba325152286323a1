// From the id of a request to a reason: a line of the log for each that was refused, failed or slow (after its answer,
// beside request-counts.ts). It names the account, the route's pattern, code, status, time and the caller's trace;
// nothing that the caller wrote but the ids.
// Invariant: an accepted request costs two comparisons and makes nothing. A process writes at most
// REQUEST_LINES_A_SECOND_MAX of these lines a second, faults of ours (500) counted apart, so that no flood of refusals
// hides one; how many were left out is said when the second is over, and counted.

import { ERRORS, type ErrorCode } from '../../common/errors.ts';
import { REQUEST_LINES_A_SECOND_MAX, SLOW_REQUEST_MS } from '../../common/limits.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Log } from '../../process/log.ts';
import type { Exchange } from '../exchange.ts';

type Told = Pick<
  Exchange,
  'route' | 'requestId' | 'traceparent' | 'account' | 'refusedBy' | 'startedMs' | 'longPollMs'
>;

export class RequestLog {
  readonly #log: Log;
  readonly #faults: LineAllowance;
  readonly #others: LineAllowance;

  constructor({ log, metrics }: { log: Log; metrics: Metrics }) {
    const counter = metrics.counter('gatehouse_request_lines_left_out_total', {});
    const onLeftOut = (lines: number) => {
      counter.inc(lines);
      log.warn({ lines }, 'request.lines_left_out');
    };
    this.#log = log;
    this.#faults = new LineAllowance(onLeftOut);
    this.#others = new LineAllowance(onLeftOut);
  }

  /** `status` 0: the client left before its answer, which no one refused. */
  ended(exchange: Told, status: number, nowMs: number): void {
    const ms = nowMs - exchange.startedMs;
    if (status >= 500) this.#failed(exchange, status, ms);
    else if (status >= 400) this.#tell('info', 'request.refused', exchange, status, ms);
    else if (ms - exchange.longPollMs > SLOW_REQUEST_MS && status !== 0)
      this.#tell('warn', 'request.slow', exchange, status, ms);
  }

  /** One that no handler saw, since it could not be read. */
  unreadable(requestId: string, status: number, code: ErrorCode): void {
    if (!this.#log.isLevelEnabled('info') || !this.#others.take()) return;
    this.#log.info({ requestId, account: null, route: 'unknown', status, code, ms: null }, 'request.refused');
  }

  /** Says what it has left out so far. */
  close(): void {
    this.#faults.end();
    this.#others.end();
  }

  #failed(exchange: Told, status: number, ms: number): void {
    if (status !== 500) this.#tell('warn', 'request.failed', exchange, status, ms);
    else if (this.#faults.take()) this.#log.error(fieldsOf(exchange, status, ms), 'request.failed');
  }

  #tell(level: 'info' | 'warn', message: string, exchange: Told, status: number, ms: number): void {
    if (this.#log.isLevelEnabled(level) && this.#others.take())
      this.#log[level](fieldsOf(exchange, status, ms), message);
  }
}

function fieldsOf({ requestId, traceparent, account, route, refusedBy }: Told, status: number, ms: number) {
  return {
    requestId,
    ...(traceparent === '' ? {} : { traceparent }),
    account: account ?? null,
    ...{ route, status },
    ...(status >= 400 ? { code: refusedBy?.code ?? codeOf(status) } : {}),
    ms: Math.round(ms),
    ...(status >= 500 ? { internal: refusedBy?.internal, err: refusedBy?.cause } : {}),
  };
}

/** The code of an answer that its handler has made whole. */
function codeOf(status: number): string | undefined {
  return Object.keys(ERRORS).find((code) => ERRORS[code as ErrorCode].status === status);
}

/** So many lines in each second that begins with one. */
class LineAllowance {
  readonly #onLeftOut: (lines: number) => void;
  #taken = 0;
  #leftOut = 0;
  #second: NodeJS.Timeout | undefined;

  constructor(onLeftOut: (lines: number) => void) {
    this.#onLeftOut = onLeftOut;
  }

  take(): boolean {
    this.#second ??= setTimeout(() => this.end(), 1_000).unref();
    if (this.#taken++ < REQUEST_LINES_A_SECOND_MAX) return true;
    this.#leftOut++;
    return false;
  }

  end(): void {
    clearTimeout(this.#second);
    this.#second = undefined;
    const lines = this.#leftOut;
    this.#taken = this.#leftOut = 0;
    if (lines > 0) this.#onLeftOut(lines);
  }
}
