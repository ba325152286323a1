// Instrumentations of others, live: each sees a program call a model (a stub) that calls a tool, and sends what it saw
// to the service by the exporter of the OpenTelemetry SDK. What comes of it is an agent by the name of the program,
// events of the right kinds, and the tokens that the model said, counted once. Run by scripts/test-frameworks.mjs.
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenTelemetry } from '@ai-sdk/otel';
import { query } from '@anthropic-ai/claude-agent-sdk';
import { OpenAIInstrumentation as OpenInference } from '@arizeai/openinference-instrumentation-openai';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { OpenAIInstrumentation as Traceloop } from '@traceloop/instrumentation-openai';
import { tool as aiTool, generateText, registerTelemetry, stepCountIs } from 'ai';
import { z } from 'zod';
import { anthropicModel, openAiModel } from './models.mjs';

const { URL: url, KEY: key } = process.env;
const authorization = `Bearer ${key}`;
const get = async (at) => (await fetch(`${url}${at}`, { headers: { authorization } })).json();
const openai = createRequire(import.meta.url)('openai');
/** The tokens that the stub says of each answer. */
const TOKENS_A_CALL = 2;

/** The events of the agent by that name, once there are as many. */
async function eventsOf(name, atLeast) {
  for (let tries = 0; tries < 300; tries++) {
    const [agent] = (await get(`/v1/agents?name=${encodeURIComponent(name)}`)).items;
    const events = agent === undefined ? [] : (await get(`/v1/agents/${agent.id}/events?limit=100&order=asc`)).items;
    if (events.length >= atLeast) return events;
    await sleep(100);
  }
  throw new Error(`the events of ${name} do not come`);
}

function providerOf(name, Exporter) {
  const exporter = new Exporter({ url: `${url}/v1/traces`, headers: { authorization }, compression: 'gzip' });
  return new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': name }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
}

function check(events, calls) {
  const count = (type) => events.filter((event) => event.type === type).length;
  assert.equal(count('prompt'), calls, 'a prompt for each call of the model');
  assert.equal(count('completion'), calls);
  assert.equal(count('error'), 0);
  const used = events.map(({ payload }) => payload.tokens_used ?? 0).reduce((sum, one) => sum + one, 0);
  assert.equal(used, calls * TOKENS_A_CALL, 'tokens are counted once for each call');
  for (const { policy_result } of events) assert.equal(policy_result.source, 'otlp');
}

/** Two calls of the model by OpenAI's own client: the tool, and what comes of it. */
async function callTwice(baseURL) {
  const client = new openai.OpenAI({ apiKey: 'x', baseURL });
  const messages = [{ role: 'user', content: 'what is the weather?' }];
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } }];
  const first = await client.chat.completions.create({ model: 'stub', messages, tools });
  const [{ message }] = first.choices;
  messages.push(message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'sunny' });
  await client.chat.completions.create({ model: 'stub', messages, tools });
}

for (const [name, Instrumentation, Exporter, instrumented] of [
  ['openinference, live', OpenInference, ProtobufExporter, openai],
  ['traceloop, live', Traceloop, JsonExporter, openai.OpenAI],
])
  test(name, async (t) => {
    const model = await openAiModel('weather', {});
    t.after(model.close);
    const provider = providerOf(name, Exporter);
    const instrumentation = new Instrumentation();
    instrumentation.setTracerProvider(provider);
    instrumentation.manuallyInstrument(instrumented);
    await callTwice(`${model.url}/v1`);
    await provider.forceFlush();
    await provider.shutdown();
    instrumentation.disable();
    const events = await eventsOf(name, 4);
    check(events, 2);
    const [prompt] = events.filter(({ type }) => type === 'prompt');
    assert.equal(prompt.payload.prompt, 'what is the weather?');
    const completion = events.find(({ payload }) => payload.tool_calls !== undefined);
    assert.match(JSON.stringify(completion.payload.tool_calls), /weather/);
  });

test('Vercel AI SDK, live', async (t) => {
  const name = 'ai sdk, live';
  const model = await openAiModel('weather', {});
  t.after(model.close);
  const provider = providerOf(name, ProtobufExporter);
  registerTelemetry(new OpenTelemetry({ tracer: provider.getTracer('ai') }));
  await generateText({
    model: createOpenAICompatible({ name: 'stub', baseURL: `${model.url}/v1` })('stub'),
    prompt: 'what is the weather?',
    stopWhen: stepCountIs(3),
    tools: { weather: aiTool({ description: 'x', inputSchema: z.object({}), execute: async () => 'sunny' }) },
  });
  await provider.forceFlush();
  await provider.shutdown();
  const events = await eventsOf(name, 5);
  check(events, 2);
  const [call] = events.filter(({ type }) => type === 'tool_call');
  assert.equal(call.payload.tool, 'weather');
});

test('Claude Code, live', async (t) => {
  const model = await anthropicModel('Bash', { command: 'echo hello', description: 'x' });
  t.after(model.close);
  const cwd = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-claude-'));
  const env = {
    ...{ ...process.env, HOME: cwd, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'sk-ant-x' },
    ...{ CLAUDE_CODE_ENABLE_TELEMETRY: '1', CLAUDE_CODE_ENHANCED_TELEMETRY_BETA: '1', OTEL_TRACES_EXPORTER: 'otlp' },
    ...{ OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf', OTEL_EXPORTER_OTLP_ENDPOINT: url },
    OTEL_EXPORTER_OTLP_HEADERS: `Authorization=Bearer%20${key}`,
  };
  const options = { cwd, env, allowedTools: ['Bash'] };
  for await (const _message of query({ prompt: 'say hello', options }));
  const events = await eventsOf('claude-code', 5);
  assert.ok(events.some(({ type, payload }) => type === 'tool_call' && payload.tool === 'Bash'));
  const completions = events.filter(({ type }) => type === 'completion');
  assert.ok(completions.length >= 2);
  for (const { payload } of completions) assert.equal(payload.tokens_used, TOKENS_A_CALL);
});
