// What the overview says of the service itself, to those who look after it: entries that were put aside, a backup that
// is old, audit chains that did not verify. Found in the service's own Redis, as the pipelines and commands leave it.
import t from 'tap';
import { connectCommands } from '../../src/redis/client.ts';
import { Keys } from '../../src/redis/keys.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { opened } from '../support/redis.ts';
import { startService } from '../support/service.ts';

t.setTimeout(300_000);
const HOUR_MS = 3_600_000;
const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
const api = await Api.described(t, service);
const { redisUrl, redisCluster } = await service.addresses();
const redis = await opened(t, connectCommands({ url: redisUrl, cluster: redisCluster }));
const keys = new Keys({ prefix: 'gh-', partitions: 8 });

const careOf = async (of = api) => (await of.get('/v1/overview')).json.attention;
const NOTHING = {
  ...{ faults: [], dead_entries: 0, store_behind_seconds: 0, backup: null, last_backup_at: null },
  is_audit_invalid: false,
};

t.test('a service where all is well says so', async (t) => {
  t.same((await careOf()).service, NOTHING);
});

t.test('what is amiss is told to an admin of the account, and to no other key', async (t) => {
  const account = (await api.get('/v1/account')).json.id as string;
  const other = api.as(await keyOfNewAccount(service, 'another'));
  const lastMs = Date.now() - 40 * HOUR_MS;
  await redis.xadd(
    keys.dead(3),
    '*',
    'why',
    'cannot be read',
    'at',
    String(Date.now()),
    'from',
    '1-1',
    'group',
    'store',
  );
  await redis.set(keys.backupNote(), String(lastMs));
  const state = JSON.parse((await redis.get(keys.auditVerification())) ?? '{}');
  await redis.set(keys.auditVerification(), JSON.stringify({ ...state, begun: Date.now(), invalid: [account] }));
  const told = await api.until(
    () => api.get('/v1/overview'),
    ({ json }) => json.attention.service.dead_entries === 1,
  );
  const last_backup_at = new Date(lastMs).toISOString();
  const found = { ...NOTHING, dead_entries: 1, backup: 'old', last_backup_at };
  t.same(told.json.attention.service, { ...found, is_audit_invalid: true });
  t.same((await careOf(other)).service, found, 'another account hears nothing of its chain');
  const agent = (await api.post('/v1/agents', { name: 'a' })).json.id as string;
  for (const key of [{ scope: 'read' }, { scope: 'read', agent_id: agent }, { scope: 'write' }]) {
    const made = await api.post('/v1/api-keys', { label: 'k', ...key });
    const seen = await api.as(made.json.key).get('/v1/overview');
    if (seen.status === 200) t.notOk('service' in seen.json.attention, JSON.stringify(key));
  }
});

t.test('a backup of today is no matter', async (t) => {
  await redis.set(keys.backupNote(), String(Date.now() - HOUR_MS));
  const { json } = await api.until(
    () => api.get('/v1/overview'),
    (one) => one.json.attention.service.backup === null,
  );
  t.type(json.attention.service.last_backup_at, 'string');
});
