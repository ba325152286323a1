// Formats of checks against a server that others wrote from the same descriptions: aimock answers OpenAI's moderations
// and chat completions on loopback, without a model. npm has none for the other formats: Presidio's analyzer and what
// answers LiteLLM's generic guardrail API are programs in Python (looked for in November 2026).
import { LLMock } from '@copilotkit/aimock';
import t from 'tap';
import type { Speaks } from '../../schemas/closed-sets.ts';
import { FORMATS } from '../../src/checks/formats/formats.ts';

const NONE = { sexual: false, violence: false, 'illicit/violent': false };
const SCORES = { sexual: 0.01, violence: 0.97, 'illicit/violent': 0.2 };

t.test('what a server of others answers is read, and it takes what is sent', async (t) => {
  const peer = new LLMock({ port: 0 });
  t.teardown(() => peer.stop());
  peer.onModerate(/evil/, { flagged: true, categories: { ...NONE, violence: true }, category_scores: SCORES });
  peer.onMessage(/evil/, { content: 'unsafe\nS1,S9' });
  peer.onMessage(/good/, { content: '\n\nsafe' });
  await peer.start();
  const verdict = async (speaks: Speaks, path: string, model: string, texts: string[]) => {
    const event = { type: 'prompt', agentId: 'agt_1', traceId: undefined, timestamp: '' } as const;
    const question = { texts, policy: { id: 'pol_1', name: 'p' }, event, payloadText: undefined };
    const headers = { 'content-type': 'application/json', authorization: 'Bearer x' };
    const body = FORMATS[speaks].request({ model }, question);
    const response = await fetch(`${peer.url}${path}`, { method: 'POST', headers, body });
    t.equal(response.status, 200, `${speaks} ${texts}`);
    return FORMATS[speaks].verdict(await response.json(), texts);
  };
  const moderated = (text: string) => verdict('openai_moderation', '/v1/moderations', 'omni-moderation-latest', [text]);
  t.match(await moderated('an evil plan'), { match: true, score: 0.97, labels: ['violence'] });
  t.match(await moderated('a good plan'), { match: false, score: 0, labels: [] });
  // Of several texts it gives one result, other than the API that it stands for: an answer that does not fit.
  await t.rejects(verdict('openai_moderation', '/v1/moderations', 'm', ['a good plan', 'another']), {
    name: 'Nonsense',
  });
  const judged = (...texts: string[]) => verdict('openai_chat', '/v1/chat/completions', 'llama-guard3', texts);
  t.match(await judged('an evil plan'), { match: true, labels: ['S1', 'S9'] });
  t.match(await judged('a good plan'), { match: false });
  t.match(await judged('a good plan', 'an evil one'), { match: true });
});
