// Honest work on an audit trail: registry changes, events, erasures and restarts of the pipelines, with verifications
// continuing meanwhile, against heads that were taken on the way. What test and bench are made of: none of it may be
// called a fault.
import type { AuditVerification } from '../../schemas/audit-verification.ts';
import type { Remembered } from '../../src/audit/chain-cursor.ts';
import { readHeads } from '../../src/audit/sources.ts';
import { ACTOR, type AuditWorld, newAccount, newAgent, settle, submit } from './harness.ts';
import type { Random } from './tampering.ts';

type Account = { id: string; agents: string[]; checkpoint: Map<string, Remembered> };

type HonestOptions = {
  operations: number;
  accounts: number;
  /** After so many operations the pipelines are restarted. */
  restartEvery: number;
  restart: () => Promise<void>;
  random: Random;
};

type HonestResult = {
  operations: Record<string, number>;
  events: number;
  verifications: number;
  /** Verifications that found fault. */
  alarms: AuditVerification[];
  /** The last ones, one an account. */
  last: AuditVerification[];
};

const AGENTS_MAX = 12;
const EVENTS_MAX = 5;

export async function workHonestly(world: AuditWorld, options: HonestOptions): Promise<HonestResult> {
  const { operations, random, restartEvery, restart } = options;
  const accounts: Account[] = [];
  for (let i = 0; i < options.accounts; i++) accounts.push({ id: newAccount(), agents: [], checkpoint: new Map() });
  const result: HonestResult = { operations: {}, events: 0, verifications: 0, alarms: [], last: [] };
  const watch = watching(world, accounts, result);
  for (let i = 0; i < operations; i++) {
    const account = random.of(accounts);
    // Seldom enough none is drawn; one there must be.
    const mustErase = i > operations / 2 && result.operations['erase'] === undefined;
    const name = await operate(world, { account, random, result, number: i, mustErase });
    result.operations[name] = (result.operations[name] ?? 0) + 1;
    if (i % restartEvery === restartEvery - 1) await restart();
    if (i % 97 === 0) account.checkpoint = await readHeads(world, account.id);
  }
  await watch.stop();
  for (const { id, checkpoint } of accounts) {
    await settle(world, id);
    result.last.push(await world.verify(id, { checkpoint }));
  }
  return result;
}

type Operation = { account: Account; random: Random; result: HonestResult; number: number; mustErase: boolean };

async function operate(world: AuditWorld, { account, random, result, number, mustErase }: Operation): Promise<string> {
  const { agents } = account;
  const what = mustErase && agents.length > 1 ? 20 : random.below(100);
  if (agents.length === 0 || (what < 6 && agents.length < AGENTS_MAX)) {
    agents.push(await newAgent(world, account.id, `agent ${number}`));
    return 'register';
  }
  const agent = random.of(agents);
  if (what < 20) {
    await world.agents.patch(account.id, agent, { description: `changed by ${number}` }, ACTOR);
    return 'update';
  }
  if (what < 24 && agents.length > 1) {
    agents.splice(agents.indexOf(agent), 1);
    await world.agents.remove(account.id, agent, ACTOR);
    return 'erase';
  }
  const events = Array.from({ length: 1 + random.below(EVENTS_MAX) }, () => ({ payload: `{"n":${number}}` }));
  result.events += events.length;
  await submit(world, { account: account.id, agent }, events);
  return 'submit';
}

/** Verifies one account after the other until it is stopped. */
function watching(
  world: AuditWorld,
  accounts: readonly Account[],
  result: HonestResult,
): { stop: () => Promise<void> } {
  let on = true;
  const run = async () => {
    for (let i = 0; on; i++) {
      const { id, checkpoint } = accounts[i % accounts.length]!;
      const found = await world.verify(id, { checkpoint });
      result.verifications++;
      if (!found.valid) result.alarms.push(found);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const done = run();
  return {
    stop: async () => {
      on = false;
      await done;
    },
  };
}
