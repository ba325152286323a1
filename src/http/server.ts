// The HTTP server of a front: a transport (transport/transport.ts) with the table of routes behind admission.
// Invariant: every handler goes through `safe`, so nothing that happens in one can end the process; every request that
// was taken is answered, at the latest when the sweep finds it (503), or its client has left.
// Drain: stop accepting, answer what comes with `Connection: close`, and close what is left once no more requests come.

import { setTimeout as sleep } from 'node:timers/promises';
import type { BufferPool } from '../common/buffer-pool.ts';
import { ServiceError } from '../common/errors.ts';
import {
  BODY_BYTES_HELD_MAX,
  DRAIN_QUIET_MS,
  READ_WAIT_MS_MAX,
  REQUEST_SWEEP_MS,
  SUBMISSIONS_IN_FLIGHT_MAX,
} from '../common/limits.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { SpanExport } from '../otlp/span-export.ts';
import type { Config } from '../process/config.ts';
import type { Log } from '../process/log.ts';
import type { AccountQuotas } from '../registry/accounts/account-quota.ts';
import type { RequestLimiter } from '../registry/accounts/request-limit.ts';
import type { RegistryCache } from '../registry/cache/cache.ts';
import { AddressLimit } from './admission/address-limit.ts';
import { Admission } from './admission/admission.ts';
import { Authenticator, type KnownCaller } from './admission/authenticate.ts';
import { BrowserSessions } from './admission/browser-sessions.ts';
import { CallerAddresses } from './admission/caller-address.ts';
import { ConnectionVerdicts } from './admission/connection-verdicts.ts';
import { Cors } from './admission/cors.ts';
import { InFlight } from './admission/in-flight.ts';
import { KeyUses } from './admission/key-uses.ts';
import { LoadShedding, type ShedReason } from './admission/load-shedding.ts';
import { Operators } from './admission/operators.ts';
import { requestCounter } from './admission/request-counts.ts';
import { RequestLog } from './admission/request-log.ts';
import { SubmissionScheduler } from './admission/submission-scheduler.ts';
import { type PageRequest, Pages, redirectTo } from './answers/pages.ts';
import { type Exchange, type ExchangeHost, errorBody, OWN_JSON, safe } from './exchange.ts';
import { mintRequestId } from './reading/head.ts';
import { BodyInflater } from './reading/inflate-body.ts';
import { BodyBudget } from './reading/read-body.ts';
import { RouteEntry } from './request.ts';
import type { Method, Parts, Reply, Route } from './route.ts';
import { VERBS } from './transport/router.ts';
import type { Handler, Transport, TransportRequest, Unreadable } from './transport/transport.ts';

export type ServerOptions = Omit<Parts, 'metrics' | 'authenticator' | 'limiter' | 'limits' | 'publicUrl'> & {
  transport: Transport;
  config: Pick<
    Config,
    | 'host'
    | 'port'
    | 'metricsPort'
    | 'eventBytesMax'
    | 'batchBytesMax'
    | 'bodyBytesMax'
    | 'queryTimeoutSeconds'
    | 'corsOrigins'
    | 'trustedProxies'
    | 'publicUrl'
    | 'operatorKeys'
    | 'tracesUrl'
    | 'tracesPercent'
  >;
  routes: readonly Route[];
  cache: KnownCaller & Pick<RegistryCache, 'connection'>;
  limiter: Pick<RequestLimiter, 'admit'>;
  quotas: Pick<AccountQuotas, 'reserve'>;
  /** For bodies: the front's own. */
  buffers: BufferPool;
  /** For tests, which make submissions wait. */
  scheduler?: SubmissionScheduler;
  /** The error that prevents every call with a key, or every write, whatever it asks for. */
  refusal: (writes: boolean) => ServiceError | undefined;
  /** Is there no room downstream? */
  backlogFull: () => boolean;
  /** Called for error answers to callers whose account is known. */
  onRefused?: (account: string, status: number) => void;
  metrics: Metrics;
  log: Log;
};

/** Queries of one request run after another at worst twice; the rest is waiting for writes and margin. */
const ANSWER_MARGIN_MS = 10_000;
const DRAIN_POLL_MS = 20;

export class Server {
  readonly #options: ServerOptions;
  readonly #transport: Transport;
  readonly #host: ExchangeHost;
  readonly #admission: Admission;
  readonly #keyUses: KeyUses;
  readonly #sessionUses: KeyUses;
  readonly #connectionUses: KeyUses;
  readonly #requestLog: RequestLog;
  readonly #traces: SpanExport | undefined;
  readonly #answerMsMax: number;
  #sweep: NodeJS.Timeout | undefined;
  #lastRequestMs = 0;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#answerMsMax = 2 * options.config.queryTimeoutSeconds * 1000 + READ_WAIT_MS_MAX + ANSWER_MARGIN_MS;
    this.#keyUses = new KeyUses(options.registry.apiKeys);
    this.#sessionUses = new KeyUses(options.registry.sessions);
    this.#connectionUses = new KeyUses(options.registry.connections);
    const { metrics, routes, onRefused = () => undefined } = options;
    const count = requestCounter(metrics, routes, onRefused);
    this.#requestLog = new RequestLog(options);
    const budget = new BodyBudget();
    const scheduler = options.scheduler ?? new SubmissionScheduler();
    const shedding = makeShedding(options, scheduler);
    const { corsOrigins, trustedProxies, publicUrl } = options.config;
    const callers = new CallerAddresses(trustedProxies);
    const cors = corsOrigins === undefined ? undefined : new Cors(corsOrigins);
    this.#traces = spanExportOf(options);
    this.#host = {
      ...{ cors, traces: this.#traces },
      closesUnderSenders: options.transport.name === 'uws',
      log: options.log,
      draining: false,
      inFlight: new InFlight(),
      ...{ bodies: new Set(), unread: new Set() },
      onOffloaded: (taken) => shedding.release(taken, false),
      onDone: (exchange, status) => {
        const nowMs = performance.now();
        this.#lastRequestMs = nowMs;
        if (exchange.taken !== undefined) shedding.release(exchange.taken, isServed(status));
        count(exchange, status, nowMs);
        this.#requestLog.ended(exchange, status, nowMs);
        if (exchange.trace !== undefined) this.#traces?.take(exchange.trace.ended(endOf(exchange, status, nowMs)));
      },
    };
    this.#admission = new Admission({
      ...options,
      authenticator: new Authenticator(options.cache),
      keyUses: this.#keyUses,
      budget,
      inflater: new BodyInflater(budget, options.buffers),
      limits: options.config,
      publicUrl,
      verdicts: new ConnectionVerdicts(options.cache, metrics),
      cors,
      callers,
      ...{ signIns: new AddressLimit(), operators: new Operators(options.config.operatorKeys) },
      ...{ sessionUses: this.#sessionUses, connectionUses: this.#connectionUses },
      browsers: new BrowserSessions({ publicUrl, isTrusted: (peer) => callers.trusts(peer) }),
      shedding,
      scheduler,
    });
    this.#transport = options.transport;
    this.#transport.onUnreadable = answerUnreadable(metrics, this.#requestLog);
    this.#register(routes);
    metrics.sampleBy(() => this.#sample(metrics, budget));
  }

  #sample(metrics: Metrics, budget: BodyBudget): void {
    metrics.set('gatehouse_open_connections', {}, this.connections);
    metrics.set('gatehouse_body_bytes', {}, budget.held);
    metrics.set('gatehouse_body_limit_bytes', {}, BODY_BYTES_HELD_MAX);
  }

  /** Open connections, for tests and metrics. */
  get connections(): number {
    return this.#transport.connections;
  }

  /** Resolves with the port. Rejects where the address cannot be had. */
  listen(): Promise<number> {
    const { host, port } = this.#options.config;
    this.#keyUses.start();
    this.#sessionUses.start();
    this.#connectionUses.start();
    this.#traces?.start();
    this.#sweep = setInterval(() => this.#failForgotten(), REQUEST_SWEEP_MS);
    this.#sweep.unref();
    return this.#transport.listen(host, port);
  }

  /** Resolves when what was accepted is answered and every connection is closed. */
  async drain(): Promise<void> {
    this.#transport.stopListening();
    this.#host.draining = true;
    for (const body of this.#host.bodies) body.abort('draining');
    this.#lastRequestMs = performance.now();
    while (this.connections > 0 && !this.#isQuiet()) await sleep(DRAIN_POLL_MS);
    clearInterval(this.#sweep);
    this.#transport.close();
    this.#requestLog.close();
    await this.#traces?.stop();
    await Promise.all([this.#keyUses, this.#sessionUses, this.#connectionUses].map((uses) => uses.stop()));
  }

  #isQuiet(): boolean {
    const { inFlight, unread } = this.#host;
    return inFlight.size + unread.size === 0 && performance.now() - this.#lastRequestMs > DRAIN_QUIET_MS;
  }

  /** Each path with each verb: a static segment wins over a parameter only among handlers of the same verb. */
  #register(routes: readonly Route[]): void {
    const byPath = new Map<string, Map<Method, Route>>();
    for (const route of routes) {
      const methods = byPath.get(route.path) ?? new Map<Method, Route>();
      methods.set(route.method, route);
      byPath.set(route.path, methods);
    }
    for (const [path, methods] of byPath) this.#registerPath(path, methods);
    this.#registerPages(new Pages());
    const unknown = this.#safe((exchange, req) =>
      this.#admission.refuse(exchange, req, new ServiceError('not_found', 'No such path.')),
    );
    this.#transport.onUnknown(unknown);
  }

  #registerPath(pattern: string, methods: Map<Method, Route>): void {
    const allow = allowed(methods);
    const refuse = (exchange: Exchange, req: TransportRequest) => this.#refuseMethod(exchange, req, allow);
    const other = this.#safe(refuse);
    const preflight = this.#safe((exchange, req) =>
      this.#admission.preflight(exchange, req, allow, () => refuse(exchange, req)),
    );
    for (const verb of VERBS) {
      if (verb === 'OPTIONS') {
        this.#transport.on(verb, pattern, preflight);
        continue;
      }
      const route = methods.get((verb === 'HEAD' ? 'GET' : verb) as Method);
      this.#transport.on(verb, pattern, route === undefined ? other : this.#handler(route));
    }
    this.#transport.onOther(pattern, other);
  }

  #registerPages(pages: Pages): void {
    const answers: Record<string, (asked: PageRequest, name: string) => Reply> = {
      '/': () => redirectTo('ui/'),
      '/ui': () => redirectTo('ui/'),
      '/ui/': (asked) => pages.shell(asked),
      '/ui/{screen}': (asked, screen) => pages.shell(asked, screen),
      '/ui/assets/{file}': (asked, name) => pages.file(name, asked),
    };
    for (const [path, answer] of Object.entries(answers)) {
      const show = this.#safe((exchange, req) => this.#admission.page(exchange, req, answer));
      const other = this.#safe((exchange, req) => this.#refuseMethod(exchange, req, 'GET, HEAD'));
      for (const verb of VERBS) this.#transport.on(verb, path, verb === 'GET' || verb === 'HEAD' ? show : other);
      this.#transport.onOther(path, other);
    }
  }

  #refuseMethod(exchange: Exchange, req: TransportRequest, allow: string): void {
    const error = new ServiceError('method_not_allowed', `This path takes ${allow}.`);
    this.#admission.refuse(exchange, req, error, { Allow: allow });
  }

  #handler(route: Route): Handler {
    const entry = new RouteEntry(route, this.#options.config);
    return this.#safe((exchange, req) => this.#admission.enter(entry, exchange, req));
  }

  #safe(handle: (exchange: Exchange, req: TransportRequest) => void | Promise<void>): Handler {
    return safe(this.#host, handle);
  }

  /** Gives up exchanges that take too long, or never settle: callers need not wait for us to find out which. */
  #failForgotten(): void {
    const before = performance.now() - this.#answerMsMax;
    for (const exchange of this.#host.inFlight) {
      if (exchange.startedMs + exchange.longPollMs < before) exchange.giveUp(noAnswer());
    }
  }
}

/** `recorded` says whether it may have left something behind. */
function noAnswer(): ServiceError {
  const internal = 'no answer in time';
  return new ServiceError('unavailable', 'This took too long, and was given up.', { retryAfterSeconds: 1, internal });
}

/** Answers what no handler sees, in the form of every error, counts it and logs it. */
function answerUnreadable(metrics: Metrics, requestLog: RequestLog): Unreadable {
  const codes = {
    400: 'validation_failed',
    405: 'method_not_allowed',
    408: 'request_timeout',
    431: 'headers_too_large',
  } as const;
  return (status, fault) => {
    metrics.inc('gatehouse_requests_total', { route: 'unknown', status: String(status) });
    const requestId = mintRequestId();
    requestLog.unreadable(requestId, status, codes[status]);
    const error = new ServiceError(codes[status], `The request is not sound: ${fault}.`);
    const allow = status === 405 ? [`Allow: ${[...VERBS].sort().join(', ')}`] : [];
    return {
      headers: [`X-Request-Id: ${requestId}${OWN_JSON}`, ...allow],
      body: errorBody(error, requestId, undefined),
    };
  };
}

function spanExportOf({ config, metrics, log }: ServerOptions): SpanExport | undefined {
  const { tracesUrl: url, tracesPercent: percent } = config;
  return url === undefined ? undefined : new SpanExport({ url, percent, metrics, log });
}

function endOf({ route, requestId, account, refusedBy, startedMs }: Exchange, status: number, nowMs: number) {
  const endMs = Date.now();
  return { route, requestId, account, status, code: refusedBy?.code, startMs: endMs - (nowMs - startedMs), endMs };
}

function allowed(methods: Map<Method, Route>): string {
  const names: string[] = [...methods.keys()];
  if (methods.has('GET')) names.push('HEAD');
  return names.sort().join(', ');
}

function isServed(status: number): boolean {
  return status === 200 || status === 201;
}

function makeShedding({ backlogFull, metrics, log }: ServerOptions, scheduler: SubmissionScheduler): LoadShedding {
  const counter = (reason: ShedReason) => metrics.counter('gatehouse_shed_requests_total', { reason });
  const shed = {
    backlog: counter('backlog'),
    count: counter('count'),
    overdue: counter('overdue'),
    wait: counter('wait'),
  };
  const shedding = new LoadShedding({
    backlogFull,
    scheduler,
    onShed: (reason) => shed[reason].inc(),
    onOverload: (isOverloaded, refused) => log.warn({ refused }, isOverloaded ? 'load.overloaded' : 'load.normal'),
  });
  metrics.sampleBy(() => {
    metrics.set('gatehouse_overloaded', {}, shedding.isOverloaded ? 1 : 0);
    metrics.set('gatehouse_submissions_in_flight', {}, shedding.inFlight);
    metrics.set('gatehouse_submissions_in_flight_limit', {}, SUBMISSIONS_IN_FLIGHT_MAX);
    metrics.set('gatehouse_longest_wait_seconds', {}, shedding.longestWaitMs() / 1000);
  });
  return shedding;
}
