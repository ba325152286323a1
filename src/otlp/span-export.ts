// Sends spans of a share of requests to a collector, by OTLP/HTTP in JSON (a part of each front, behind the settings
// GATEHOUSE_TRACES_URL and _PERCENT). Which: by the id of the caller's trace, so that services that go by the same
// share keep the same traces; a caller who says that a trace is not kept is heeded.
// Invariant: no request waits for it. At most SPANS_MAX are held; what comes beyond is left out, and counted.
// Failure: a collector that is away, or says to come again, is tried again with the next batch; what it refuses goes.
import { Periodic, withTimeout } from '../common/async.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { readAsset } from '../process/assets.ts';
import type { Log } from '../process/log.ts';
import { exportText, type GatewaySpan, GatewayTrace } from './gateway-trace.ts';

type SpanExportOptions = {
  url: string;
  /** So many of a hundred requests. */
  percent: number;
  metrics: Pick<Metrics, 'inc'>;
  log: Pick<Log, 'warn'>;
};

/** Half a minute at 50 a second, some 3 MB. */
const SPANS_MAX = 2_000;
/** Some 500 KB: collectors take 4 MB and more. */
const BATCH_MAX = 500;
const EVERY_MS = 1_000;
const ATTEMPT_MS = 5_000;
/** A stop waits so long for what is left. */
const STOP_MS = 2_000;
/** So often the log says that the collector is away. */
const TOLD_MS = 60_000;
/** The requests that machines make all the time, and the files of pages: they are not exported. */
const NOT_SENT = /^GET \/(healthz|readyz|metrics|ui)/;

export class SpanExport {
  readonly #options: SpanExportOptions;
  readonly #version = (JSON.parse(readAsset('package.json')) as { version: string }).version;
  readonly #ticks = new Periodic(EVERY_MS, () => this.#send());
  #spans: GatewaySpan[] = [];
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(options: SpanExportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#ticks.start();
  }

  async stop(): Promise<void> {
    const sent = this.#ticks.stop().then(() => this.#send());
    await withTimeout(sent, STOP_MS, () => undefined);
  }

  /** undefined: no span is sent. `traceparent`: '' where there is none. */
  begin(traceparent: string): GatewayTrace | undefined {
    const isLeftOut = traceparent !== '' && (Number.parseInt(traceparent.slice(-2), 16) & 1) === 0;
    const at = traceparent === '' ? Math.random() : Number.parseInt(traceparent.slice(27, 35), 16) / 2 ** 32;
    return isLeftOut || at * 100 >= this.#options.percent ? undefined : new GatewayTrace(traceparent);
  }

  take(span: GatewaySpan): void {
    if (NOT_SENT.test(span.name)) return;
    if (this.#spans.length < SPANS_MAX) this.#spans.push(span);
    else this.#options.metrics.inc('gatehouse_spans_left_out_total', {});
  }

  async #send(): Promise<void> {
    const { url, metrics } = this.#options;
    const batch = this.#spans.slice(0, BATCH_MAX);
    if (batch.length === 0) return;
    const answer = await fetch(url, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, redirect: 'error' },
      ...{ body: exportText(batch, this.#version), signal: AbortSignal.timeout(ATTEMPT_MS) },
    }).catch((error: unknown) => this.#away(error));
    await answer?.body?.cancel().catch(() => undefined);
    const isAgain = answer === undefined || answer.status === 429 || answer.status >= 502;
    if (answer !== undefined && !answer.ok) this.#away(new Error(`it answered with ${answer.status}`));
    if (isAgain) return;
    this.#spans = this.#spans.slice(batch.length);
    if (!answer.ok) metrics.inc('gatehouse_spans_left_out_total', {}, batch.length);
  }

  #away(err: unknown): undefined {
    if (performance.now() - this.#toldMs < TOLD_MS) return;
    this.#toldMs = performance.now();
    this.#options.log.warn({ err, waiting: this.#spans.length }, 'traces.not_taken');
  }
}
