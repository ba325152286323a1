// Backtests and processes that die: whatever is killed, at checkpoints and between them, the result is that of a run
// without a break; a second process goes on with what the first had begun; the whole service is started again and it is
// gone on with. What is deleted while it runs leaves no key, and an agent that is erased is in no result.
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { writeHistory } from '../../bench/history.ts';
import { ClickHouse } from '../../clickhouse/client.ts';
import type { Backtest, BacktestResult } from '../../schemas/backtest.ts';
import { Api } from '../support/api.ts';
import { ofEachMaster } from '../support/redis.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { launchService, makeDataDir, spawnCli, type TestService } from '../support/service.ts';

t.setTimeout(900_000);
const random = randomFrom(SEED);
const EVENTS = 40_000;
const KILLS = 4;
const DAY_MS = 86_400_000;
const toMs = Date.now() - 60_000;
const RANGE = { from: new Date(toMs - 30 * DAY_MS).toISOString(), to: new Date(toMs).toISOString() };

const dataDir = await makeDataDir();
const env = { GATEHOUSE_BOOTSTRAP_KEY: 'k'.repeat(40), GATEHOUSE_BACKTESTS: '1' };
let service: TestService = await launchService({ dataDir, env });
t.teardown(async () => {
  await service.stop();
  await rm(dataDir, { recursive: true, force: true });
});
let api = new Api(t, service);
const account = (await api.get('/v1/account')).json.id as string;
const agents: string[] = [];
for (let i = 0; i < 40; i++) agents.push((await api.post('/v1/agents', { name: `agent-${i}` })).json.id as string);
{
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url, database, queryTimeoutSeconds: 120 });
  await writeHistory(clickhouse, { account, agents, events: EVENTS, toMs });
  await clickhouse.close();
}

/** It looks at every payload, and each event's verdict follows from those before it. */
const LIMIT = {
  type: 'rate_limit',
  actions: ['block'],
  conditions: { threshold: 4, window: '6h', per: 'payload.model', 'payload.prompt': { matches: 'a' } },
};
const FILTER = {
  type: 'data_filter',
  actions: ['block'],
  conditions: { patterns: ['e[a-z]+ s', '[0-9]{3}'], detectors: ['email'] },
};

const order = async (policy: object) => (await api.post('/v1/backtests', { policy, ...RANGE })).json as Backtest;
const look = async (id: string) => (await api.get(`/v1/backtests/${id}`)).json as Backtest;
const pidOf = async (name: string) => (await service.children()).find((child) => child.name === name)?.pid;

async function finished(id: string): Promise<BacktestResult> {
  for (;;) {
    const { result, finished_at: at, error } = await look(id);
    if (at !== null) {
      if (result === null) throw new Error(JSON.stringify(error));
      return result;
    }
    await sleep(50);
  }
}

/** Until something more is kept of it. */
async function kept(id: string): Promise<Backtest> {
  const { progress: before } = await look(id);
  for (;;) {
    const now = await look(id);
    if (now.progress.events > before.events || now.finished_at !== null) return now;
    await sleep(10);
  }
}

const whole = new Map<object, BacktestResult>();
for (const policy of [LIMIT, FILTER]) whole.set(policy, await finished((await order(policy)).id));

async function same(t: Test, policy: object, result: BacktestResult): Promise<void> {
  t.same(result, whole.get(policy), 'as without a break');
  t.equal(
    result.outcomes.reduce((sum, { events }) => sum + events, 0),
    result.events,
    'each event once',
  );
}

t.test('the runs without a break found something', async (t) => {
  for (const [policy, { events, changed }] of whole) {
    t.ok(events > EVENTS / 2 && changed > 100 && changed < events, JSON.stringify([policy, events, changed]));
  }
});

t.test('killed over and over, right after something was kept and between', async (t) => {
  for (const policy of [LIMIT, FILTER]) {
    const { id } = await order(policy);
    let kills = 0;
    for (; kills < KILLS; kills++) {
      const { finished_at: at } = kills % 2 === 0 ? await kept(id) : await look(id);
      if (at !== null) break;
      if (kills % 2 === 1) await sleep(random() * 1_500);
      const pid = await pidOf('backtests');
      if (pid !== undefined) process.kill(pid, 'SIGKILL');
    }
    const result = await finished(id);
    t.ok(kills >= 2, `${kills} kills`);
    await same(t, policy, result);
  }
});

t.test('another process goes on with what a dead one has begun, and one that was paused keeps nothing', async (t) => {
  const { id } = await order(LIMIT);
  await kept(id);
  const paused = (await pidOf('backtests'))!;
  process.kill(paused, 'SIGSTOP');
  const other = spawnCli(['backtests'], { GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_PROCESS_NAME: 'other' });
  try {
    await kept(id);
    process.kill(paused, 'SIGCONT');
    await same(t, LIMIT, await finished(id));
  } finally {
    process.kill(paused, 'SIGCONT');
    other.kill('SIGTERM');
  }
  t.equal(
    await new Promise((resolve) => (other.exitCode === null ? other.once('exit', resolve) : resolve(other.exitCode))),
    0,
    'ends in order',
  );
});

t.test('the whole service is stopped and started, and it is gone on with', async (t) => {
  const { id } = await order(LIMIT);
  const { progress } = await kept(id);
  t.equal((await service.stop()).code, 0);
  service = await launchService({ dataDir, env });
  api = new Api(t, service);
  t.ok((await look(id)).progress.events >= progress.events, 'from where it stood');
  await same(t, LIMIT, await finished(id));
});

t.test('deleted while it runs: no key is left, and the process has its hands free', async (t) => {
  const { id } = await order(LIMIT);
  await kept(id);
  t.equal((await api.delete(`/v1/backtests/${id}`)).status, 204);
  const next = await order(FILTER);
  await same(t, FILTER, await finished(next.id));
  const { redisUrl } = await service.addresses();
  await ofEachMaster(redisUrl, async (redis) => void t.same(await redis.keys(`*${id}*`), []));
  for (const { id: each } of (await api.get('/v1/backtests')).json.items) await api.delete(`/v1/backtests/${each}`);
  await ofEachMaster(redisUrl, async (redis) => void t.same(await redis.keys('*backtest*'), []));
});

t.test('an agent that is erased is in no result: finished ones go, one that runs begins again', async (t) => {
  const before = await order(FILTER);
  const of = (await finished(before.id)).by_agent.find(({ agent_id: agent }) => agent === agents[3]);
  t.ok(of !== undefined);
  const running = await order(LIMIT);
  await kept(running.id);
  t.equal((await api.delete(`/v1/agents/${agents[3]}`)).status, 204);
  const result = await finished(running.id);
  const erased = async () => (await api.get(`/v1/erasures/${agents[3]}`)).json.rows_erased_at !== null;
  while (!(await erased())) await sleep(100);
  t.equal((await api.get(`/v1/backtests/${before.id}`)).status, 404, 'it had counted events of the agent');
  const left = (await api.get(`/v1/backtests/${running.id}`)).json as Backtest;
  const lines = left.result?.by_agent ?? result.by_agent;
  t.notOk(lines.some(({ agent_id: agent }) => agent === agents[3]) && left.result !== undefined);
  await ofEachMaster((await service.addresses()).redisUrl, async (redis) => {
    for (const key of await redis.keys('*:backtest:*'))
      if ((await redis.type(key)) === 'string') t.notMatch(await redis.get(key), agents[3]!, key);
  });
});
