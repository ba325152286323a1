// How many tokens an event used, as its payload says (for the column `tokens_used` and the summary, which encode.ts
// and wasm/ draw). `tokens_used` has the word. Where it is absent or null, the answers of providers are understood as
// they are in the payload or in one member of it, by this one table; wasm/usage.ts reads the same table, laid out by
// `usageTable`, and both paths find the same (test/ingest/reference.test.ts compares them with a reading that shares no
// code).
// Counts are numbers of 0 or more that a double holds, rounded to whole ones; a total that is none is no total, and a
// sum with a part that is none says nothing.
import assert from 'node:assert';
import type { Json, JsonObject } from '../../schemas/common.ts';
import { isObject } from '../common/exact-number.ts';

/**
 * Keys under which answers have their counts; the first that has a count wins. `totalUsage` is that of all steps, where
 * Vercel's `usage` is that of the last.
 */
const USAGE_KEYS = ['totalUsage', 'usage', 'usageMetadata', 'usage_metadata'] as const;

/**
 * Members of the payload that may hold an answer as it came, behind the payload itself: `response` also in the last
 * event of a stream of OpenAI's Responses, `message` in the first of Anthropic's, `metadata` in the last of Bedrock's.
 * Known to wasm/scan.ts by their texts.
 */
const HOLDERS = ['response', 'message', 'result', 'output', 'completion', 'metadata'] as const;

/**
 * Members that are added up, by shape; the first shape of which a member is there counts. What a total holds already
 * (cached tokens of OpenAI and Gemini, tokens of reasoning in the output) is in no sum of parts.
 */
const USAGE_SHAPES: readonly (readonly string[])[] = [
  // OpenAI's chat and Responses, and who does as they do (Azure, Mistral, LangChain).
  ['total_tokens'],
  // Vercel's AI SDK, Bedrock's Converse.
  ['totalTokens'],
  // Gemini; its Python client.
  ['totalTokenCount'],
  ['total_token_count'],
  // Anthropic gives no total, and counts what it wrote to the cache and read from it apart. OpenAI's Responses without
  // its total.
  ['input_tokens', 'output_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens'],
  // OpenAI's chat without its total.
  ['prompt_tokens', 'completion_tokens'],
  // Bedrock and Vercel without their totals: of the two only Bedrock counts its cache apart, under names of its own.
  ['inputTokens', 'outputTokens', 'cacheReadInputTokens', 'cacheWriteInputTokens'],
  // Vercel's before version 5.
  ['promptTokens', 'completionTokens'],
  // Gemini without its total; its live sessions say `response` for `candidates`.
  ['promptTokenCount', 'candidatesTokenCount', 'responseTokenCount', 'thoughtsTokenCount', 'toolUsePromptTokenCount'],
  ['prompt_token_count', 'candidates_token_count', 'thoughts_token_count', 'tool_use_prompt_token_count'],
];

/** null: the payload does not say. */
export function tokensUsed(payload: JsonObject): number | null {
  const said = payload['tokens_used'];
  return said === undefined || said === null ? (usageOf(payload)?.total ?? null) : countOrNull(said);
}

/** May a column say something else of a payload in which these members were replaced, itself or in part? */
export function mayChangeColumns(payload: JsonObject, members: readonly string[]): boolean {
  return members.some((key) => {
    if (COLUMNS.has(key)) return true;
    const answer = (HOLDERS as readonly string[]).includes(key) ? payload[key] : undefined;
    return isObject(answer) && USAGE_KEYS.some((usage) => usage in answer);
  });
}

const COLUMNS: ReadonlySet<string> = new Set(['model', 'token_count', 'tokens_used', ...USAGE_KEYS]);

/** The token counts in a provider's answer; undefined: there is none that has them. */
export function usageOf(payload: JsonObject): { answer: JsonObject; usage: JsonObject; total: number } | undefined {
  for (const answer of [payload, ...HOLDERS.map((name) => payload[name])]) {
    if (!isObject(answer)) continue;
    for (const key of USAGE_KEYS) {
      const usage = answer[key];
      const total = isObject(usage) ? totalOf(usage) : null;
      if (total !== null) return { answer, usage: usage as JsonObject, total };
    }
  }
  return undefined;
}

/** Token columns hold whole numbers of 0 or more; what is no number of 0 or more stays in the payload alone. */
export function countOrNull(value: unknown): number | null {
  if (typeof value !== 'number' || value < 0) return null;
  const whole = Math.round(value);
  return Number.isSafeInteger(whole) ? Math.abs(whole) : null;
}

function totalOf(usage: JsonObject): number | null {
  for (const shape of USAGE_SHAPES) {
    const there = shape.map((name) => usage[name]).filter((part) => part !== undefined && part !== null);
    const counts = there.map(partOf);
    if (counts.length === 0 || counts.includes(null)) continue;
    const sum = countOrNull(counts.reduce((total: number, count) => total + count!, 0));
    if (sum !== null) return sum;
  }
  return null;
}

/** Models under Vercel's SDK have `{"total": 7, …}` for a part. */
export function partOf(part: Json | undefined): number | null {
  return countOrNull(isObject(part) ? part['total'] : part);
}

const ENTRY_BYTES = 40;
const NAME_AT = 8;
const SUM_BYTES = 8;

/** For wasm/usage.ts, which says how it is laid out. Its first bytes are where that keeps the sums. */
export function usageTable(): Buffer {
  const names = USAGE_SHAPES.flatMap((shape, number) => shape.map((name) => ({ name, number })));
  const sums = USAGE_SHAPES.length * SUM_BYTES;
  const table = Buffer.alloc(sums + names.length * ENTRY_BYTES);
  names.forEach(({ name, number }, i) => {
    // Names are compared eight bytes at a time, and the sum of a shape must stay whole in a double: parts have 15
    // digits there.
    assert(name.length >= 8 && name.length < ENTRY_BYTES - NAME_AT && USAGE_SHAPES[number]!.length <= 9);
    const at = sums + i * ENTRY_BYTES;
    table.writeUInt32LE(name.length, at);
    table.writeUInt32LE(number, at + 4);
    table.write(name, at + NAME_AT, 'latin1');
  });
  return table;
}

/** How many shapes and names there are in the table. */
export const USAGE_COUNTS = { shapes: USAGE_SHAPES.length, names: USAGE_SHAPES.flat().length };
