// What the failover tests share: a service of two fronts and two pipelines over a Redis that is given, clients that
// keep everything that was acknowledged, and the comparison by id when all is quiet again.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { HttpClient } from '../../bench/http-client.ts';
import { ClickHouse } from '../../clickhouse/client.ts';
import type { RedisAddress } from '../../src/redis/client.ts';
import { type Fate, OverTime } from '../faults/over-time.ts';
import { type Environment, launchService, makeDataDir, spawnCli, type TestService } from '../support/service.ts';

/** Their events lie in all eight partitions. */
const AGENTS = 24;
const BATCH = 20;
const BATCH_CLIENTS = 4;
const SINGLE_CLIENTS = 4;
/** An account has 200. */
const POLICIES_MAX = 150;
const OVER_TIME_CONNECTIONS = 8;
const CALL_MS_MAX = 15_000;
/** Two cores share the load, the comparison and the verification of chains. */
const QUIET_MS_MAX = 240_000;

/** `env`: of the service; where Redis is, if it is not the embedded one. `isOverTime`: with sequences and budgets. */
export async function startScenario(t: Test, env: Environment, isOverTime = true): Promise<Scenario> {
  const dataDir = await makeDataDir();
  const shared = { GATEHOUSE_LOG_LEVEL: 'info', ...env };
  const service = await launchService({ dataDir, env: { ...shared, GATEHOUSE_FRONTS: '2' } });
  const { redisUrl, redisCluster, clickhouseUrl } = await service.addresses();
  const second = spawnCli(['pipelines'], {
    ...shared,
    GATEHOUSE_PROCESS_NAME: 'second',
    GATEHOUSE_REDIS_URL: env.GATEHOUSE_REDIS_URL ?? redisUrl,
    GATEHOUSE_REDIS_CLUSTER: String(redisCluster),
    GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl,
    GATEHOUSE_DATA_DIR: dataDir,
  });
  second.stderr?.resume();
  t.teardown(async () => {
    second.kill('SIGTERM');
    if (second.exitCode === null && second.signalCode === null) await once(second, 'exit');
    await service.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const scenario = new Scenario(service, clickhouseUrl, isOverTime);
  await scenario.prepare();
  return scenario;
}

export function environmentOf({ url, cluster }: RedisAddress): Environment {
  return { GATEHOUSE_REDIS_URL: url, GATEHOUSE_REDIS_CLUSTER: String(cluster) };
}

type Answer = { status: number; json: Record<string, unknown> | undefined };
type Accepted = { id: string };

export class Scenario {
  readonly service: TestService;
  readonly #clickhouse: ClickHouse;
  readonly #agents: string[] = [];
  /** Ids of events that were acknowledged. */
  readonly events = new Set<string>();
  /** Paths of policies and agents that were acknowledged, with their status as it was. */
  readonly records = new Map<string, string>();
  /** Answers by their status, `0`: none; of 503 with what they said of `recorded`. */
  readonly answers = new Map<string, number>();
  readonly #client: HttpClient;
  readonly #overTime: OverTime | undefined;
  #isOver = false;
  #clients: Promise<void>[] = [];

  constructor(service: TestService, clickhouseUrl: string, isOverTime: boolean) {
    this.service = service;
    this.#clickhouse = new ClickHouse({ url: clickhouseUrl, database: 'gatehouse', queryTimeoutSeconds: 60 });
    this.#client = new HttpClient({ url: service.url, key: service.key, connections: OVER_TIME_CONNECTIONS });
    const note = (fate: Fate, _marker: string, id: string) => {
      if (fate === 'acknowledged') this.events.add(id);
    };
    this.#overTime = isOverTime ? new OverTime(this.#client, note) : undefined;
  }

  async prepare(): Promise<void> {
    for (let i = 0; i < AGENTS; i++) {
      const { json } = await this.call('POST', '/v1/agents', { name: `agent-${i}` });
      this.#agents.push(String(json!['id']));
    }
    await this.#overTime?.prepare();
  }

  /** `ms`: after which the client gives up. */
  async call(method: string, path: string, body?: unknown, ms = CALL_MS_MAX): Promise<Answer> {
    try {
      const response = await fetch(`${this.service.url}${path}`, {
        method,
        headers: { authorization: `Bearer ${this.service.key}`, 'content-type': 'application/json' },
        signal: AbortSignal.timeout(ms),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, json: text === '' ? undefined : JSON.parse(text) };
    } catch {
      return { status: 0, json: undefined };
    }
  }

  start(): void {
    this.#isOver = false;
    const batches = Array.from({ length: BATCH_CLIENTS }, (_, i) => this.#send(i, BATCH));
    const singles = Array.from({ length: SINGLE_CLIENTS }, (_, i) => this.#send(i + BATCH_CLIENTS, 1));
    const overTime = this.#overTime?.run(() => this.#isOver) ?? Promise.resolve();
    this.#clients = [...batches, ...singles, overTime, this.#changeRegistry()];
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  async #send(first: number, size: number): Promise<void> {
    for (let n = first; !this.#isOver; n++) {
      const agent = this.#agents[n % AGENTS]!;
      const events = Array.from({ length: size }, () => ({ type: 'custom', payload: { text: `event ${n}` } }));
      const path = `/v1/agents/${agent}/events${size === 1 ? '' : '/batch'}`;
      const answer = await this.call('POST', path, size === 1 ? events[0] : { events });
      this.#count(answer);
      if (answer.status === 201) this.events.add((answer.json as Accepted).id);
      else if (answer.status === 200) for (const { id } of answer.json!['results'] as Accepted[]) this.events.add(id);
      else await sleep(20);
    }
  }

  /** A policy, an agent, and the agent stopped: as an operator who acts on what is shown. */
  async #changeRegistry(): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const name = `r-${randomBytes(6).toString('hex')}`;
      const policy = { name, type: 'block_action', conditions: { tool: name }, actions: ['block'] };
      if (n < POLICIES_MAX) await this.#change('POST', '/v1/policies', policy);
      const agent = await this.#change('POST', '/v1/agents', { name });
      if (agent !== undefined) await this.#change('PATCH', `/v1/agents/${agent}`, { status: 'inactive' });
      await sleep(50);
    }
  }

  async #change(method: string, path: string, body: object): Promise<string | undefined> {
    const answer = await this.call(method, path, body);
    this.#count(answer);
    // Whether it was made is not known: either is right.
    if (answer.status === 0 || answer.status === 503) this.records.delete(path);
    if (answer.status !== 200 && answer.status !== 201) return undefined;
    const { id, status } = answer.json as { id: string; status: string };
    this.records.set(method === 'POST' ? `${path}/${id}` : path, status);
    return id;
  }

  #count({ status, json }: Answer): void {
    const error = json?.['error'] as { recorded?: unknown } | undefined;
    const name = status === 503 ? `503 ${String(error?.recorded)}` : String(status);
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
  }

  /** ms from now until events of all partitions and a policy are taken. */
  async untilBack(msMax = 60_000): Promise<number> {
    const startedMs = performance.now();
    const calls: [path: string, body: object][] = this.#agents.map((agent) => [
      `/v1/agents/${agent}/events`,
      { type: 'custom', payload: {} },
    ]);
    calls.push(['/v1/agents', { name: `back-${randomBytes(6).toString('hex')}` }]);
    const untilTaken = async ([path, body]: [path: string, body: object]) => {
      while (performance.now() - startedMs < msMax) {
        const answer = await this.call('POST', path, body, 2_000);
        if (answer.status !== 201) await sleep(10);
        else {
          if (path.endsWith('events')) this.events.add((answer.json as Accepted).id);
          return;
        }
      }
    };
    await Promise.all(calls.map(untilTaken));
    return Math.round(performance.now() - startedMs);
  }

  /** Compares what was acknowledged with what is stored, when everything is. */
  async compare(): Promise<{ missing: number; twice: number; undone: string[] }> {
    const untilMs = performance.now() + QUIET_MS_MAX;
    let found = { missing: 0, twice: 0 };
    do {
      await sleep(500);
      found = await this.#stored();
    } while (found.missing > 0 && performance.now() < untilMs);
    // What comes twice may come late.
    await sleep(5_000);
    found = await this.#stored();
    const undone: string[] = [];
    for (const [path, status] of this.records) {
      const answer = await this.call('GET', path);
      const found = answer.status === 200 ? String(answer.json!['status']) : String(answer.status);
      if (found !== status) undone.push(`${path}: ${found} instead of ${status}`);
    }
    return { ...found, undone };
  }

  async #stored(): Promise<{ missing: number; twice: number }> {
    const rows = await this.#clickhouse.query<{ id: string; n: number }>(
      'SELECT id, toUInt32(count()) AS n FROM events GROUP BY id',
    );
    const there = new Map(rows.map(({ id, n }) => [id, n]));
    const missing = [...this.events].filter((id) => !there.has(id)).length;
    return { missing, twice: rows.reduce((sum, { n }) => sum + n - 1, 0) };
  }

  /** The mistakes of sequences and budgets; undefined: there are none. */
  async overTime(): Promise<{ matched: number; charged: number; wrong: string[] } | undefined> {
    const found = await this.#overTime?.verify();
    this.#client.close();
    return found;
  }

  /** Verifies the audit chain, once nothing is on its way; in parts, where one request has no time for all of it. */
  async verify(): Promise<Record<string, unknown>> {
    let path = '/v1/audit-logs/verify';
    for (const untilMs = performance.now() + QUIET_MS_MAX; ; ) {
      const { status, json } = await this.call('GET', path, undefined, 60_000);
      if (json?.['truncated'] === true && json['faults'] === 0) {
        path = `/v1/audit-logs/verify?from=${encodeURIComponent(String(json['continue_from']))}`;
        continue;
      }
      const isQuiet = status === 200 && json!['unsettled'] === 0;
      if (isQuiet || performance.now() > untilMs) return json ?? { status };
      await sleep(1_000);
    }
  }

  said(): string {
    return [...this.answers].map(([name, count]) => `${name}: ${count}`).join(', ');
  }
}
