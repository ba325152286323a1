// The e-mail channel: one mail to one box by the operator's own SMTP server (docs/channels.md). What a mail is made
// of is here as well: without a server outbox.ts writes the same mails to files.
// Invariant: a mail has one recipient, the alert's target, checked right before; the envelope is given, never derived.
// What callers chose (names, messages) is text in the two bodies and the end of one encoded Subject line; it makes no
// header, recipient or part. Message-ID and Date follow from the delivery, so a mail that arrives twice is seen as one
// by mail programs.
// Failure: what the server refuses for good about the recipient (5xx to RCPT) has failed; everything else is to be
// tried again.
import { createTransport } from 'nodemailer';
import { Deadline } from '../../../src/egress/deadline.ts';
import { isMailAddress } from '../../../src/registry/alerts/alert-target.ts';
import type { Attempt, AttemptError, AttemptResult, ChannelSender, Notification, Target } from '../channel.ts';
import { describe } from './sentences.ts';
import { oneLine, unlinked } from './text.ts';

/** Two lines of a header; phones show less. */
const SUBJECT_CHARACTERS_MAX = 120;
/** Mails go one after another on a connection; more at once is what mail servers take for spam. */
const CONNECTIONS_MAX = 4;
const MAILS_A_CONNECTION_MAX = 100;
const CONNECT_MS_MAX = 10_000;
const SILENCE_MS_MAX = 20_000;
/** Shorter than servers wait before they hang up, or the next mail meets a dead connection. */
const IDLE_MS_MAX = 30_000;
const SERVER_ANSWER_BYTES_MAX = 64 * 1024;

type EmailOptions = { smtpUrl: string; mailFrom: string };

/** One mail, as nodemailer takes it. */
type Mail = {
  envelope: { from: string; to: [string] };
  from: { name: string; address: string };
  to: { name: ''; address: string };
  subject: string;
  messageId: string;
  date: Date;
  headers: { 'Auto-Submitted': 'auto-generated' };
  text: string;
  html: string;
  xMailer: false;
  disableFileAccess: true;
  disableUrlAccess: true;
};

type Transport = ReturnType<typeof transportOf>;

export class EmailChannel implements ChannelSender {
  readonly transport = 'smtp';
  readonly #mailFrom: string;
  readonly #transport: Transport;
  #isClosed = false;

  constructor({ smtpUrl, mailFrom }: EmailOptions) {
    this.#mailFrom = mailFrom;
    this.#transport = transportOf(smtpUrl);
    // Each mail's own failure comes back to it; an error of an idle connection has no effect.
    this.#transport.on('error', () => undefined);
  }

  async send(target: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult> {
    if (!('address' in target)) return { outcome: 'failed', statusCode: null, error: 'not_configured' };
    if (!isMailAddress(target.address)) return { outcome: 'failed', statusCode: null, error: 'rejected' };
    const deadline = new Deadline(attempt.timeoutMs, attempt.signal);
    try {
      const mail = mailOf(notification, target.address, this.#mailFrom);
      const { response } = await this.#transport.sendMail({ ...mail, signal: deadline.signal });
      return { outcome: 'delivered', statusCode: codeOf(response), error: null, answer: response };
    } catch (error) {
      const ending = deadline.ending ?? (this.#isClosed ? 'aborted' : undefined);
      if (ending !== undefined) return { outcome: 'retry', statusCode: null, error: ending, reached: false };
      return failureOf(error as SmtpError);
    } finally {
      deadline.end();
    }
  }

  /** Mails that are being sent fail, and another process sends them again. */
  close(): void {
    this.#isClosed = true;
    this.#transport.close({ force: true });
  }
}

/**
 * TLS where the server offers it, and then with a certificate that is its own; `smtps:` and `?requireTLS=true` insist
 * on it.
 */
function transportOf(smtpUrl: string) {
  return createTransport({
    url: smtpUrl,
    pool: true,
    maxConnections: CONNECTIONS_MAX,
    maxMessages: MAILS_A_CONNECTION_MAX,
    maxRequeues: 1,
    idleTimeout: IDLE_MS_MAX,
    connectionTimeout: CONNECT_MS_MAX,
    greetingTimeout: CONNECT_MS_MAX,
    dnsTimeout: CONNECT_MS_MAX,
    socketTimeout: SILENCE_MS_MAX,
    maxResponseSize: SERVER_ANSWER_BYTES_MAX,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

export function mailOf(notification: Notification, address: string, mailFrom: string): Mail {
  const { headline, message, facts } = describe(notification);
  const said = unlinked(message);
  const rows = facts.map(([name, value]): [string, string] => [name, unlinked(value)]);
  const { link } = notification;
  return {
    envelope: { from: mailFrom, to: [address] },
    from: { name: 'Gatehouse', address: mailFrom },
    to: { name: '', address },
    // A value that looks encoded already would be passed on as it is, and mean what its author encoded.
    subject: oneLine(`[Gatehouse] ${headline}: ${message}`.replaceAll('=?', '= ?'), SUBJECT_CHARACTERS_MAX),
    messageId: `<${notification.id}@${mailFrom.slice(mailFrom.indexOf('@') + 1)}>`,
    date: new Date(notification.createdAt),
    headers: { 'Auto-Submitted': 'auto-generated' },
    text: [
      headline,
      '',
      said,
      ...(link === undefined ? [] : ['', link]),
      '',
      ...rows.map(([name, value]) => `${name}: ${value}`),
      '',
    ].join('\n'),
    html: htmlOf({ headline, said, link }, rows),
    xMailer: false,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

type Said = { headline: string; said: string; link: string | undefined };

function htmlOf({ headline, said, link }: Said, rows: [string, string][]): string {
  const table = rows.map(
    ([name, value]) => `<tr><th align="left">${escaped(name)}</th><td>${escaped(value)}</td></tr>`,
  );
  return [
    '<!doctype html><html><head><meta charset="utf-8"></head><body>',
    `<p><strong>${escaped(headline)}</strong></p>`,
    `<p>${escaped(said)}</p>`,
    ...(link === undefined ? [] : [`<p><a href="${escaped(link)}">${escaped(link)}</a></p>`]),
    `<table>${table.join('')}</table>`,
    '</body></html>',
  ].join('\n');
}

function escaped(text: string): string {
  const entities = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return text.replace(/[&<>"']/g, (character) => entities[character as keyof typeof entities]);
}

/** The codes of OpenSSL and Node.js for a certificate that is not to be trusted. */
const TLS_CODES = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/;

type SmtpError = { code?: string; originalCode?: string; command?: string; responseCode?: number; response?: string };

/** The mail server that does not answer is the host of all mails: it was not reached, whatever got lost. */
function failureOf({ code, originalCode, command, responseCode, response }: SmtpError): AttemptResult {
  if (responseCode === undefined)
    return { outcome: 'retry', statusCode: null, error: wordOf(code, originalCode), reached: false };
  // What is said of the sender says nothing of the box, and is for the operator to set right.
  const isOfSender = command === 'MAIL FROM' || command?.startsWith('AUTH');
  const outcome = !isOfSender && isFinal(responseCode, response ?? '') ? 'failed' : 'retry';
  const answer = response === undefined ? {} : { answer: response };
  return { outcome, statusCode: responseCode, error: 'rejected', ...answer };
}

/**
 * Replies that say of a mail box that it is none, where nothing says that it is for a policy of the server's instead.
 */
const NO_SUCH_BOX = new Set([550, 551, 553]);

/** The address is wrong (5.1.x), or the box is not there. A relay that denies (5.7) may be set right. */
function isFinal(code: number, reply: string): boolean {
  const [, subject] = /\b5\.(\d{1,3})\.\d{1,3}\b/.exec(reply) ?? [];
  if (code < 500 || code > 599) return false;
  return subject === '1' || (NO_SUCH_BOX.has(code) && subject !== '7');
}

function wordOf(code: string | undefined, originalCode: string | undefined): AttemptError {
  switch (code) {
    case 'ETIMEDOUT':
      return 'timeout';
    case 'EDNS':
      return 'dns';
    case 'ETLS':
      return 'tls';
    case 'EAUTH':
    case 'ENOAUTH':
    case 'EENVELOPE':
      return 'rejected';
    case 'ECONNECTION':
    case 'ESOCKET':
      if (/^E(CONNREFUSED|HOSTUNREACH|NETUNREACH)$/.test(originalCode ?? '')) return 'refused';
      return TLS_CODES.test(originalCode ?? '') ? 'tls' : 'reset';
    default:
      return 'internal';
  }
}

function codeOf(response: string): number | null {
  const code = Number.parseInt(response, 10);
  return Number.isInteger(code) ? code : null;
}
