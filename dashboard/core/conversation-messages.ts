// What a payload says, as messages ready to be shown: read by the forms of message-forms.ts, with their Markdown, each
// with a key by which the same message is known where it comes again. Runs in conversation-worker.ts.
// Invariant: what comes back is bounded, whatever was sent: MESSAGES_MAX messages, the last of them, with TEXT_MAX
// characters each. What is left out is counted; the payload itself is one key away.
import { type Markdown, markdownOf } from './markdown.ts';
import { understood } from './message-forms.ts';
import type { Message, Part } from './message-parts.ts';
import { payloadValue, type Value } from './payload-values.ts';

/** `whole`: characters of it, where `text` is less. */
export type ShownPart = Part & { whole?: number; markdown?: Markdown[] };
export type ShownMessage = Omit<Message, 'parts'> & { key: string; parts: ShownPart[] };
export type Conversation = {
  form: string;
  messages: ShownMessage[];
  /** Messages before these, which are not among them. */
  earlier: number;
  /** Facts of the payload beside its messages: the model, tokens, the duration. */
  facts: string[];
};

/** As many as a person reads of one event; a history is shown once, where it was new. */
const MESSAGES_MAX = 200;
const PARTS_MAX = 50;
/** One part shows so many characters. All of it is in the payload. */
const TEXT_MAX = 100_000;
/** Over all of an event: what the page has to hold for it. */
const TEXT_ALL_MAX = 400_000;

/** On Markdown, of one event; what is left then is shown as it is. It is less than a tenth for what people write. */
const MARKDOWN_MS = 1_500;

/** undefined: it is no conversation. `type`: of the event. */
export function conversationOf(payload: string, type: string): Conversation | undefined {
  const root = payloadValue(payload);
  const found = understood(root, type);
  if (found === undefined) return undefined;
  const kept = found.messages.slice(-MESSAGES_MAX);
  let left = TEXT_ALL_MAX;
  const until = performance.now() + MARKDOWN_MS;
  const messages = kept.reverse().map((message) => {
    const parts = message.parts.slice(0, PARTS_MAX).map((part) => {
      const text = part.text.slice(0, Math.max(0, Math.min(TEXT_MAX, left)));
      left -= text.length;
      return shown(part, text, until);
    });
    const more = message.parts.length - parts.length;
    if (more > 0) parts.push({ kind: 'data', text: `${more} more parts` });
    return { ...message, key: keyOf(message), parts };
  });
  return {
    form: found.form,
    messages: messages.reverse(),
    earlier: found.messages.length - kept.length,
    facts: factsOf(root),
  };
}

function shown(part: Part, text: string, until: number): ShownPart {
  const cut: ShownPart = text.length < part.text.length ? { ...part, text, whole: part.text.length } : part;
  const isRead = part.kind === 'text' && cut === part && performance.now() < until;
  const markdown = isRead ? markdownOf(text) : undefined;
  return markdown === undefined ? cut : { ...cut, markdown };
}

const FACTS: Record<string, (value: string) => string> = {
  model: (value) => value,
  tokens_used: (value) => `${value} tokens`,
  duration_ms: (value) => `${value} ms`,
};
const FACT_CHARACTERS = 80;

function factsOf(root: Value): string[] {
  const all = root.members();
  return Object.entries(FACTS).flatMap(([name, said]) => {
    const value = all.get(name);
    if (value === undefined || value.isNothing || value.kind === 'object' || value.kind === 'list') return [];
    return [said(value.readable.slice(0, FACT_CHARACTERS))];
  });
}

/**
 * Who says what, without ids and names, which a history may leave out. 53 bits: of a million messages two differ and
 * have one key with a chance of 1 in 18,000, and then one is folded that is new.
 */
function keyOf({ role, parts }: Message): string {
  const said = parts.map((part) => `${part.kind}\u0001${'tool' in part ? part.tool : ''}\u0001${part.text}`);
  return hashOf(`${role}\u0002${said.join('\u0002')}`);
}

/** cyrb53. */
function hashOf(text: string): string {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    a = Math.imul(a ^ code, 2654435761);
    b = Math.imul(b ^ code, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36);
}
