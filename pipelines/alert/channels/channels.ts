// The three channels by name, as the deliveries use them, made from the settings (composed in src/pipelines-process.ts).
// Invariant: a sender never rejects; what a channel did not foresee is logged and is to be tried again, as `internal`.
// Without GATEHOUSE_SMTP_URL there is no e-mail: alerts of that channel are refused when they are made, and what is still queued
// from a time when there was one fails as `not_configured`.
import type { Channel } from '../../../schemas/common.ts';
import type { Config } from '../../../src/config.ts';
import { GuardedHttps } from '../../../src/egress/guarded-https.ts';
import { allowedHostsOf } from '../../../src/egress/target-url.ts';
import type { Log } from '../../../src/log.ts';
import type { ChannelSender } from '../channel.ts';
import { ChatAppChannel } from './chat-app.ts';
import { EmailChannel } from './email.ts';
import { WebhookChannel } from './webhook.ts';

export type Channels = {
  senders: Readonly<Record<Channel, ChannelSender>>;
  /** After the last attempt has ended; one that has not fails. */
  close(): void;
};

type Settings = Pick<Config, 'smtpUrl' | 'mailFrom' | 'egressAllowedHosts'>;

const NO_SMTP: ChannelSender = {
  send: async () => ({ outcome: 'failed', statusCode: null, error: 'not_configured' }),
};

export function makeChannels({ smtpUrl, mailFrom, egressAllowedHosts }: Settings, log: Log): Channels {
  const https = new GuardedHttps({ allowedHosts: allowedHostsOf(egressAllowedHosts) });
  const email = smtpUrl === undefined ? undefined : new EmailChannel({ smtpUrl, mailFrom });
  return {
    senders: {
      webhook: settling(new WebhookChannel(https), log),
      chat_app: settling(new ChatAppChannel(https), log),
      email: email === undefined ? NO_SMTP : settling(email, log),
    },
    close: () => email?.close(),
  };
}

function settling(sender: ChannelSender, log: Log): ChannelSender {
  return {
    send: async (target, notification, attempt) => {
      try {
        return await sender.send(target, notification, attempt);
      } catch (error) {
        log.error({ delivery: notification.id, err: error }, 'channel.broken');
        return { outcome: 'retry', statusCode: null, error: 'internal' };
      }
    },
  };
}
