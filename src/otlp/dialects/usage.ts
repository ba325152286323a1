// What a call of a model used, as spans say it: counts under the names of the dialects, sums, and objects of counts
// (`dialects`; read by all of them).
// Invariant: no count is below 0, and a sum that contradicts a part is no sum.
import { type Attributes, type AttributeValue, countOf, isObject, parsed } from '../span.ts';

/** `total`: of input and output, with what was read from and written to caches. */
export type Usage = {
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  cachedTokens?: number | undefined;
  totalTokens?: number | undefined;
};

type Names = {
  input: readonly string[];
  output: readonly string[];
  cached: readonly string[];
  total: readonly string[];
};

/** Names of attributes, the newest of each dialect first. */
const NAMES: Names = {
  input: [
    ...['ai.usage.inputTokens', 'ai.usage.promptTokens', 'gen_ai.usage.input_tokens', 'gen_ai.usage.prompt_tokens'],
    ...['llm.token_count.prompt', 'llm.usage.prompt_tokens', 'llm.usage.input_tokens'],
  ],
  output: [
    ...['ai.usage.outputTokens', 'ai.usage.completionTokens', 'gen_ai.usage.output_tokens'],
    ...['gen_ai.usage.completion_tokens', 'llm.token_count.completion', 'llm.usage.completion_tokens'],
    'llm.usage.output_tokens',
  ],
  cached: [
    ...['gen_ai.usage.cache_read.input_tokens', 'gen_ai.usage.cache_read_input_tokens', 'gen_ai.usage.cached_tokens'],
    ...['gen_ai.usage.details.cache_read_tokens', 'llm.token_count.prompt_details.cache_read'],
    ...['ai.usage.inputTokenDetails.cacheReadTokens', 'ai.usage.cachedInputTokens'],
  ],
  total: [
    ...['ai.usage.totalTokens', 'gen_ai.usage.total_tokens', 'llm.token_count.total', 'llm.usage.total_tokens'],
    ...['ai.usage.tokens', 'gen_ai.usage.tokens'],
  ],
};

/** Attributes that hold all counts, as an object or JSON text of one. */
const OBJECTS = [
  ...[
    'langfuse.observation.usage_details',
    'mlflow.chat.tokenUsage',
    'gen_ai.usage',
    'llm.usage',
    'braintrust.metrics',
  ],
  ...['langwatch.metrics', 'llm.token_count', 'usage'],
];

/** Names in such an object, and in the answers of providers. */
const MEMBERS: Names = {
  input: [
    'input',
    'input_tokens',
    'prompt_tokens',
    'inputTokens',
    'promptTokens',
    'promptTokenCount',
    'prompt_token_count',
  ],
  output: [
    ...['output', 'output_tokens', 'completion_tokens', 'outputTokens', 'completionTokens', 'candidatesTokenCount'],
    'candidates_token_count',
  ],
  cached: ['cache_read_input_tokens', 'input_cached_tokens', 'cachedContentTokenCount', 'cached_content_token_count'],
  total: ['total', 'total_tokens', 'totalTokens', 'totalTokenCount', 'total_token_count', 'tokens'],
};

export function usageOf(attributes: Attributes): Usage {
  const own = countsOf(attributes, NAMES);
  if (saysUsage(own)) return own;
  for (const name of OBJECTS) {
    const found = usageIn(attributes.get(name));
    if (saysUsage(found)) return found;
  }
  return own;
}

export function saysUsage({ inputTokens, outputTokens, totalTokens }: Usage): boolean {
  return inputTokens !== undefined || outputTokens !== undefined || totalTokens !== undefined;
}

/** Reads an object of counts, or JSON text of one. Anthropic counts separately what its cache read and wrote. */
export function usageIn(value: AttributeValue | undefined): Usage {
  const object = value === undefined ? undefined : parsed(value);
  if (!isObject(object)) return {};
  const members = new Map(Object.entries(object));
  const { inputTokens, ...usage } = countsOf(members, MEMBERS);
  const cached = ['cache_creation_input_tokens', 'cache_read_input_tokens'].map((name) => countOf(members, name) ?? 0);
  if (inputTokens === undefined || members.has('total_tokens')) return { inputTokens, ...usage };
  return withTotal({ ...usage, inputTokens: inputTokens + cached[0]! + cached[1]! });
}

function countsOf(attributes: Attributes, { input, output, cached, total }: Names): Usage {
  return withTotal({
    inputTokens: countOf(attributes, ...input),
    outputTokens: countOf(attributes, ...output),
    cachedTokens: countOf(attributes, ...cached),
    totalTokens: countOf(attributes, ...total),
  });
}

/** Some know the sum and one part: the other is what is left. A sum that is less than a part is not taken. */
export function withTotal({ inputTokens, outputTokens, cachedTokens, totalTokens }: Usage): Usage {
  const least = (inputTokens ?? 0) + (outputTokens ?? 0);
  if (inputTokens !== undefined && outputTokens !== undefined)
    return { inputTokens, outputTokens, cachedTokens, totalTokens: least };
  const isSound = totalTokens !== undefined && totalTokens >= least;
  const isPart = inputTokens !== undefined || outputTokens !== undefined;
  if (!isSound) return { inputTokens, outputTokens, cachedTokens, totalTokens: isPart ? least : totalTokens };
  if (!isPart) return { cachedTokens, totalTokens };
  return {
    inputTokens: inputTokens ?? totalTokens - outputTokens!,
    outputTokens: outputTokens ?? totalTokens - inputTokens!,
    ...{ cachedTokens, totalTokens },
  };
}
