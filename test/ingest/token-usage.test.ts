// Token counts in the answers of providers: each shape as the provider sends it, read by both codecs into row
// and summary. (That both find the same whatever they are given, reference.test.ts and codecs.test.ts show.)
import t from 'tap';
import { EVENT_ROW_COLUMNS } from '../../schemas/event-row.ts';
import { BufferPool } from '../../src/common/buffer-pool.ts';
import type { Codec } from '../../src/ingest/codec.ts';
import { FLAG, WasmInstance, WORD } from '../../src/ingest/wasm-instance.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { Sought } from '../../src/policy/sought.ts';
import { decoded } from '../reference/take.ts';
import { PROVIDER_ANSWERS, STREAM_EVENTS } from './provider-answers.ts';
import { CODECS, JSON_CODEC, take } from './support.ts';

const rules = new RuleSet([]);
const instance = new WasmInstance(new BufferPool());

/** The tokens of an event with this payload, as row and summary have them. */
async function tokensOf(payload: string, codecs: readonly Codec[]): Promise<unknown> {
  const { rows, summaries } = await take(rules, bodyOf(payload), 'one', codecs);
  const [stored] = decoded(rows, summaries, EVENT_ROW_COLUMNS);
  t.equal(stored!.summary['tokensUsed'] ?? null, stored!.row['tokens_used'], 'row and summary agree');
  return stored!.row['tokens_used'];
}

function bodyOf(payload: string): Buffer {
  return Buffer.from(`{"type":"completion","payload":${payload}}`);
}

/** Read without a value made of it. */
function isPlain(payload: string): boolean {
  const scanned = instance.read(bodyOf(payload), 'one', new Sought());
  if (scanned === null) return false;
  const flags = scanned.records[WORD.flags]!;
  instance.release(scanned);
  return (flags & FLAG.oddColumn) === 0;
}

const SHAPES: [provider: string, payload: string, tokens: number][] = [
  [
    'OpenAI, chat',
    `{"model": "gpt-4o", "usage": {"prompt_tokens": 1117, "completion_tokens": 46, "total_tokens": 1163,
      "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
      "completion_tokens_details": {"reasoning_tokens": 0, "total_tokens": 9}}}`,
    1163,
  ],
  [
    'OpenAI, Responses',
    `{"usage": {"input_tokens": 328, "input_tokens_details": {"cached_tokens": 12}, "output_tokens": 52,
      "output_tokens_details": {"reasoning_tokens": 7}, "total_tokens": 380}}`,
    380,
  ],
  ['OpenAI, chat without a total', '{"usage": {"prompt_tokens": 10, "completion_tokens": 5}}', 15],
  ['OpenAI, embeddings', '{"usage": {"prompt_tokens": 8, "total_tokens": 8}}', 8],
  [
    'Anthropic, with its cache',
    `{"usage": {"input_tokens": 2095, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 1000, "output_tokens": 503,
      "cache_creation": {"ephemeral_5m_input_tokens": 300}, "service_tier": "standard"}}`,
    3898,
  ],
  [
    'Anthropic, without',
    '{"usage":{"input_tokens":12,"output_tokens":6,"cache_creation_input_tokens":null,"cache_read_input_tokens":null}}',
    18,
  ],
  [
    'Gemini',
    '{"usageMetadata": {"promptTokenCount": 25, "candidatesTokenCount": 73, "totalTokenCount": 498, "thoughtsTokenCount": 400}}',
    498,
  ],
  [
    'Gemini without a total',
    '{"usageMetadata": {"promptTokenCount": 25, "candidatesTokenCount": 73, "thoughtsTokenCount": 400, "cachedContentTokenCount": 20, "toolUsePromptTokenCount": 1}}',
    499,
  ],
  [
    "Gemini's Python client",
    '{"usage_metadata": {"prompt_token_count": 4, "candidates_token_count": 6, "total_token_count": 10}}',
    10,
  ],
  ["LangChain's messages", '{"usage_metadata": {"input_tokens": 4, "output_tokens": 6, "total_tokens": 10}}', 10],
  [
    'Bedrock, Converse',
    '{"usage": {"inputTokens": 30, "outputTokens": 628, "totalTokens": 758, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 0}}',
    758,
  ],
  [
    'Bedrock without a total',
    '{"usage": {"inputTokens": 30, "outputTokens": 628, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 7}}',
    765,
  ],
  [
    'Vercel',
    '{"usage": {"inputTokens": 26, "outputTokens": 500, "totalTokens": 526, "reasoningTokens": 1, "cachedInputTokens": 20}}',
    526,
  ],
  ['Vercel before 5', '{"usage": {"promptTokens": 20, "completionTokens": 30}}', 50],
];

t.test('each shape of the providers is understood by both codecs', async (t) => {
  for (const [provider, payload, tokens] of SHAPES) {
    t.equal(await tokensOf(payload, JSON_CODEC), tokens, provider);
    t.equal(await tokensOf(payload, CODECS), tokens, `${provider}, on its bytes`);
    t.ok(isPlain(payload), `${provider} is read on its bytes`);
  }
});

t.test('the answers of the SDKs are understood as they are, as the payload or in a member of it', async (t) => {
  for (const { from, answer, tokens } of [...PROVIDER_ANSWERS, ...STREAM_EVENTS]) {
    const isEvent = STREAM_EVENTS.some((event) => event.from === from) || from.includes('Stream');
    const payloads = [answer, { ...answer, model: 'm-1' }];
    // An event of a stream holds its answer already.
    if (!isEvent) for (const name of ['response', 'result', 'output', 'completion']) payloads.push({ [name]: answer });
    for (const payload of payloads) {
      const json = JSON.stringify(payload, null, 1);
      t.equal(await tokensOf(json, JSON_CODEC), tokens, `${from} ${Object.keys(payload)[0]}`);
      t.equal(await tokensOf(json, CODECS), tokens, `${from}, on its bytes`);
    }
    // Two counts in one answer, and parts that are objects, are for the reader that makes values.
    t.equal(isPlain(JSON.stringify(isEvent ? answer : { response: answer })), !from.startsWith('ai: '), from);
    const said = JSON.stringify({ ...answer, tokens_used: 3 });
    t.equal(await tokensOf(said, CODECS), 3, 'what the event says itself goes first');
  }
});

t.test('what the event says itself goes first, and what is no count is none', async (t) => {
  const usage = '"usage": {"total_tokens": 100}';
  const cases: [payload: string, tokens: number | null][] = [
    [`{"tokens_used": 7, ${usage}}`, 7],
    [`{${usage}, "tokens_used": 0}`, 0],
    [`{"tokens_used": null, ${usage}}`, 100],
    [`{${usage}, "tokens_used": null}`, 100],
    [`{"tokens_used": "7", ${usage}}`, null],
    [`{${usage}, "tokens_used": 7.5}`, 8],
    [`{"tokens_used": 1834.0, ${usage}}`, 1834],
    [`{"tokens_used": -7.5, ${usage}}`, null],
    ['{"tokens_used": -0.0}', 0],
    [`{"token_count": 7, ${usage}}`, 100],
    ['{"usage": {"total_tokens": -1, "input_tokens": 2, "output_tokens": 3}}', 5],
    ['{"usage": {"total_tokens": "9", "prompt_tokens": 2}}', 2],
    ['{"usage": {"input_tokens": 1.5, "output_tokens": 3}}', 5],
    ['{"usage": {"input_tokens": 1e2, "output_tokens": 3.0}}', 103],
    ['{"usage": {"input_tokens": 9007199254740991, "output_tokens": 1}}', null],
    ['{"usage": {"total_tokens": 9007199254740991}}', 9007199254740991],
    ['{"usage": {"total_tokens": 12345678901234567890}}', null],
    ['{"usage": {"cached_tokens": 1}}', null],
    ['{"usage": {}}', null],
    ['{"usage": [{"total_tokens": 1}]}', null],
    ['{"usage": 12}', null],
    ['{"usage": null, "usageMetadata": {"totalTokenCount": 3}}', 3],
    ['{"usage_metadata": {"total_tokens": 1}, "usage": {"total_tokens": 2}}', 2],
    ['{"usage": {"requests": 1}, "usageMetadata": {"totalTokenCount": 3}}', 3],
    ['{"response": {"usage": {"total_tokens": 2}}}', 2],
    ['{"usage": {"total_tokens": 1}, "response": {"usage": {"total_tokens": 2}}}', 1],
    ['{"response": {"usage": {"total_tokens": 2}}, "usage": {"total_tokens": 1}}', 1],
    ['{"usage": {}, "response": {"usage": {"total_tokens": 2}}}', 2],
    ['{"result": {"usage": {"total_tokens": 2}}, "response": {"usage": {"total_tokens": 3}}}', 3],
    ['{"tokens_used": 7, "response": {"usage": {"total_tokens": 2}}}', 7],
    ['{"response": {"response": {"usage": {"total_tokens": 2}}}}', null],
    ['{"response": [{"usage": {"total_tokens": 2}}]}', null],
    ['{"responses": {"usage": {"total_tokens": 2}}}', null],
    ['{"arguments": {"usage": {"total_tokens": 2}}}', null],
    ['{"response": {}, "usage": {"total_tokens": 2}}', 2],
    ['{"response": {"a": 1, "usage": 7}}', null],
    ['{"Usage": {"total_tokens": 2}}', null],
  ];
  for (const [payload, tokens] of cases) {
    t.equal(await tokensOf(payload, JSON_CODEC), tokens, payload);
    t.equal(await tokensOf(payload, CODECS), tokens, `${payload}, on its bytes`);
  }
});

t.test("what one event of a batch tells is no other event's", async (t) => {
  const payloads = [
    '{"usage":{"total_tokens":5}}',
    '{}',
    '{"usage":{"input_tokens":1,"output_tokens":2}}',
    '{"usage":{}}',
  ];
  const body = Buffer.from(`[${payloads.map((payload) => `{"type":"completion","payload":${payload}}`).join()}]`);
  for (const codecs of [JSON_CODEC, CODECS]) {
    const { rows, summaries } = await take(rules, body, 'many', codecs);
    t.same(
      decoded(rows, summaries, EVENT_ROW_COLUMNS).map(({ row }) => row['tokens_used']),
      [5, null, 3, null],
    );
  }
});
