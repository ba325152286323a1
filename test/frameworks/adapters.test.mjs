// Each adapter in its framework, on a model that is a stub, against the service: what a policy blocks does not run and
// the model reads why; what waits is waited for and then denied; a service that is away blocks. Run by
// scripts/test-frameworks.mjs, which installs the frameworks.
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { query } from '@anthropic-ai/claude-agent-sdk';
import { Gatehouse } from '@gatehouse/client';
import { aiSdk } from '@gatehouse/client/ai-sdk';
import { claude } from '@gatehouse/client/claude-agent-sdk';
import { langchain } from '@gatehouse/client/langchain';
import { openaiAgents } from '@gatehouse/client/openai-agents';
import { Agent, tool as agentsTool, OpenAIProvider, Runner } from '@openai/agents';
import { tool as aiTool, generateText, stepCountIs } from 'ai';
import { createAgent, FakeToolCallingModel, tool as langchainTool } from 'langchain';
import { z } from 'zod';
import { anthropicModel, openAiModel } from './models.mjs';

const { URL: url, KEY: key } = process.env;
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
const post = (at, body) => fetch(`${url}${at}`, { method: 'POST', headers, body: JSON.stringify(body) });

for (const [name, type, conditions] of [
  ['no pay', 'block_action', { tool: ['pay', 'Bash'] }],
  ['ask for refunds', 'require_approval', { tool: 'refund' }],
])
  assert.equal((await post('/v1/policies', { name, type, conditions, actions: ['block'] })).status, 201);
const there = new Gatehouse({ url, key, agent: 'frameworks', timeoutMs: 10_000, approvals: { waitMs: 500 } });
const away = new Gatehouse({ url: 'http://127.0.0.1:9', key, agent: 'agt_away', timeoutMs: 300 });
while ((await there.decide({ tool: 'refund' })).allowed) await new Promise((resolve) => setTimeout(resolve, 100));

/** What is asked of each framework: does the tool run, and what was the model told? */
const CASES = [
  { tool: 'look', gh: there, runs: true, told: /looked/ },
  { tool: 'pay', gh: there, runs: false, told: /Blocked by policy .{1,2}no pay/ },
  { tool: 'refund', gh: there, runs: false, told: /Approval apr_\w+ is pending/ },
  { tool: 'look', gh: away, runs: false, told: /not available/ },
];

function each(framework, run) {
  for (const { tool, gh, runs, told } of CASES)
    test(`${framework}: ${tool}${gh === away ? ', the service away' : ''}`, async () => {
      let ran = 0;
      const execute = async () => {
        ran++;
        return 'looked';
      };
      const said = await run({ tool, gh, execute });
      assert.equal(ran, runs ? 1 : 0, 'how often the tool ran');
      assert.match(said, told);
    });
}

const input = z.object({ amount: z.number() });

each('AI SDK', async ({ tool, gh, execute }) => {
  const model = await openAiModel(tool, { amount: 5 });
  await generateText({
    model: createOpenAICompatible({ name: 'stub', baseURL: `${model.url}/v1` })('stub'),
    prompt: 'do it',
    stopWhen: stepCountIs(3),
    tools: { [tool]: aiTool({ description: 'a tool', inputSchema: input, execute }) },
    toolApproval: aiSdk(gh).toolApproval,
  });
  model.close();
  return JSON.stringify(model.asked.at(-1).messages);
});

each('OpenAI Agents', async ({ tool, gh, execute }) => {
  const model = await openAiModel(tool, { amount: 5 });
  const modelProvider = new OpenAIProvider({ apiKey: 'x', baseURL: `${model.url}/v1`, useResponses: false });
  const guarded = agentsTool({
    ...{ name: tool, description: 'a tool', parameters: input, execute },
    inputGuardrails: [openaiAgents(gh).toolInput],
  });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const { finalOutput } = await runner.run(new Agent({ name: 'a', model: 'stub', tools: [guarded] }), 'do it');
  model.close();
  return finalOutput;
});

each('LangChain', async ({ tool, gh, execute }) => {
  const calls = [[{ name: tool, args: { amount: 5 }, id: 'call_1', type: 'tool_call' }], []];
  const agent = createAgent({
    model: new FakeToolCallingModel({ toolCalls: calls }),
    tools: [langchainTool(execute, { name: tool, description: 'a tool', schema: input })],
    middleware: [langchain(gh).middleware],
  });
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'do it' }] });
  return JSON.stringify(messages.filter((message) => message.getType() === 'tool').map(({ content }) => content));
});

test('Claude Agent SDK: what is blocked does not run, and the model reads why', async () => {
  for (const [gh, told] of [
    [there, /Blocked by policy/],
    [away, /not available/],
  ]) {
    const model = await anthropicModel('Bash', { command: 'echo it-ran > ran.txt', description: 'x' });
    const cwd = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-claude-'));
    const env = { ...process.env, HOME: cwd, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'sk-ant-x' };
    const options = {
      ...{ cwd, env: { ...env, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' }, allowedTools: ['Bash'] },
      hooks: { PreToolUse: [{ hooks: [claude(gh).preToolUse] }] },
    };
    for await (const _message of query({ prompt: 'do it', options }));
    model.close();
    const results = JSON.stringify(model.asked.flatMap(({ messages }) => messages));
    assert.match(results, /tool_result/);
    assert.match(results, told);
    assert.doesNotMatch(results, /"is_error":false/);
  }
});
