// The account's own settings: shown, set, audited, kept by a restore.
import t from 'tap';
import { NO_QUOTAS } from '../../schemas/quota.ts';
import { Accounts } from '../../src/registry/accounts/accounts.ts';
import { type RestoredRow, rebuildRegistry } from '../../src/registry/recovery/restore.ts';
import { startRedis } from '../support/redis.ts';
import { actor, connectStore, freshKeys, journalOf, wholeJournal } from './harness.ts';

const store = await connectStore(t, (await startRedis(t)).address);
const { redis } = store;
const accounts = new Accounts(store);

t.test('a setting is set, taken back and audited', async (t) => {
  const { account } = await accounts.create('acme', actor);
  const { id, name, created_at, updated_at } = account;
  const none = { requests_per_second: null, requests_burst: null };
  t.same(await accounts.get(id), {
    id,
    name,
    status: 'active',
    agent_down_seconds: null,
    retention: null,
    quotas: NO_QUOTAS,
    ...none,
    created_at,
    updated_at,
  });
  t.match(await accounts.patch(id, { agent_down_seconds: 60 }, actor), { agent_down_seconds: 60 });
  const entries = (await journalOf(store, id)).length;
  t.match(await accounts.patch(id, { agent_down_seconds: 60 }, actor), { agent_down_seconds: 60 });
  t.equal((await journalOf(store, id)).length, entries, 'what changes nothing is no change');
  t.match((await journalOf(store, id)).at(-1)!.audit, [
    {
      action: 'account.updated',
      actor: actor.actor,
      resource_type: 'account',
      resource_id: id,
      details: {
        changed: ['agent_down_seconds'],
        before: { agent_down_seconds: null },
        after: { agent_down_seconds: 60 },
      },
    },
  ]);
  await accounts.setRequestLimit(id, { per_second: 5, burst: 10 }, actor);
  t.match(await accounts.get(id), { agent_down_seconds: 60, requests_per_second: 5, requests_burst: 10 });
  t.match(await accounts.patch(id, { agent_down_seconds: null }, actor), {
    agent_down_seconds: null,
    requests_burst: 10,
  });
  t.equal(await accounts.patch('acc_nobody', { agent_down_seconds: 60 }, actor), null);
  t.equal(await accounts.get('acc_nobody'), null);
});

t.test('a restore keeps the settings', async (t) => {
  const { account } = await accounts.create('kept', actor);
  await accounts.patch(account.id, { agent_down_seconds: 86_400 }, actor);
  const rows: RestoredRow[] = (await wholeJournal(store)).flatMap(({ account: of, revision, changes }) =>
    changes.map(({ kind, id, record }) => ({ account: of, kind, id, revision, record })),
  );
  const copy = { redis, keys: freshKeys() };
  await rebuildRegistry(rows, copy);
  t.same(await new Accounts(copy).get(account.id), await accounts.get(account.id));
});
