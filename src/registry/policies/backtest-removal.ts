// Removes backtests that no one ordered to be removed: old ones, those of an agent that is erased (asked by the worker
// of backtests and by the eraser, pipelines/store/erase.ts).
// Invariant: when this has answered, nothing that a backtest keeps comes from an event of the agent: a finished one
// that counted any is removed whole, since tools and samples are of it; one that runs begins again, and finds the
// events gone. Done again it does no harm.
import type { BacktestResult } from '../../../schemas/backtest.ts';
import { exactJson } from '../../common/exact-json.ts';
import { readAsset } from '../../process/assets.ts';
import type { Commands } from '../../redis/client.ts';
import { type Keys, REGISTRY_SHARDS } from '../../redis/keys.ts';
import { Script } from '../../redis/script.ts';
import { type BacktestRecord, memberOf, readBacktest } from './backtest-record.ts';

type Stores = { redis: Commands; keys: Keys };

const dropScript = new Script<number>('backtest-drop', readAsset('src/redis/backtest-drop.lua'));
const restart = new Script<number>('backtest-restart', readAsset('src/redis/backtest-restart.lua'));
/** One shard removes so many at once: there are as many again a minute later. */
const EXPIRED_MAX = 100;
/** Its owner may keep something between the reading and the restart. */
const ROUNDS_MAX = 20;

/** Removes finished ones whose time is over. */
export async function dropExpired(stores: Stores, nowMs: number): Promise<void> {
  const { redis, keys } = stores;
  for (let shard = 0; shard < REGISTRY_SHARDS; shard++) {
    const due = await redis.zrangebyscore(keys.backtestExpiries(shard), '-inf', nowMs, 'LIMIT', 0, EXPIRED_MAX);
    for (const member of due) {
      const slash = member.indexOf('/');
      await drop(stores, member.slice(0, slash), member.slice(slash + 1));
    }
  }
}

/** Once the agent's rows are gone. */
export async function dropBacktestsOf(stores: Stores, account: string, agent: string): Promise<void> {
  const { redis, keys } = stores;
  for (const [id, text] of Object.entries(await redis.hgetall(keys.backtests(account)))) {
    const record = readBacktest(text);
    if (isScopedTo(record, agent)) await drop(stores, account, id);
    else if (record.shown.finished_at === null) await beginAgain(stores, account, id);
    else if (await hasCounted(stores, account, { id, agent })) await drop(stores, account, id);
  }
}

function isScopedTo({ shown }: BacktestRecord, agent: string): boolean {
  return shown.agent_id === agent || shown.policy.agent_id === agent;
}

/** Asks whether agents have counted. It is not known of agents that have no line. */
async function hasCounted(
  { redis, keys }: Stores,
  account: string,
  { id, agent }: { id: string; agent: string },
): Promise<boolean> {
  const text = await redis.get(keys.backtestResult(account, id));
  if (text === null) return false;
  const { by_agent: lines, more } = JSON.parse(text) as BacktestResult;
  return more.agents > 0 || lines.some(({ agent_id }) => agent_id === agent);
}

async function beginAgain({ redis, keys }: Stores, account: string, id: string): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const text = await redis.hget(keys.backtests(account), id);
    if (text === null) return;
    const { shown, ...rest } = readBacktest(text);
    // It ended meanwhile: the next look of the eraser sees what with.
    if (shown.finished_at !== null) break;
    const progress = { events: 0, of: null, until: null };
    const fresh: BacktestRecord = { ...rest, shown: { ...shown, status: 'waiting', started_at: null, progress } };
    const names = [keys.backtestLease(account, id), keys.backtests(account), keys.backtestState(account, id)];
    if ((await restart.run(redis, names, [id, text, exactJson(fresh)])) === 1) return;
  }
  throw new Error(`the backtest ${id} could not be made to begin again`);
}

async function drop({ redis, keys }: Stores, account: string, id: string): Promise<void> {
  const shard = keys.shardOf(account);
  const names = [
    ...[keys.backtestLease(account, id), keys.backtestFence(account, id), keys.backtestState(account, id)],
    ...[keys.backtestResult(account, id), keys.backtestRunning(account), keys.backtests(account)],
    ...[keys.backtestTurns(shard), keys.backtestExpiries(shard)],
  ];
  await dropScript.run(redis, names, [id, memberOf(account, id)]);
}
