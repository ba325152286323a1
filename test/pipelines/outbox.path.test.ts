// E-mail over the whole service as it starts by default, without a mail server: a blocked event becomes a file; and
// with a server named later, on the same data folder, new mails go there and old files stay.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { pause } from '../support/raw-http.ts';
import { makeDataDir, startService, type TestService } from '../support/service.ts';
import { startSmtp } from '../support/smtp-server.ts';
import { decodeWords, headerOf, readMail } from './mail-reader.ts';

const BOX = 'oncall@example.com';
const WAIT_MS_MAX = 60_000;

async function ends(holds: () => boolean | Promise<boolean>): Promise<boolean> {
  const end = performance.now() + WAIT_MS_MAX;
  while (!(await holds())) {
    if (performance.now() > end) return false;
    await pause(50);
  }
  return true;
}

/** An event that a policy blocks: an alert on violations fires. */
async function violate(api: Api, agent: string): Promise<void> {
  const sent = await api.submitUntil('blocked', agent, { type: 'tool_call', payload: { tool: 'pay' } });
  t.equal(sent.json.policy_result.outcome, 'blocked');
}

/** Another `gatehouse start`, on the stores of this one. */
async function besides(t: Test, service: TestService): Promise<TestService> {
  const { redisUrl, redisCluster, clickhouseUrl, clickhouseDatabase } = await service.addresses();
  const other = await startService(t, {
    env: {
      GATEHOUSE_REDIS_URL: redisUrl,
      GATEHOUSE_REDIS_CLUSTER: String(redisCluster),
      GATEHOUSE_CLICKHOUSE_URL: clickhouseUrl,
      GATEHOUSE_CLICKHOUSE_DATABASE: clickhouseDatabase,
      GATEHOUSE_BOOTSTRAP_KEY: service.key,
    },
  });
  await other.stop();
  return other;
}

async function warningsOf(service: TestService): Promise<number> {
  return (await service.log()).split('\n').filter((line) => line.includes('"mail.outbox_of_this_machine"')).length;
}

const mailsIn = (service: TestService) =>
  readdirSync(service.dataDir).includes('outbox') ? readdirSync(path.join(service.dataDir, 'outbox')).sort() : [];

t.test('a default start takes alerts by e-mail, and writes their mails to the outbox', async (t) => {
  const dataDir = await makeDataDir();
  const service = await startService(t, { stores: 'own', dataDir });
  const outbox = path.join(service.dataDir, 'outbox');
  t.equal(
    service
      .printed()
      .split('\n')
      .filter((line) => line.includes(outbox)).length,
    1,
    'the start says so in one line',
  );
  t.same(mailsIn(service), []);
  const api = await Api.described(t, service);
  const made = await api.post('/v1/alerts', {
    name: 'to the box',
    trigger: 'policy_violation',
    channel: 'email',
    target: BOX,
    throttle_seconds: 0,
  });
  t.match(made, { status: 201, json: { channel: 'email', transport: 'outbox' } });
  t.match((await api.get(`/v1/alerts/${made.json.id}`)).json, { transport: 'outbox' });
  const hook = { name: 'hook', trigger: 'agent_down', channel: 'webhook', target: 'https://hooks.example.com/x' };
  t.strictSame((await api.post('/v1/alerts', hook)).json.transport, null);
  t.same(
    (await api.get('/v1/alerts')).json.items.map(({ transport }: { transport: string | null }) => transport),
    [null, 'outbox'],
  );
  const { json: agent } = await api.post('/v1/agents', { name: 'billing' });
  const conditions = { tool: 'pay' };
  await api.post('/v1/policies', { name: 'no paying', type: 'block_action', conditions, actions: ['block'] });
  await violate(api, agent.id);
  const delivered = async () =>
    (await api.get('/v1/deliveries?status=delivered')).json.items as { id: string; transport: string; attempts: [] }[];
  t.ok(await ends(async () => (await delivered()).length > 0));
  const [first] = await delivered();
  t.match(first, { transport: 'outbox', attempts: [{ status_code: null, error: null }] });
  t.same(mailsIn(service), (await delivered()).map(({ id }) => `${id}.eml`).sort());
  const file = path.join(outbox, `${first!.id}.eml`);
  t.same([statSync(outbox).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600]);
  const mail = readMail(readFileSync(file, 'utf8'));
  t.equal(headerOf(mail.headers, 'To'), BOX);
  t.match(decodeWords(headerOf(mail.headers, 'Subject')!), /^\[Gatehouse\] Policy violation \(high\): .*no paying/);
  t.equal(mail.parts.length, 2);
  const { text } = await api.get('/metrics');
  t.match(text, /^gatehouse_deliveries_total\{channel="email",transport="outbox",result="delivered",[^}]*\} [1-9]/m);
  t.notMatch(text, /gatehouse_deliveries_total\{channel="email",transport="smtp"[^}]*\} [1-9]/);

  t.equal(await warningsOf(service), 0, 'one machine needs no warning');
  t.equal(await warningsOf(await besides(t, service)), 1, 'with stores of their own several may be at work');

  await service.stop();
  const before = mailsIn(service);
  const smtp = await startSmtp(t);
  const env = { GATEHOUSE_BOOTSTRAP_KEY: service.key, GATEHOUSE_SMTP_URL: smtp.url };
  const later = await startService(t, { stores: 'own', dataDir, env });
  t.notMatch(later.printed(), outbox);
  const api2 = await Api.described(t, later);
  t.match((await api2.get(`/v1/alerts/${made.json.id}`)).json, { transport: 'smtp' });
  await violate(api2, agent.id);
  t.ok(await ends(() => smtp.mails.length > 0), 'a server that is named later gets the new mails');
  const smtpOnes = async () =>
    ((await api2.get('/v1/deliveries')).json.items as { transport: string | null }[]).filter(
      ({ transport }) => transport === 'smtp',
    );
  t.ok(await ends(async () => (await smtpOnes()).length > 0));
  t.match((await api2.get(`/v1/deliveries/${first!.id}`)).json, { transport: 'outbox', status: 'delivered' });
  t.same(mailsIn(service), before, 'the old files stay');

  t.equal((await api2.delete(`/v1/agents/${agent.id}`)).status, 204);
  t.ok(await ends(() => mailsIn(service).length === 0), 'until their agent is deleted');
});
