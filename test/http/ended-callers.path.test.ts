// What a caller had begun ends with the caller's key or session: exports, waits on approvals, waits of decision points.
// Against the whole service with two fronts, on both HTTP servers (streams: stream.path, sessions.path).
import http from 'node:http';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const OPA = '/v1/data/gatehouse/decision';
/** Some 26 MB: what lies in the buffers of a connection when a key is revoked is a part of it. */
const EVENTS = 1_100;
const FILLER = 'x'.repeat(24_000);
const EXPIRES = 'a key whose time is over';

type Caller = { headers: Record<string, string>; end(): Promise<unknown> };
type Ended = { bytes: number; isSound: boolean };

for (const server of ['uws', 'node']) {
  t.test(`by the HTTP server ${server}`, async (t) => {
    const fronts = server === 'uws' ? '2' : '1'; // those of Node.js share a port from 22.12 on
    const service = await startService(t, { env: { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_FRONTS: fronts } });
    const api = new Api(t, service);
    const agent = (await api.post('/v1/agents', { name: 'spender' })).json.id as string;
    const policy = { name: 'ask', type: 'require_approval', conditions: { tool: 'pay' }, actions: ['block'] };
    await api.post('/v1/policies', policy);
    const pay = () => api.post(`/v1/agents/${agent}/events`, { type: 'tool_call', payload: { tool: 'pay' } });
    await api.untilOutcome('pending', pay);

    const newKey = async (more: object = {}): Promise<{ id: string; key: string }> =>
      (await api.post('/v1/api-keys', { label: 'short', scope: 'write', ...more })).json;
    const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
    const signedIn = async (key: string): Promise<{ id: string; headers: Record<string, string> }> => {
      const { json, headers } = await api.post('/v1/session', { key }, { key: null });
      const same = { 'Sec-Fetch-Site': 'same-origin', 'Gatehouse-Client': 'test' };
      return { id: json.id, headers: { cookie: headers.get('set-cookie')!.split(';')[0]!, ...same } };
    };
    const callers: Record<string, () => Promise<Caller>> = {
      'a key that is revoked': async () => {
        const { id, key } = await newKey();
        return { headers: bearer(key), end: () => api.delete(`/v1/api-keys/${id}`) };
      },
      'a session that an admin ends': async () => {
        const { id, headers } = await signedIn((await newKey()).key);
        return { headers, end: () => api.delete(`/v1/sessions/${id}`) };
      },
      'a session whose key is revoked': async () => {
        const { id, key } = await newKey();
        const { headers } = await signedIn(key);
        return { headers, end: () => api.delete(`/v1/api-keys/${id}`) };
      },
      [EXPIRES]: async () => {
        const { key } = await newKey({ expires_at: new Date(Date.now() + 2_500).toISOString() });
        return { headers: bearer(key), end: async () => undefined };
      },
    };
    /** Refused on both fronts. */
    const isGone = async (headers: Record<string, string>) => {
      for (let refused = 0; refused < 8; await pause(20)) {
        const { status } = await send(`${service.url}/v1/session`, headers);
        refused = status === 401 ? refused + 1 : 0;
      }
    };

    for (const [who, begin] of Object.entries(callers)) {
      await t.test(`a wait on an approval, ${who}`, async (t) => {
        const { approval_id: approval } = (await pay()).json.policy_result;
        const caller = await begin();
        const waiting = send(`${service.url}/v1/approvals/${approval}?wait=40`, caller.headers);
        await pause(200);
        await caller.end();
        await isGone(caller.headers);
        t.match(await api.post(`/v1/approvals/${approval}`, { decision: 'approve' }), { status: 200 });
        const { status, text } = await waiting;
        t.match([status, JSON.parse(text)], [401, { error: { code: 'invalid_token' } }]);
      });

      await t.test(`a wait of a decision point, ${who}`, async (t) => {
        const known = (await api.get('/v1/approvals?status=pending')).json.total;
        const caller = await begin();
        const body = JSON.stringify({ input: { agent, tool: 'pay' } });
        const waiting = send(`${service.url}${OPA}?wait=40`, caller.headers, body);
        const pending = await api.until(
          () => api.get('/v1/approvals?status=pending'),
          ({ json }) => json.total > known,
        );
        await caller.end();
        await isGone(caller.headers);
        const id = pending.json.items[0].id;
        t.match(await api.post(`/v1/approvals/${id}`, { decision: 'approve' }), { status: 200 });
        const { status, text } = await waiting;
        t.match([status, JSON.parse(text)], [401, { error: { code: 'invalid_token' } }]);
      });
    }

    await t.test('a wait that is over without a decision is no answer either', async (t) => {
      const { approval_id: approval } = (await pay()).json.policy_result;
      const { id, key } = await newKey();
      const waiting = send(`${service.url}/v1/approvals/${approval}?wait=3`, bearer(key));
      await pause(200);
      await api.delete(`/v1/api-keys/${id}`);
      t.equal((await waiting).status, 401);
    });

    await fill(api, agent);
    const whole = await exportTo(service.url, bearer(service.key), async () => undefined);
    t.ok(whole.isSound && whole.bytes > EVENTS * FILLER.length, 'all of it, to who may have it');
    for (const [who, begin] of Object.entries(callers)) {
      if (who === EXPIRES) continue; // it may be over before the export begins
      await t.test(`an export, ${who}`, async (t) => {
        const caller = await begin();
        const cut = await exportTo(service.url, caller.headers, async () => {
          await caller.end();
          await isGone(caller.headers);
        });
        isCutOff(t, cut, whole);
      });
    }
    await t.test('an export by a key bound to an agent that is deleted', async (t) => {
      const { key } = await newKey({ agent_id: agent });
      const cut = await exportTo(service.url, bearer(key), async () => {
        await api.delete(`/v1/agents/${agent}`);
        await isGone(bearer(key));
      });
      isCutOff(t, cut, whole);
    });
  });
}

function isCutOff(t: Test, { bytes, isSound }: Ended, whole: Ended): void {
  t.notOk(isSound, 'it ends so that the client sees that it is not all');
  t.ok(bytes < whole.bytes / 2, `${bytes} of ${whole.bytes} bytes`);
}

async function fill(api: Api, agent: string): Promise<void> {
  const batch = Array.from({ length: 100 }, () => ({ type: 'custom', payload: { FILLER } }));
  for (let sent = 0; sent < EVENTS; sent += 100) await api.post(`/v1/agents/${agent}/events/batch`, batch);
  await api.get(`/v1/agents/${agent}/events?limit=1`);
}

/** On a connection of its own: the kernel shares them out between the fronts. */
function send(url: string, headers: Record<string, string>, body?: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST';
    const json = body === undefined ? {} : { 'content-type': 'application/json' };
    const call = http.request(url, { method, headers: { ...headers, ...json }, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      answer.on('end', () => resolve({ status: answer.statusCode!, text }));
    });
    call.on('error', reject).end(body);
  });
}

/** `meanwhile`: while the reader takes nothing, once it has taken a little. */
async function exportTo(base: string, headers: Record<string, string>, meanwhile: () => Promise<unknown>) {
  for (let tries = 0; tries < 60; tries++, await pause(1_000)) {
    const ended = await tryExport(base, headers, meanwhile);
    if (ended !== 'later') return ended;
  }
  throw new Error('no export begins');
}

/** later: what was sent is not stored yet, or the one before has not ended, as on a busy machine it may be. */
function tryExport(
  base: string,
  headers: Record<string, string>,
  meanwhile: () => Promise<unknown>,
): Promise<Ended | 'later'> {
  return new Promise((resolve, reject) => {
    http
      .get(`${base}/v1/events/export`, { headers, agent: false }, (answer) => {
        let bytes = 0;
        if (answer.statusCode === 503) {
          answer.resume();
          return resolve('later');
        }
        if (answer.statusCode !== 200) return reject(new Error(`${answer.statusCode}`));
        answer.once('data', () => {
          answer.pause();
          meanwhile().then(() => answer.resume(), reject);
        });
        answer.on('data', (chunk: Buffer) => (bytes += chunk.length));
        answer.on('end', () => resolve({ bytes, isSound: true }));
        answer.on('error', () => resolve({ bytes, isSound: false }));
      })
      .on('error', reject);
  });
}
