// The e-mail channel without a mail server: each mail is written, complete, as one file into the outbox of the data
// folder (docs/channels.md), by the code that makes it for SMTP, so that nothing changes when a server is named later.
// Invariant: `delivered` is said when the file is on the disk under its name; an attempt that is made again leaves one
// file.
// Failure: a full disk is `disk_full`, anything else that the file system says `unwritable`; both are logged with its
// word and the folder, and tried again like every failure. A file system that hangs is not waited for: the worker gives
// the attempt up.
import { createTransport } from 'nodemailer';
import { Deadline } from '../../../src/egress/deadline.ts';
import type { Metrics } from '../../../src/metrics/metrics.ts';
import type { Log } from '../../../src/process/log.ts';
import { isMailAddress } from '../../../src/registry/alerts/alert-target.ts';
import type { Attempt, AttemptResult, ChannelSender, Notification, Target } from '../channel.ts';
import { mailOf } from './email.ts';
import { MailFolder, removeMails } from './mail-folder.ts';

/** `folder`: absolute. `filesMax`: for tests. */
type OutboxOptions = { folder: string; mailFrom: string; metrics: Metrics; log: Log; filesMax?: number };

/** Lines end as mails' lines do (RFC 5322). */
const composer = createTransport({ streamTransport: true, buffer: true, newline: 'windows' });

export class OutboxChannel implements ChannelSender {
  readonly transport = 'outbox';
  readonly #options: OutboxOptions;
  readonly #folder: MailFolder;

  constructor(options: OutboxOptions) {
    const { folder, filesMax, metrics, log } = options;
    this.#options = options;
    this.#folder = new MailFolder({
      folder,
      ...(filesMax === undefined ? {} : { filesMax }),
      onRemoved: () => metrics.inc('gatehouse_outbox_removed_total', {}),
      onTrimFailed: (err) => log.warn({ err, folder }, 'outbox.not_trimmed'),
    });
  }

  async send(target: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult> {
    if (!('address' in target)) return { outcome: 'failed', statusCode: null, error: 'not_configured' };
    if (!isMailAddress(target.address)) return { outcome: 'failed', statusCode: null, error: 'rejected' };
    const mail = await composed(notification, target.address, this.#options.mailFrom);
    const deadline = new Deadline(attempt.timeoutMs, attempt.signal);
    try {
      await this.#folder.keep(notification.id, mail, deadline.signal);
      return { outcome: 'delivered', statusCode: null, error: null };
    } catch (error) {
      if (deadline.ending !== undefined) return { outcome: 'retry', statusCode: null, error: deadline.ending };
      return this.#failure(error as NodeJS.ErrnoException, notification.id);
    } finally {
      deadline.end();
    }
  }

  withdraw(deliveryId: string): Promise<void> {
    return removeMails(this.#options.folder, [deliveryId]);
  }

  #failure({ code, syscall, message }: NodeJS.ErrnoException, delivery: string): AttemptResult {
    const { folder, log } = this.#options;
    const error = code === 'ENOSPC' || code === 'EDQUOT' ? 'disk_full' : 'unwritable';
    log.error({ delivery, folder, error, code, syscall, reason: message }, 'outbox.write_failed');
    return { outcome: 'retry', statusCode: null, error };
  }
}

/** The whole mail, headers and all. Boundaries follow from the delivery, as everything else in it. */
async function composed(notification: Notification, address: string, mailFrom: string): Promise<Buffer> {
  const mail = { ...mailOf(notification, address, mailFrom), baseBoundary: notification.id };
  const { message } = await composer.sendMail(mail);
  if (!Buffer.isBuffer(message)) throw new Error('the mail was not composed as one buffer');
  return message;
}
