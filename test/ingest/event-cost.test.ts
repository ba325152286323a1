// What events cost: the usage of each provider as it sends it, with costs reckoned by hand; both codecs, with prices
// and without, whatever is generated; what is said after the fact; and what cannot be known, which is never 0.
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { decodeSummaries, type EventCost } from '../../schemas/entry.ts';
import type { Price } from '../../schemas/price-table.ts';
import { ServiceError } from '../../src/common/errors.ts';
import type { Codec } from '../../src/ingest/codec.ts';
import { observedCodec } from '../../src/ingest/observed-codec.ts';
import type { RuleSet } from '../../src/policy/engine.ts';
import { PolicyError } from '../../src/policy/policy-error.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { body, orders } from '../reference/generate.ts';
import { areAllRun, runs, SEED } from '../support/seed.ts';
import { agentId, blotted, CODECS, JSON_CODEC, NOW, policiesOf, type Seen, take } from './support.ts';

const clock = Date.now;
t.before(() => {
  Date.now = () => NOW;
});
t.after(() => {
  Date.now = clock;
});

const PRICES: Price[] = [
  {
    model: 'gpt-4o*',
    input: '2.50 USD',
    output: '10 USD',
    cached_input: '1.25 USD',
    batch: { input: '1.25 USD', output: '5 USD' },
  },
  {
    ...{ model: 'claude-sonnet-4*', input: '3 USD', output: '15 USD', cached_input: '0.30 USD' },
    ...{ cache_write: '3.75 USD', cache_write_1h: '6 USD', batch: { input: '1.50 USD', output: '7.50 USD' } },
  },
  {
    ...{ model: 'gemini-2.5-pro', input: '1.25 USD', output: '10 USD', cached_input: '0.125 USD' },
    tiers: [{ above: 200_000, input: '2.50 USD', output: '15 USD', cached_input: '0.25 USD' }],
  },
];
const record = (prices: Price[]) => ({ revision: 3, currency: 'USD', prices, updated_at: '2026-11-20T00:00:00.000Z' });
const withPrices = (prices = PRICES, policies: Parameters<typeof prepareRules>[0] = []) =>
  prepareRules(policies, undefined, { prices: record(prices) });

function costsOf({ summaries }: Seen): (EventCost | undefined)[] {
  return decodeSummaries(`[${summaries}]`).map(({ cost }) => cost);
}

/** In millionths, by both codecs. undefined: nothing is said. */
async function costOf(t: Test, payload: object, rules?: RuleSet): Promise<number | null | undefined> {
  const bytes = Buffer.from(JSON.stringify({ type: 'completion', payload }));
  const both = rules ?? (await withPrices());
  const [general, fast] = [await take(both, bytes, 'one', JSON_CODEC), await take(both, bytes, 'one', CODECS)];
  t.same(costsOf(fast), costsOf(general), 'both codecs say the same');
  const [cost] = costsOf(general);
  if (cost !== undefined) t.equal(cost.by, 'USD 3');
  return cost?.millionths;
}

const OPENAI = {
  ...{ prompt_tokens: 1117, completion_tokens: 46, total_tokens: 1163 },
  prompt_tokens_details: { cached_tokens: 1024, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 12 },
};
const ANTHROPIC = {
  ...{ input_tokens: 2095, cache_creation_input_tokens: 300, cache_read_input_tokens: 1000, output_tokens: 503 },
  ...{ cache_creation: { ephemeral_5m_input_tokens: 200, ephemeral_1h_input_tokens: 100 }, service_tier: 'standard' },
};
const GEMINI = {
  ...{ promptTokenCount: 250_000, cachedContentTokenCount: 50_000, candidatesTokenCount: 73, thoughtsTokenCount: 400 },
  ...{ toolUsePromptTokenCount: 7, totalTokenCount: 250_480 },
};

t.test("three providers' usage as they send it, reckoned by hand", async (t) => {
  // (1117 - 1024) * 2.50 + 1024 * 1.25 + 46 * 10 = 232.5 + 1280 + 460, rounded up
  t.equal(await costOf(t, { model: 'gpt-4o', usage: OPENAI }), 1973);
  t.equal(await costOf(t, { response: { model: 'gpt-4o-2024-08-06', usage: OPENAI } }), 1973, 'as the answer came');
  const responses = {
    ...{ input_tokens: 328, input_tokens_details: { cached_tokens: 12 }, output_tokens: 52, total_tokens: 380 },
    output_tokens_details: { reasoning_tokens: 7 },
  };
  // 316 * 2.50 + 12 * 1.25 + 52 * 10
  t.equal(await costOf(t, { model: 'gpt-4o', usage: responses }), 1325, 'Responses');

  // 2095 * 3 + 1000 * 0.30 + 200 * 3.75 + 100 * 6 + 503 * 15 = 6285 + 300 + 750 + 600 + 7545
  t.equal(await costOf(t, { model: 'claude-sonnet-4-5', usage: ANTHROPIC }), 15_480);
  // 12 * 3 + 6 * 15
  const plain = {
    input_tokens: 12,
    output_tokens: 6,
    cache_creation_input_tokens: null,
    cache_read_input_tokens: null,
  };
  t.equal(await costOf(t, { message: { model: 'claude-sonnet-4-5', usage: plain } }), 126);

  // Above 200,000: (250,007 - 50,000) * 2.50 + 50,000 * 0.25 + 473 * 15 = 500,017.5 + 12,500 + 7,095, rounded up
  t.equal(await costOf(t, { modelVersion: 'gemini-2.5-pro', usageMetadata: GEMINI }), 519_613);
  const border = { promptTokenCount: 200_000, candidatesTokenCount: 1, totalTokenCount: 200_001 };
  t.equal(await costOf(t, { model: 'gemini-2.5-pro', usageMetadata: border }), 250_010, 'at the border: 1.25 and 10');
  const over = { promptTokenCount: 200_001, candidatesTokenCount: 1, totalTokenCount: 200_002 };
  t.equal(await costOf(t, { model: 'gemini-2.5-pro', usageMetadata: over }), 500_018, 'above it: 2.50 and 15');
});

t.test('other forms of the same: proxies, SDKs, batches, what an event says itself', async (t) => {
  const cases: [what: string, payload: object, cost: number | null | undefined][] = [
    [
      'LiteLLM has the cache of Anthropic in prompt_tokens',
      {
        model: 'claude-sonnet-4-5',
        usage: {
          ...{ prompt_tokens: 3395, completion_tokens: 503, total_tokens: 3898 },
          ...{ cache_creation_input_tokens: 300, cache_read_input_tokens: 1000 },
        },
      },
      6285 + 1125 + 300 + 7545,
    ],
    [
      'LangChain',
      {
        model: 'claude-sonnet-4-5',
        usage_metadata: {
          ...{
            input_tokens: 40,
            output_tokens: 6,
            total_tokens: 46,
            input_token_details: { cache_read: 10, cache_creation: 20 },
          },
        },
      },
      10 * 3 + 3 + 75 + 90,
    ],
    [
      'Bedrock has its cache beside',
      {
        model: 'claude-sonnet-4',
        usage: {
          inputTokens: 30,
          outputTokens: 628,
          totalTokens: 658,
          cacheReadInputTokens: 100,
          cacheWriteInputTokens: 4,
        },
      },
      90 + 9420 + 30 + 15,
    ],
    [
      'Vercel',
      { model: 'gpt-4o', usage: { inputTokens: 26, outputTokens: 500, totalTokens: 526, cachedInputTokens: 20 } },
      5040,
    ],
    ['Vercel before 5', { model: 'gpt-4o', usage: { promptTokens: 20, completionTokens: 30 } }, 350],
    [
      "Gemini's Python client",
      {
        model: 'gemini-2.5-pro',
        usage_metadata: { prompt_token_count: 4, candidates_token_count: 6, total_token_count: 10 },
      },
      65,
    ],
    ['embeddings have no output', { model: 'gpt-4o', usage: { prompt_tokens: 8, total_tokens: 8 } }, 20],
    [
      'a batch of Anthropic',
      { model: 'claude-sonnet-4', usage: { input_tokens: 10, output_tokens: 10, service_tier: 'batch' } },
      90,
    ],
    [
      'a batch that the event names',
      { model: 'gpt-4o', batch: true, usage: { prompt_tokens: 10, completion_tokens: 10 } },
      63,
    ],
    ['its own counts', { model: 'gpt-4o', tokens_used: 30, token_count: 20, cached_tokens: 4 }, 145],
    [
      'its parts beside its own sum',
      { model: 'gpt-4o', tokens_used: 30, prompt_tokens: 20, completion_tokens: 10 },
      150,
    ],
    [
      'parts beside that are not the sum',
      { model: 'gpt-4o', tokens_used: 31, prompt_tokens: 20, completion_tokens: 10 },
      null,
    ],
    [
      'parts beside without a sum',
      { model: 'gpt-4o', tokens_used: null, prompt_tokens: 20, completion_tokens: 10 },
      undefined,
    ],
    ['its own counts first', { model: 'gpt-4o', tokens_used: 30, token_count: 20, usage: OPENAI }, 150],
    ['a sum of its own, parts of the provider', { model: 'gpt-4o', tokens_used: 1163, usage: OPENAI }, 1973],
    ['no tokens', { model: 'gpt-4o', prompt: 'hello' }, undefined],
    ['no tokens, with a usage', { model: 'gpt-4o', usage: { requests: 1 } }, undefined],
    ['a sum that is none', { model: 'gpt-4o', tokens_used: '7', usage: OPENAI }, undefined],
    ['a model without a price', { model: 'llama-4', usage: OPENAI }, null],
    ['no model', { usage: OPENAI }, null],
    ['a sum alone', { model: 'gpt-4o', tokens_used: 7 }, null],
    ['a sum alone of the provider', { model: 'gpt-4o', usage: { total_tokens: 7 } }, null],
    ['parts that are less than the sum', { model: 'gpt-4o', usage: { prompt_tokens: 8, total_tokens: 20 } }, null],
    ['more from the cache than there was', { model: 'gpt-4o', tokens_used: 9, token_count: 5, cached_tokens: 6 }, null],
    ['more input than there was', { model: 'gpt-4o', tokens_used: 9, token_count: 10 }, null],
    [
      'a part that is no count',
      { model: 'gpt-4o', usage: { prompt_tokens: '8', completion_tokens: 2, total_tokens: 10 } },
      null,
    ],
    ['another tier of service', { model: 'gpt-4o', service_tier: 'priority', usage: OPENAI }, null],
    [
      'nothing used is known to cost nothing',
      { model: 'gpt-4o', usage: { prompt_tokens: 0, completion_tokens: 0 } },
      0,
    ],
  ];
  for (const [what, payload, cost] of cases) t.equal(await costOf(t, payload), cost, what);
});

t.test('an account without prices says nothing of costs', async (t) => {
  t.equal((await withPrices([])).prices, undefined);
  t.equal(await costOf(t, { model: 'gpt-4o', usage: OPENAI }, await withPrices([])), undefined);
  t.equal(await costOf(t, { model: 'gpt-4o', usage: OPENAI }, await prepareRules([])), undefined);
});

t.test('the cost is that of what is kept', async (t) => {
  const [filter] = policiesOf([
    { type: 'data_filter', actions: ['log'], conditions: { detectors: ['email'], redact: true } },
  ]);
  const rules = await withPrices([{ model: 'm*', input: '1 USD', output: '1 USD' }], [filter!]);
  const usage = { prompt_tokens: 4, completion_tokens: 5 };
  t.equal(await costOf(t, { model: 'm-1', response: 'to a@example.com', usage }, rules), 9);
  t.equal(await costOf(t, { model: 'm of a@example.com', usage }, rules), 9);
  t.equal(await costOf(t, { model: 'a@example.com', usage }, rules), null, 'its model is redacted');
});

t.test('of spans their own counts are priced, and sums of agents are not', async (t) => {
  const spans = [
    { type: 'completion', payload: { model: 'gpt-4o', token_count: 20, tokens_used: 30, cached_tokens: 4 } },
    { type: 'completion', payload: { model: 'gpt-4o', usage: { input_tokens: 20, output_tokens: 10 } } },
    { type: 'custom', payload: { kind: 'agent', model: 'gpt-4o', usage: { input_tokens: 20, output_tokens: 10 } } },
  ].map(({ type, payload }) => ({
    ...{ type: type as 'custom', payload, payloadText: JSON.stringify(payload), traceId: undefined, occurredAt: NOW },
  }));
  const codec = observedCodec(spans, [undefined, undefined, undefined]) as Codec;
  const seen = await take(await withPrices(), Buffer.alloc(0), 'many', [codec]);
  t.same(costsOf(seen), [{ by: 'USD 3', millionths: 145 }, undefined, undefined]);
});

t.test('with prices the same is answered and recorded, and both codecs reckon the same', async (t) => {
  const counts = { bodies: 0, priced: 0, unknown: 0 };
  const any: Price[] = [{ model: '*', input: '1 USD', output: '3 USD', cached_input: '0.10 USD' }];
  const property = fc.asyncProperty(orders(agentId), body, async (given, { bytes, shape }) => {
    const policies = policiesOf(given);
    const [rules, priced] = [await prepared(policies), await prepared(policies, any)];
    if (rules === null || priced === null) return;
    const [general, fast] = [await take(priced, bytes, shape, JSON_CODEC), await take(priced, bytes, shape, CODECS)];
    for (const [seen, codecs] of [
      [general, JSON_CODEC],
      [fast, CODECS],
    ] as const)
      if (told(seen) !== told(await take(rules, bytes, shape, codecs)))
        throw new Error('prices change what is recorded');
    const costs = costsOf(general);
    if (JSON.stringify(costs) !== JSON.stringify(costsOf(fast))) throw new Error('the codecs reckon differently');
    counts.bodies++;
    for (const cost of costs) if (cost !== undefined) counts[cost.millionths === null ? 'unknown' : 'priced']++;
  });
  await fc.assert(property, { numRuns: runs(300), seed: SEED });
  t.comment(JSON.stringify(counts));
  t.ok((counts.priced > 0 && counts.unknown > 0) || !areAllRun, 'both occur');
});

async function prepared(policies: Parameters<typeof prepareRules>[0], prices: Price[] = []): Promise<RuleSet | null> {
  try {
    return await withPrices(prices, policies);
  } catch (error) {
    if (error instanceof PolicyError) return null;
    throw error;
  }
}

/** Answer, rows and summaries, but for what events cost, which stands behind the summaries. */
function told({ answer, rows, summaries }: Seen): string {
  const answered = answer instanceof ServiceError ? `${answer.code} ${JSON.stringify(answer.details)}` : answer;
  return blotted(answered + rows.toString('latin1') + summaries.replace(/,\{"priced_by":.*$/, ''));
}
