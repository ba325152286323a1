// Registry changes while Redis is killed and answers are lost: what was acknowledged is there with its journal entry,
// what was refused is not, nothing is there twice, and no half of a change is ever there.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { connectCommands, waitUntilReady } from '../../src/redis/client.ts';
import { Agents } from '../../src/registry/agents.ts';
import { Policies } from '../../src/registry/policies/policies.ts';
import { opened, startRedis } from '../support/redis.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { actor, connectStore, eventually, journalOf, newAccount } from './harness.ts';

const block = (name: string) => ({
  name,
  type: 'block_action' as const,
  conditions: { tool: 'x' },
  actions: ['block' as const],
});

t.test('a change whose answer was lost is found to have been made, and is not made twice', async (t) => {
  const { servers } = await startRedis(t, { single: true });
  const proxy = await startTcpProxy(t, servers[0]!.port);
  const direct = await connectStore(t, { url: `redis://127.0.0.1:${servers[0]!.port}`, cluster: false });
  const store = await connectStore(t, { url: `redis://127.0.0.1:${proxy.port}`, cluster: false }, direct.keys);
  const account = newAccount();
  const [agents, policies] = [new Agents(store), new Policies(store)];
  await agents.register(account, { name: 'first' }, actor);
  let found = 0;
  for (let i = 0; i < 50 && found < 5; i++) {
    const created = policies.create(account, block(`p${i}`), actor);
    proxy.swallowAnswers();
    await sleep(40);
    proxy.cut();
    const made = await created.catch((error: ServiceError) => error);
    await waitUntilReady(store.redis, 60_000);
    // Where the machine stood still the connection was not back in time, and no answer claims what is not known.
    if (made instanceof ServiceError) {
      t.equal(made.recorded, 'unknown', made.message);
      continue;
    }
    const { id, name } = JSON.parse(made.answer);
    t.equal(name, `p${i}`);
    t.ok(await direct.redis.hexists(direct.keys.policies(account), id));
    found++;
  }
  t.equal(found, 5, 'found to have been made');
  const kept = await direct.redis.hlen(direct.keys.policies(account));
  t.ok(kept >= 5, `${kept} policies`);
  t.equal((await journalOf(direct, account)).length, 1 + kept, 'none twice');
});

t.test('through kills of Redis every acknowledged change is there with its journal entry', async (t) => {
  const started = await startRedis(t);
  const store = await connectStore(t, started.address);
  const account = newAccount();
  const clients = await Promise.all([1, 2].map(() => connectStore(t, started.address, store.keys)));
  const made = new Set<string>();
  const refused = new Set<string>();
  let unknown = 0;
  let running = true;
  const writers = clients.flatMap((client, c) =>
    [1, 2, 3].map(async (w) => {
      for (let i = 0; running; i++) {
        const name = `agent ${c}/${w}/${i}`;
        try {
          const { agent } = await new Agents(client).register(account, { name }, actor);
          made.add(agent.id);
        } catch (error) {
          if (!(error instanceof ServiceError) || error.code !== 'unavailable') throw error;
          if (error.recorded === 'unknown') unknown++;
          else refused.add(name);
          await sleep(5);
        }
      }
    }),
  );
  // A Cluster takes some seconds to count itself whole again.
  const kills = started.servers.length > 1 ? 3 : 4;
  for (let kill = 0; kill < kills; kill++) {
    await sleep(400);
    await eventually(() => made.size > 30 * (kill + 1));
    const server = started.servers[kill % started.servers.length]!;
    const exited = new Promise((resolve) => server.child.once('exit', resolve));
    server.child.kill('SIGKILL');
    await exited;
    await server.restart();
    await waitUntilReady(store.redis, 60_000);
  }
  await eventually(() => made.size > 30 * (kills + 1));
  running = false;
  await Promise.all(writers);

  const reader = await opened(t, connectCommands(started.address));
  const { keys } = store;
  const kept = await reader.zrange(keys.agentIds(account, 'all'), '0', '-1');
  const journal = await journalOf({ redis: reader, keys }, account);
  const journalled = journal.flatMap(({ changes }) => changes.map(({ id }) => id));
  t.same(
    [...made].filter((id) => !kept.includes(id)),
    [],
    'nothing acknowledged is missing',
  );
  t.same([...journalled].sort(), [...kept].sort(), 'each agent has its journal entry, each entry its agent');
  t.equal(new Set(journalled).size, journalled.length, 'nothing twice');
  const names = await reader.hgetall(keys.agentNames(account));
  t.same(Object.values(names).sort(), [...kept].sort(), 'each name has its agent');
  t.same(
    [...refused].filter((name) => name in names),
    [],
    'what was refused as not recorded is not there',
  );
  t.ok(made.size > 100, `${made.size} acknowledged, ${refused.size} refused, ${unknown} unknown`);
});
