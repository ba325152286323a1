// How many of an event's tokens were input, read from a cache, written to one, and output: what its cost is reckoned
// from (event-cost.ts). Read of the same object that `tokens_used` is read of (token-usage.ts), or of the event's own
// keys. Providers differ in whether what came from a cache is among the input tokens (OpenAI, Gemini, Vercel) or beside
// them (Anthropic, Bedrock): the tables here say so.
// Invariant: each token is in one part. Where what is said does not add up nothing is guessed: null.
import type { Json, JsonObject } from '../../schemas/common.ts';
import { isObject } from '../common/exact-number.ts';
import type { TokenParts } from '../common/prices/price-list.ts';
import { countOrNull, partOf } from './token-usage.ts';

/**
 * Names, and paths with dots. `input` and `output` are added up; of the others the first that is there counts.
 * `beside`: what is not among the input tokens, unless there is a total of OpenAI's kind.
 */
type Shape = {
  input: readonly string[];
  output: readonly string[];
  cached: readonly string[];
  written: readonly string[];
  writtenFor1h?: string;
  beside?: readonly string[];
};

const CACHE_OF_ANTHROPIC = ['cache_read_input_tokens', 'cache_creation_input_tokens'];
const CACHE_OF_BEDROCK = ['cacheReadInputTokens', 'cacheWriteInputTokens'];

/** OpenAI's chat, and who does as they do; LiteLLM has Anthropic's names beside, counted in `prompt_tokens`. */
const OPENAI: Shape = {
  input: ['prompt_tokens'],
  output: ['completion_tokens'],
  cached: ['prompt_tokens_details.cached_tokens', 'cache_read_input_tokens', 'prompt_cache_hit_tokens'],
  written: ['cache_creation_input_tokens'],
};

const SHAPES: readonly Shape[] = [
  OPENAI,
  // OpenAI's Responses; LangChain; Anthropic.
  {
    input: ['input_tokens'],
    output: ['output_tokens'],
    cached: ['input_tokens_details.cached_tokens', 'input_token_details.cache_read', 'cache_read_input_tokens'],
    written: ['input_token_details.cache_creation', 'cache_creation_input_tokens'],
    writtenFor1h: 'cache_creation.ephemeral_1h_input_tokens',
    beside: CACHE_OF_ANTHROPIC,
  },
  // Vercel's AI SDK; Bedrock's Converse.
  {
    input: ['inputTokens'],
    output: ['outputTokens'],
    cached: [
      ...['cachedInputTokens', 'inputTokens.cacheRead', 'inputTokenDetails.cacheReadTokens', 'cacheReadInputTokens'],
    ],
    written: ['inputTokens.cacheWrite', 'inputTokenDetails.cacheWriteTokens', 'cacheWriteInputTokens'],
    beside: CACHE_OF_BEDROCK,
  },
  // Vercel's before version 5.
  { input: ['promptTokens'], output: ['completionTokens'], cached: [], written: [] },
  // Gemini, and its live sessions; its Python client.
  {
    input: ['promptTokenCount', 'toolUsePromptTokenCount'],
    output: ['candidatesTokenCount', 'responseTokenCount', 'thoughtsTokenCount'],
    cached: ['cachedContentTokenCount'],
    written: [],
  },
  {
    input: ['prompt_token_count', 'tool_use_prompt_token_count'],
    output: ['candidates_token_count', 'response_token_count', 'thoughts_token_count'],
    cached: ['cached_content_token_count'],
    written: [],
  },
];

/** Reads a provider's counts. `total`: what they say in all; fewer in the parts are parts that are not known. */
export function partsOfUsage(usage: JsonObject, total: number): TokenParts | null {
  for (const shape of SHAPES) {
    const parts = partsBy(shape, usage);
    if (parts !== null && sumOf(parts) >= total) return parts;
  }
  return null;
}

/**
 * Reads what an event says itself: of `tokens_used` `token_count` were input, and of these `cached_tokens` cached; or
 * `prompt_tokens` and `completion_tokens` beside it, as recorders write that take them out of the answer.
 */
export function ownParts(payload: JsonObject): TokenParts | null {
  const used = countOrNull(payload['tokens_used']);
  if (!isThere(payload['token_count'])) {
    const parts = partsBy(OPENAI, payload);
    return parts !== null && sumOf(parts) === used ? parts : null;
  }
  const input = countOrNull(payload['token_count']);
  const cachedInput = countAt(payload, 'cached_tokens') ?? 0;
  if (used === null || input === null || input > used || !(cachedInput <= input)) return null;
  return { ...NOTHING, input: input - cachedInput, cachedInput, output: used - input };
}

const NOTHING: TokenParts = { input: 0, cachedInput: 0, cacheWrite: 0, cacheWrite1h: 0, output: 0 };

function partsBy(shape: Shape, usage: JsonObject): TokenParts | null {
  const { input: inputNames, output: outputNames, beside = [] } = shape;
  if (![...inputNames, ...outputNames].some((name) => isThere(usage[name]))) return null;
  const [cached, written] = [firstOf(usage, shape.cached), firstOf(usage, shape.written)];
  const for1h = shape.writtenFor1h === undefined ? 0 : (countAt(usage, shape.writtenFor1h) ?? 0);
  const [input, output] = [addedUp(usage, inputNames), addedUp(usage, outputNames)];
  const isBeside = (name: string) => beside.includes(name) && !isThere(usage['total_tokens']);
  const among = [cached, written].reduce((sum, { name, count }) => sum + (isBeside(name) ? 0 : count), 0);
  const parts: TokenParts = {
    ...{ input: input - among, cachedInput: cached.count, cacheWrite: written.count - for1h },
    ...{ cacheWrite1h: for1h, output },
  };
  // NaN is no count either.
  return Object.values(parts).every((count) => count >= 0) && Number.isSafeInteger(sumOf(parts)) ? parts : null;
}

function sumOf(parts: TokenParts): number {
  return Object.values(parts).reduce((sum, count) => sum + count, 0);
}

function addedUp(usage: JsonObject, names: readonly string[]): number {
  return names.reduce((sum, name) => sum + (countAt(usage, name) ?? 0), 0);
}

function firstOf(usage: JsonObject, paths: readonly string[]): { name: string; count: number } {
  for (const name of paths) {
    const count = countAt(usage, name);
    if (count !== undefined) return { name, count };
  }
  return { name: '', count: 0 };
}

/** undefined: nothing is there; NaN: what is there is no count. */
function countAt(usage: JsonObject, path: string): number | undefined {
  let value: Json | undefined = usage;
  for (const name of path.split('.')) value = isObject(value) ? value[name] : undefined;
  return isThere(value) ? (partOf(value) ?? Number.NaN) : undefined;
}

function isThere(value: Json | undefined): boolean {
  return value !== undefined && value !== null;
}
