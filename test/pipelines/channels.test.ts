// What webhooks and chats are sent and what comes of it, against real receivers by https: signed so that the package's
// own verifier accepts it, the same bytes in every attempt, bounded; every kind of answer as docs/alerts.md has it.
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { makeChannels } from '../../pipelines/alert/channels/channels.ts';
import { ChatAppChannel, chatBody, inert } from '../../pipelines/alert/channels/chat-app.ts';
import { mailOf } from '../../pipelines/alert/channels/email.ts';
import { retryAfterMs } from '../../pipelines/alert/channels/post.ts';
import { cut, oneLine } from '../../pipelines/alert/channels/text.ts';
import { WebhookChannel, webhookBody } from '../../pipelines/alert/channels/webhook.ts';
import { linkOf } from '../../pipelines/alert/link.ts';
import { mintId } from '../../src/common/ids.ts';
import { GuardedHttps } from '../../src/egress/guarded-https.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { createLog } from '../../src/process/log.ts';
import { startReceiver } from '../support/https-receiver.ts';
import { aNotification, anAttempt, aSignal } from './notification.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const ALLOWED = new Set(['localhost']);

t.test('a webhook is what a verifier of Standard Webhooks accepts', async (t) => {
  const receiver = await startReceiver(t);
  const channel = new WebhookChannel(new GuardedHttps({ allowedHosts: ALLOWED, ca: receiver.ca }));
  const notification = aNotification({ signal: aSignal({ message: 'é\u2028"\ud800 and more' }) });
  const target = { url: `${receiver.url}/hook?x=1`, secret: SECRET };
  const first = await channel.send(target, notification, anAttempt({ at: Date.now() - 60_000 }));
  const second = await channel.send(target, notification, anAttempt({ number: 2 }));
  t.same([first, second], Array(2).fill({ outcome: 'delivered', statusCode: 200, error: null, answer: '' }));
  const [one, two] = receiver.received;
  for (const { headers, body, path } of [one!, two!]) {
    const content = new Webhook(SECRET).verify(body, headers as Record<string, string>) as object;
    t.equal(path, '/hook?x=1');
    t.same(Object.keys(content), ['type', 'timestamp', 'data']);
    t.match(content, {
      type: 'policy_violation',
      timestamp: new Date(notification.createdAt).toISOString(),
      data: {
        alert: { id: notification.alert.id, name: notification.alert.name },
        signal: { id: notification.signal.id, severity: 'high', message: notification.signal.message },
        event: { id: notification.signal.event!.id, type: 'tool_call' },
        count: 1,
      },
    });
    t.match(headers, { 'webhook-id': notification.id, 'content-type': 'application/json', 'user-agent': 'Gatehouse' });
  }
  t.equal(one!.body, two!.body, 'the same bytes in every attempt');
  t.not(one!.headers['webhook-timestamp'], two!.headers['webhook-timestamp'], 'the time of the attempt');
  t.not(one!.headers['webhook-signature'], two!.headers['webhook-signature']);
  const other = `whsec_${Buffer.alloc(32, 8).toString('base64')}`;
  t.throws(() => new Webhook(other).verify(one!.body, one!.headers as Record<string, string>));
  t.throws(() => new Webhook(SECRET).verify(`${one!.body} `, one!.headers as Record<string, string>));
  for (const secret of [undefined, '', 'whsec_', 'whsec_%%%']) {
    const without = secret === undefined ? { url: target.url } : { url: target.url, secret };
    t.match(await channel.send(without, notification, anAttempt()), { outcome: 'failed', error: 'not_configured' });
  }
  t.match(await channel.send({ address: 'a@b.co' }, notification, anAttempt()), { outcome: 'failed' });
  t.equal(receiver.received.length, 2, 'nothing is sent unsigned');
});

t.test('every kind of signal has its place in the body', async (t) => {
  const { event: _event, policies: _policies, ...bare } = aSignal();
  const kinds = [
    aSignal({
      trigger: 'anomaly_detected',
      anomaly: { id: 'ano_1', kind: 'token_spike', observed: 9, baseline: 1, score: 5 },
    }),
    { ...bare, trigger: 'agent_down' as const, silence: { since: 1_763_745_600_000, heartbeatSeconds: 300 } },
    { ...bare, trigger: 'rate_limit_exceeded' as const, agent: null, apiKey: { id: 'key_1' } },
    { ...bare, trigger: 'check_failing' as const, agent: null, check: { id: 'chk_1', name: 'guard' } },
  ];
  const [anomaly, silence, key, failing] = kinds.map((signal) => JSON.parse(webhookBody(aNotification({ signal }))));
  t.match(anomaly, { type: 'anomaly_detected', data: { signal: { anomaly: { kind: 'token_spike', observed: 9 } } } });
  t.match(silence.data.signal, { silence: { since: '2025-11-21T17:20:00.000Z', heartbeat_seconds: 300 } });
  t.notOk('event' in silence.data);
  t.match(key.data.signal, { agent_id: null, api_key_id: 'key_1' });
  t.match(failing.data.signal, { agent_id: null, check: { id: 'chk_1', name: 'guard' } });
  const test = JSON.parse(webhookBody(aNotification({ test: true, count: 12 })));
  t.match(test.data, { test: true, count: 12 });
  t.notOk('test' in anomaly.data);
});

t.test('a body stays under 20 KB whatever it holds', async (t) => {
  for (const worst of ['\u0001', '€', '\ud83d\ude00', '\ud800', '"', '<']) {
    const long = worst.repeat(5_000);
    const policies = Array.from({ length: 200 }, (_, i) => {
      return { id: `pol_${i}`, name: long, type: 'data_filter', severity: null };
    });
    const signal = aSignal({ id: long, message: long, policies });
    signal.event!.traceId = long;
    const notification = aNotification({ signal, alert: { ...aNotification().alert, name: long } });
    const body = webhookBody(notification);
    t.ok(Buffer.byteLength(body) < 20_000, `${JSON.stringify(worst)}: ${Buffer.byteLength(body)} bytes`);
    t.equal(webhookBody(notification), body);
    t.ok(JSON.parse(body).data.signal.policies.length > 0);
    t.ok(Buffer.byteLength(JSON.stringify(chatBody(notification))) < 40_000);
  }
});

t.test('each answer is understood', async (t) => {
  const receiver = await startReceiver(t);
  const https = new GuardedHttps({ allowedHosts: ALLOWED, ca: receiver.ca });
  const at = Date.parse('2026-11-21T10:00:00Z');
  const cases: [status: number, headers: Record<string, string>, result: object][] = [
    [200, {}, { outcome: 'delivered', error: null }],
    [204, {}, { outcome: 'delivered', error: null }],
    [299, {}, { outcome: 'delivered', error: null }],
    [301, { location: 'https://127.0.0.1/' }, { outcome: 'retry', error: 'redirect' }],
    [304, {}, { outcome: 'retry', error: 'redirect' }],
    [400, {}, { outcome: 'retry', error: 'status' }],
    [404, {}, { outcome: 'retry', error: 'status' }],
    [410, {}, { outcome: 'gone', error: 'status' }],
    [429, {}, { outcome: 'retry', error: 'status' }],
    [429, { 'retry-after': '120' }, { outcome: 'retry', error: 'status', retryAfterMs: 120_000 }],
    [
      503,
      { 'retry-after': 'Sat, 21 Nov 2026 10:05:00 GMT' },
      { outcome: 'retry', error: 'status', retryAfterMs: 300_000 },
    ],
    [500, {}, { outcome: 'retry', error: 'status' }],
    [599, {}, { outcome: 'retry', error: 'status' }],
  ];
  const channels = [new WebhookChannel(https), new ChatAppChannel(https)];
  for (const [status, headers, result] of cases) {
    const body = status === 204 || status === 304 ? '' : `said ${status}`;
    receiver.answer = (_request, response) => response.writeHead(status, headers).end(body);
    for (const channel of channels) {
      const got = await channel.send({ url: receiver.url, secret: SECRET }, aNotification(), anAttempt({ at }));
      t.strictSame(got, { ...result, statusCode: status, answer: body }, `${status} ${JSON.stringify(headers)}`);
    }
  }
  for (const channel of channels) {
    const target = { url: 'https://127.0.0.1:8443/', secret: SECRET };
    const refused = { outcome: 'failed', statusCode: null, error: 'private_address' };
    t.strictSame(
      await channel.send(target, aNotification(), anAttempt()),
      refused,
      'checked again right before the attempt',
    );
  }
});

t.test('Retry-After has two forms and a bound', async (t) => {
  const now = Date.parse('2026-11-21T10:00:00Z');
  t.equal(retryAfterMs('0', now), 0);
  t.equal(retryAfterMs('999999999', now), 24 * 60 * 60 * 1000);
  t.equal(retryAfterMs('Sat, 21 Nov 2026 09:00:00 GMT', now), 0, 'a time that is over');
  t.equal(retryAfterMs('Sun, 21 Nov 2027 09:00:00 GMT', now), 24 * 60 * 60 * 1000);
  for (const nonsense of [
    undefined,
    '',
    '-1',
    '1.5',
    'soon',
    '1e3',
    '9'.repeat(40),
    '2026-11-21',
    'Sat, 99 Foo 2026 10:00:00 GMT',
  ])
    t.equal(retryAfterMs(nonsense, now), undefined, nonsense ?? 'none');
});

t.test('a chat gets the alert, and a name cannot mention a person or add a link', async (t) => {
  const receiver = await startReceiver(t);
  const channel = new ChatAppChannel(new GuardedHttps({ allowedHosts: ALLOWED, ca: receiver.ca }));
  const signal = aSignal({ message: 'policy "<!channel> & <@U1>" blocked a tool_call' });
  const done = await channel.send({ url: receiver.url }, aNotification({ signal }), anAttempt());
  t.match(done, { outcome: 'delivered' });
  const sent = JSON.parse(receiver.received[0]!.body);
  t.same(Object.keys(sent), ['text', 'blocks']);
  t.equal(sent.text, 'Policy violation (high): policy "&lt;!channel&gt; &amp; &lt;@\u200bU1&gt;" blocked a tool_call');
  t.match(sent.blocks, [
    { type: 'section', text: { type: 'plain_text', emoji: false } },
    { type: 'context', elements: [{ type: 'plain_text' }] },
  ]);
  t.match(sent.blocks[1].elements[0].text, /Alert: violations to the team \(alr_/);
  const hostile = [
    '<!here> <!channel> <!everyone> <@U123> <#C1> <https://evil.example|click>',
    '@channel @here @everyone @all ＠here',
    '[click](https://evil.example) [a][b] http://evil.example HTTPS://EVIL.example www.evil.example',
    'mailto:a@b.co javascript:alert(1) slack://x tel:123',
    'a\n\n> quoted\r\n*bold*\u2028next\u0000\u202egnp.exe',
  ];
  for (const text of hostile) {
    const all = chatBody(
      aNotification({
        alert: { ...aNotification().alert, name: text },
        signal: aSignal({
          message: text,
          policies: [{ id: 'pol_1', name: text, type: 'data_filter', severity: null }],
        }),
      }),
    );
    const written = [all.text, all.blocks[0].text.text, all.blocks[1].elements[0].text];
    t.notMatch(all.text, /[<>]|&(?!amp;|lt;|gt;)/, 'no markup in what is parsed');
    for (const line of written) {
      t.notMatch(line, /@\w|＠\w|:\/\/|www\.|\]\(|\]\[|mailto:|javascript:|tel:/i, JSON.stringify(line));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is what is asked
      t.notMatch(line.replace('\n', ''), /[\u0000-\u001f\u2028\u2029\u202e]/, 'one line but for the headline');
    }
  }
  t.equal(inert('a & b'), 'a &amp; b');
});

t.test('the three are made from the settings', async (t) => {
  const settings = { mailFrom: 'gatehouse@localhost', egressAllowedHosts: undefined, smtpUrl: undefined };
  const parts = {
    log: createLog({ level: 'silent', processName: 'test' }),
    metrics: new Metrics({ processName: 'test' }),
    outbox: path.join(t.testdir(), 'outbox'),
  };
  const channels = makeChannels(settings, parts);
  const notification = aNotification();
  const mail = await channels.senders.email.send({ address: 'a@b.co' }, notification, anAttempt());
  t.strictSame(mail, { outcome: 'delivered', statusCode: null, error: null }, 'without a mail server');
  t.same(await readdir(parts.outbox), [`${notification.id}.eml`]);
  const transports = ({ senders }: typeof channels) => Object.values(senders).map(({ transport }) => transport);
  t.same(transports(channels), ['https', 'https', 'outbox']);
  const server = makeChannels({ ...settings, smtpUrl: 'smtp://127.0.0.1:1' }, parts);
  t.same(transports(server), ['https', 'https', 'smtp']);
  server.close();
  const inside = await startReceiver(t);
  const target = { url: inside.url, secret: SECRET };
  for (const name of ['webhook', 'chat_app'] as const) {
    const refused = await channels.senders[name].send(target, aNotification(), anAttempt());
    t.match(refused, { outcome: 'failed', error: 'private_address' }, 'no host is let through unless it is named');
  }
  const known = makeChannels({ ...settings, egressAllowedHosts: `localhost:${inside.port}` }, parts);
  const met = await known.senders.webhook.send(target, aNotification(), anAttempt());
  t.match(met, { outcome: 'retry', error: 'tls' }, 'named, but with an unknown certificate');
  const broken = aNotification({ createdAt: Number.NaN });
  t.match(await known.senders.webhook.send(target, broken, anAttempt()), { outcome: 'retry', error: 'internal' });
  t.same(inside.received, []);
  known.close();
  channels.close();
});

t.test('a notification links to its subject, and to nothing that a name says', async (t) => {
  const signal = aSignal({ message: 'see https://evil.example' });
  const at = 'https://gatehouse.example.com/in';
  const approval = { id: mintId('approval', 0), expiresAt: 0 };
  const { event: _event, ...bare } = signal;
  t.equal(linkOf(`${at}/`, signal), `${at}/ui/event?agent_id=${signal.agent}&id=${signal.event!.id}`);
  t.equal(
    linkOf(at, { ...signal, approval }),
    `${at}/ui/approvals?id=${approval.id}`,
    'what is to be decided comes first',
  );
  t.equal(linkOf(at, bare), `${at}/ui/agents?q=${signal.agent}`);
  t.equal(linkOf(at, { ...bare, agent: null }), undefined);
  t.equal(linkOf(undefined, signal), undefined);
  t.equal(linkOf(at, { ...signal, agent: 'agt_../../x' }), undefined);
  const link = linkOf(at, signal)!;
  const told = aNotification({ signal, link });
  t.equal(JSON.parse(webhookBody(told)).data.url, link);
  const chat = chatBody(told);
  for (const text of [chat.text, chat.blocks[0].text.text]) {
    t.ok(text.endsWith(`\n${link}`), text);
    t.notMatch(text, 'https://evil.example');
  }
  const mail = mailOf(told, 'a@b.co', 'c@d.co');
  t.match(mail.text, `\n${link}\n`);
  t.match(mail.html, `<a href="${link.replace('&', '&amp;')}">`);
  t.notMatch(mail.text + mail.html, 'https://evil.example');
  const without = aNotification({ signal });
  t.notMatch(webhookBody(without) + chatBody(without).text + mailOf(without, 'a@b.co', 'c@d.co').text, at);
});

t.test('text is cut between characters', async (t) => {
  t.equal(cut('abcdef', 6), 'abcdef');
  t.equal(cut('abcdefg', 6), 'abcde…');
  t.equal(cut('abcd\ud83d\ude00x', 6), 'abcd…', 'a pair stays whole or goes');
  t.equal(oneLine(' a\r\n\tb\u0085c\u2029 ', 50), 'a b c');
  t.equal(oneLine('\ud800', 50), '\ufffd');
});
