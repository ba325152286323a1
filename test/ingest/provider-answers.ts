// Answers of providers as their SDKs give them, whole: written after the types of openai 6.49, @anthropic-ai/sdk 1.14,
// @google/genai 2.32, ai 6.0 and @aws-sdk/client-bedrock-runtime 3.1164, with what each says it used.

export type ProviderAnswer = { from: string; answer: object; tokens: number };

const text = 'It is sunny in Paris.';

export const PROVIDER_ANSWERS: ProviderAnswer[] = [
  {
    from: 'openai: ChatCompletion',
    tokens: 1163,
    answer: {
      ...{ id: 'chatcmpl-B9', object: 'chat.completion', created: 1_764_000_000, model: 'gpt-4o-2024-08-06' },
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: text, refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: {
        ...{ prompt_tokens: 1117, completion_tokens: 46, total_tokens: 1163 },
        prompt_tokens_details: { cached_tokens: 1024, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 12, audio_tokens: 0, accepted_prediction_tokens: 0 },
      },
      service_tier: 'default',
      system_fingerprint: 'fp_44709d6fcb',
    },
  },
  {
    from: 'openai: the last ChatCompletionChunk of a stream',
    tokens: 28,
    answer: {
      ...{ id: 'chatcmpl-B9', object: 'chat.completion.chunk', created: 1_764_000_000, model: 'gpt-4o', choices: [] },
      usage: { prompt_tokens: 19, completion_tokens: 9, total_tokens: 28 },
    },
  },
  {
    from: 'openai: Response',
    tokens: 380,
    answer: {
      ...{ id: 'resp_67', object: 'response', created_at: 1_764_000_000, status: 'completed', model: 'o4-mini' },
      ...{ error: null, incomplete_details: null, metadata: {}, parallel_tool_calls: true, temperature: 1 },
      output: [
        {
          ...{ type: 'message', id: 'msg_67', status: 'completed', role: 'assistant' },
          content: [{ type: 'output_text', text, annotations: [] }],
        },
      ],
      usage: {
        ...{ input_tokens: 328, output_tokens: 52, total_tokens: 380 },
        input_tokens_details: { cached_tokens: 12, cache_write_tokens: 4 },
        output_tokens_details: { reasoning_tokens: 7 },
      },
    },
  },
  {
    from: 'openai: CreateEmbeddingResponse',
    tokens: 8,
    answer: {
      ...{ object: 'list', model: 'text-embedding-3-small' },
      data: [{ object: 'embedding', index: 0, embedding: [0.0023064255, -0.009327292] }],
      usage: { prompt_tokens: 8, total_tokens: 8 },
    },
  },
  {
    from: '@anthropic-ai/sdk: Message, with its cache',
    tokens: 3898,
    answer: {
      ...{ id: 'msg_01', type: 'message', role: 'assistant', model: 'claude-sonnet-4-5', stop_reason: 'end_turn' },
      ...{ stop_sequence: null, container: null, content: [{ type: 'text', text, citations: null }] },
      usage: {
        ...{ input_tokens: 2095, output_tokens: 503, cache_creation_input_tokens: 300, cache_read_input_tokens: 1000 },
        cache_creation: { ephemeral_5m_input_tokens: 300, ephemeral_1h_input_tokens: 0 },
        ...{ server_tool_use: { web_search_requests: 1 }, service_tier: 'standard', inference_geo: null, speed: null },
        output_tokens_details: { thinking_tokens: 100 },
      },
    },
  },
  {
    from: '@anthropic-ai/sdk: MessageDeltaEvent',
    tokens: 487,
    answer: {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null, container: null },
      usage: {
        ...{ input_tokens: 472, output_tokens: 15, cache_creation_input_tokens: null, cache_read_input_tokens: 0 },
        ...{ server_tool_use: null, output_tokens_details: null },
      },
    },
  },
  {
    from: '@google/genai: GenerateContentResponse',
    tokens: 498,
    answer: {
      ...{ responseId: 'x1', modelVersion: 'gemini-2.5-flash', createTime: '2026-11-20T17:28:00Z' },
      candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, finishReason: 'STOP' }],
      usageMetadata: {
        ...{ promptTokenCount: 25, candidatesTokenCount: 73, thoughtsTokenCount: 400, totalTokenCount: 498 },
        ...{ cachedContentTokenCount: 20, promptTokensDetails: [{ modality: 'TEXT', tokenCount: 25 }] },
      },
    },
  },
  {
    from: '@google/genai: LiveServerMessage',
    tokens: 56,
    answer: {
      serverContent: { turnComplete: true },
      usageMetadata: {
        ...{ promptTokenCount: 40, responseTokenCount: 16, toolUsePromptTokenCount: 0 },
        responseTokensDetails: [{ modality: 'AUDIO', tokenCount: 16 }],
      },
    },
  },
  {
    from: '@aws-sdk/client-bedrock-runtime: ConverseCommandOutput',
    tokens: 758,
    answer: {
      $metadata: { httpStatusCode: 200, requestId: 'r1', attempts: 1, totalRetryDelay: 0 },
      ...{ metrics: { latencyMs: 1275 }, stopReason: 'end_turn' },
      output: { message: { role: 'assistant', content: [{ text }] } },
      usage: {
        ...{
          inputTokens: 30,
          outputTokens: 628,
          totalTokens: 758,
          cacheReadInputTokens: 100,
          cacheWriteInputTokens: 0,
        },
        cacheDetails: [],
      },
    },
  },
  {
    from: '@aws-sdk/client-bedrock-runtime: the last event of ConverseStream',
    tokens: 42,
    answer: {
      metadata: { usage: { inputTokens: 30, outputTokens: 12, totalTokens: 42 }, metrics: { latencyMs: 900 } },
    },
  },
  {
    from: 'ai: GenerateTextResult of two steps',
    tokens: 900,
    answer: {
      ...{ text, finishReason: 'stop', toolCalls: [], warnings: [] },
      usage: { inputTokens: 300, outputTokens: 26, totalTokens: 326, inputTokenDetails: { cacheReadTokens: 20 } },
      totalUsage: { inputTokens: 800, outputTokens: 100, totalTokens: 900, outputTokenDetails: { textTokens: 90 } },
      response: { id: 'aitxt-1', modelId: 'gpt-4o', messages: [{ role: 'assistant', content: text }] },
    },
  },
  {
    from: 'ai: what a LanguageModelV3 generates',
    tokens: 526,
    answer: {
      content: [{ type: 'text', text }],
      finishReason: { unified: 'stop', raw: 'stop' },
      usage: {
        inputTokens: { total: 26, noCache: 6, cacheRead: 20, cacheWrite: 0 },
        outputTokens: { total: 500, text: 499, reasoning: 1 },
        raw: { prompt_tokens: 26 },
      },
    },
  },
];

/** Events of streams that hold an answer. */
export const STREAM_EVENTS: ProviderAnswer[] = [
  {
    from: 'openai: ResponseCompletedEvent',
    tokens: 380,
    answer: { type: 'response.completed', sequence_number: 9, response: PROVIDER_ANSWERS[2]!.answer },
  },
  {
    from: '@anthropic-ai/sdk: MessageStartEvent',
    tokens: 3898,
    answer: { type: 'message_start', message: PROVIDER_ANSWERS[4]!.answer },
  },
];
