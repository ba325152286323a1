// Revisions of policies and processes that die: whatever is killed while policies change, each acknowledged change is a
// revision, once, in ClickHouse as in the audit log; and a registry that is made again has them all.
import { rm } from 'node:fs/promises';
import path from 'node:path';
import t from 'tap';
import type { Policy, PolicyRevision } from '../../schemas/policy.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { pause } from '../support/raw-http.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { hasOwnStores, launchService, runCli, type TestService } from '../support/service.ts';

t.setTimeout(600_000);
const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';
const KILLS = 8;
const WRITERS = 4;

type Audited = { action: string; details: { revision: number } };

async function revisionsOf(api: Api, id: string): Promise<PolicyRevision[]> {
  const all: PolicyRevision[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${cursor}`;
    const { json } = await api.get(`/v1/policies/${id}/revisions?limit=100${query}`);
    all.push(...json.items);
    cursor = json.next_cursor;
  }
  return all;
}

function isReady({ url }: TestService): Promise<boolean> {
  return fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

t.test('kills while policies change lose no revision, and a restored registry has all of them', { skip }, async (t) => {
  const dataDir = folderOf(t);
  let service: TestService = await launchService({ dataDir, env: { GATEHOUSE_FRONTS: '2' } });
  t.teardown(() => service.stop());
  const first = new Api(t, service);
  const policies: Policy[] = [];
  for (let i = 0; i < WRITERS; i++) {
    const body = { name: `policy ${i}`, type: 'block_action', actions: ['log'], conditions: { tool: `tool-${i}` } };
    policies.push((await first.post('/v1/policies', body)).json);
  }

  const random = randomFrom(SEED);
  let isOver = false;
  const acknowledged = policies.map(() => 0);
  /** One writer a policy, so that what it was answered last is what is there, or one later. */
  const write = async ({ id }: Policy, writer: number) => {
    for (let n = 0; !isOver; n++) {
      try {
        const response = await fetch(`${service.url}/v1/policies/${id}`, {
          method: 'PATCH',
          headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ description: `text ${n}` }),
        });
        if (response.ok) acknowledged[writer] = ((await response.json()) as Policy).revision;
        else await response.arrayBuffer();
      } catch {
        // It was killed.
      }
      await pause(20);
    }
  };
  const kill = async () => {
    for (let i = 0; i < KILLS; i++) {
      await pause(300 + random() * 1_500);
      const children = await service.children();
      const victim = children[Math.floor(random() * children.length)];
      if (victim !== undefined) process.kill(victim.pid, 'SIGKILL');
      t.comment(`killed ${victim?.name}`);
    }
    isOver = true;
  };
  await Promise.all([kill(), ...policies.map(write)]);
  while (!(await isReady(service))) await pause(100);

  const before = new Map<string, PolicyRevision[]>();
  for (const [writer, { id }] of policies.entries()) {
    const now = (await first.get(`/v1/policies/${id}`)).json as Policy;
    const revisions = await revisionsOf(first, id);
    before.set(id, revisions);
    t.ok(
      now.revision >= acknowledged[writer]! && acknowledged[writer]! > 10,
      `${acknowledged[writer]} were acknowledged`,
    );
    t.same(
      revisions.map(({ revision }) => revision),
      Array.from({ length: now.revision }, (_, i) => now.revision - i),
      'each number once',
    );
    t.same(revisions[0]!.policy, now, 'the last is the text in force');
    const { logs } = (await first.get(`/v1/audit-logs?resource_id=${id}&limit=500`)).json as { logs: Audited[] };
    t.same(
      new Set(logs.filter(({ action }) => action.startsWith('policy.')).map(({ details }) => details.revision)),
      new Set(revisions.slice(0, logs.length).map(({ revision }) => revision)),
      'and each has its audit entry',
    );
  }

  await service.stop();
  await rm(path.join(dataDir, 'redis'), { recursive: true });
  const restored = await runCli(['registry', 'restore'], {
    ...{ GATEHOUSE_DATA_DIR: dataDir, GATEHOUSE_PORT: '0', GATEHOUSE_LOG_LEVEL: 'error' },
  });
  t.equal(restored.code, 0, restored.stderr);
  service = await launchService({ dataDir, env: { GATEHOUSE_BOOTSTRAP_KEY: service.key } });
  const second = new Api(t, service);
  for (const [id, revisions] of before) {
    t.same(await revisionsOf(second, id), revisions, 'as they were');
    const { json } = await second.patch(`/v1/policies/${id}`, { description: 'after' });
    t.equal(json.revision, revisions[0]!.revision + 1, 'and the numbers go on');
    t.match((await revisionsOf(second, id))[0], { revision: json.revision, policy: { description: 'after' } });
  }
});
