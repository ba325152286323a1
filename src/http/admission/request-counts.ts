// Counts what a front answers, for `/metrics` (after the answer: the last that happens to an exchange).
// By route and status, with the statuses that the API's description lists there from the start; by account where one
// was known.
// Invariant: once an answer, whatever came of it; a client that left before its answer counts as `aborted`. Nothing
// here can fail.
import { ERRORS } from '../../common/errors.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Exchange } from '../exchange.ts';
import { errorsOf } from '../openapi/document.ts';
import type { Route } from '../route.ts';

type Seconds = { observe(seconds: number): void };
type RouteCounts = { byStatus: Map<number, { inc(): void }>; seconds: Seconds; longPolls: Seconds | undefined };

/** All pages of the dashboard and their files. */
export const PAGES_ROUTE = 'GET /ui';
const PAGES = { name: PAGES_ROUTE, statuses: [200, 302, 304, 404], waits: false };
/** A path that is not in the table. */
const UNKNOWN = { name: 'unknown', statuses: [400, 404, 405], waits: false };

type CountRequest = (exchange: Exchange, status: number, nowMs: number) => void;

/** `countRefused`: called for an error answer to a caller whose account is known. */
export function requestCounter(
  metrics: Metrics,
  routes: readonly Route[],
  countRefused: (account: string, status: number) => void,
): CountRequest {
  const counts = new Map<string, RouteCounts>();
  for (const { name, statuses, waits } of [...routes.map(knownOf), PAGES, UNKNOWN])
    counts.set(name, countsOf(metrics, name, statuses, waits));
  const limited = metrics.counter('gatehouse_requests_limited_total', {});
  return ({ route, startedMs, longPollMs, isSubmission, refusedBy, account }, status, nowMs) => {
    let own = counts.get(route);
    if (own === undefined) {
      own = countsOf(metrics, route, [], false);
      counts.set(route, own);
    }
    let counter = own.byStatus.get(status);
    if (counter === undefined) {
      counter = statusCounter(metrics, route, status);
      own.byStatus.set(status, counter);
    }
    counter.inc();
    if (status === 429) limited.inc();
    if (status >= 400 && account !== undefined) countRefused(account, status);
    if (isSubmission && refusedBy !== undefined)
      metrics.inc('gatehouse_rejected_events_total', { code: refusedBy.code });
    if (longPollMs > 0) own.longPolls ??= metrics.histogram('gatehouse_long_poll_seconds', { route });
    const seconds = longPollMs > 0 ? own.longPolls! : own.seconds;
    seconds.observe((nowMs - startedMs) / 1000);
  };
}

function knownOf(route: Route): typeof UNKNOWN {
  const errors = [...errorsOf(route)].map((code) => ERRORS[code].status);
  const statuses = [...new Set([...Object.keys(route.operation.answers).map(Number), ...errors])];
  return { name: `${route.method} ${route.path}`, statuses, waits: route.query !== undefined && 'wait' in route.query };
}

function countsOf(metrics: Metrics, route: string, statuses: readonly number[], waits: boolean): RouteCounts {
  return {
    byStatus: new Map([...statuses, 0].map((status) => [status, statusCounter(metrics, route, status)])),
    seconds: metrics.histogram('gatehouse_request_seconds', { route }),
    longPolls: waits ? metrics.histogram('gatehouse_long_poll_seconds', { route }) : undefined,
  };
}

function statusCounter(metrics: Metrics, route: string, status: number): { inc(): void } {
  return metrics.counter('gatehouse_requests_total', { route, status: status === 0 ? 'aborted' : String(status) });
}
