// What decision points take and answer: tools that ask in a form of their own whether something may be done.
// Only what is read is listed; each sends more.

import Type from 'typebox';
import { FreeObject } from './common.ts';
import { about, exampleId } from './described.ts';

/** A hook of a tool, as it sends them; which members each event must have is for its form to say (src/hooks). */
export const Hook = Type.Object(
  {
    hook_event_name: Type.Optional(
      about(
        Type.String(),
        'The event, as the tool names it. Left out: the tool says it by other members.',
        'PreToolUse',
      ),
    ),
    agent_action_name: Type.Optional(about(Type.String(), 'The event of Windsurf. Left out: it is of another tool.')),
  },
  { additionalProperties: true },
);

const reasonOf = (what: string) => about(Type.String(), what, 'Blocked by policy "no rm".');

/** Each tool reads its own members of it. */
export const HookAnswer = Type.Object({
  decision: Type.Optional(
    about(Type.Enum(['block', 'deny']), 'Of Claude Code, Gemini CLI and Windsurf. Left out: nothing is in its way.'),
  ),
  reason: Type.Optional(reasonOf('Why, for the model. Left out: nothing is in its way.')),
  message: Type.Optional(reasonOf('Of Windsurf: why. Left out: nothing is in its way.')),
  hookSpecificOutput: Type.Optional(
    Type.Object(
      {
        hookEventName: about(Type.String(), 'The hook that it answers.', 'PreToolUse'),
        permissionDecision: Type.Optional(
          about(
            Type.Enum(['deny', 'ask']),
            '`deny`: the call must not be made. `ask`: with what is redacted it may be, where the own rules of the tool or its user allow it. Left out: it answers no call.',
          ),
        ),
        permissionDecisionReason: Type.Optional(reasonOf('Why, for the model. Left out: it answers no call.')),
        updatedInput: Type.Optional(
          about(FreeObject, 'The arguments to be used, redacted. Left out: as they are.', { command: 'ls' }),
        ),
        updatedToolOutput: Type.Optional(
          about(Type.Unknown(), 'The result to be used, redacted. Left out: as it is.', { stdout: '[redacted:email]' }),
        ),
        tool_input: Type.Optional(
          about(FreeObject, 'Of Gemini CLI: the arguments to be used, redacted. Left out: as they are.', {}),
        ),
        decision: Type.Optional(
          Type.Object(
            {
              behavior: about(Type.Literal('deny'), 'The permission is not given.'),
              message: reasonOf('Why, for the model.'),
            },
            { description: 'Of a request for permission. Left out: Gatehouse has nothing against it.' },
          ),
        ),
      },
      { description: 'Of Claude Code, Gemini CLI and Copilot. Left out: the own rules of the tool hold.' },
    ),
  ),
  permissionDecision: Type.Optional(
    about(Type.Enum(['deny', 'ask']), 'Of Copilot. Left out: the own rules of the tool hold.'),
  ),
  permissionDecisionReason: Type.Optional(reasonOf('Of Copilot: why. Left out: nothing is in its way.')),
  modifiedArgs: Type.Optional(
    about(FreeObject, 'Of Copilot: the arguments to be used, redacted. Left out: as they are.', { command: 'ls' }),
  ),
  modifiedResult: Type.Optional(
    about(FreeObject, 'Of Copilot: what the model is given as the result. Left out: the result as it is.', {
      resultType: 'success',
      textResultForLlm: 'Blocked by policy "no keys".',
    }),
  ),
  permission: Type.Optional(about(Type.Enum(['allow', 'deny']), 'Of Cursor. Left out: the hook asks for none.')),
  continue: Type.Optional(about(Type.Boolean(), 'Of Cursor, of a prompt. Left out: the hook is about none.', true)),
  user_message: Type.Optional(reasonOf('Of Cursor: why, for people. Left out: nothing is in its way.')),
  agent_message: Type.Optional(reasonOf('Of Cursor: why, for the model. Left out: nothing is in its way.')),
  additional_context: Type.Optional(
    reasonOf('Of Cursor, of what has happened: what the model is told. Left out: nothing is in its way.'),
  ),
  updated_input: Type.Optional(
    about(FreeObject, 'Of Cursor: the arguments to be used, redacted. Left out: as they are.', { command: 'ls' }),
  ),
  command: Type.Optional(
    Type.Object(
      {
        status: about(Type.Enum([0, 2]), '2 denies.', 0),
        stdout: about(Type.String(), 'To be printed on standard output, where it is not empty.', ''),
        stderr: about(Type.String(), 'Why not, to be printed on standard error. Empty: it may be done.', ''),
        event_id: about(
          Type.Union([Type.String(), Type.Null()]),
          'The event that was recorded. null: there was nothing to ask about, or it was not understood.',
          exampleId('evt'),
        ),
      },
      { description: 'With `form=command`, and then alone: how a command ends. Left out: it was not asked for.' },
    ),
  ),
});

/** The body that clients of the Open Policy Agent send. */
export const OpaQuery = Type.Object({
  input: about(
    FreeObject,
    'What is asked about: `tool` (its name, or `{name}`) with `args` or `arguments`, and `messages` and `runtimeContext`; or `type` and `payload` as of an event. `agent`: id or name of the agent. `trace_id`: what the events of one run share. Anything else is refused.',
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
  metrics: Type.Optional(
    Type.Object(
      {
        timer_server_handler_ns: about(
          Type.Integer({ minimum: 0 }),
          'Nanoseconds, with any wait for a person.',
          800_000,
        ),
      },
      { description: 'How long it took. Left out: it was not asked for.' },
    ),
  ),
});

const Filled = Type.String({ minLength: 1 });
const properties = (of: string) =>
  Type.Optional(about(FreeObject, `What else is said of ${of}. Left out: nothing.`, { amount: 20 }));

/** The question of a client of AuthZEN. */
export const AuthZenQuestion = Type.Object(
  {
    subject: Type.Object(
      {
        type: about(Filled, 'What kind of subject it is. `agent`: it is the agent that asks.', 'agent'),
        id: about(Filled, 'Which it is; of an agent its id or name.', 'support-bot'),
        properties: properties('the subject'),
      },
      { additionalProperties: false, description: 'Who wants to do it.' },
    ),
    action: Type.Object(
      {
        name: about(Filled, 'What is to be done: the `tool` of the event.', 'refund'),
        properties: properties('it: the `arguments` of the event'),
      },
      { additionalProperties: false, description: 'What the subject wants to do.' },
    ),
    resource: Type.Object(
      {
        type: about(Filled, 'What kind of thing it is.', 'order'),
        id: about(Filled, 'Which it is.', '7'),
        properties: properties('the resource'),
      },
      { additionalProperties: false, description: 'To what it is to be done.' },
    ),
    context: Type.Optional(
      about(FreeObject, 'What else matters; `trace_id`: what the events of one run share. Left out: nothing.', {
        trace_id: 'conversation-1',
      }),
    ),
  },
  { additionalProperties: false },
);

export const AuthZenAnswer = Type.Object({
  decision: about(Type.Boolean(), 'Whether it may be done.', false),
  context: Type.Object(
    {
      reason: Type.Optional(reasonOf('Why not. Left out: it may be done.')),
      event_id: about(Type.String(), 'The event that was recorded.', exampleId('evt')),
      policy_id: Type.Optional(about(Type.String(), 'The policy that decided. Left out: none did.', exampleId('pol'))),
      approval_id: Type.Optional(
        about(Type.String(), 'The approval that it waits for. Left out: none.', exampleId('apr')),
      ),
    },
    { description: 'What it follows from.' },
  ),
});

/** The request of a product that sends each prompt and call of a tool; unknown members are judged as they came. */
export const InferenceHook = Type.Object(
  {
    type: Type.Optional(about(Type.String(), 'What is about to happen. Left out: not said.', 'prompt')),
    request_id: Type.Optional(
      about(Type.String(), 'A request that is sent again is recorded once. Left out: its `webhook-id`.', 'req-1'),
    ),
    tenant_id: Type.Optional(about(Type.String(), 'In each event. Left out: not said.', 'org-1')),
    session_id: Type.Optional(
      about(Type.String(), 'Becomes the `trace_id`. Left out: all of the request is new.', 's-1'),
    ),
    actor: Type.Optional(
      about(FreeObject, 'Who speaks: `payload.actor` of each event. Left out: not said.', {
        email_address: 'ada@example.com',
      }),
    ),
    source: Type.Optional(
      about(FreeObject, '`application` is `payload.application` of each event. Left out: not said.', {
        application: 'chat',
      }),
    ),
    messages: Type.Optional(
      about(Type.Array(Type.Unknown()), 'The conversation, whole. Left out: what else there is is judged.', [{}]),
    ),
  },
  { additionalProperties: true },
);

export const InferenceAnswer = Type.Object({
  action: about(Type.Enum(['allow', 'deny']), 'Whether it may go on.'),
  deny_reason: Type.Optional(reasonOf('Why not, for people: at most 500 characters. Left out: it may go on.')),
  reference_id: Type.Optional(
    about(
      Type.String(),
      'The event, or the approval that it waits for; where it could not be judged, the request. Left out: there is none.',
      exampleId('evt'),
    ),
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
  structured_messages: Type.Optional(
    about(Type.Array(Type.Unknown()), 'The messages that the texts are of. Left out: none.', [{ role: 'user' }]),
  ),
  tools: Type.Optional(about(Type.Array(Type.Unknown()), 'Tools that the model may call. Left out: none.', [{}])),
  images: Type.Optional(about(Type.Array(Type.Unknown()), 'Images. Left out: none.', ['https://example.com/a.png'])),
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
