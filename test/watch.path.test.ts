// Signals out of the whole service: an agent that falls silent is declared down, one that continues speaking is not; a
// key that meets its request limit is notified.
import t from 'tap';
import { SIGNAL_FIELD, type Signal, type SignalEntry } from '../schemas/signal.ts';
import { makeKeys } from '../src/composition/clients.ts';
import { readConfig } from '../src/process/config.ts';
import { connectCommands } from '../src/redis/client.ts';
import { Accounts } from '../src/registry/accounts/accounts.ts';
import { Api } from './support/api.ts';
import { pause } from './support/raw-http.ts';
import { opened } from './support/redis.ts';
import { startService } from './support/service.ts';

t.test('silent agents and keys over their limit are notified', async (t) => {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = await Api.described(t, service);
  const keys = makeKeys(readConfig({}));
  const { redisUrl: url, redisCluster: cluster } = await service.addresses();
  const redis = await opened(t, connectCommands({ url, cluster }));
  // A group of our own holds the entries back: else they leave their stream as soon as they have been dealt with.
  for (let p = 0; p < keys.partitions; p++) await redis.xgroup('CREATE', keys.signals(p), 'test', '$', 'MKSTREAM');
  const signals = async (trigger: Signal['trigger']): Promise<Signal[]> => {
    const streams = Array.from({ length: keys.partitions }, (_, p) => redis.xrange(keys.signals(p), '-', '+'));
    const entries = (await Promise.all(streams)).flat().map(([, fields]) => fields[fields.indexOf(SIGNAL_FIELD) + 1]!);
    const all = entries.flatMap((text) => (JSON.parse(text) as SignalEntry).signals);
    return all.filter((signal) => signal.trigger === trigger);
  };

  const [silent, steady] = await Promise.all(
    ['silent', 'steady'].map(async (name) => {
      const made = await api.post('/v1/agents', { name, metadata: { heartbeat_seconds: '20' } });
      return made.json.id as string;
    }),
  );
  const speak = (id: string) => api.post(`/v1/agents/${id}/events`, { type: 'custom', payload: {} });
  await speak(silent!);
  await api.patch(`/v1/agents/${silent}`, { metadata: { heartbeat_seconds: '5' } });
  let found: Signal[] = [];
  const until = performance.now() + 60_000;
  while (found.length === 0 && performance.now() < until) {
    t.equal((await speak(steady!)).status, 201);
    await pause(100);
    found = await signals('agent_down');
  }
  const seen = Date.parse((await api.get(`/v1/agents/${silent}`)).json.last_seen_at);
  t.match(found, [{ id: `agent_down/${silent}/${seen}`, severity: 'high', silence: { since: seen } }]);
  t.equal(found.length, 1, 'the other speaks on');
  const metrics = await api.get('/metrics', { key: null });
  // The signal goes before the note of it.
  const down = await api.until(
    () => api.get('/v1/agents?status=down'),
    ({ json }) => json.total > 0,
  );
  t.match(down.json, { items: [{ id: silent, status: 'active' }], total: 1 }, 'listed until it is heard again');
  t.match(metrics.text, /gatehouse_agents_down_total\{process="pipelines"\} 1\n/);
  t.match(metrics.text, /gatehouse_pipelines_stuck\{process="pipelines"\} 0\n/);

  const { id: account } = (await api.get('/v1/account')).json;
  const accounts = new Accounts({ redis, keys });
  await accounts.setRequestLimit(account, { per_second: 1, burst: 1 }, { actor: 'system', requestId: '' });
  let limited: Signal[] = [];
  let met = false;
  const deadline = performance.now() + 60_000;
  while (limited.length === 0 && performance.now() < deadline) {
    met ||= (await api.get('/v1/agents')).status === 429;
    await pause(100);
    limited = await signals('rate_limit_exceeded');
  }
  t.ok(met, 'a request was answered 429');
  t.match(limited, [{ account, agent: null, severity: 'medium', apiKey: { id: /^key_/ } }]);
  t.equal(limited[0]!.id.split('/')[1], limited[0]!.apiKey!.id);
});
