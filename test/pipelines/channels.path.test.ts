// From a blocked event to the received message, over the whole service: a webhook that the package's verifier accepts,
// a chat, a mail by SMTP; and the receiver that docs/channels.md shows, run as it is there. Receivers have
// certificates of their own authority.
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import path from 'node:path';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { freePort } from '../../src/embedded/free-port.ts';
import { assetPath } from '../../src/process/assets.ts';
import { eventually } from '../streams/harness.ts';
import { Api } from '../support/api.ts';
import { authorityFile, certificate } from '../support/certificate.ts';
import { startReceiver } from '../support/https-receiver.ts';
import { startService } from '../support/service.ts';
import { startSmtp } from '../support/smtp-server.ts';
import { decodeWords, headerOf, readMail } from './mail-reader.ts';

const smtp = await startSmtp(t);
const hook = await startReceiver(t);
const chat = await startReceiver(t);
const inside = await startReceiver(t);
const port = await freePort();
const service = await startService(t, {
  env: {
    GATEHOUSE_SMTP_URL: smtp.url,
    GATEHOUSE_MAIL_FROM: 'gatehouse@alerts.example.com',
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: [hook.port, chat.port, port].map((each) => `localhost:${each}`).join(','),
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
  },
});
const api = await Api.described(t, service);
const alert = async (name: string, channel: string, target: string) =>
  (await api.post('/v1/alerts', { name, trigger: 'policy_violation', channel, target })).json;

t.test('a blocked event reaches all three channels', async (t) => {
  const { secret } = await alert('to the hook', 'webhook', `${hook.url}/h`);
  await alert('to the chat', 'chat_app', `${chat.url}/c`);
  await alert('to the box', 'email', 'oncall@example.com');
  const { json: agent } = await api.post('/v1/agents', { name: 'billing' });
  const blocking = {
    name: 'no <!channel> here',
    type: 'block_action',
    conditions: { tool: 'pay' },
    actions: ['block'],
  };
  await api.post('/v1/policies', blocking);
  const sent = await api.submitUntil('blocked', agent.id, { type: 'tool_call', payload: { tool: 'pay' } });
  t.equal(sent.json.policy_result.outcome, 'blocked');
  t.ok(await eventually(() => hook.received.length > 0 && chat.received.length > 0 && smtp.mails.length > 0));
  const [posted] = hook.received;
  const content = new Webhook(secret).verify(posted!.body, posted!.headers as Record<string, string>);
  t.match(content, { type: 'policy_violation', data: { event: { id: sent.json.id }, count: 1 } });
  const said = JSON.parse(chat.received[0]!.body);
  t.match(said.text, /^Policy violation \(high\): .*no &lt;!channel&gt; here/);
  const [mail] = smtp.mails;
  t.same(mail!.recipients, ['oncall@example.com']);
  t.match(decodeWords(headerOf(readMail(mail!.raw).headers, 'Subject') ?? ''), /^\[Gatehouse\] Policy violation/);
  const outcome = async () => (await api.get('/v1/deliveries')).json.items as { status: string; channel: string }[];
  t.ok(await eventually(async () => (await outcome()).filter(({ status }) => status === 'delivered').length === 3));
});

t.test('a pending approval is notified with its agent and its policy, and so is its expiry', async (t) => {
  const before = { hook: hook.received.length };
  const box = { channel: 'email', target: 'approver@example.com', throttle_seconds: 0 };
  await api.post('/v1/alerts', { name: 'to the approver', trigger: 'policy_violation', ...box });
  const { json: agent } = await api.post('/v1/agents', { name: 'refund-bot' });
  const { json: policy } = await api.post('/v1/policies', {
    ...{ name: 'refunds need a person', type: 'require_approval', actions: ['alert'], agent_id: agent.id },
    conditions: { tool: 'refund', timeout: 3 },
  });
  const sent = await api.submitUntil('pending', agent.id, { type: 'tool_call', payload: { tool: 'refund' } });
  const approval = sent.json.policy_result.approval_id as string;
  t.ok(await eventually(() => hook.received.length >= before.hook + 2), 'twice: that it waits, and that it expired');
  const [waits, expired] = hook.received.slice(before.hook).map(({ body }) => JSON.parse(body));
  const kept = (await api.get(`/v1/approvals?event_id=${sent.json.id}`)).json;
  t.match(kept, { total: 1, items: [{ id: approval, event_id: sent.json.id }] });
  const { expires_at } = kept.items[0];
  t.match(waits.data, {
    signal: {
      agent_id: agent.id,
      agent_name: 'refund-bot',
      policies: [{ id: policy.id, name: 'refunds need a person' }],
    },
    event: { id: sent.json.id, type: 'tool_call', outcome: 'pending' },
    approval: { id: approval, expires_at },
  });
  t.match(expired, {
    type: 'policy_violation',
    data: {
      signal: { agent_name: 'refund-bot', reason: 'approval_expired', policies: [{ id: policy.id }] },
      event: { id: sent.json.id, outcome: 'blocked' },
      approval: { id: approval, expires_at },
    },
  });
  const toApprover = () => smtp.mails.filter(({ recipients }) => recipients.includes(box.target));
  t.ok(await eventually(() => toApprover().length >= 2));
  const text = readMail(toApprover()[0]!.raw).parts[0]!;
  t.match(
    JSON.stringify(text),
    new RegExp(`refund-bot \\(${agent.id}\\)[^]*Outcome: pending[^]*Approval: ${approval}, until ${expires_at}`),
  );

  t.equal((await api.get('/v1/approvals?event_id=evt_nonsense')).json.total, 0);
});

t.test('a secret is replaced, and for a day both sign', async (t) => {
  const made = await alert('rotated', 'webhook', `${hook.url}/rotated`);
  const rotated = await api.post(`/v1/alerts/${made.id}/rotate-secret`, undefined);
  t.match(rotated, { status: 200, json: { id: made.id, secret: /^whsec_/ } });
  t.not(rotated.json.secret, made.secret);
  await api.post(`/v1/alerts/${made.id}/test`, undefined);
  const told = () => hook.received.filter(({ path: to }) => to === '/rotated');
  t.ok(await eventually(() => told().length > 0));
  const { headers, body } = told()[0]!;
  t.match(headers['webhook-signature'], /^v1,\S+ v1,\S+$/);
  for (const secret of [made.secret, rotated.json.secret])
    t.ok(
      new Webhook(secret).verify(body, headers as Record<string, string>),
      'a receiver that knows one of them accepts it',
    );
  for (let i = 0; i < 5; i++) await api.post(`/v1/alerts/${made.id}/rotate-secret`, undefined);
  await api.post(`/v1/alerts/${made.id}/test`, undefined);
  t.ok(await eventually(() => told().length > 1));
  t.equal(
    told()[1]!.headers['webhook-signature']!.toString().split(' ').length,
    4,
    'the last three that were replaced',
  );
  const shown = [await api.get(`/v1/alerts/${made.id}`), await api.get(`/v1/audit-logs?resource_id=${made.id}`)];
  t.notMatch(shown.map(({ text }) => text).join(''), /whsec_|retired/);
  t.match(shown[1]!.json.logs[0], { action: 'alert.updated', details: { changed: ['secret'] } });
  const box = (await alert('no secret', 'email', 'oncall@example.com')).id;
  t.equal((await api.post(`/v1/alerts/${box}/rotate-secret`, undefined)).status, 400);
  const keyed = { headers: { 'Idempotency-Key': 'once' } };
  t.equal(
    (await api.post(`/v1/alerts/${made.id}/rotate-secret`, undefined, keyed)).status,
    400,
    'a retry makes another',
  );
});

t.test('the receiver of docs/channels.md accepts a test notification', async (t) => {
  const text = await readFile(assetPath('docs/channels.md'), 'utf8');
  const script = /```js\n([\s\S]*?)```/.exec(text)?.[1] ?? '';
  // Below the packages, so that its import finds them.
  const folder = await mkdtemp(path.join(assetPath('build'), 'receiver-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const { key, cert } = await certificate();
  const files = { 'key.pem': key, 'cert.pem': cert, 'receiver.mjs': script };
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content);
  const { id, secret } = await alert('to the reader', 'webhook', `https://localhost:${port}/`);
  const env = { ...process.env, WEBHOOK_SECRET: secret, PORT: String(port) };
  const child = spawn(process.execPath, ['receiver.mjs'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill());
  let printed = '';
  child.stdout.on('data', (data: Buffer) => {
    printed += data.toString();
  });
  t.ok(await eventually(() => canConnect(port)), 'it listens');
  const made = await api.post(`/v1/alerts/${id}/test`, undefined);
  t.equal(made.status, 201);
  t.ok(await eventually(() => printed.includes('\n')), 'it came');
  t.match(printed, new RegExp(`^${made.json.id} policy_violation .+\n$`));
});

t.test('an answer that points inside is not followed', async (t) => {
  hook.answer = (_request, response) => void response.writeHead(307, { location: inside.url }).end();
  const { id } = await alert('redirected', 'webhook', `${hook.url}/away`);
  const { json } = await api.post(`/v1/alerts/${id}/test`, undefined);
  const attempts = async () => (await api.get(`/v1/deliveries/${json.id}`)).json.attempts as object[];
  t.ok(await eventually(async () => (await attempts()).length > 0));
  t.match((await attempts())[0], { status_code: 307, error: 'redirect' });
  t.equal(inside.connections(), 0);
});

function canConnect(to: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(to, 'localhost', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
