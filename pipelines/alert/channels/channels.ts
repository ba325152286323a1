// The three channels by name, as the deliveries use them, made from the settings (composed in
// src/composition/pipelines-process.ts).
// Invariant: a sender never rejects; what a channel did not foresee is logged and is to be tried again, as `internal`.
// Without GATEHOUSE_SMTP_URL mails go into the outbox of the data folder; what is queued when that changes goes the new
// way.

import type { Channel } from '../../../schemas/closed-sets.ts';
import { GuardedHttps } from '../../../src/egress/guarded-https.ts';
import { allowedHostsOf } from '../../../src/egress/target-url.ts';
import type { Metrics } from '../../../src/metrics/metrics.ts';
import type { Config } from '../../../src/process/config.ts';
import type { Log } from '../../../src/process/log.ts';
import type { ChannelSender } from '../channel.ts';
import { ChatAppChannel } from './chat-app.ts';
import { EmailChannel } from './email.ts';
import { OutboxChannel } from './outbox.ts';
import { WebhookChannel } from './webhook.ts';

type Channels = {
  senders: Readonly<Record<Channel, ChannelSender>>;
  /** After the last attempt has ended; one that has not fails. */
  close(): void;
};

type Settings = Pick<Config, 'smtpUrl' | 'mailFrom' | 'egressAllowedHosts'>;
/** `outbox`: the folder of mails, absolute; used where no mail server is named. */
type Around = { log: Log; metrics: Metrics; outbox: string };

export function makeChannels({ smtpUrl, mailFrom, egressAllowedHosts }: Settings, around: Around): Channels {
  const { log, metrics, outbox: folder } = around;
  const https = new GuardedHttps({ allowedHosts: allowedHostsOf(egressAllowedHosts) });
  const smtp = smtpUrl === undefined ? undefined : new EmailChannel({ smtpUrl, mailFrom });
  const email = smtp ?? new OutboxChannel({ folder, mailFrom, metrics, log });
  return {
    senders: {
      webhook: settling(new WebhookChannel(https), log),
      chat_app: settling(new ChatAppChannel(https), log),
      email: settling(email, log),
    },
    close: () => smtp?.close(),
  };
}

function settling(sender: ChannelSender, log: Log): ChannelSender {
  return {
    transport: sender.transport,
    ...(sender.withdraw === undefined ? {} : { withdraw: (id) => sender.withdraw!(id) }),
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
