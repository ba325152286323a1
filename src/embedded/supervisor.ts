// `gatehouse start`: the whole service on one machine, as a tree of processes under this one.
//   data folder   taken by a lock                                   in use: the start ends
//   port          free? the fronts would share it with another program      taken: the start ends
//   engines       redis-server and ClickHouse, where no address is given
//   stores        tables migrated, the account `default` there, the first admin key made
//   workers       pipelines, backtests, and as many fronts as asked for
//   notice        runtime.json for the commands beside us; the address and the first key for the person who waits
// SIGTERM goes the other way: fronts finish what they accepted, then pipelines and backtests, then the engines, then
// the lock.
// Invariant: a child that ends by itself is started again while the rest continues, engines on the same port as before.
// Failure: nothing here is on the path of an event. If this process is killed, its children notice and leave; what they
// had acknowledged is in Redis's append-only file, and the next start continues from there.

import { createHash, randomBytes } from 'node:crypto';
import os from 'node:os';
import { UserFacingError } from '../common/user-facing-error.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { assetPath, readAsset } from '../process/assets.ts';
import { type Config, environmentWith } from '../process/config.ts';
import type { Part } from '../process/lifecycle.ts';
import type { Log } from '../process/log.ts';
import { writeToTerminal } from '../process/report-failure.ts';
import { AdaptivePriority } from './adaptive-priority.ts';
import { type Child, forkChild } from './child.ts';
import { ChildSupervisor } from './child-supervisor.ts';
import { clickhouseUrl, endLeftoverClickHouse, launchClickHouse } from './clickhouse-process.ts';
import { diskGauges } from './disk-gauges.ts';
import { DiskRoom } from './disk-room.ts';
import { freePort, onFreePort, whyNotFree } from './free-port.ts';
import { WorkerHub, whenWorkerReady } from './ipc.ts';
import { memoryBytes, memoryCeilings } from './memory-ceilings.ts';
import { BACKTESTS_NICE, NICE } from './process-priority.ts';
import { checkRedisProgram, endLeftoverRedis, launchRedis, redisUrl } from './redis-server.ts';
import { KEY_FILE, StateDir } from './state-dir.ts';
import { BACKTESTS_V8, FRONT_V8, PIPELINES_V8 } from './v8.ts';

/** A failure of the start for a reason that the person at the terminal can mend. */
class StartError extends UserFacingError {
  override name = 'StartError';
}

/** Migrates the tables and makes the account `default`; answers its first admin key if it was made just now. */
type PrepareStores = (config: Config, log: Log) => Promise<{ key?: string | undefined }>;

/** Looks for what a copy of a running data folder lacks, and closes the gap in the audit chains. */
type MendCopiedFolder = (config: Config, log: Log) => Promise<void>;

type SupervisorOptions = {
  config: Config;
  log: Log;
  metrics: Metrics;
  prepareStores: PrepareStores;
  mendCopiedFolder?: MendCopiedFolder;
};

/**
 * Together below lifecycle's 25 s, and GATEHOUSE_DRAIN_SECONDS before them. A front may need 11 s until its idle
 * connections are gone.
 */
const GRACE_MS = { fronts: 12_000, pipelines: 6_000, engines: 6_000 };
/** How each kind of worker is run; a front takes short turns on the processor. */
const WORKERS = {
  front: { v8: FRONT_V8 },
  pipelines: { nice: NICE.pipelines, v8: PIPELINES_V8 },
  backtests: { nice: BACKTESTS_NICE, v8: BACKTESTS_V8 },
};
const WORKER_START_MS_MAX = 60_000;
/**
 * Redis reads a gigabyte of its file in some seconds, ClickHouse inspects its tables: who is not ready by then never
 * will be.
 */
const ENGINE_START_MS_MAX = 900_000;
const COPY_WARNING =
  'warning: this data folder is a copy that was made while Gatehouse ran on it: events of that time may be missing. ' +
  'The audit log will say how many (chain.gap_closed). "gatehouse backup" makes copies that lack nothing.';
const REWRITE_MS = 5_000;

export class Supervisor {
  /** To be started in order. */
  readonly parts: readonly Part[];
  /** The engines alone, for a command that needs them while nothing else may run. */
  readonly engineParts: readonly Part[];
  readonly #given: Config;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #prepareStores: PrepareStores;
  readonly #mendCopiedFolder: MendCopiedFolder;
  readonly #state: StateDir;
  readonly #hub: WorkerHub;
  readonly #priority: AdaptivePriority;
  readonly #room: DiskRoom;
  /** As given, completed by the addresses of what we run ourselves. */
  #config: Config;
  #engines: ChildSupervisor[] = [];
  #pipelines: ChildSupervisor[] = [];
  #fronts: ChildSupervisor[] = [];
  #backtests: ChildSupervisor[] = [];
  readonly #ceilings = memoryCeilings(memoryBytes());
  #newKey: string | undefined;
  #stopping = false;
  #rewriting: NodeJS.Timeout | undefined;

  constructor(options: SupervisorOptions) {
    this.#given = options.config;
    this.#config = options.config;
    this.#log = options.log;
    this.#metrics = options.metrics;
    this.#prepareStores = options.prepareStores;
    this.#mendCopiedFolder = options.mendCopiedFolder ?? (async () => undefined);
    this.#state = new StateDir(options.config.dataDir);
    this.#hub = new WorkerHub({
      peers: () => this.#workers,
      own: () => options.metrics.collect(),
      onBehind: (ms) => this.#priority.heard(ms),
      onReady: (peer) => this.#hub.reportRoom(this.#room.room, [peer]),
    });
    this.#room = new DiskRoom({
      folder: this.#state.file('redis'),
      onChange: (room) => this.#hub.reportRoom(room),
      onExhausted: () => this.#replaceClickHouse(),
      log: options.log,
    });
    this.#priority = new AdaptivePriority({ pidOf: (name) => this.#pidOf(name), log: options.log });
    const folder = { name: 'data folder', start: () => this.#state.lock(), stop: () => this.#state.unlock() };
    const engines = {
      name: 'engines',
      start: () => this.#say('engines.starting', this.#ownEngines(), () => this.#startEngines()),
      stop: () => stopAll(this.#engines, GRACE_MS.engines),
    };
    this.engineParts = [folder, engines];
    this.parts = [
      folder,
      diskGauges({ folder: this.#state.path, metrics: options.metrics, log: options.log }),
      { name: 'port', start: () => this.#choosePort(), stop: () => undefined },
      engines,
      { name: 'stores', start: () => this.#say('stores.preparing', {}, () => this.#prepare()), stop: () => undefined },
      ...(this.#given.redisUrl === undefined ? [this.#room] : []),
      {
        name: 'workers',
        start: () => this.#say('workers.starting', this.#workerCounts(), () => this.#startWorkers()),
        stop: () => this.#stopWorkers(),
      },
      { name: 'copied folder', start: () => this.#mendCopy(), stop: () => undefined },
      this.#priority,
      ...this.#metricsPort(),
      { name: 'notice', start: () => this.#writeRuntime(), stop: () => this.#removeRuntime() },
    ];
  }

  /** The settings, with the addresses of the engines that it runs. */
  get config(): Config {
    return this.#config;
  }

  /** Says what is begun, for the person who waits for it. */
  #say(what: string, fields: object, run: () => Promise<void>): Promise<void> {
    this.#log.info(fields, what);
    return run();
  }

  #ownEngines(): { engines: string[] } {
    const { redisUrl, clickhouseUrl: clickhouse } = this.#given;
    return {
      engines: [...(redisUrl === undefined ? ['Redis'] : []), ...(clickhouse === undefined ? ['ClickHouse'] : [])],
    };
  }

  #workerCounts(): { fronts: number; backtests: number } {
    const { fronts, backtests } = this.#given;
    return { fronts, backtests };
  }

  /** The lines for the person who started us. They hold the key itself only where a person reads it: `isTerminal`. */
  notice(isTerminal: boolean): string {
    const { host, port } = this.#config;
    const version = (JSON.parse(readAsset('package.json')) as { version: string }).version;
    const url = urlOf(host, port);
    const lines = [`Gatehouse ${version} is ready at ${url}`];
    const keyFile = this.#state.file(KEY_FILE);
    const key = isTerminal ? this.#newKey : undefined;
    if (key !== undefined) {
      lines.push(`Admin key of the account "default" (shown this once, kept in ${keyFile}):`, `  ${key}`);
    } else if (this.#given.bootstrapKey !== undefined) {
      lines.push('Admin key of the account "default": the one in GATEHOUSE_BOOTSTRAP_KEY');
    } else {
      lines.push(`Admin key of the account "default": made at the first start, kept in ${keyFile}`);
    }
    // The fragment stays in the browser, and the page wipes it at once.
    lines.push(`Dashboard: ${url}/ui/${key === undefined ? '' : `#key=${key}   (signs in)`}`);
    return `${lines.join('\n')}\n`;
  }

  /** An end at once: the children get a signal and are not waited for. */
  abandon(): void {
    for (const child of [...this.#workers, ...this.#engines]) child.terminate();
  }

  async #choosePort(): Promise<void> {
    const { host, port } = this.#given;
    if (port === 0) {
      this.#config = { ...this.#config, port: await freePort(host) };
      return;
    }
    const why = await whyNotFree(host, port);
    if (why === undefined) return;
    const reason = why === 'EADDRINUSE' ? 'another program listens there' : why;
    throw new StartError(
      `cannot listen on ${host}:${port}: ${reason}. GATEHOUSE_PORT and GATEHOUSE_HOST choose another.`,
    );
  }

  /** Both at the same time: neither needs the other. */
  async #startEngines(): Promise<void> {
    const starting: Promise<void>[] = [];
    if (this.#given.redisUrl === undefined) starting.push(this.#startRedis());
    if (this.#given.clickhouseUrl === undefined) starting.push(this.#startClickHouse());
    await Promise.all(starting);
  }

  async #startRedis(): Promise<void> {
    const env = environmentWith();
    const folder = this.#state.folder('redis');
    await checkRedisProgram(env);
    await endLeftoverRedis(folder, this.#log);
    const password = makePassword();
    const { redisAppendfsync: appendfsync, redisMaxmemory } = this.#given;
    const maxmemory = redisMaxmemory ?? String(this.#ceilings.redisBytes);
    const log = this.#log.child({ part: 'redis' });
    await onFreePort((port) => {
      this.#config = { ...this.#config, redisUrl: redisUrl({ port, password }), redisCluster: false };
      const launch = () =>
        launchRedis({ folder, port, password, appendfsync, maxmemory, env, log, onCut: sayWhatWasCut });
      return this.#startEngine('redis', launch);
    });
  }

  async #startClickHouse(): Promise<void> {
    const settings = {
      path: this.#state.folder('clickhouse'),
      password: makePassword(),
      memoryBytes: this.#given.clickhouseMemoryBytes ?? this.#ceilings.clickhouseBytes,
    };
    const log = this.#log.child({ part: 'clickhouse' });
    await endLeftoverClickHouse(settings.path, this.#log);
    await onFreePort((port) => {
      const server = { ...settings, port };
      this.#config = { ...this.#config, clickhouseUrl: clickhouseUrl(server) };
      const launch = () => launchClickHouse({ server, env: environmentWith(), log });
      return this.#startEngine('clickhouse', launch);
    });
  }

  async #prepare(): Promise<void> {
    const { key } = await this.#prepareStores(this.#config, this.#log);
    if (key === undefined || this.#given.bootstrapKey !== undefined) return;
    this.#newKey = key;
    const { former } = this.#state.keepAdminKey(key);
    if (former !== undefined) this.#log.warn({ kept: former }, 'admin_key.former_kept');
  }

  /** Beside everything else: nothing depends on it, and it may take minutes. */
  #mendCopy(): void {
    if (!this.#state.isTornCopy) return;
    this.#log.warn({}, 'copy.made_while_running');
    writeToTerminal(COPY_WARNING);
    this.#mendCopiedFolder(this.#config, this.#log).then(
      () => this.#state.setMended(),
      (error: unknown) => this.#log.warn({ err: error }, 'copy.not_mended'),
    );
  }

  async #startWorkers(): Promise<void> {
    const starting = [this.#worker(this.#pipelines, 'pipelines', this.#memberName())];
    // Of the lowest priority it may be long in coming, and no one waits for it.
    if (this.#config.backtests > 0) this.#worker(this.#backtests, 'backtests', this.#memberName()).startAlone();
    for (let n = 1; n <= this.#config.fronts; n++) starting.push(this.#worker(this.#fronts, 'front', `front-${n}`));
    await Promise.all(starting.map((worker) => worker.start()));
  }

  #worker(supervised: ChildSupervisor[], command: keyof typeof WORKERS, processName: string): ChildSupervisor {
    const { port, redisUrl, redisCluster, clickhouseUrl } = this.#config;
    const given = { port, redisUrl, redisCluster, clickhouseUrl, processName, bootstrapKey: undefined };
    const name = command === 'front' ? processName : command;
    const launch = () =>
      forkChild(assetPath('build/service/cli.js'), [command, '--supervised'], {
        name,
        ...WORKERS[command],
        env: environmentWith(given),
        whenReady: whenWorkerReady,
        onMessage: (message) => this.#hub.receive({ name, send: (answer) => child.send(answer) }, message),
      });
    const startMsMax = command === 'backtests' ? ENGINE_START_MS_MAX : WORKER_START_MS_MAX;
    const child = this.#supervise(supervised, name, launch, startMsMax);
    return child;
  }

  /** Fronts first: nothing new comes in. Then those that need both engines. */
  async #stopWorkers(): Promise<void> {
    await stopAll(this.#fronts, this.#given.drainSeconds * 1000 + GRACE_MS.fronts);
    await stopAll([...this.#pipelines, ...this.#backtests], GRACE_MS.pipelines);
  }

  get #workers(): readonly ChildSupervisor[] {
    return [...this.#pipelines, ...this.#backtests, ...this.#fronts];
  }

  /** Stable over restarts of this service, and another on every machine and data folder that shares a Redis. */
  #memberName(): string {
    const place = createHash('sha256').update(this.#state.path).digest('hex').slice(0, 8);
    return (
      this.#given.processName ??
      `${os
        .hostname()
        .replace(/[^A-Za-z0-9_.-]/g, '-')
        .slice(0, 80)}.${place}`
    );
  }

  /**
   * A merge that meets a full disk may leave a part whose files are empty, which the running engine takes for whole; 30
   * s later it removes the parts that this one was made of. A new process sets such a part aside while they are there.
   */
  #replaceClickHouse(): void {
    this.#engines.find(({ name }) => name === 'clickhouse')?.replace();
  }

  async #startEngine(name: string, launch: () => Child): Promise<void> {
    const child = this.#supervise(this.#engines, name, launch, ENGINE_START_MS_MAX);
    try {
      await child.start();
    } catch (error) {
      this.#engines = this.#engines.filter((each) => each !== child);
      throw error;
    }
  }

  #supervise(supervised: ChildSupervisor[], name: string, launch: () => Child, startMsMax: number): ChildSupervisor {
    this.#metrics.inc('gatehouse_restarts_total', { child: name }, 0);
    const onLaunch = (again: boolean) => {
      if (!again) return;
      this.#metrics.inc('gatehouse_restarts_total', { child: name });
      this.#rewriteRuntime();
    };
    const child = new ChildSupervisor({ name, launch, log: this.#log, onLaunch, startMsMax });
    supervised.push(child);
    return child;
  }

  #pidOf(name: string): number | undefined {
    return [...this.#engines, ...this.#pipelines].find((child) => child.name === name)?.pid;
  }

  #metricsPort(): Part[] {
    const { host, metricsPort: port } = this.#given;
    return port === undefined ? [] : [new MetricsServer({ host, port, text: () => this.#metrics.text() })];
  }

  #writeRuntime(): void {
    const { host, port, redisUrl, redisCluster, redisPrefix, partitions, clickhouseUrl, clickhouseDatabase } =
      this.#config;
    if (redisUrl === undefined || clickhouseUrl === undefined || this.#stopping) return;
    const children: Record<string, number> = {};
    for (const { name, pid } of [...this.#engines, ...this.#workers]) {
      if (pid !== undefined) children[name] = pid;
    }
    const url = urlOf(host, port);
    const redis = { redisUrl, redisCluster, redisPrefix, partitions };
    this.#state.writeRuntime({ pid: process.pid, url, ...redis, clickhouseUrl, clickhouseDatabase, children });
  }

  /**
   * For children that were started again. A full disk keeps none of them from running: the file is written when there
   * is room.
   */
  #rewriteRuntime(): void {
    clearTimeout(this.#rewriting);
    try {
      this.#writeRuntime();
    } catch (error) {
      this.#log.warn({ err: error }, 'runtime.not_written');
      this.#rewriting = setTimeout(() => this.#rewriteRuntime(), REWRITE_MS);
      this.#rewriting.unref();
    }
  }

  #removeRuntime(): void {
    this.#stopping = true;
    clearTimeout(this.#rewriting);
    this.#state.removeRuntime();
  }

  /** For the supervisor's own `/metrics`. */
  gather(): ReturnType<WorkerHub['gather']> {
    return this.#hub.gather();
  }
}

async function stopAll(supervised: ChildSupervisor[], graceMs: number): Promise<void> {
  await Promise.all(supervised.map((child) => child.stop(graceMs)));
}

/**
 * Makes a password of an engine, for as long as this supervisor runs: an engine of a copy of this folder, that has come
 * to a port of ours, then answers none of our processes.
 */
function makePassword(): string {
  return randomBytes(24).toString('base64url');
}

function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}

/**
 * For the person who starts it: an event whose acknowledgement was on its way, or a change of the last second, may be
 * gone.
 */
function sayWhatWasCut(bytes: number): void {
  writeToTerminal(
    `warning: the append-only file of Redis was cut off in the middle of a command: ${bytes} bytes were dropped. What was acknowledged last before may be missing; ClickHouse has what was stored.`,
  );
}
