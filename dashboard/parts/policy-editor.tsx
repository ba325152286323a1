// The editor of a policy. Conditions are JSON, as the interface takes them; what the service refuses is reported by
// its place, and the line of that place is marked. A new policy begins with the action `log`, which stops no agent.
import { useRef, useState } from 'preact/hooks';
import { POLICY_ACTIONS, POLICY_TYPES, type PolicyType, SEVERITIES } from '../../schemas/closed-sets.ts';
import { ApiError, call } from '../core/api.ts';
import { changed } from '../core/queries.ts';
import { layOut, lineAt, lineOf } from '../core/tokens.ts';
import type { Evaluated, Policy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Dialog, Field, textOf } from './dialog.tsx';
import { type Tried, TryPolicy } from './try-policy.tsx';

const STARTS: Record<PolicyType, string> = {
  block_action:
    '{\n  "type": "tool_call",\n  "payload.tool": "send_money",\n  "payload.arguments.amount": { "gt": 1000 }\n}',
  rate_limit: '{\n  "type": "tool_call",\n  "threshold": 100,\n  "window": "1h",\n  "per": "payload.tool"\n}',
  data_filter: '{\n  "detectors": ["email", "credit_card", "api_key"],\n  "redact": true\n}',
  require_approval:
    '{\n  "type": "tool_call",\n  "payload.tool": "refund",\n  "timeout": "1h",\n  "on_timeout": "deny"\n}',
};

type Mistake = { path: string; message: string; line: number };
type EditorProps = {
  policy?: Policy;
  agents: ReadonlyMap<string, string>;
  /** The event to try it on; left out: the newest. */
  tried?: Tried | undefined;
  onClose: () => void;
};

export function PolicyEditor({ policy, agents, tried, onClose }: EditorProps) {
  const [type, setType] = useState<PolicyType>(policy?.type ?? 'block_action');
  const [text, setText] = useState(
    policy === undefined ? STARTS.block_action : JSON.stringify(policy.conditions, null, 2),
  );
  const [mistakes, setMistakes] = useState<Mistake[]>([]);
  /** `place`: of the policy in what is sent. */
  const marking = async <T,>(place: string, act: () => Promise<T>): Promise<T> => {
    setMistakes([]);
    try {
      return await act();
    } catch (error) {
      if (error instanceof ApiError)
        setMistakes(
          error.details.map(({ path, message }) => {
            const own = path.startsWith(place) ? path.slice(place.length) : path;
            return { path: own, message, line: lineIn(text, own) };
          }),
        );
      throw error;
    }
  };
  const save = async (form: FormData) => {
    const severity = textOf(form, 'severity');
    const description = textOf(form, 'description');
    const body = {
      name: textOf(form, 'name'),
      ...(policy === undefined ? { type, agent_id: textOf(form, 'agent_id') || null } : {}),
      actions: actionsOf(form),
      ...(severity !== '' ? { severity } : policy === undefined ? {} : { severity: null }),
      ...(description === '' && policy === undefined ? {} : { description }),
    };
    await marking('', async () => {
      const whole = { ...body, conditions: conditionsOf(text) };
      if (policy === undefined) return call('POST', 'v1/policies', { body: whole });
      const headers = { 'If-Match': `"${policy.revision}"` };
      return call('PATCH', `v1/policies/${policy.id}`, { body: whole, headers });
    });
    announce(`${body.name} is saved.`);
    changed('v1/policies', 'v1/audit-logs');
  };
  return (
    <Dialog
      title={policy === undefined ? 'New policy' : `Change ${policy.name}`}
      action="Save"
      onClose={onClose}
      onAct={save}
    >
      <Field label="Name">
        <input name="name" required maxLength={200} defaultValue={policy?.name ?? ''} />
      </Field>
      <div class="columns">
        <Field label="Type">
          <select
            disabled={policy !== undefined}
            value={type}
            onChange={({ currentTarget }) => {
              const next = currentTarget.value as PolicyType;
              if (text === STARTS[type]) setText(STARTS[next]);
              setType(next);
            }}
          >
            {POLICY_TYPES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <Field label="Applies to">
          <select name="agent_id" disabled={policy !== undefined} defaultValue={policy?.agent_id ?? ''}>
            <option value="">all agents</option>
            {[...agents].map(([id, name]) => (
              <option key={id} value={id}>
                {name}
              </option>
            ))}
          </select>
        </Field>
        <Field label="Severity">
          <select name="severity" defaultValue={policy?.severity ?? ''}>
            <option value="">none</option>
            {SEVERITIES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
      </div>
      <fieldset class="actions">
        <legend>Actions</legend>
        {POLICY_ACTIONS.map((action) => (
          <label key={action}>
            <input
              type="checkbox"
              name="actions"
              value={action}
              defaultChecked={(policy?.actions ?? ['log']).includes(action)}
            />{' '}
            {action}
          </label>
        ))}
        <small>
          <code>log</code> records matches and stops no agent: begin with it, look at what it matches, then add{' '}
          <code>block</code>.
        </small>
      </fieldset>
      <Conditions text={text} mistakes={mistakes} onText={setText} />
      <Field label="What it is for">
        <input name="description" maxLength={2000} defaultValue={policy?.description ?? ''} />
      </Field>
      <TryPolicy
        tried={tried}
        ask={(event, form) =>
          marking('/policies/0', async () => {
            const name = textOf(form, 'name');
            const draft = { type, conditions: conditionsOf(text), actions: actionsOf(form) };
            const policies = [{ ...draft, ...(name === '' ? {} : { name }) }];
            return (await call<Evaluated>('POST', 'v1/policies/evaluate', { body: { event, policies } })).value;
          })
        }
      />
    </Dialog>
  );
}

function Conditions({
  text,
  mistakes,
  onText,
}: {
  text: string;
  mistakes: readonly Mistake[];
  onText: (text: string) => void;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = text.split('\n');
  const marked = new Set(mistakes.map(({ line }) => line));
  return (
    <div class="field">
      <label for="conditions">Conditions (JSON)</label>
      <div class="editor">
        <div class="gutter" aria-hidden="true">
          {lines.map((_, i) => (
            <div key={i} class={marked.has(i) ? 'mistake' : ''}>
              {i + 1}
            </div>
          ))}
        </div>
        <textarea
          id="conditions"
          ref={area}
          spellcheck={false}
          rows={Math.max(6, lines.length)}
          value={text}
          aria-invalid={mistakes.length > 0}
          aria-describedby="mistakes"
          onInput={({ currentTarget }) => onText(currentTarget.value)}
        />
      </div>
      <ul id="mistakes" class="mistakes">
        {mistakes.map(({ path, message, line }) => (
          <li key={path + message}>
            {line >= 0 && <strong>Line {line + 1}: </strong>}
            <code>{path}</code> {message}
          </li>
        ))}
      </ul>
    </div>
  );
}

function actionsOf(form: FormData): string[] {
  return form.getAll('actions').map(String);
}

/** Throws ApiError naming the place, as the service would. */
function conditionsOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, 'validation_failed', 'The conditions are no JSON.', '', [
      { path: '/conditions', message: (error as Error).message },
    ]);
  }
}

/** Line of the text at a pointer such as `/conditions/window`; -1: it is not in there. */
function lineIn(text: string, pointer: string): number {
  if (!pointer.startsWith('/conditions')) return -1;
  const layout = layOut(text);
  for (let path = pointer.slice('/conditions'.length); ; path = path.slice(0, path.lastIndexOf('/'))) {
    const line = lineAt(layout, path);
    if (line >= 0) return text.slice(0, lineOf(layout, line).from).split('\n').length - 1;
    if (path === '') return -1;
  }
}
