// This version starts on the data folder of each earlier one (test/fixtures): it is migrated, what is in it is found,
// judged by and verified, and new events are stored beside it.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { assetPath, readAsset } from '../../src/process/assets.ts';
import type { Expected } from '../fixtures/make-data-folder.ts';
import { Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { hasOwnStores, launchService } from '../support/service.ts';

const archives = readdirSync(assetPath('test/fixtures')).filter((file) => file.endsWith('.tar.gz'));
const idsOf = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id);

t.test('this version has its data folder', async (t) => {
  const { version } = JSON.parse(readAsset('package.json')) as { version: string };
  t.ok(archives.includes(`${version}.tar.gz`), 'node build/test/fixtures/make-data-folder.js makes it');
});

const skip = hasOwnStores() ? false : 'the data folder is of the embedded engines';
for (const archive of archives)
  t.test(`the data folder of ${archive}`, { skip }, async (t) => {
    const folder = folderOf(t);
    execFileSync('tar', ['-C', folder, '-xzf', assetPath(`test/fixtures/${archive}`)]);
    const expected = JSON.parse(readFileSync(path.join(folder, 'expected.json'), 'utf8')) as Expected;
    const service = await launchService({
      dataDir: path.join(folder, 'data'),
      env: { GATEHOUSE_RETENTION_DAYS: '20000' },
    });
    t.teardown(() => service.stop());
    const api = new Api(t, service);
    const { agent, policy, events, blocked, found, trace, approval } = expected;
    const list = async (query = '') => idsOf((await api.get(`/v1/agents/${agent}/events?limit=100${query}`)).json);
    t.same(await list(), events);
    const decided = await api.until(
      () => api.get(`/v1/approvals/${approval}`),
      ({ json }) => json.status !== 'pending',
    );
    t.match(decided.json, { status: 'expired' }, 'its time was over while the folder lay');
    t.same(await list('&outcome=blocked'), [decided.json.event_id, ...blocked]);
    for (const [q, ids] of Object.entries(found)) t.same(await list(`&q=${encodeURIComponent(q)}`), ids, q);
    t.same((await list(`&trace_id=${trace}`)).length, 5);
    t.match((await api.get(`/v1/policies/${policy}/revisions`)).json, { total: expected.revisions });
    t.match((await api.get('/v1/audit-logs/verify')).json, { valid: true, unchained: 0, unsettled: 0 });
    const event = { type: 'tool_call', payload: { tool: 'pay', arguments: { amount: 501 } } };
    const { json } = await api.post(`/v1/agents/${agent}/events`, event);
    t.equal(json.policy_result.outcome, 'blocked', 'by the revision that is in force');
    t.same(await list(), [json.id, ...events]);
    const verified = (await api.get('/v1/audit-logs/verify')).json;
    t.match(verified, { valid: true, faults: 0 });
    t.ok(verified.entries > expected.entries, 'the chain goes on');
  });
