// `gatehouse doctor --repair`: makes a data folder whose start is refused as damaged startable with what is whole of
// it. Only on request: the operator decides to continue without what is lost.
// Redis's file keeps every whole command, also behind the damage, and the old file stays beside it; of ClickHouse's
// data the next start continues without what it cannot read, and names it.
// Invariant: nothing is deleted. Failure: a UsageError where a Gatehouse runs on the folder; else one sentence.
import { existsSync } from 'node:fs';
import { DataDirectory } from '../chdb-server/data-directory.ts';
import { damageText, findDamage, repairDamage } from '../embedded/append-only-damage.ts';
import { StateDir } from '../embedded/state-dir.ts';
import { type Config, environmentWith } from '../process/config.ts';
import { type Context, UsageError } from './context.ts';

export function repair(config: Config, print: Context['print']): void {
  const state = new StateDir(config.dataDir);
  if (state.readRuntime() !== undefined) throw new UsageError(`a Gatehouse runs on ${state.path}; stop it first`);
  if (existsSync(state.file('redis'))) repairRedis(state.file('redis'), print);
  if (!existsSync(state.file('clickhouse'))) return;
  DataDirectory.open(state.file('clickhouse')).acceptDamage();
  print('clickhouse: the next start goes on without what cannot be read, and says what it is');
}

function repairRedis(folder: string, print: Context['print']): void {
  const damage = findDamage(folder, environmentWith());
  if (damage === undefined) {
    print('redis: its append-only file is whole');
    return;
  }
  const kept = repairDamage(damage);
  print(`redis: damaged ${damageText(damage)}; what is whole was kept, the old file is ${kept}`);
}
