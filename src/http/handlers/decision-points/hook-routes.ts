// Hooks of agents that are tools of others, a path for each (src/hooks has their forms). What is not understood is
// answered as a no in the tool's own words, with 200: such tools take an error for a hook that is broken, and go on.
// Invariant: a yes is said of an event that is recorded and allowed, or about which there is nothing to ask.
import { Compile } from 'typebox/compile';
import { Hook, HookAnswer } from '../../../../schemas/decision-points.ts';
import { type ErrorCode, ServiceError } from '../../../common/errors.ts';
import { jsonOf, scalarIn } from '../../../common/json-text.ts';
import { ObjectText } from '../../../common/object-text.ts';
import { validationFailed } from '../../../common/validation.ts';
import { type HookTool, NotUnderstood } from '../../../hooks/hook-form.ts';
import { HOOK_TOOLS } from '../../../hooks/hook-tools.ts';
import { withoutLargeMembers } from '../../../hooks/large-members.ts';
import {
  allowed,
  denied,
  type HookRead,
  type HookReply,
  readHook,
  redacted,
  refused,
} from '../../../hooks/read-hook.ts';
import { bodyOf } from '../../../ingest/hook-reading.ts';
import type { Caller } from '../../../ingest/ingest-parts.ts';
import { oneOf, type QueryOf } from '../../reading/query.ts';
import { type Call, eventBody, type Parts, type Route, route } from '../../route.ts';
import {
  decide,
  POINT_OPERATION,
  POINT_ROUTE,
  type pointQuery,
  queryOf,
  redactedBy,
  traceOf,
} from './decision-point.ts';

const form = {
  form: oneOf('`command`: what a command is to print, and its status, in place of the form of the tool', ['command']),
};
type HookCall = Call<Buffer, QueryOf<typeof form & typeof pointQuery>>;

const validator = Compile(Hook);
const EXAMPLES: Record<string, object> = {
  'claude-code': { hook_event_name: 'PreToolUse', session_id: 's-1', tool_name: 'Bash', tool_input: { command: 'ls' } },
  'gemini-cli': { hook_event_name: 'BeforeTool', tool_name: 'run_shell_command', tool_input: { command: 'ls' } },
  cursor: { hook_event_name: 'beforeShellExecution', command: 'ls', cwd: '/' },
  copilot: { sessionId: 's-1', toolName: 'bash', toolArgs: { command: 'ls' } },
  windsurf: { agent_action_name: 'pre_run_command', tool_info: { command_line: 'ls' } },
};

export const hookRoutes: Route[] = HOOK_TOOLS.map((tool) => {
  const path = `/v1/hooks/${tool.name}`;
  return route({
    ...POINT_ROUTE,
    path,
    query: { ...queryOf(tool.waitSeconds), ...form },
    body: eventBody('hook', Hook),
    operation: {
      id: `decideHookOf${tool.title.replace(/\W/g, '')}`,
      ...POINT_OPERATION,
      summary: `Answer a hook of ${tool.title}`,
      description:
        'What the tool is about to do is judged, and denied where a policy blocks it; what it has done is recorded and judged. What is allowed is answered so that its own rules still hold. A hook that is not understood is denied.',
      answers: { 200: { description: 'What was decided', schema: HookAnswer, example: {} } },
      bodyExample: EXAMPLES[tool.name],
    },
    submit(call: HookCall, parts, caller) {
      const { eventBytesMax } = parts.limits;
      const answer = (said: HookReply, event: string | null) =>
        caller.accepted({
          body: call.query.form === 'command' ? commandText(said, event) : said.answer,
          isOwnForm: true,
        });
      // A command says any error as a no by itself.
      const noTo = call.query.form === 'command' ? () => undefined : noToUnread(tool, call.body);
      let hook: ObjectText;
      try {
        hook = bodyOf(smallEnough(call.body, tool, eventBytesMax), Hook, validator);
      } catch (error) {
        const no = noTo(error);
        if (no === undefined) throw error;
        return answer(no, null);
      }
      if (tool.event !== undefined && !hook.has(tool.event))
        throw validationFailed('The question does not fit its schema.', [
          { path: `/${tool.event}`, message: 'is required' },
        ]);
      let read: HookRead;
      try {
        read = readHook(tool, hook, eventBytesMax, call.body.length);
      } catch (error) {
        if (!(error instanceof NotUnderstood)) throw error;
        return answer(refused(tool, hook, error.message), null);
      }
      if (read.judged === undefined) return answer(allowed(read.form), null);
      ask(call, parts, { tool, path, read }, caller).then(
        ({ said, event }) => answer(said, event),
        (error: unknown) => {
          const no = noTo(error);
          if (no === undefined) caller.refused(error);
          else answer(no, null);
        },
      );
    },
  });
});

/** The bytes in which the event's name is looked for: tools write it first, or after a conversation's id and folder. */
const HEAD_BYTES = 64 * 1024;
const UNREAD: ReadonlySet<ErrorCode> = new Set(['malformed_json', 'validation_failed', 'payload_too_large']);

/**
 * The no to a hook that cannot be read as an event, in the tool's own words: an error would let the tool go on, and
 * what makes one may be what the model wrote. undefined: it is another error, or nothing says which event it is.
 */
function noToUnread(tool: HookTool, body: Buffer): (error: unknown) => HookReply | undefined {
  // Now: the bytes are given back before a decision is there.
  const event = tool.event === undefined ? undefined : scalarIn(body.toString('utf8', 0, HEAD_BYTES), tool.event);
  return (error) => {
    if (!(error instanceof ServiceError) || !UNREAD.has(error.code)) return undefined;
    if (tool.event !== undefined && event === undefined) return undefined;
    const hook = event === undefined ? '{}' : `{${jsonOf(tool.event)}:${event}}`;
    return refused(tool, ObjectText.of(hook)!, error.message.replace(/\.$/, ''));
  };
}

/** Throws ServiceError payload_too_large. */
function smallEnough(body: Buffer, tool: HookTool, bytesMax: number): Buffer {
  if (body.length <= bytesMax) return body;
  const left = withoutLargeMembers(body, tool);
  if (left.length <= bytesMax) return left;
  const message = `The hook is larger than ${bytesMax} bytes, also without its large members.`;
  throw new ServiceError('payload_too_large', message, { recorded: false });
}

type HookRequest = { tool: HookTool; path: string; read: HookRead };

async function ask(call: HookCall, parts: Parts, { tool, path, read }: HookRequest, caller: Caller) {
  const { hook, form, judged } = read;
  const { type, payload } = judged!;
  const question = {
    type,
    payload: payload.text,
    trace: traceOf(tool.trace.map((key) => hook.string(key)).find((id) => id !== undefined)),
  };
  const {
    event,
    reason,
    redacted: left,
    result,
  } = await decide(call, parts, { purpose: path, otherwise: tool.name, event: question }, caller);
  if (reason !== undefined) return { event, said: denied(tool, form, reason) };
  return { event, said: left === undefined ? allowed(form) : redacted(tool, read, left, redactedBy(result)) };
}

function commandText({ status, stdout, stderr }: HookReply, event_id: string | null): string {
  return jsonOf({ command: { status, stdout, stderr, event_id } });
}
