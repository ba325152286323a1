// Mails over a real SMTP conversation: what goes out, who gets it, and what each refusal of the server means. And
// hostile strings in every name, message and target: whatever they are, a mail has one recipient and the same headers,
// or there is no mail. GATEHOUSE_TEST_HOSTILE_STRINGS=10000 sends that many mails over SMTP instead of the few hundred
// of a quick run.
import { createServer } from 'node:net';
import fc from 'fast-check';
import { createTransport } from 'nodemailer';
import t from 'tap';
import type { Notification } from '../../pipelines/alert/channel.ts';
import { EmailChannel, mailOf } from '../../pipelines/alert/channels/email.ts';
import { isMailAddress, targetProblem } from '../../src/registry/alerts/alert-target.ts';
import { certificate } from '../support/certificate.ts';
import { listening } from '../support/listening.ts';
import { SEED } from '../support/seed.ts';
import { startSmtp } from '../support/smtp-server.ts';
import { decodeWords, headerOf, readMail } from './mail-reader.ts';
import { aNotification, anAttempt, aSignal } from './notification.ts';

const FROM = 'gatehouse@alerts.example.com';
const BOX = 'oncall@example.com';
const RUNS = Number(process.env.GATEHOUSE_TEST_HOSTILE_STRINGS ?? 200);
const COMPOSED_RUNS = Math.max(500, RUNS);

const HEADERS = ['Auto-Submitted', 'Content-Type', 'Date', 'From', 'MIME-Version', 'Message-ID', 'Subject', 'To'];
const PART_HEADERS = ['Content-Transfer-Encoding', 'Content-Type'];
const OUR_TAGS =
  /<(?:!doctype html|\/?(?:html|head|body|p|strong|table|tr|td|th)|meta charset="utf-8"|th align="left")>/g;

t.test('a mail as it goes out', async (t) => {
  const smtp = await startSmtp(t);
  const channel = new EmailChannel({ smtpUrl: smtp.url, mailFrom: FROM });
  t.teardown(() => channel.close());
  const notification = aNotification({
    signal: aSignal({ message: 'Policy "no secrets" blocked Zoë <b>&' }),
    count: 3,
  });
  const once = await channel.send({ address: BOX }, notification, anAttempt());
  const again = await channel.send({ address: BOX }, notification, anAttempt({ number: 2 }));
  t.same(
    [once, again],
    Array(2).fill({ outcome: 'delivered', statusCode: 250, error: null, answer: '250 OK: message queued' }),
  );
  t.equal(smtp.sessions(), 1, 'a connection is used again');
  const [first, second] = smtp.mails.map((mail) => ({ ...mail, ...readMail(mail.raw) }));
  t.match(first, { mailFrom: FROM, recipients: [BOX] });
  t.same(faultsOf(first!, BOX), []);
  const header = (name: string, mail = first!) => headerOf(mail.headers, name);
  t.equal(header('From'), `Gatehouse <${FROM}>`);
  t.equal(header('To'), BOX);
  t.equal(header('Auto-Submitted'), 'auto-generated');
  t.equal(header('Message-ID'), `<${notification.id}@alerts.example.com>`);
  t.equal(header('Message-ID', second), header('Message-ID'), 'the same in every attempt');
  t.equal(header('Date', second), header('Date'));
  t.equal(
    decodeWords(header('Subject')!),
    '[Gatehouse] Policy violation (high, the newest of 3): Policy "no secrets" blocked Zoë <b>&',
  );
  const [text, html] = first!.parts;
  t.match(text!.content, /^Policy violation \(high, the newest of 3\)\n\nPolicy "no secrets" blocked Zoë <b>&\n\n/);
  t.match(text!.content, new RegExp(`Event: ${notification.signal.event!.id} \\(tool_call\\)\n`));
  t.match(html!.content, /<p>Policy &quot;no secrets&quot; blocked Zoë &lt;b&gt;&amp;<\/p>/);
});

t.test('the server offers TLS, and asks who we are', async (t) => {
  const shown = await certificate(['127.0.0.1']);
  const login = { user: 'gate', password: 'h@use:1' };
  const smtp = await startSmtp(t, { certificate: shown, login });
  const account = `gate:${encodeURIComponent(login.password)}`;
  const send = async (smtpUrl: string) => {
    const channel = new EmailChannel({ smtpUrl, mailFrom: FROM });
    const result = await channel.send({ address: BOX }, aNotification(), anAttempt());
    channel.close();
    return result;
  };
  const secure = `smtp://${account}@127.0.0.1:${smtp.port}/`;
  t.match(await send(secure), { outcome: 'retry', error: 'tls' }, 'a certificate of an unknown issuer is refused');
  t.equal(smtp.mails.length, 0);
  t.match(await send(`${secure}?tls.rejectUnauthorized=false`), { outcome: 'delivered' });
  t.match(smtp.mails, [{ isSecure: true, user: 'gate' }]);
  const wrong = `smtp://gate:nope@127.0.0.1:${smtp.port}/?tls.rejectUnauthorized=false`;
  t.match(await send(wrong), { outcome: 'retry', statusCode: 535, error: 'rejected' });
  const plain = await startSmtp(t);
  t.match(await send(`${plain.url}/?requireTLS=true`), { outcome: 'retry' }, 'the operator may insist on it');
  t.equal(plain.mails.length, 0);
});

t.test('what the server refuses', async (t) => {
  const codes: [stage: 'mail' | 'recipient' | 'data', code: number, text: string, outcome: string][] = [
    ['recipient', 550, 'refused by the test', 'failed'],
    ['recipient', 550, '5.1.1 no such user', 'failed'],
    ['recipient', 551, 'user not local', 'failed'],
    ['recipient', 553, 'refused by the test', 'failed'],
    ['recipient', 556, '5.1.10 takes no mail', 'failed'],
    ['recipient', 550, '5.7.1 relaying denied', 'retry'],
    ['recipient', 554, '5.7.1 relay access denied', 'retry'],
    ['recipient', 554, 'not now', 'retry'],
    ['recipient', 552, '5.2.2 mailbox full', 'retry'],
    ['recipient', 450, 'greylisted', 'retry'],
    ['mail', 550, 'refused by the test', 'retry'],
    ['mail', 451, 'refused by the test', 'retry'],
    ['data', 554, '5.7.1 looks like spam', 'retry'],
    ['data', 550, '5.7.26 unauthenticated', 'retry'],
    ['data', 452, 'disk full', 'retry'],
  ];
  let now: (typeof codes)[number] | undefined;
  const smtp = await startSmtp(t, {
    refuse: (stage) => (stage === now?.[0] ? { code: now[1], text: now[2] } : undefined),
  });
  const channel = new EmailChannel({ smtpUrl: smtp.url, mailFrom: FROM });
  t.teardown(() => channel.close());
  for (const code of codes) {
    now = code;
    const [, statusCode, text, outcome] = code;
    const result = await channel.send({ address: BOX }, aNotification(), anAttempt());
    t.strictSame(result, { outcome, statusCode, error: 'rejected', answer: `${statusCode} ${text}` }, code.join(' '));
  }
  now = undefined;
  t.match(await channel.send({ address: BOX }, aNotification(), anAttempt()), { outcome: 'delivered' }, 'and goes on');
  t.equal(smtp.mails.length, 1);
});

t.test('a server that is not there, says nothing, or is left', async (t) => {
  const unreachable = new EmailChannel({ smtpUrl: 'smtp://127.0.0.1:1', mailFrom: FROM });
  t.match(await unreachable.send({ address: BOX }, aNotification(), anAttempt()), {
    outcome: 'retry',
    error: 'refused',
  });
  unreachable.close();
  const mute = createServer((socket) => void socket.on('error', () => undefined));
  const port = await listening(t, mute);
  const channel = new EmailChannel({ smtpUrl: `smtp://127.0.0.1:${port}`, mailFrom: FROM });
  t.match(await channel.send({ address: BOX }, aNotification(), anAttempt({ timeoutMs: 200 })), { error: 'timeout' });
  const leaving = new AbortController();
  const running = channel.send({ address: BOX }, aNotification(), anAttempt({ signal: leaving.signal }));
  setTimeout(() => leaving.abort(), 50);
  t.match(await running, { outcome: 'retry', error: 'aborted' });
  const cut = channel.send({ address: BOX }, aNotification(), anAttempt());
  setTimeout(() => channel.close(), 50);
  t.match(await cut, { outcome: 'retry', error: 'aborted' }, 'a close ends what is being sent');
});

t.test('hostile strings are text, in every mail that goes out', async (t) => {
  const smtp = await startSmtp(t);
  const channel = new EmailChannel({ smtpUrl: smtp.url, mailFrom: FROM });
  t.teardown(() => channel.close());
  let [sent, refused] = [0, 0];
  await fc.assert(
    fc.asyncProperty(hostileNotification(), hostileTarget(), async (notification, address) => {
      const [mailsBefore, namedBefore] = [smtp.mails.length, smtp.named.length];
      const result = await channel.send({ address }, notification, anAttempt());
      const mails = smtp.mails.slice(mailsBefore);
      if (!isMailAddress(address)) {
        refused++;
        return result.outcome === 'failed' && mails.length === 0 && smtp.named.length === namedBefore;
      }
      sent++;
      if (result.outcome !== 'delivered' || mails.length !== 1) throw new Error(JSON.stringify(result));
      const faults = faultsOf({ ...mails[0]!, ...readMail(mails[0]!.raw) }, address);
      if (smtp.named.length !== namedBefore + 1) faults.push(`named ${smtp.named.slice(namedBefore).join(' ')}`);
      if (faults.length > 0) throw new Error(faults.join('; '));
      return true;
    }),
    { numRuns: RUNS, seed: SEED },
  );
  t.ok(sent > RUNS / 4 && refused > RUNS / 10, `${sent} sent, ${refused} refused`);
});

t.test('hostile strings are text, in every mail that is composed', async (t) => {
  const transport = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });
  await fc.assert(
    fc.asyncProperty(hostileNotification(), async (notification) => {
      const { envelope, message } = await transport.sendMail(mailOf(notification, BOX, FROM));
      const raw = (message as Buffer).toString('latin1');
      const { from, to } = envelope;
      const mail = { mailFrom: String(from), recipients: to as string[], raw, ...readMail(raw) };
      const faults = faultsOf(mail, BOX);
      if (faults.length > 0) throw new Error(faults.join('; '));
    }),
    { numRuns: COMPOSED_RUNS, seed: SEED },
  );
  t.pass(`${COMPOSED_RUNS} mails composed`);
});

t.test('a target that is not one plain address makes no alert', async (t) => {
  const plain = /^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]+@[A-Za-z0-9.-]+$/;
  fc.assert(
    fc.property(fc.oneof(hostile(), hostileTarget()), (target) => {
      const isTaken = targetProblem('email', target, new Set()) === undefined;
      return !isTaken || (plain.test(target) && target.length <= 254 && target.split('@').length === 2);
    }),
    { numRuns: 10_000, seed: SEED },
  );
  for (const evil of [
    `${BOX}\r\nBcc: evil@x.co`,
    `${BOX},evil@x.co`,
    `evil@x.co <${BOX}>`,
    `"${BOX}"@x.co`,
    `${BOX}\0`,
  ])
    t.type(targetProblem('email', evil, new Set()), 'string', JSON.stringify(evil));
});

// biome-ignore format: a kind a line
const PIECES = [
  '\r\n', '\n', '\r', '\0', '\t', '\u000b', '\u0085', '\u2028', '\u2029', '\u202e', '\ufeff', '\ud800', '\udfff', '🙂', 'Zoë',
  '"', ',', ';', ':', '\\', '(', ')', '<', '>', '@', '&', '%0d%0a', '\\r\\n', '.', '\r\n.\r\n', '\r\n\r\n', '--', '\r\n--',
  '<a@b.co>', 'evil@x.co', ', evil@x.co', ';evil@x.co', '"a b"@x.co', 'a@[127.0.0.1]', 'Evil <evil@x.co>', 'a@b.co',
  'Bcc: evil@x.co', '\r\nBcc: evil@x.co', '\nTo: evil@x.co\n', '\r\nContent-Type: text/html', 'Subject: x', '\r\nX-Evil: 1\r\n',
  'RCPT TO:<evil@x.co>', '\r\nRCPT TO:<evil@x.co>\r\nDATA\r\n', '\r\nQUIT\r\n', 'SIZE=1', '> SIZE=1', '> NOTIFY=SUCCESS',
  '=?utf-8?q?x?=', '=?utf-8?B?DQpCY2M6IGV2aWxAeC5jbw==?=', '=?', '?=', '=0D=0A', '=?utf-8?q?=0D=0ABcc:_evil@x.co?=',
  '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '</td></tr></table>', '" onclick="x', '&lt;', 'https://evil.example',
  'x'.repeat(998), 'x'.repeat(3_000), 'ü'.repeat(500), ' '.repeat(200), '\r\n'.repeat(100), '"'.repeat(100), '<'.repeat(300),
] as const;

function hostile(): fc.Arbitrary<string> {
  const pieces = fc.array(fc.oneof(fc.constantFrom(...PIECES), fc.string({ unit: 'binary', maxLength: 12 })), {
    maxLength: 10,
  });
  return fc.oneof(
    { weight: 4, arbitrary: pieces.map((all) => all.join('')) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 2_000 }) },
    { weight: 1, arbitrary: fc.constantFrom(...PIECES) },
  );
}

/**
 * Half of them plain addresses of many forms, the rest plain ones with something hostile in them, or hostile through
 * and through.
 */
function hostileTarget(): fc.Arbitrary<string> {
  const atom = fc.string({ unit: fc.constantFrom(..."abzAZ09!#$%&'*+/=?^_{|}~-"), minLength: 1, maxLength: 20 });
  const label = fc.string({ unit: fc.constantFrom(...'abzAZ09'), minLength: 1, maxLength: 20 });
  const plain = fc.tuple(atom, atom, label, label).map(([a, b, c, d]) => `${a}.${b}@${c}.${d}.com`);
  const piece = fc.constantFrom(...PIECES);
  const spoilt = fc.tuple(plain, piece, fc.nat()).map(([address, evil, at]) => {
    const cutAt = at % (address.length + 1);
    return `${address.slice(0, cutAt)}${evil}${address.slice(cutAt)}`;
  });
  return fc.oneof(
    { weight: 3, arbitrary: plain },
    { weight: 2, arbitrary: spoilt },
    { weight: 1, arbitrary: hostile() },
  );
}

function hostileNotification(): fc.Arbitrary<Notification> {
  const six = fc.tuple(hostile(), hostile(), hostile(), hostile(), hostile(), hostile());
  return fc
    .tuple(six, fc.boolean(), fc.integer({ min: 1, max: 500 }))
    .map(([[name, message, policy, agent, trace, kind], test, count]) => {
      const signal = aSignal({
        message,
        agent,
        policies: [{ id: 'pol_1', name: policy, type: 'data_filter', severity: null }],
        anomaly: { id: 'ano_1', kind, observed: 1.23456, baseline: null, score: null },
      });
      signal.event!.traceId = trace;
      return aNotification({ signal, alert: { ...aNotification().alert, name }, test, count });
    });
}

type Outgoing = ReturnType<typeof readMail> & { mailFrom: string; recipients: string[]; raw: string };

/** A domain has no case; nodemailer writes it small. */
function canonical(address: string): string {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at)}${address.slice(at).toLowerCase()}`;
}

/** The faults of a mail; empty: all is well. */
function faultsOf(mail: Outgoing, address: string): string[] {
  const faults: string[] = [];
  const expect = (what: string, is: unknown, wanted: unknown) => {
    if (JSON.stringify(is) !== JSON.stringify(wanted)) faults.push(`${what} is ${JSON.stringify(is)}`);
  };
  expect('sender', mail.mailFrom, FROM);
  expect('recipients', mail.recipients.map(canonical), [canonical(address)]);
  expect('headers', mail.headers.map(([name]) => name).sort(), HEADERS);
  expect('From', headerOf(mail.headers, 'From'), `Gatehouse <${FROM}>`);
  expect('To', canonical(headerOf(mail.headers, 'To') ?? ''), canonical(address));
  const subject = decodeWords(headerOf(mail.headers, 'Subject') ?? '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is what is asked
  if (!/^\[Gatehouse\] [^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,120}$/u.test(subject))
    faults.push(`Subject is ${JSON.stringify(subject)}`);
  expect(
    'parts',
    mail.parts.map((part) => headerOf(part.headers, 'Content-Type')),
    ['text/plain; charset=utf-8', 'text/html; charset=utf-8'],
  );
  for (const part of mail.parts) expect('headers of a part', part.headers.map(([name]) => name).sort(), PART_HEADERS);
  const html = (mail.parts[1]?.content ?? '').replace(OUR_TAGS, '');
  if (/[<>"']/.test(html)) faults.push(`HTML holds ${JSON.stringify(/.{0,20}[<>"'].{0,20}/.exec(html)?.[0])}`);
  const longest = Math.max(...mail.raw.split('\r\n').map((line) => line.length));
  if (longest > 998) faults.push(`a line of ${longest}`);
  return faults;
}
