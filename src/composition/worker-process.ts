// Runs a worker (front, pipelines or backtests) from its settings: log, metrics, parts, signals. The one place where a
// worker begins. It is between the command line and the composition of each kind (front.ts, pipelines-process.ts,
// backtests-process.ts).
// Under `gatehouse start` it says when it is ready, shares its counts, and leaves when the supervisor is gone; alone it
// serves GATEHOUSE_METRICS_PORT itself.

import { setTimeout as sleep } from 'node:timers/promises';
import { SupervisorLink } from '../embedded/ipc.ts';
import { Metrics } from '../metrics/metrics.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { type Config, secretsIn } from '../process/config.ts';
import { type Part, runProcess, Service } from '../process/lifecycle.ts';
import { createLog, type Log } from '../process/log.ts';
import { reportFailure, writeToTerminal } from '../process/report-failure.ts';
import { StallGuard } from '../process/stall-guard.ts';

export type WorkerContext = {
  config: Config;
  log: Log;
  metrics: Metrics;
  link: SupervisorLink;
  /** A supervisor has prepared what this process works with. */
  isSupervised: boolean;
  /** While something takes its time. */
  say: (line: string) => void;
  /** Aborted when the process was asked to end, GATEHOUSE_DRAIN_SECONDS before it drains. */
  leaving: AbortSignal;
};
/** Builds clients, hands them down, and lists the parts in the order of their start. */
type MakeParts = (given: WorkerContext) => Promise<Part[]>;

/** `isSupervised`: a supervisor forked it, who may have gone since. */
export async function runWorker(
  config: Config,
  { kind, isSupervised }: { kind: 'front' | 'pipelines' | 'backtests'; isSupervised: boolean },
  makeParts: MakeParts,
): Promise<void> {
  // Until the parts are there, nothing is to be drained.
  const leave = () => process.exit(1);
  if (isSupervised) process.once('disconnect', leave);
  if (isSupervised && !process.connected) leave();
  // The fronts of one machine have different names; the name of a pipelines process is for its leases.
  const processName = kind === 'front' ? (config.processName ?? kind) : kind;
  const link = new SupervisorLink();
  const log = createLog({ level: config.logLevel, format: config.logFormat, processName, secrets: secretsIn(config) });
  const metrics = new Metrics({ processName, kind, gather: () => link.gather() });
  link.listen(() => metrics.collect());
  const say = isSupervised ? (line: string) => log.warn({ line }, 'process.waiting') : writeToTerminal;
  const leaving = new AbortController();
  const given = { config, log, metrics, link, isSupervised, say, leaving: leaving.signal };
  const parts = await makeParts(given).catch((error: unknown) => {
    reportFailure(error, log);
    return process.exit(1);
  });
  if (!isSupervised) parts.push(...metricsPort(config, metrics));
  parts.push(new StallGuard({ processName, log }));
  process.off('disconnect', leave);
  await runProcess({
    isSupervised,
    service: new Service(parts, log),
    log,
    ...(kind === 'front' ? waitingForLoadBalancers(config, leaving) : {}),
    onReady: () => {
      log.info({}, 'process.ready');
      link.sayReady();
    },
    ...(isSupervised ? {} : { onStartFailed: (error: unknown) => reportFailure(error, log) }),
  });
}

function waitingForLoadBalancers({ drainSeconds }: Config, leaving: AbortController) {
  const leavingMs = drainSeconds * 1000;
  const onLeaving = async () => {
    leaving.abort();
    await sleep(leavingMs);
  };
  return { leavingMs, onLeaving };
}

function metricsPort({ host, metricsPort: port }: Config, metrics: Metrics): Part[] {
  return port === undefined ? [] : [new MetricsServer({ host, port, text: () => metrics.text() })];
}
