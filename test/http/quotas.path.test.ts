// Quotas of an account as its callers meet them, over all its keys and two fronts: what it may record in a while, and
// that it can make no more keys and agents than it may have.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { serviceEnvironment, startService } from '../support/service.ts';

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const limited = api.as(await keyOfNewAccount(service, 'limited'));

async function command(...words: string[]): Promise<string> {
  const env = serviceEnvironment({ GATEHOUSE_DATA_DIR: service.dataDir }) as NodeJS.ProcessEnv;
  const { stdout } = await promisify(execFile)(process.execPath, [assetPath('build/service/cli.js'), ...words], {
    env,
  });
  return stdout.trim();
}

t.test('keys and agents: as many as the operator says', async (t) => {
  t.match(JSON.parse(await command('account', 'limit', 'limited', '--quota', 'keys=20', '--quota', 'agents=1')), {
    ...{ keys: 20, agents: 1, events: null },
  });
  t.match((await limited.get('/v1/account')).json.quotas, { keys: 20, agents: 1, requests: null });
  t.equal((await limited.post('/v1/agents', { name: 'one' })).status, 201);
  t.equal((await limited.post('/v1/agents', { name: 'one' })).status, 200, 'one that is there');
  const second = await limited.post('/v1/agents', { name: 'two' });
  t.match(second, { status: 429, json: { error: { code: 'quota_exceeded', message: /1/ } } });
  t.ok(Number(second.headers.get('retry-after')) >= 1);
  await t.rejects(command('account', 'limit', 'limited', '--quota', 'thoughts=1'), /requests, events, bytes/);
});

t.test('twenty keys of one account record what the account may record; another account is served', async (t) => {
  const keys: string[] = [];
  for (let i = 0; i < 19; i++)
    keys.push((await limited.post('/v1/api-keys', { label: `${i}`, scope: 'write' })).json.key as string);
  t.match(await limited.post('/v1/api-keys', { label: 'one too many', scope: 'write' }), {
    ...{ status: 429, json: { error: { code: 'quota_exceeded' } } },
  });
  const { id } = (await limited.get('/v1/agents')).json.items[0];
  const [perSecond, burst] = [200, 200];
  await command('account', 'limit', 'limited', '--quota', `events=${perSecond}/${burst}`);
  await limited.until(
    () => limited.get('/v1/account'),
    ({ json }) => json.quotas.events?.per_second === perSecond,
  );
  const batch = Array.from({ length: 20 }, () => ({ type: 'custom', payload: {} }));
  const neighbour = (await api.post('/v1/agents', { name: 'neighbour' })).json.id as string;
  const sent = { recorded: 0, refused: 0, neighbour: 0 };
  const refusals = new Set<string>();
  const start = performance.now();
  // A busy machine takes longer until there is one that may not.
  const [seconds, secondsMax] = [4, 120];
  const isOver = () => performance.now() - start > (sent.refused > 0 ? seconds : secondsMax) * 1000;
  const each = keys.map(async (key) => {
    while (!isOver()) {
      const { status, json, headers } = await limited.post(`/v1/agents/${id}/events/batch`, batch, { key });
      if (status === 200) sent.recorded += json.total as number;
      else {
        sent.refused++;
        refusals.add(`${status} ${json.error.code} ${headers.get('ratelimit-policy')}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  });
  const beside = (async () => {
    while (!isOver()) {
      const { status } = await api.post(`/v1/agents/${neighbour}/events`, { type: 'custom', payload: {} });
      t.equal(status, 201, 'another account');
      sent.neighbour++;
    }
  })();
  await Promise.all([...each, beside]);
  const took = (performance.now() - start) / 1000;
  const most = 1.1 * (burst + took * perSecond) + 2 * (perSecond / 20);
  t.ok(sent.recorded <= most, `${sent.recorded} of at most ${most | 0} in ${took.toFixed(1)} s`);
  t.ok(sent.recorded >= burst, 'what it may have at once');
  t.same([...refusals], ['429 rate_limited "account-events";q=200;w=1']);
  t.ok(sent.neighbour > 0);
  t.equal(await command('account', 'limit', 'limited', '--default'), 'by the settings');
  t.match((await limited.get('/v1/account')).json.quotas, { keys: null, events: null });
});
