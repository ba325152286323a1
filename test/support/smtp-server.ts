// The other side of the mail channel: a real SMTP conversation on loopback (smtp-server), which keeps what it was
// handed and refuses as the test sets. TLS by STARTTLS where a certificate is given. Closed with the test.
import type { AddressInfo } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import type { Test } from 'tap';
import type { Certificate } from './certificate.ts';

type ReceivedMail = {
  mailFrom: string;
  recipients: string[];
  raw: string;
  isSecure: boolean;
  user: string | undefined;
  atMs: number;
};

type SmtpOptions = {
  certificate?: Certificate;
  /** SMTP reply with which a stage is refused; undefined: taken. */
  refuse?: (stage: 'mail' | 'recipient' | 'data', address: string) => { code: number; text: string } | undefined;
  login?: { user: string; password: string };
};

type SmtpReceiver = {
  url: string;
  port: number;
  mails: ReceivedMail[];
  /** Every address that was named as a recipient, taken or not. */
  named: string[];
  sessions(): number;
};

export async function startSmtp(t: Pick<Test, 'teardown'>, options: SmtpOptions = {}): Promise<SmtpReceiver> {
  const mails: ReceivedMail[] = [];
  const named: string[] = [];
  let sessions = 0;
  const refusal = (stage: 'mail' | 'recipient' | 'data', address: string): Error | undefined => {
    const reply = options.refuse?.(stage, address);
    return reply && Object.assign(new Error(reply.text), { responseCode: reply.code });
  };
  const { certificate, login } = options;
  const settings: SMTPServerOptions = {
    authOptional: login === undefined,
    disabledCommands: certificate === undefined ? ['STARTTLS'] : [],
    disableReverseLookup: true,
    ...(certificate === undefined ? {} : { key: certificate.key, cert: certificate.cert }),
    onConnect(_session, done) {
      sessions++;
      done();
    },
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.password) done(null, { user: username });
      else done(Object.assign(new Error('no'), { responseCode: 535 }));
    },
    onMailFrom({ address }, _session, done) {
      done(refusal('mail', address));
    },
    onRcptTo({ address }, _session, done) {
      named.push(address);
      done(refusal('recipient', address));
    },
    onData(stream, { envelope, secure, user }, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const recipients = envelope.rcptTo.map(({ address }) => address);
        const error = refusal('data', recipients[0] ?? '');
        const mailFrom = envelope.mailFrom === false ? '' : envelope.mailFrom.address;
        const raw = Buffer.concat(chunks).toString('latin1');
        if (error === undefined) mails.push({ mailFrom, recipients, raw, isSecure: secure, user, atMs: Date.now() });
        done(error);
      });
    },
  };
  const server = new SMTPServer(settings);
  server.on('error', () => undefined); // a client that hangs up in the middle
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  t.teardown(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, port, mails, named, sessions: () => sessions };
}
