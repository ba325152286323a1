// The chat channel: an incoming webhook that takes `{"text", "blocks"}` (decisions 7; docs/channels.md).
// Whoever names an agent or a policy must not speak in the name of the alert: no mention, no link, no markup comes out of a
// name or a message. Blocks are plain text; `text`, which chats parse, is escaped and its mentions and links are broken.
// Failure: see post.ts.
import type { GuardedHttps } from '../../../src/egress/guarded-https.ts';
import type { Attempt, AttemptResult, ChannelSender, Notification, Target } from '../channel.ts';
import { post } from './post.ts';
import { describe } from './sentences.ts';
import { BREAK, cut, unlinked } from './text.ts';

/** A section's text may have 3,000; escaping makes at most five of one, and `text` may have 40,000. */
const BLOCK_CHARACTERS_MAX = 3_000;

export class ChatAppChannel implements ChannelSender {
  readonly transport = 'https';
  readonly #https: GuardedHttps;

  constructor(https: GuardedHttps) {
    this.#https = https;
  }

  async send(target: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult> {
    if (!('url' in target)) return { outcome: 'failed', statusCode: null, error: 'not_configured' };
    const body = Buffer.from(JSON.stringify(chatBody(notification)));
    return post(this.#https, { url: target.url, headers: {}, body }, attempt);
  }
}

type PlainText = { type: 'plain_text'; text: string; emoji: false };
export type ChatBody = {
  text: string;
  blocks: [{ type: 'section'; text: PlainText }, { type: 'context'; elements: [PlainText] }];
};

export function chatBody(notification: Notification): ChatBody {
  const { headline, message, facts } = describe(notification);
  const details = facts.map(([name, value]) => `${name}: ${value}`).join(' · ');
  return {
    text: inert(`${headline}: ${message}`),
    blocks: [
      { type: 'section', text: plain(`${headline}\n${message}`) },
      { type: 'context', elements: [plain(details)] },
    ],
  };
}

function plain(text: string): PlainText {
  return { type: 'plain_text', text: cut(uncalled(text), BLOCK_CHARACTERS_MAX), emoji: false };
}

/** For a field that is parsed: `&`, `<` and `>` as chats demand, and nothing left that they would make something of. */
export function inert(text: string): string {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return uncalled(escaped);
}

/** Neither a link nor a mention (`@channel`). */
function uncalled(text: string): string {
  return unlinked(text).replace(/[@\uff20\ufe6b]/g, `$&${BREAK}`);
}
