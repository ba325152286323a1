// What decision points take and answer: tools that ask in a form of their own whether something may be done.
// Only what is read is listed; each sends more.

import Type from 'typebox';
import { FreeObject } from './common.ts';
import { about, exampleId } from './described.ts';

/** A hook of Claude Code, as it sends them. */
export const ClaudeHook = Type.Object({
  hook_event_name: about(
    Type.String(),
    '`PreToolUse`, `PostToolUse` (its `tool_response`, of whatever form, is recorded) or `UserPromptSubmit`; others are answered `{}`.',
    'PreToolUse',
  ),
  session_id: Type.Optional(about(Type.String(), 'Becomes the `trace_id`. Left out: it belongs to no trace.', 's-1')),
  tool_name: Type.Optional(about(Type.String(), 'The tool. Left out where the hook is about none.', 'Bash')),
  tool_input: Type.Optional(about(FreeObject, 'Its arguments. Left out: there are none.', { command: 'ls' })),
  tool_use_id: Type.Optional(about(Type.String(), 'Which call of it. Left out: not said.', 'toolu_1')),
  prompt: Type.Optional(
    about(Type.String(), 'What a person said. Left out where the hook is not about that.', 'List the files'),
  ),
});

export const ClaudeHookAnswer = Type.Object({
  decision: Type.Optional(about(Type.Literal('block'), 'Of a result or a prompt. Left out: nothing is in its way.')),
  reason: Type.Optional(
    about(Type.String(), 'Why, for the model. Left out: nothing is in its way.', 'Blocked by policy "no rm".'),
  ),
  hookSpecificOutput: Type.Optional(
    Type.Object(
      {
        hookEventName: about(Type.Literal('PreToolUse'), 'The hook that it answers.'),
        permissionDecision: about(Type.Literal('deny'), 'The call must not be made.'),
        permissionDecisionReason: about(Type.String(), 'Why, for the model.', 'Blocked by policy "no rm".'),
      },
      {
        description: 'Of a call of a tool. Left out: Gatehouse has nothing against it; the own rules of the tool hold.',
      },
    ),
  ),
});

/** Of clients of the Open Policy Agent. */
export const OpaQuery = Type.Object({
  input: about(
    FreeObject,
    'What is asked about: `tool` (its name, or `{name}`) with `args` or `arguments`; or `type` and `payload` as of an event. `agent`: id or name of the agent. `trace_id`: what the events of one run share.',
    { agent: 'support-bot', tool: { name: 'refund' }, args: { order: 7, amount: 20 } },
  ),
});

export const OpaAnswer = Type.Object({
  result: Type.Object(
    {
      decision: about(Type.Enum(['allow', 'deny']), 'Whether it may be done.'),
      allow: about(Type.Boolean(), 'The same, for older clients.', false),
      reason: Type.Optional(
        about(Type.String(), 'Why not, for the model. Left out: it may be done.', 'Blocked by policy "no refunds".'),
      ),
      event_id: about(Type.String(), 'The event that was recorded.', exampleId('evt')),
      policy_id: Type.Optional(about(Type.String(), 'The policy that decided. Left out: none did.', exampleId('pol'))),
      approval_id: Type.Optional(
        about(Type.String(), 'The approval that it waits for. Left out: none.', exampleId('apr')),
      ),
      redacted: Type.Optional(
        about(FreeObject, 'The payload with what a policy redacts. Left out: nothing is redacted.', {}),
      ),
    },
    { description: 'What the policies made of it.' },
  ),
});

/** LiteLLM's generic guardrail. */
export const LiteLlmCheck = Type.Object({
  texts: Type.Optional(about(Type.Array(Type.String()), 'What is said. Left out: nothing.', ['Call me at 555-0100'])),
  input_type: Type.Optional(
    about(Type.Enum(['request', 'response']), 'On its way to the model or back. Left out: to it.'),
  ),
  tool_calls: Type.Optional(
    about(Type.Array(FreeObject), 'Calls of tools that the model makes. Left out: none.', [{}]),
  ),
  model: Type.Optional(about(Type.String(), 'The model. Left out: not said.', 'gpt-4o')),
  litellm_call_id: Type.Optional(about(Type.String(), 'The call. Left out: not said.', 'c-1')),
  litellm_trace_id: Type.Optional(
    about(Type.String(), 'Becomes the `trace_id`. Left out: it belongs to no trace.', 't-1'),
  ),
});

export const LiteLlmAnswer = Type.Object({
  action: about(
    Type.Enum(['NONE', 'BLOCKED', 'GUARDRAIL_INTERVENED']),
    '`GUARDRAIL_INTERVENED`: `texts` are to be used in place of what was sent.',
  ),
  blocked_reason: Type.Optional(
    about(Type.String(), 'Why. Left out: it is not blocked.', 'Blocked by policy "no secrets".'),
  ),
  texts: Type.Optional(
    about(Type.Array(Type.String()), 'As they may be used. Left out: as they are.', ['Call me at [redacted:phone]']),
  ),
});
