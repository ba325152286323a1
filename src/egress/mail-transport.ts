// How mails of alerts go, which follows from the settings: by the SMTP server of GATEHOUSE_SMTP_URL or, without one, as
// files into the outbox of the data folder (shown by the alerts' API, used by the channels, printed for the person who
// starts Gatehouse).

import path from 'node:path';
import type { MailTransport } from '../../schemas/closed-sets.ts';

import type { Config } from '../process/config.ts';

export function mailTransportOf({ smtpUrl }: Pick<Config, 'smtpUrl'>): MailTransport {
  return smtpUrl === undefined ? 'outbox' : 'smtp';
}

/** Absolute. Made when the first mail is written. */
export function outboxFolderOf({ dataDir }: Pick<Config, 'dataDir'>): string {
  return path.resolve(dataDir, 'outbox');
}

/** The line for the person who starts the service; empty: mails go by a server. */
export function outboxNotice(config: Pick<Config, 'smtpUrl' | 'dataDir'>): string {
  if (mailTransportOf(config) === 'smtp') return '';
  return `Mails of alerts are written to ${outboxFolderOf(config)}; GATEHOUSE_SMTP_URL names a mail server\n`;
}

/**
 * Where the settings show that several machines may share the stores: mails are then scattered over their disks.
 */
export function outboxWarning(
  config: Pick<Config, 'smtpUrl' | 'dataDir' | 'redisUrl' | 'clickhouseUrl'>,
): { outbox: string; warning: string } | undefined {
  const { redisUrl, clickhouseUrl } = config;
  if (mailTransportOf(config) === 'smtp' || redisUrl === undefined || clickhouseUrl === undefined) return undefined;
  return {
    outbox: outboxFolderOf(config),
    warning:
      'GATEHOUSE_SMTP_URL is not set: each machine that runs pipelines writes the mails that it sends to an outbox of its own',
  };
}
