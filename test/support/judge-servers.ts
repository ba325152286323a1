// Small services that judge texts, each written from the public description of its format, as one receiver by https: by
// the first segment of the path. What lacks something that the description demands is refused as there. A text that
// holds `evil` is found.

import type { Received, Receiver } from './https-receiver.ts';
import { startReceiver } from './https-receiver.ts';

type Said = { status?: number; body: unknown };
type Judge = (request: Received, asked: Record<string, unknown>) => Said;

const isEvil = (text: unknown) => typeof text === 'string' && text.includes('evil');
const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string');

/** As Python counts: by code points. */
const placeOf = (text: string, word: string) => [...text.slice(0, text.indexOf(word))].length;

/** Presidio: `text` and `language` are required; findings with a type, a place and a score. */
const presidio: Judge = (_request, { text, language }) => {
  if (typeof text !== 'string' || text === '') return { status: 500, body: { error: 'No text provided' } };
  if (typeof language !== 'string') return { status: 500, body: { error: 'No language provided' } };
  const at = placeOf(text, 'evil');
  const found = { analysis_explanation: null, entity_type: 'EVIL', start: at, end: at + 4, score: 0.85 };
  return { body: isEvil(text) ? [found] : [] };
};

/** LiteLLM: four members are required; an action comes back. */
const litellm: Judge = (_request, asked) => {
  const { texts, request_data: data, input_type: kind, additional_provider_specific_params: more } = asked;
  const isSound = isTexts(texts) && typeof data === 'object' && typeof more === 'object' && /^re/.test(String(kind));
  if (!isSound) return { status: 422, body: { detail: 'does not fit' } };
  if (texts.some((text) => text.includes('change'))) return { body: { action: 'GUARDRAIL_INTERVENED', texts: ['x'] } };
  return { body: texts.some(isEvil) ? { action: 'BLOCKED', blocked_reason: 'evil' } : { action: 'NONE' } };
};

/** Chat completions, with Llama Guard behind it, or a judge whose prompt asks for JSON. */
const chat: Judge = ({ headers }, { model, messages }) => {
  if (headers.authorization !== 'Bearer hush') return { status: 401, body: { error: { message: 'no key' } } };
  if (typeof model !== 'string' || !Array.isArray(messages)) return { status: 400, body: { error: {} } };
  const told = messages.find(({ role }) => role === 'system') !== undefined;
  const { content: text } = messages.at(-1) as { content: string };
  const json = JSON.stringify({ match: isEvil(text), score: isEvil(text) ? 0.9 : 0.1, labels: [] });
  const content = told ? `\`\`\`json\n${json}\n\`\`\`` : isEvil(text) ? '\n\nunsafe\nS1,S9' : '\n\nsafe';
  const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' };
  return { body: { id: 'chatcmpl-1', object: 'chat.completion', model, choices: [choice] } };
};

/** Moderations: a result for each input. */
const moderation: Judge = (_request, { model, input }) => {
  const inputs = typeof input === 'string' ? [input] : input;
  if (!isTexts(inputs) || inputs.length === 0) return { status: 400, body: { error: { message: 'no input' } } };
  const results = inputs.map((text) => ({
    flagged: isEvil(text),
    categories: { violence: isEvil(text), 'hate/threatening': false },
    category_scores: { violence: isEvil(text) ? 0.97 : 0.01, 'hate/threatening': 0.02 },
    category_applied_input_types: { violence: ['text'], 'hate/threatening': ['text'] },
  }));
  return { body: { id: 'modr-1', model, results } };
};

/** Our own form (docs/checks.md). */
const own: Judge = (_request, { event, policy, texts }) => {
  if (!isTexts(texts) || typeof event !== 'object' || typeof policy !== 'object') return { status: 400, body: {} };
  const isFound = texts.some(isEvil);
  const spans = texts.flatMap((text, i) => {
    const start = placeOf(text, 'evil');
    return isEvil(text) ? [{ text: i, start, end: start + 4, label: 'evil' }] : [];
  });
  return {
    body: { match: isFound, score: isFound ? 1 : 0, labels: isFound ? ['evil'] : [], spans, reason: 'because' },
  };
};

const JUDGES: Record<string, Judge> = { presidio, litellm, chat, moderation, own };

/** Adds what a test wants of its own: answers by path. */
export async function startJudges(
  t: Parameters<typeof startReceiver>[0],
  others: Record<string, NonNullable<Parameters<typeof startReceiver>[1]>['answer']> = {},
): Promise<Receiver> {
  return startReceiver(t, {
    answer(request, response, raw) {
      const name = request.path.split('/')[1]!;
      const other = others[name];
      if (other !== undefined) return other(request, response, raw);
      const judge = JUDGES[name];
      if (judge === undefined) return void response.writeHead(404).end();
      const { status = 200, body } = judge(request, JSON.parse(request.body) as Record<string, unknown>);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    },
  });
}

/** Services that behave badly, by name. */
export const BAD_JUDGES: Record<string, NonNullable<Parameters<typeof startReceiver>[1]>['answer']> = {
  silent: () => undefined,
  drips: (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), 1_000);
    response.write('{');
    response.on('close', () => clearInterval(timer));
  },
  closes: (_request, _response, raw) => void raw.socket.destroy(),
  'breaks-off': (_request, response, raw) => {
    response.writeHead(200, { 'content-length': '100' }).write('{"match":false');
    setTimeout(() => raw.socket.destroy(), 10);
  },
  huge: (_request, response) => void response.end(`{"match":false,"more":"${'x'.repeat(10 * 1024 * 1024)}"}`),
  moved: (_request, response) =>
    void response.writeHead(302, { location: 'https://169.254.169.254/latest/meta-data/' }).end('{"match":false}'),
  nonsense: (_request, response) => void response.end('<h1>It works!</h1>'),
  'other-json': (_request, response) => void response.end('{"ok":true}'),
  failing: (_request, response) => void response.writeHead(500).end('{"match":false}'),
};
