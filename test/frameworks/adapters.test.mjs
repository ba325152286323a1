// Each adapter in its framework, on a model that is a stub, against the service: what a policy blocks does not run and
// the model reads why; what waits is waited for and then denied; a service that is away blocks. Run by
// scripts/test-frameworks.mjs, which installs the frameworks.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
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
const send = (method) => (at, body) => fetch(`${url}${at}`, { method, headers, body: JSON.stringify(body) });
const [post, patch] = [send('POST'), send('PATCH')];

for (const [name, type, conditions] of [
  ['no pay', 'block_action', { tool: ['pay', 'Bash'] }],
  ['ask for refunds', 'require_approval', { tool: 'refund' }],
])
  assert.equal((await post('/v1/policies', { name, type, conditions, actions: ['block'] })).status, 201);
const there = new Gatehouse({ url, key, agent: 'frameworks', timeoutMs: 10_000, approvals: { waitMs: 500 } });
const away = new Gatehouse({ url: 'http://127.0.0.1:9', key, agent: 'agt_away', timeoutMs: 300 });
const revoked = new Gatehouse({ url, key: 'gth_revoked', agent: 'agt_revoked' });
while ((await there.decide({ tool: 'refund' })).allowed) await new Promise((resolve) => setTimeout(resolve, 100));

/** The cases for each framework: does the tool run, and what was the model told? */
const CASES = [
  { tool: 'look', gh: there, runs: true, told: /looked/ },
  { tool: 'pay', gh: there, runs: false, told: /Blocked by policy .{1,2}no pay/ },
  { tool: 'refund', gh: there, runs: false, told: /Approval apr_\w+ is pending/ },
  { tool: 'look', gh: away, runs: false, told: /not available/ },
  { tool: 'look', gh: revoked, runs: false, told: /could not be asked/ },
];

function each(framework, run) {
  for (const { tool, gh, runs, told } of CASES)
    test(`${framework}: ${tool}${gh === away ? ', the service away' : gh === revoked ? ', the key revoked' : ''}`, async () => {
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

/** Runs Claude Code in a folder of its own, made ready by `prepare`: what the model heard, and whether the tool ran. */
async function claudeCode(command, options, prepare = () => undefined) {
  const model = await anthropicModel('Bash', { command, description: 'x' });
  const cwd = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-claude-'));
  prepare(cwd);
  const env = { ...process.env, HOME: cwd, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'sk-ant-x' };
  const all = {
    ...{ cwd, env: { ...env, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', GATEHOUSE_API_KEY: key } },
    ...{ allowedTools: ['Bash'], ...options },
  };
  for await (const _message of query({ prompt: 'do it', options: all }));
  model.close();
  const heard = JSON.stringify(model.asked.flatMap(({ messages }) => messages));
  assert.match(heard, /tool_result/);
  return { heard, ran: existsSync(path.join(cwd, 'ran.txt')) };
}

test('Claude Agent SDK: what is blocked does not run, and the model reads why', async () => {
  for (const [gh, why] of [
    [there, /Blocked by policy/],
    [away, /not available/],
    [revoked, /could not be asked/],
  ]) {
    const { heard, ran } = await claudeCode('echo it-ran > ran.txt', {
      hooks: { PreToolUse: [{ hooks: [claude(gh).preToolUse] }] },
    });
    assert.match(heard, why);
    assert.equal(ran, false);
  }
});

test('Claude Code, by the hooks that docs/joining.md shows', async () => {
  const page = readFileSync(new URL('../../docs/joining.md', import.meta.url), 'utf8');
  const shown = /```\n(\{"hooks".*?)```/s.exec(page)[1];
  const inFolder = (at) => (cwd) => {
    mkdirSync(path.join(cwd, '.claude'));
    writeFileSync(path.join(cwd, '.claude', 'settings.json'), shown.replace('http://127.0.0.1:8080', at));
  };
  const options = { settingSources: ['project'] };
  const asked = 'echo it-ran > ran.txt';
  const blocked = await claudeCode(asked, options, inFolder(url));
  assert.match(blocked.heard, /Blocked by policy .{1,2}no pay/);
  assert.equal(blocked.ran, false);
  const alone = await claudeCode(asked, options, inFolder('http://127.0.0.1:9'));
  assert.equal(alone.ran, false, 'a service that is away is a denial');
  const policies = await (await fetch(`${url}/v1/policies?limit=100`, { headers })).json();
  const { id } = policies.items.find(({ name }) => name === 'no pay');
  assert.equal((await patch(`/v1/policies/${id}`, { status: 'inactive' })).status, 200);
  await sleep(1_500);
  assert.equal((await claudeCode(asked, options, inFolder(url))).ran, true, 'what is allowed runs');
});
