// The chat channel: an incoming webhook that takes `{"text", "blocks"}` (docs/channels.md).
// The name of an agent or a policy must not change what the alert says: no mention, no link, no markup comes out
// of a name or a message; the one link is ours (link.ts). Blocks are plain text; `text`, which chats parse, is escaped
// and its mentions and links are broken.
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
    const result = await post(this.#https, { url: target.url, headers: {}, body }, attempt);
    if (result.outcome !== 'delivered' || !saysItFailed(result.answer ?? '')) return result;
    return { ...result, outcome: 'retry', error: 'rejected' };
  }
}

/** Fields of JSON by which chats say in a 200 that nothing came of it, and the values that mean that all is well. */
const VERDICTS: readonly [field: string, isWell: (value: unknown) => boolean][] = [
  ['ok', (value) => value !== false],
  ['success', (value) => value !== false],
  ['error', (value) => value === null || value === '' || value === false],
  ['errcode', (value) => value === 0],
  ['code', (value) => value === 0 || typeof value !== 'number'],
  ['StatusCode', (value) => value === 0],
];

/** Some chats answer 200 to all that they understood, and say in the text that it went no further. */
function saysItFailed(answer: string): boolean {
  const text = answer.trim();
  if (text.startsWith('{')) {
    let said: Record<string, unknown>;
    try {
      said = JSON.parse(text) as Record<string, unknown>;
    } catch {
      return false;
    }
    return VERDICTS.some(([field, isWell]) => Object.hasOwn(said, field) && !isWell(said[field]));
  }
  return /^(invalid|no_|missing|unknown|channel_|action_|posting_|user_|team_|token_)[a-z_]+$|\bfail(ed|ure)\b|\berror\b/i.test(
    text,
  );
}

type PlainText = { type: 'plain_text'; text: string; emoji: false };
type ChatBody = {
  text: string;
  blocks: [{ type: 'section'; text: PlainText }, { type: 'context'; elements: [PlainText] }];
};

export function chatBody(notification: Notification): ChatBody {
  const { headline, message, facts } = describe(notification);
  const details = facts.map(([name, value]) => `${name}: ${value}`).join(' · ');
  const link = notification.link === undefined ? '' : `\n${notification.link}`;
  return {
    text: inert(`${headline}: ${message}`) + link,
    blocks: [
      { type: 'section', text: plain(`${headline}\n${message}`, link) },
      { type: 'context', elements: [plain(details)] },
    ],
  };
}

/** `link` is ours and stays whole. */
function plain(text: string, link = ''): PlainText {
  const said = cut(uncalled(text), BLOCK_CHARACTERS_MAX - link.length);
  return { type: 'plain_text', text: `${said}${link}`, emoji: false };
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
