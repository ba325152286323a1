// The forms of hooks, tool by tool: what each event becomes, the closed list of those about which there is nothing to
// ask, and that everything else is refused with a reason: other events, names in other letters, arguments in places
// that nothing reads. What a policy redacts is given back where the tool takes it, and a no where it does not.
import t from 'tap';
import { ObjectText } from '../../src/common/object-text.ts';
import { type HookTool, NotUnderstood } from '../../src/hooks/hook-form.ts';
import { HOOK_TOOLS, toolOf } from '../../src/hooks/hook-tools.ts';
import { withoutLargeMembers } from '../../src/hooks/large-members.ts';
import { denied, readHook, redacted, refused } from '../../src/hooks/read-hook.ts';

const BYTES_MAX = 1024 * 1024;
const NUMBERS = '{"id":9007199254740993,"acct":12345678901234567890,"one":1.0,"big":1e400,"zero":-0}';
const COMMAND = '{"command":"rm -rf /"}';

const tool = (name: string): HookTool => HOOK_TOOLS.find((one) => one.name === name)!;
const textOf = (hook: string | object) => (typeof hook === 'string' ? hook : JSON.stringify(hook));
/** As the service does. */
const readAs = (name: string, hook: string | object) => {
  const body = Buffer.from(textOf(hook));
  const read = body.length > BYTES_MAX ? withoutLargeMembers(body, tool(name)) : body;
  return readHook(tool(name), ObjectText.of(read.toString())!, BYTES_MAX, body.length);
};

/** Tool, hook, and the type and payload of its event; null: nothing to ask. */
const UNDERSTOOD: [name: string, hook: string | object, type: string | null, payload?: string][] = [
  [
    'claude-code',
    `{"hook_event_name":"PreToolUse","session_id":"s","tool_name":"Bash","tool_use_id":"t1","tool_input":${NUMBERS}}`,
    'tool_call',
    `{"tool":"Bash","arguments":${NUMBERS},"call_id":"t1"}`,
  ],
  [
    'claude-code',
    { hook_event_name: 'PermissionRequest', tool_name: 'Bash', tool_input: {} },
    'tool_call',
    '{"tool":"Bash","arguments":{}}',
  ],
  [
    'claude-code',
    `{"hook_event_name":"PostToolUse","tool_name":"Read","tool_input":${COMMAND},"tool_response":${NUMBERS}}`,
    'custom',
    `{"kind":"tool_result","tool_name":"Read","tool_input":${COMMAND},"result":${NUMBERS}}`,
  ],
  [
    'claude-code',
    { hook_event_name: 'PostToolUseFailure', tool_name: 'Bash', tool_input: {}, error: 'exit 1' },
    'custom',
    '{"kind":"tool_result","tool_name":"Bash","tool_input":{},"error":"exit 1"}',
  ],
  ['claude-code', { hook_event_name: 'UserPromptSubmit', prompt: 'hi' }, 'prompt', '{"prompt":"hi"}'],
  [
    'gemini-cli',
    `{"hook_event_name":"BeforeTool","tool_name":"run_shell_command","tool_input":${COMMAND}}`,
    'tool_call',
    `{"tool":"run_shell_command","arguments":${COMMAND}}`,
  ],
  [
    'gemini-cli',
    { hook_event_name: 'AfterTool', tool_name: 'read_file', tool_input: {}, tool_response: { llmContent: 'x' } },
    'custom',
    '{"kind":"tool_result","tool_name":"read_file","tool_input":{},"result":{"llmContent":"x"}}',
  ],
  ['gemini-cli', { hook_event_name: 'BeforeAgent', prompt: 'hi' }, 'prompt', '{"prompt":"hi"}'],
  ['gemini-cli', { hook_event_name: 'AfterAgent', prompt_response: 'ho' }, 'completion', '{"response":"ho"}'],
  [
    'gemini-cli',
    { hook_event_name: 'BeforeModel', llm_request: { model: 'g', messages: [{ role: 'user', content: 'hi' }] } },
    'prompt',
    '{"model":"g","messages":[{"role":"user","content":"hi"}]}',
  ],
  [
    'gemini-cli',
    { hook_event_name: 'AfterModel', llm_request: { model: 'g' }, llm_response: { candidates: [] } },
    'completion',
    '{"model":"g","response":{"candidates":[]}}',
  ],
  [
    'cursor',
    { hook_event_name: 'preToolUse', tool_name: 'Shell', tool_input: { command: 'ls' }, tool_use_id: 'u' },
    'tool_call',
    '{"tool":"Shell","arguments":{"command":"ls"},"call_id":"u"}',
  ],
  [
    'cursor',
    { hook_event_name: 'beforeShellExecution', command: 'rm -rf /', cwd: '/', sandbox: false, model: 'm', later: 1 },
    'tool_call',
    '{"tool":"Shell","arguments":{"command":"rm -rf /","cwd":"/","sandbox":false,"later":1}}',
  ],
  [
    'cursor',
    { hook_event_name: 'beforeMCPExecution', tool_name: 'pay', tool_input: '{"amount":5000}', url: 'http://x/' },
    'tool_call',
    '{"tool":"pay","arguments":"{\\"amount\\":5000}","server_url":"http://x/"}',
  ],
  [
    'cursor',
    { hook_event_name: 'beforeReadFile', file_path: '/a', content: 'secret', attachments: [] },
    'tool_call',
    '{"tool":"Read","arguments":{"file_path":"/a","content":"secret","attachments":[]}}',
  ],
  [
    'cursor',
    { hook_event_name: 'subagentStart', task: 'look', subagent_type: 'explore' },
    'tool_call',
    '{"tool":"Task","arguments":{"task":"look","subagent_type":"explore"}}',
  ],
  ['cursor', { hook_event_name: 'beforeSubmitPrompt', prompt: 'hi' }, 'prompt', '{"prompt":"hi"}'],
  [
    'cursor',
    { hook_event_name: 'afterShellExecution', command: 'ls', output: 'a\n', duration: 1.5 },
    'custom',
    '{"kind":"tool_result","tool_name":"Shell","tool_input":{"command":"ls"},"result":"a\\n"}',
  ],
  [
    'cursor',
    { hook_event_name: 'afterMCPExecution', tool_name: 'pay', tool_input: '{}', result_json: '{"ok":true}' },
    'custom',
    '{"kind":"tool_result","tool_name":"pay","tool_input":"{}","result":"{\\"ok\\":true}"}',
  ],
  ['cursor', { hook_event_name: 'afterAgentResponse', text: 'done' }, 'completion', '{"response":"done"}'],
  [
    'copilot',
    `{"sessionId":"s","timestamp":1,"cwd":"/","toolName":"bash","toolArgs":${NUMBERS}}`,
    'tool_call',
    `{"tool":"bash","arguments":${NUMBERS}}`,
  ],
  [
    'copilot',
    { toolName: 'bash', toolArgs: '{"command":"rm -rf /"}' },
    'tool_call',
    '{"tool":"bash","arguments":"{\\"command\\":\\"rm -rf /\\"}"}',
  ],
  [
    'copilot',
    { hook_event_name: 'PreToolUse', session_id: 's', tool_name: 'Bash', tool_input: { command: 'ls' } },
    'tool_call',
    '{"tool":"Bash","arguments":{"command":"ls"}}',
  ],
  [
    'copilot',
    { sessionId: 's', toolName: 'view', toolArgs: {}, toolResult: { resultType: 'success', textResultForLlm: 'x' } },
    'custom',
    '{"kind":"tool_result","tool_name":"view","tool_input":{},"result":{"resultType":"success","textResultForLlm":"x"}}',
  ],
  ['copilot', { sessionId: 's', prompt: 'hi' }, 'prompt', '{"prompt":"hi"}'],
  [
    'windsurf',
    { agent_action_name: 'pre_run_command', tool_info: { command_line: 'rm -rf /', cwd: '/' } },
    'tool_call',
    '{"tool":"run_command","arguments":{"command":"rm -rf /","cwd":"/"}}',
  ],
  [
    'windsurf',
    { agent_action_name: 'pre_write_code', tool_info: { file_path: '/a', edits: [{ new_string: 'x' }] } },
    'tool_call',
    '{"tool":"write_code","arguments":{"file_path":"/a","edits":[{"new_string":"x"}]}}',
  ],
  [
    'windsurf',
    `{"agent_action_name":"pre_mcp_tool_use","tool_info":{"mcp_server_name":"bank","mcp_tool_name":"pay","mcp_tool_arguments":${NUMBERS}}}`,
    'tool_call',
    `{"tool":"bank/pay","arguments":${NUMBERS}}`,
  ],
  ['windsurf', { agent_action_name: 'pre_user_prompt', tool_info: { user_prompt: 'hi' } }, 'prompt', '{"prompt":"hi"}'],
  [
    'windsurf',
    { agent_action_name: 'post_cascade_response', tool_info: { response: 'ho' } },
    'completion',
    '{"response":"ho"}',
  ],
  ...['SessionStart', 'SessionEnd', 'Stop', 'SubagentStop', 'Notification', 'PreCompact'].map(
    (hook_event_name) => ['claude-code', { hook_event_name }, null] as [string, object, null],
  ),
  ...['SessionStart', 'SessionEnd', 'Notification', 'PreCompress', 'BeforeToolSelection'].map(
    (hook_event_name) => ['gemini-cli', { hook_event_name }, null] as [string, object, null],
  ),
  ...['sessionStart', 'sessionEnd', 'stop', 'preCompact', 'afterAgentThought'].map(
    (hook_event_name) => ['cursor', { hook_event_name }, null] as [string, object, null],
  ),
  ['copilot', { sessionId: 's', timestamp: 1, cwd: '/', source: 'new', initialPrompt: 'x' }, null],
  ['copilot', { sessionId: 's', timestamp: 1, cwd: '/', reason: 'complete' }, null],
  ['copilot', { sessionId: 's', transcriptPath: '/t', stopReason: 'end_turn', stop_hook_active: false }, null],
  ['windsurf', { agent_action_name: 'post_setup_worktree', tool_info: {} }, null],
];

t.test('what is understood becomes this event, token by token', (t) => {
  for (const [name, hook, type, payload] of UNDERSTOOD) {
    const { judged } = readAs(name, hook);
    t.equal(judged?.type ?? null, type, textOf(hook).slice(0, 100));
    t.equal(judged?.payload.text, payload);
  }
  t.end();
});

t.test('a hook is known to be of its tool', (t) => {
  for (const [name, hook] of UNDERSTOOD) {
    const found = toolOf(ObjectText.of(textOf(hook)));
    // Claude Code's names are Copilot's and Gemini CLI's, too, and mean the same there.
    const isShared = found.name === 'claude-code' && typeof hook === 'object' && 'hook_event_name' in hook;
    t.ok(found.name === name || isShared, `${name}: ${textOf(hook).slice(0, 100)}`);
  }
  t.equal(toolOf(undefined).name, 'claude-code');
  t.same(
    [...new Set(UNDERSTOOD.map(([name]) => name))],
    HOOK_TOOLS.map(({ name }) => name),
    'of each tool some',
  );
  t.end();
});

/** A sound call for each tool, where its name and its arguments stand, and the member that they stand in. */
const CALLS: {
  name: string;
  hook: Record<string, unknown>;
  event?: string;
  tool?: string;
  args: string;
  in?: string;
}[] = [
  {
    name: 'claude-code',
    hook: { hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_input: { command: 'ls' } },
    ...{ event: 'hook_event_name', tool: 'tool_name', args: 'tool_input' },
  },
  {
    name: 'gemini-cli',
    hook: { hook_event_name: 'BeforeTool', tool_name: 'run_shell_command', tool_input: { command: 'ls' } },
    ...{ event: 'hook_event_name', tool: 'tool_name', args: 'tool_input' },
  },
  {
    name: 'cursor',
    hook: { hook_event_name: 'preToolUse', tool_name: 'Shell', tool_input: { command: 'ls' } },
    ...{ event: 'hook_event_name', tool: 'tool_name', args: 'tool_input' },
  },
  {
    name: 'cursor',
    hook: { hook_event_name: 'beforeShellExecution', command: 'ls' },
    ...{ event: 'hook_event_name', args: 'command' },
  },
  {
    name: 'copilot',
    hook: { sessionId: 's', toolName: 'bash', toolArgs: { command: 'ls' } },
    ...{ tool: 'toolName', args: 'toolArgs' },
  },
  {
    name: 'windsurf',
    hook: {
      agent_action_name: 'pre_mcp_tool_use',
      tool_info: { mcp_server_name: 'a', mcp_tool_name: 'b', mcp_tool_arguments: {} },
    },
    ...{ event: 'agent_action_name', tool: 'mcp_tool_name', args: 'mcp_tool_arguments', in: 'tool_info' },
  },
];
/** None is one object, and some tools write objects as texts. */
const TEXTS = ['', 'ls', '{"a":1,"a":2}', '[]', '{"a":', '"{}"'];
const OTHER_NAMES = ['toolInput', 'tool_args', 'args', 'arguments', 'input', 'parameters', 'params', 'Tool_Input'];

t.test('everything else is refused, and says what is wrong', (t) => {
  let count = 0;
  const isRefused = (name: string, hook: object, why: RegExp) => {
    count++;
    try {
      readAs(name, hook);
      t.fail(`${name}: ${textOf(hook)}`);
    } catch (error) {
      t.ok(error instanceof NotUnderstood, String(error));
      t.match((error as Error).message, why, `${name}: ${textOf(hook)}`);
      const said = refused(tool(name), ObjectText.of(textOf(hook))!, (error as Error).message);
      t.ok(said.status === 2 || /modifiedResult/.test(said.stdout), 'a command denies');
      t.notMatch(said.answer, /^(\{\}|\{"(permission":"allow"|continue":true)\})$/, 'over HTTP, too');
      t.match(said.stderr, /not understood, so this is denied/);
    }
  };
  for (const { name, hook, event, tool: toolKey, args, in: inner } of CALLS) {
    t.ok(readAs(name, hook).judged, `${name}: it is sound as it is`);
    const changed = (change: (of: Record<string, unknown>) => unknown) => {
      const copy = structuredClone(hook);
      change((inner === undefined ? copy : copy[inner]) as Record<string, unknown>);
      return copy;
    };
    if (event !== undefined)
      for (const other of [
        String(hook[event]).toLowerCase(),
        String(hook[event]).toUpperCase(),
        'Later',
        ' ',
        'toString',
      ])
        if (other !== hook[event]) isRefused(name, { ...hook, [event]: other }, /no hook/);
    for (const wrong of [undefined, null, 7, ['x'], true, ...(toolKey === undefined ? [] : TEXTS)])
      isRefused(
        name,
        changed((of) => Object.assign(of, { [args]: wrong })),
        new RegExp(args),
      );
    if (toolKey === undefined) continue;
    for (const wrong of [undefined, null, 7, '', ' ', {}, ['Bash']])
      if (!(name === 'copilot' && (wrong === undefined || wrong === null)))
        isRefused(
          name,
          changed((of) => Object.assign(of, { [toolKey]: wrong })),
          new RegExp(`${toolKey} must say which tool`),
        );
    for (const other of OTHER_NAMES)
      isRefused(
        name,
        changed((of) => Object.assign(of, { [other]: { command: 'rm -rf /' } })),
        new RegExp(`${other} is not read here`),
      );
  }
  isRefused('copilot', { toolArgs: {} }, /toolName must say which tool/);
  isRefused('copilot', { sessionId: 's', toolName: 'bash', toolInput: {} }, /toolInput is not read/);
  isRefused('copilot', { sessionId: 's', prompt: 'x', transformedPrompt: 'y' }, /no hook/);
  isRefused('copilot', { sessionId: 's', reason: 'x', somethingElse: 1 }, /no hook/);
  isRefused('copilot', {}, /no hook/);
  isRefused('windsurf', { agent_action_name: 'pre_run_command' }, /tool_info must be an object/);
  isRefused('windsurf', { agent_action_name: 'pre_run_command', command_line: 'ls', tool_info: {} }, /command_line/);
  for (const hook_event_name of [
    'UserPromptExpansion',
    'ConfigChange',
    'PostToolBatch',
    'Elicitation',
    'WorktreeCreate',
  ])
    isRefused('claude-code', { hook_event_name }, /no hook/);
  t.ok(count > 100, `${count} hooks`);
  t.end();
});

t.test('what is redacted is given back as the tool takes it, or is a no', (t) => {
  const said = (name: string, hook: string | object, change: (payload: string) => string) => {
    const read = readAs(name, hook);
    return redacted(tool(name), read, ObjectText.of(change(read.judged!.payload.text))!, 'Policy "p"');
  };
  const hidden = (payload: string) => payload.replaceAll('zoe@example.com', '[redacted:email]');
  const input = '{"to":"zoe@example.com","n":1.0}';
  const left = '{"to":"[redacted:email]","n":1.0}';
  const REASON = '"permissionDecisionReason":"A policy redacts part of it. This is what is left."';
  const GIVEN: [name: string, hook: string, answer: string][] = [
    [
      'claude-code',
      `{"hook_event_name":"PreToolUse","tool_name":"mail","tool_input":${input}}`,
      `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask",${REASON},"updatedInput":${left}}}`,
    ],
    [
      'claude-code',
      `{"hook_event_name":"PostToolUse","tool_name":"mail","tool_input":${input},"tool_response":${input}}`,
      `{"decision":"block","reason":"A policy redacts part of it. This is what is left.","hookSpecificOutput":{"hookEventName":"PostToolUse","updatedToolOutput":${left}}}`,
    ],
    [
      'gemini-cli',
      `{"hook_event_name":"BeforeTool","tool_name":"mail","tool_input":${input}}`,
      `{"hookSpecificOutput":{"hookEventName":"BeforeTool","tool_input":${left}}}`,
    ],
    [
      'cursor',
      `{"hook_event_name":"preToolUse","tool_name":"mail","tool_input":${input}}`,
      `{"permission":"allow","updated_input":${left}}`,
    ],
    [
      'copilot',
      `{"sessionId":"s","toolName":"mail","toolArgs":${input}}`,
      `{"permissionDecision":"ask",${REASON},"modifiedArgs":${left}}`,
    ],
    [
      'copilot',
      `{"sessionId":"s","toolName":"mail","toolArgs":{},"toolResult":{"resultType":"success","textResultForLlm":"zoe@example.com"}}`,
      '{"modifiedResult":{"resultType":"success","textResultForLlm":"[redacted:email]"}}',
    ],
  ];
  for (const [name, hook, answer] of GIVEN) {
    const { status, stdout, answer: over } = said(name, hook, hidden);
    t.same([status, stdout, over], [0, answer, answer], name);
  }
  const LOST: [name: string, hook: object][] = [
    ['claude-code', { hook_event_name: 'PreToolUse', tool_name: 'to zoe@example.com', tool_input: {} }],
    ['claude-code', { hook_event_name: 'PermissionRequest', tool_name: 'm', tool_input: { to: 'zoe@example.com' } }],
    ['claude-code', { hook_event_name: 'UserPromptSubmit', prompt: 'zoe@example.com' }],
    ['gemini-cli', { hook_event_name: 'BeforeTool', tool_name: 'm', tool_input: { 'zoe@example.com': 1 } }],
    ['gemini-cli', { hook_event_name: 'AfterTool', tool_name: 'm', tool_input: {}, tool_response: 'zoe@example.com' }],
    ['gemini-cli', { hook_event_name: 'BeforeAgent', prompt: 'zoe@example.com' }],
    ['cursor', { hook_event_name: 'beforeShellExecution', command: 'mail zoe@example.com' }],
    ['cursor', { hook_event_name: 'beforeMCPExecution', tool_name: 'm', tool_input: '{"to":"zoe@example.com"}' }],
    ['cursor', { hook_event_name: 'beforeReadFile', file_path: '/a', content: 'zoe@example.com' }],
    ['copilot', { sessionId: 's', toolName: 'm', toolArgs: '{"to":"zoe@example.com"}' }],
    ['windsurf', { agent_action_name: 'pre_run_command', tool_info: { command_line: 'mail zoe@example.com' } }],
    ['windsurf', { agent_action_name: 'pre_user_prompt', tool_info: { user_prompt: 'zoe@example.com' } }],
  ];
  for (const [name, hook] of LOST) {
    const { status, stderr } = said(name, hook, hidden);
    t.equal(status, 2, `${name}: ${textOf(hook)}`);
    t.match(stderr, /^Policy "p" redacts part of this/);
  }
  const same = said('claude-code', UNDERSTOOD[0]![1], (payload) => payload);
  t.same([same.status, same.answer], [0, '{}'], 'what is as it was');
  t.end();
});

t.test('a large result is recorded by its size, and a large call is not made', (t) => {
  const large = 'x'.repeat(1_400_000);
  const AFTER: [name: string, hook: object, member: string][] = [
    [
      'claude-code',
      {
        hook_event_name: 'PostToolUse',
        tool_name: 'Read',
        tool_input: { file_path: '/a.png' },
        tool_response: [large],
      },
      'result',
    ],
    [
      'gemini-cli',
      { hook_event_name: 'AfterTool', tool_name: 'r', tool_input: {}, tool_response: { llmContent: large } },
      'result',
    ],
    ['gemini-cli', { hook_event_name: 'AfterAgent', prompt: 'hi', prompt_response: large }, 'response'],
    ['cursor', { hook_event_name: 'postToolUse', tool_name: 'Read', tool_input: {}, tool_output: large }, 'result'],
    ['cursor', { hook_event_name: 'afterShellExecution', command: 'cat a', output: large }, 'result'],
    ['copilot', { sessionId: 's', toolName: 'view', toolArgs: {}, toolResult: { textResultForLlm: large } }, 'result'],
    [
      'windsurf',
      {
        agent_action_name: 'post_mcp_tool_use',
        tool_info: { mcp_server_name: 'a', mcp_tool_name: 'b', mcp_tool_arguments: { n: 1 }, mcp_result: large },
      },
      'result',
    ],
  ];
  for (const [name, hook, member] of AFTER) {
    const { judged } = readAs(name, hook);
    const payload = JSON.parse(judged!.payload.text);
    t.equal(payload.content_captured, false, name);
    t.ok(payload[`${member}_bytes`] > 1_400_000);
    t.notOk(member in payload);
    t.ok(judged!.payload.text.length < 1_000, 'all else is there');
  }
  for (const { name, hook } of CALLS.filter(({ in: inner }) => inner === undefined)) {
    const args =
      'command' in hook ? { command: large } : { [hook['toolName'] ? 'toolArgs' : 'tool_input']: { content: large } };
    t.throws(() => readAs(name, { ...hook, ...args }), { message: /larger than 1048576 bytes/ }, name);
  }
  t.end();
});

t.test('large members are left out of bytes before they are read', (t) => {
  const long = 'x'.repeat(70_000);
  const escaped = '\\"\\\\'.repeat(20_000);
  const left = (bytes: number) => `{"left_out_bytes":${bytes}}`;
  for (const [given, wanted] of [
    [`{"a":"${long}","b": [1.0,"${long}"]}`, `{"a":${left(70_002)},"b": ${left(70_008)}}`],
    [`{"a":[${'1,'.repeat(40_000)}1],"b":{"c":":,}"}}`, `{"a":${left(80_003)},"b":{"c":":,}"}}`],
    [`{"a":{"b":{"${long}":1}},"c":"}"}`, `{"a":${left(70_012)},"c":"}"}`],
    [`{"a":"${escaped}"}`, `{"a":${left(80_002)}}`],
    [`{"${long}" :1}`, `{"${long}" :1}`],
    ['{"a":"\\\\","b":"c"}', '{"a":"\\\\","b":"c"}'],
    [`{"a":"${long}`, `{"a":"${long}`],
    ['', ''],
  ] as const)
    t.equal(withoutLargeMembers(Buffer.from(given), {}).toString(), wanted, given.slice(0, 40));
  t.equal(
    withoutLargeMembers(Buffer.from(`{"a":{"b":"${long}","c":1},"d":"${long}"}`), { inner: 'a' }).toString(),
    `{"a":{"b":${left(70_002)},"c":1},"d":"${long}"}`,
    'of what is inside',
  );
  t.end();
});

t.test('a no in the words of each tool', (t) => {
  const no = (name: string, hook: object) => {
    const { form } = readAs(name, hook);
    const { status, stdout, stderr } = denied(tool(name), form, 'Blocked.');
    return [status, stdout, stderr];
  };
  t.same(no('claude-code', CALLS[0]!.hook), [2, '', 'Blocked.']);
  t.same(no('gemini-cli', CALLS[1]!.hook), [2, '', 'Blocked.']);
  t.same(no('cursor', CALLS[3]!.hook), [2, 'Blocked.', 'Blocked.'], 'shown as the reason as it is');
  const copilot = '{"permissionDecision":"deny","permissionDecisionReason":"Blocked."}';
  t.same(no('copilot', CALLS[4]!.hook), [2, copilot, 'Blocked.']);
  const withheld = '{"modifiedResult":{"resultType":"success","textResultForLlm":"Blocked."}}';
  const after = { sessionId: 's', toolName: 'view', toolArgs: {}, toolResult: { textResultForLlm: 'x' } };
  t.same(no('copilot', after), [0, withheld, 'Blocked.'], 'the one way to keep a result from the model');
  t.same(no('windsurf', CALLS[5]!.hook), [2, '', 'Blocked.']);
  t.end();
});
