// Declared policies and processes that die: while one set of forty policies is applied in place of the other, over and
// over, fronts, pipelines and both stores are killed. At every moment there is the whole of one set, by what the
// registry answers, by the rules that judge events afterwards, and by the revisions.
import t from 'tap';
import type { Policy, PolicyCreate, PolicyRevision } from '../../schemas/policy.ts';
import type { PolicyPlan } from '../../schemas/policy-plan.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { pause } from '../support/raw-http.ts';
import { randomFrom, SEED } from '../support/seed.ts';
import { launchService } from '../support/service.ts';

t.setTimeout(600_000);
const KILLS = 10;
const POLICIES = 40;
/** Half of the names are in both sets. */
const setOf = (which: 0 | 1, round: number): PolicyCreate[] =>
  Array.from({ length: POLICIES }, (_, i) => ({
    ...{ name: i % 2 === 0 ? `both ${i}` : `only ${which} ${i}`, type: 'block_action', actions: ['log'] },
    ...{ conditions: { tool: `tool-${i}` }, description: `${which}/${round}` },
  }));

t.test('a kill at any moment of apply leaves all of it or nothing', async (t) => {
  const dataDir = folderOf(t);
  const service = await launchService({ dataDir, env: { GATEHOUSE_FRONTS: '2' } });
  t.teardown(() => service.stop());
  const api = new Api(t, service);
  const call = async (
    method: string,
    path: string,
    body?: object,
  ): Promise<{ status: number; json: unknown } | null> => {
    try {
      const response = await fetch(service.url + path, {
        method,
        headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, json: JSON.parse(await response.text()) };
    } catch {
      return null; // It was killed.
    }
  };
  const random = randomFrom(SEED);
  let isOver = false;
  const seen = new Map<string, number>();
  let applied = 0;
  let last = '';
  const halves: string[] = [];

  const apply = async () => {
    for (let round = 0; !isOver; round++) {
      const policies = setOf((round % 2) as 0 | 1, round);
      const planned = await call('POST', '/v1/policies/apply', { owner: 'team', policies, dry_run: true });
      if (planned?.status !== 200) continue;
      const { hash } = planned.json as PolicyPlan;
      const answer = await call('POST', '/v1/policies/apply', { owner: 'team', policies, hash });
      if (answer?.status !== 200) continue;
      applied++;
      last = policies[0]!.description!;
    }
  };
  const look = async () => {
    while (!isOver) {
      const answer = await call('GET', '/v1/policies?limit=100');
      if (answer?.status === 200) note((answer.json as { items: Policy[] }).items);
      await pause(5);
    }
  };
  const note = (policies: readonly Policy[]) => {
    const described = new Set(policies.map(({ description }) => description!));
    const [one = 'none'] = described;
    if (one !== 'none' && (described.size !== 1 || policies.length !== POLICIES)) halves.push([...described].join());
    seen.set(one, (seen.get(one) ?? 0) + 1);
  };
  const kill = async () => {
    for (let i = 0; i < KILLS; i++) {
      await pause(500 + random() * 2_000);
      const children = await service.children();
      const victim = children[Math.floor(random() * children.length)];
      if (victim !== undefined) process.kill(victim.pid, 'SIGKILL');
      t.comment(`killed ${victim?.name}`);
    }
    isOver = true;
  };
  await Promise.all([kill(), apply(), look()]);
  while ((await call('GET', '/readyz'))?.status !== 200) await pause(100);

  t.same(halves, [], 'never a part of a set');
  t.ok(applied > KILLS && seen.size > KILLS, `${applied} were acknowledged, ${seen.size} were seen`);
  const { items } = (await api.get('/v1/policies?limit=100')).json as { items: Policy[] };
  t.equal(items.length, POLICIES);
  t.equal(new Set(items.map(({ description }) => description)).size, 1);
  const roundOf = (text: string) => Number(text.split('/')[1]);
  t.ok(roundOf(items[0]!.description!) >= roundOf(last), 'what was acknowledged last, or later');

  const { id: agent } = (await api.post('/v1/agents', { name: 'agent' })).json;
  const judged = await api.until(
    () =>
      api.post('/v1/policies/evaluate', {
        event: { agent_id: agent, type: 'tool_call', payload: { tool: 'tool-1' } },
      }),
    ({ json }) => json.judged.length === POLICIES,
  );
  t.match(judged.json.policy_result.matches, [{ name: items.find(({ name }) => / 1$/.test(name))!.name }]);
  for (const policy of items.slice(0, 5)) {
    const { json } = await api.get(`/v1/policies/${policy.id}/revisions?limit=1`);
    t.match(json, { total: policy.revision, items: [{ revision: policy.revision }] });
    t.same((json.items as PolicyRevision[])[0]!.policy, policy);
  }
});
