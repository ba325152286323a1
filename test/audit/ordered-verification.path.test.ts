// Verifications that an account orders, against the whole service: all is counted once, over kills of the process that
// runs them; against a checkpoint; and hands on the tables are found.
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const PATH = '/v1/audit-logs/verification';
/** A process that was killed again and again is started with pauses, and gives way while other tests keep all busy. */
const WAIT_MS = 600_000;
const service = await startService(t, { env: { GATEHOUSE_BACKTESTS: '1' } });
const api = await Api.described(t, service);
const agent = (await api.post('/v1/agents', { name: 'verified' })).json.id as string;
const ids: string[] = [];
for (let n = 0; n < 20; n++, await pause(200)) {
  const batch = Array.from({ length: 50 }, (_, i) => ({ type: 'prompt', payload: { n, i } }));
  const { results } = (await api.post(`/v1/agents/${agent}/events/batch`, batch)).json;
  ids.push(...results.map(({ id }: { id: string }) => id));
}

async function done(): Promise<Record<string, unknown>> {
  for (const deadline = performance.now() + WAIT_MS; ; await pause(500)) {
    const { json } = await api.get(PATH);
    if (json.status === 'done') return json;
    if (performance.now() > deadline) throw new Error(`it did not come to its end: ${JSON.stringify(json)}`);
  }
}

t.test('a whole verification counts each entry once, over kills', async (t) => {
  t.equal((await api.get(PATH)).status, 404, 'none was ordered');
  const { status, json } = await api.post(PATH, {});
  t.match([status, json], [202, { status: 'waiting', share: 0, valid: null, found: null, finished_at: null }]);
  for (let kills = 0; kills < 2; await pause(1_500)) {
    const backtests = (await service.children()).find(({ name }) => name.startsWith('backtests'));
    if (backtests === undefined) continue;
    process.kill(backtests.pid, 'SIGKILL');
    kills++;
  }
  const job = await done();
  t.match(job, { valid: true, share: 1, found: { valid: true, truncated: false }, against_checkpoint: false });
  const { json: verified } = await api.get('/v1/audit-logs/verify');
  t.ok(verified.entries > ids.length);
  t.equal(job['entries'], verified.entries + verified.markers, 'as many as by one that is answered at once');
});

t.test('a part, and against a checkpoint', async (t) => {
  const { json: checkpoint } = await api.get('/v1/audit-logs/checkpoint');
  await api.post(PATH, { checkpoint });
  t.match(await done(), { valid: true, against_checkpoint: true });
  const [chain] = checkpoint.chains;
  const altered = { ...checkpoint, chains: [{ ...chain, entries: chain.entries + 1 }] };
  const { status, json } = await api.post(PATH, { checkpoint: altered });
  t.match([status, json], [400, { error: { details: [{ path: '/checkpoint' }] } }]);
  const from = new Date(Date.now() + 3_600_000).toISOString();
  await api.post(PATH, { from });
  t.match(await done(), { valid: true, from });
  t.equal((await api.post(PATH, { from: 'yesterday' })).status, 400);
});

t.test('a row that was changed is found', async (t) => {
  const { clickhouseUrl, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url: clickhouseUrl, database, queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  const changed = "ALTER TABLE events UPDATE payload = '{}' WHERE id = {id:String}";
  await clickhouse.command(changed, { id: ids[500]! }, { mutations_sync: '2' });
  await api.post(PATH, {});
  const job = await done();
  t.match(job, { valid: false, found: { valid: false, faults: 1, first_invalid: { kind: 'changed' } } });
  t.equal((await api.delete(PATH)).status, 204);
  t.equal((await api.delete(PATH)).status, 404);
});
