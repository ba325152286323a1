// Question: is every tampering with the audit trail found, is honest work never called a fault, and what does the chain
// cost? Method:
//   memory   1,000 trails of 300 events and 26 registry changes each, made from a seed, and one of eleven kinds of
//            tampering done to each (edit, delete, swap, insert, cut, rewrite with a re-made chain …), verified by the
//            service's own verification against a checkpoint that was taken before
//   tables   tamperings with the tables of a real engine, by ALTER, DELETE and INSERT, through all queries; each is
//            undone after
//   honest   10,000 operations on the real store pipelines (registry changes, events, erasures; a restart every 500),
//            with verifications against older heads continuing meanwhile: how many of those found fault
//   cost     CPU of making an entry of one event row of 500 bytes, and of verifying a stored one
// Passed if all tamperings were found and no verification of honest work found fault.
import type { Test } from 'tap';
import { makeBlock } from '../pipelines/store/chain.ts';
import { storedRows } from '../pipelines/store/stored-rows.ts';
import { EVENT_ROW_COLUMNS } from '../schemas/event-row.ts';
import { genesis, packAgent } from '../src/audit/hash.ts';
import { mintId } from '../src/common/ids.ts';
import { type AuditWorld, makeAuditWorld, newAccount, newAgent, settle, submit } from '../test/audit/harness.ts';
import { workHonestly } from '../test/audit/honest.ts';
import { HANDS, makeTrail, Random, verifyTrail } from '../test/audit/tampering.ts';
import { startPipelines } from '../test/pipelines/harness.ts';
import { startClickHouse } from '../test/support/clickhouse.ts';
import { startRedis } from '../test/support/redis.ts';
import { beginLine, hand, progress, type Row } from './report.ts';

const RESTART_EVERY = 500;
const TABLE_ROUNDS = 6;
const COST_ROWS = 50_000;

export async function audit(options: { tamperings: number; operations: number }): Promise<boolean> {
  const machine = beginLine('audit');
  const seed = Date.now() % 1_000_000;
  const rows: Row[] = [];
  const teardowns: (() => unknown)[] = [];
  const owner = { teardown: (end: () => unknown) => void teardowns.push(end) } as unknown as Test;
  let passed = true;
  try {
    const memory = await tamperInMemory(options.tamperings, seed);
    rows.push({ what: 'tamperings in memory', done: memory.done, found: memory.found });
    progress(`${memory.found} of ${memory.done} found in memory`);
    const servers = { redis: await startRedis(owner, { single: true }), clickhouse: await startClickHouse(owner) };
    const tables = await tamperWithTables(owner, await makeAuditWorld(owner, servers));
    rows.push({ what: 'tamperings with tables', done: tables.done, found: tables.found });
    progress(`${tables.found} of ${tables.done} found in the tables`);
    const honest = await work(owner, await makeAuditWorld(owner, servers), options.operations, seed);
    rows.push({
      what: 'honest operations',
      done: options.operations,
      alarms: honest.alarms,
      verifications: honest.verifications,
    });
    passed = memory.found === memory.done && tables.found === tables.done && honest.alarms === 0;
    rows.push(...cost(), ...(await verifyCost(owner, await makeAuditWorld(owner, servers))));
  } finally {
    for (const end of teardowns.toReversed()) await end();
  }
  const question = 'is every tampering found, honest work never called a fault, and what does the chain cost?';
  hand({ line: 'audit', question, command: 'npm run bench -- audit', rows, notes: [`Seed ${seed}.`] }, machine);
  return passed;
}

async function tamperInMemory(count: number, seed: number): Promise<{ done: number; found: number }> {
  const hands = Object.entries(HANDS);
  let found = 0;
  for (let i = 0; i < count; i++) {
    const [name, tamper] = hands[i % hands.length]!;
    const random = new Random(seed * 10_000 + i);
    const trail = makeTrail(random);
    tamper(trail, random);
    const { valid, first_invalid } = await verifyTrail(trail);
    if (!valid && first_invalid !== null) found++;
    else progress(`missed: ${name}, number ${i}`);
  }
  return { done: count, found };
}

type Undo = () => Promise<unknown>;
type TableHand = (id: string) => Promise<Undo>;

async function tamperWithTables(t: Test, world: AuditWorld): Promise<{ done: number; found: number }> {
  const { pipelines } = await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'table');
  const events = Array.from({ length: 200 }, (_, i) => ({ payload: `{"n":${i}}` }));
  const ids = await submit(world, { account, agent }, events);
  await settle(world, account);
  await world.flush();
  await pipelines.stop();
  const hands = tableHands(world, account);
  let [done, found] = [0, 0];
  for (let i = 0; i < TABLE_ROUNDS * hands.length; i++) {
    const undo = await hands[i % hands.length]!(ids[(i * 37) % ids.length]!);
    done++;
    if (!(await world.verify(account)).valid) found++;
    await undo();
    if (!(await world.verify(account)).valid) throw new Error('what was put back does not verify');
  }
  return { done, found };
}

/** Edit, delete and insert an event; turn blocks round; edit an entry of the audit log. */
function tableHands({ clickhouse }: AuditWorld, account: string): TableHand[] {
  const columns = EVENT_ROW_COLUMNS.join(', ');
  const others = columns.replace('agent_id, id,', 'agent_id, {copy:String},');
  const now = { mutations_sync: '2', lightweight_deletes_sync: '2' } as const;
  const run = (sql: string, params = {}) => clickhouse.command(sql, params, now);
  const setPayload = (id: string, payload: string) =>
    run('ALTER TABLE events UPDATE payload = {payload:String} WHERE id = {id:String}', { payload, id });
  const setActor = (actor: string) =>
    run('ALTER TABLE audit_log UPDATE actor = {actor:String} WHERE account_id = {account:String}', { actor, account });
  const turnRound = () =>
    run(
      "ALTER TABLE audit_chain UPDATE agents = arrayReverse(agents), leaves = arrayReverse(leaves), ids = arrayReverse(ids) WHERE chain != 'registry'",
    );
  const bytesOf = (id: string) =>
    clickhouse.queryBinary(`SELECT ${columns} FROM events WHERE id = {id:String}`, { id });
  const remove = (id: string) => run('DELETE FROM events WHERE id = {id:String}', { id });
  return [
    async (id) => {
      const sql = 'SELECT payload FROM events WHERE id = {id:String}';
      const [row] = await clickhouse.query<{ payload: string }>(sql, { id });
      await setPayload(id, '{}');
      return () => setPayload(id, row!.payload);
    },
    async (id) => {
      const bytes = await bytesOf(id);
      await remove(id);
      return async () => clickhouse.insertEvents(await storedRows([bytes]), mintId('event', Date.now()));
    },
    async (id) => {
      const copy = mintId('event', Date.now());
      await run(`INSERT INTO events (${columns}) SELECT ${others} FROM events WHERE id = {id:String}`, { id, copy });
      return () => remove(copy);
    },
    () => turnRound().then(() => turnRound),
    () => setActor('key:somebody_else').then(() => () => setActor('key:key_1')),
  ];
}

async function work(t: Test, world: AuditWorld, operations: number, seed: number) {
  let running = await startPipelines(t, world, { processName: 'honest' });
  const result = await workHonestly(world, {
    ...{ operations, accounts: 3, restartEvery: RESTART_EVERY, random: new Random(seed) },
    restart: async () => {
      await running.pipelines.stop();
      running = await startPipelines(t, world, { processName: 'honest' });
    },
  });
  await running.pipelines.stop();
  const alarms = result.alarms.length + result.last.filter(({ valid }) => !valid).length;
  for (const found of result.alarms.slice(0, 3)) progress(`alarm: ${JSON.stringify(found.first_invalid)}`);
  progress(`${JSON.stringify(result.operations)}, ${result.events} events, ${result.verifications} verifications`);
  return { alarms, verifications: result.verifications + result.last.length };
}

function cost(): Row[] {
  const account = newAccount();
  const agent = packAgent(mintId('agent', Date.now()));
  const row = Buffer.alloc(500, 'x');
  const ids = Array.from({ length: COST_ROWS }, () => mintId('event', Date.now()));
  const make = () => {
    const entries = ids.map((id) => ({ account, id, agent, row, atMs: 1 }));
    makeBlock(account, { n: 0, hash: genesis(account, 'events-0') }, entries);
  };
  make(); // as it is in a process that has been at it for a while
  const begun = process.cpuUsage();
  make();
  return [{ what: 'an entry of a row of 500 bytes, us of CPU', done: COST_ROWS, us: microseconds(begun) / COST_ROWS }];
}

async function verifyCost(t: Test, world: AuditWorld): Promise<Row[]> {
  const { pipelines } = await startPipelines(t, world);
  const account = newAccount();
  const agent = await newAgent(world, account, 'many');
  const payload = JSON.stringify({ text: 'x'.repeat(300) });
  for (let i = 0; i < COST_ROWS; i += 500)
    await submit(
      world,
      { account, agent },
      Array.from({ length: 500 }, () => ({ payload })),
    );
  await settle(world, account);
  await pipelines.stop();
  const [begun, startedAt] = [process.cpuUsage(), performance.now()];
  const { entries, valid } = await world.verify(account);
  if (!valid) throw new Error('the chain of the measurement does not verify');
  const us = microseconds(begun) / entries;
  const perSecond = entries / ((performance.now() - startedAt) / 1000);
  return [{ what: 'verifying a stored event, us of CPU here', done: entries, us, 'entries/s': Math.round(perSecond) }];
}

function microseconds(begun: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(begun);
  return user + system;
}
