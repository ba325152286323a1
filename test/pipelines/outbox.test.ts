// Mails without a mail server, on a real file system: whole, once, for their owner's eyes, bounded; and what a folder
// that cannot be written or a full disk means for an attempt. A full disk is a small one of its own, which needs a name
// space of the kernel.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { OutboxChannel } from '../../pipelines/alert/channels/outbox.ts';
import { mintId } from '../../src/common/ids.ts';
import { outboxNotice, outboxWarning } from '../../src/egress/mail-transport.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { assetPath } from '../../src/process/assets.ts';
import { createLog } from '../../src/process/log.ts';
import { decodeWords, headerOf, readMail } from './mail-reader.ts';
import { aNotification, anAttempt, aSignal } from './notification.ts';

const FROM = 'gatehouse@alerts.example.com';
const BOX = { address: 'oncall@example.com' };
const DELIVERED = { outcome: 'delivered', statusCode: null, error: null };
const log = createLog({ level: 'silent', processName: 'test' });

function outbox(t: Test, more: { folder?: string; filesMax?: number } = {}) {
  const folder = more.folder ?? path.join(t.testdir(), 'data', 'outbox');
  const metrics = new Metrics({ processName: 'test' });
  const channel = new OutboxChannel({ ...more, folder, mailFrom: FROM, metrics, log });
  const removed = async () => {
    const line = /^gatehouse_outbox_removed_total\S* (\d+)$/m.exec(await metrics.text());
    return Number(line?.[1] ?? 0);
  };
  return { folder, channel, removed };
}

t.test('a mail is one whole file, for its owner alone, however often it is written', async (t) => {
  const { folder, channel } = outbox(t);
  const notification = aNotification({ signal: aSignal({ message: 'Policy "no secrets" blocked Zoë <b>&' }) });
  t.strictSame(await channel.send(BOX, notification, anAttempt()), DELIVERED);
  const file = path.join(folder, `${notification.id}.eml`);
  const raw = readFileSync(file, 'utf8');
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.equal(statSync(path.dirname(folder)).mode & 0o777, 0o700);
  t.equal(statSync(file).mode & 0o777, 0o600);
  const { headers, parts } = readMail(raw);
  t.equal(headerOf(headers, 'From'), `Gatehouse <${FROM}>`);
  t.equal(headerOf(headers, 'To'), BOX.address);
  t.equal(headerOf(headers, 'Message-ID'), `<${notification.id}@alerts.example.com>`);
  t.match(decodeWords(headerOf(headers, 'Subject')!), /^\[Gatehouse\] Policy violation \(high\): .*Zoë <b>&$/);
  t.match(headerOf(headers, 'Content-Type'), /^multipart\/alternative;/);
  t.match(parts[0]!.content, /Policy "no secrets" blocked Zoë <b>&\n/);
  t.match(parts[1]!.content, /blocked Zoë &lt;b&gt;&amp;<\/p>/);
  t.notMatch(raw.replaceAll('\r\n', ''), /[\r\n]/, 'every line ends as RFC 5322 has it');
  const python = spawnSync('python3', ['-c', PARSED, file], { encoding: 'utf8' });
  if (python.error === undefined) t.equal(python.stdout, 'text/plain text/html 0\n', 'another reader finds no fault');
  const repeated = await Promise.all([2, 3].map((number) => channel.send(BOX, notification, anAttempt({ number }))));
  t.strictSame(repeated, [DELIVERED, DELIVERED]);
  t.same(readdirSync(folder), [`${notification.id}.eml`], 'one file');
  t.equal(readFileSync(file, 'utf8'), raw, 'with the same bytes');
  await channel.withdraw(mintId('delivery', 1));
  t.equal(readdirSync(folder).length, 1);
  await channel.withdraw(notification.id);
  await channel.withdraw(notification.id);
  t.same(readdirSync(folder), [], 'and it can be taken back');
  t.match(await channel.send({ address: 'a@b, c@d' }, notification, anAttempt()), { outcome: 'failed' });
  t.match(await channel.send({ url: 'https://x/' }, notification, anAttempt()), { outcome: 'failed' });
});

const PARSED = `
import email, email.policy, sys
mail = email.message_from_binary_file(open(sys.argv[1], 'rb'), policy=email.policy.SMTP)
parts = [part.get_content_type() for part in mail.iter_parts()]
print(*parts, len(mail.defects) + sum(len(part.defects) for part in mail.iter_parts()))
`;

t.test('past its bound the oldest mails go, and nothing else', async (t) => {
  const folder = path.join(t.testdir(), 'outbox');
  mkdirSync(folder);
  // Written in an order that is not that of their names.
  const old = [3, 1, 2, 0].map((n, age) => {
    const name = `${mintId('delivery', 1_700_000_000_000 + n)}.eml`;
    writeFileSync(path.join(folder, name), 'x');
    utimesSync(path.join(folder, name), 1_700_000_000 + age, 1_700_000_000 + age);
    return name;
  });
  const killed = `.${mintId('delivery', 1)}.0123456789ab.new`;
  for (const name of ['notes.txt', killed]) {
    writeFileSync(path.join(folder, name), 'x');
    utimesSync(path.join(folder, name), 1_600_000_000, 1_600_000_000);
  }
  const { channel, removed } = outbox(t, { folder, filesMax: 5 });
  const sent: string[] = [];
  const send = async () => {
    const notification = aNotification();
    t.strictSame(await channel.send(BOX, notification, anAttempt()), DELIVERED);
    sent.push(`${notification.id}.eml`);
  };
  await send();
  t.same(
    readdirSync(folder).sort(),
    [...old, ...sent, 'notes.txt'].sort(),
    'five fit; the rest of a killed write is gone',
  );
  await send();
  await send();
  t.same(readdirSync(folder).sort(), [...old.slice(2), ...sent, 'notes.txt'].sort());
  t.equal(await removed(), 2);
  // A person has read and deleted the oldest ones.
  for (const name of old.slice(2)) rmSync(path.join(folder, name));
  await Promise.all([send(), send()]);
  t.same(readdirSync(folder).sort(), [...sent, 'notes.txt'].sort(), 'room that people make is used');
  t.equal(await removed(), 2);
  await Promise.all(Array.from({ length: 12 }, send));
  const left = readdirSync(folder).filter((name) => name !== 'notes.txt');
  t.equal(left.length, 5, 'sent at once or not');
  t.ok(left.every((name) => sent.slice(5).includes(name)));
  t.equal(await removed(), 14);
  const mine = sent.filter((name) => left.includes(name));
  const again = outbox(t, { folder, filesMax: 5 });
  await again.channel.send(BOX, aNotification(), anAttempt());
  t.equal(readdirSync(folder).filter((name) => mine.includes(name)).length, 4, 'another process counts what it finds');
});

t.test('the folder may go and come back', async (t) => {
  const { folder, channel } = outbox(t);
  t.strictSame(await channel.send(BOX, aNotification(), anAttempt()), DELIVERED);
  rmSync(path.dirname(folder), { recursive: true });
  t.strictSame(await channel.send(BOX, aNotification(), anAttempt()), DELIVERED);
  t.equal(readdirSync(folder).length, 1);
});

t.test('what cannot be written is to be tried again, and is there in full later', async (t) => {
  const { folder, channel } = outbox(t);
  mkdirSync(path.dirname(folder));
  writeFileSync(folder, 'a file where the folder should be');
  const notification = aNotification();
  t.strictSame(await channel.send(BOX, notification, anAttempt()), {
    outcome: 'retry',
    statusCode: null,
    error: 'unwritable',
  });
  rmSync(folder);
  t.strictSame(await channel.send(BOX, notification, anAttempt({ number: 2 })), DELIVERED);
  if (process.getuid?.() !== 0) {
    chmodSync(folder, 0o500);
    t.match(await channel.send(BOX, aNotification(), anAttempt()), { outcome: 'retry', error: 'unwritable' });
    chmodSync(folder, 0o700);
  }
  const over = anAttempt({ signal: AbortSignal.abort() });
  t.strictSame(await channel.send(BOX, aNotification(), over), {
    outcome: 'retry',
    statusCode: null,
    error: 'aborted',
  });
  t.same(readdirSync(folder), [`${notification.id}.eml`], 'and leaves nothing');
});

const mayMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;
t.test('a full disk is said to be one, and the mail is written when there is room', { skip: !mayMount }, async (t) => {
  const disk = path.join(t.testdir({ disk: {} }), 'disk');
  const script = `
    import { writeFileSync, rmSync, readdirSync } from 'node:fs';
    import { OutboxChannel } from ${JSON.stringify(assetPath('build/pipelines/alert/channels/outbox.js'))};
    import { aNotification, anAttempt } from ${JSON.stringify(assetPath('build/test/pipelines/notification.js'))};
    const said = [];
    const log = { error: (fields) => said.push(fields), warn: (fields) => said.push(fields) };
    const channel = new OutboxChannel({ folder: process.argv[2], mailFrom: 'a@b.example', log, metrics: { inc() {} } });
    const notification = aNotification();
    try { writeFileSync(process.argv[1] + '/rest', Buffer.alloc(1024 * 1024)); } catch {}
    const full = await channel.send({ address: 'a@b.co' }, notification, anAttempt());
    const left = readdirSync(process.argv[2]);
    rmSync(process.argv[1] + '/rest');
    const later = await channel.send({ address: 'a@b.co' }, notification, anAttempt());
    console.log(JSON.stringify({ full, later, left, said, files: readdirSync(process.argv[2]).length }));
  `;
  const run =
    'mount -t tmpfs -o size=64k none "$1" && mkdir "$1/outbox" && exec "$2" --input-type=module -e "$3" "$1" "$1/outbox"';
  const text = execFileSync('unshare', ['-rm', 'sh', '-c', run, 'sh', disk, process.execPath, script], {
    encoding: 'utf8',
  });
  const { full, later, left, said, files } = JSON.parse(text);
  t.strictSame(full, { outcome: 'retry', statusCode: null, error: 'disk_full' });
  t.match(said, [{ error: 'disk_full', code: 'ENOSPC', folder: `${disk}/outbox` }], 'with what and where');
  t.same(left, [], 'nothing half written stays');
  t.strictSame(later, DELIVERED);
  t.equal(files, 1);
});

t.test('the start prints where mails go, and warned where that is several places', async (t) => {
  const own = { redisUrl: 'redis://a', clickhouseUrl: 'http://b' };
  const settings = { smtpUrl: undefined, dataDir: 'd', redisUrl: undefined, clickhouseUrl: undefined };
  const folder = path.resolve('d/outbox');
  t.match(outboxNotice(settings), new RegExp(`^[^\n]*${folder}[^\n]*\n$`));
  t.equal(outboxWarning(settings), undefined);
  t.equal(outboxWarning({ ...settings, redisUrl: 'redis://a' }), undefined);
  t.match(outboxWarning({ ...settings, ...own }), { outbox: folder, warning: /GATEHOUSE_SMTP_URL is not set/ });
  const served = { ...settings, ...own, smtpUrl: 'smtp://c' };
  t.same([outboxNotice(served), outboxWarning(served)], ['', undefined]);
  t.notOk(existsSync(folder), 'it is made when it is needed');
});
