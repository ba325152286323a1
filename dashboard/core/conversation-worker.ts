// Beside the page: reads payloads as messages, with their Markdown, so that no task of the page grows with a payload.
// It is given one at a time, and answers each.
import { conversationOf } from './conversation-messages.ts';

addEventListener('message', ({ data }: MessageEvent<{ payload: string; type: string }>) => {
  (postMessage as (value: unknown) => void)({ conversation: conversationOf(data.payload, data.type) });
});
