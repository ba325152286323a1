// The editor of a policy. Conditions are JSON, as the interface takes them; what the service refuses is reported by
// its place, and the line of that place is marked. A new policy begins with the action `log`, which stops no agent.
import { useState } from 'preact/hooks';
import { POLICY_ACTIONS, POLICY_TYPES, type PolicyType, SEVERITIES } from '../../schemas/closed-sets.ts';
import { ApiError, call } from '../core/api.ts';
import { jsonWith } from '../core/json.ts';
import { pathOf } from '../core/policies.ts';
import { changed } from '../core/queries.ts';
import { indented } from '../core/tokens.ts';
import type { Evaluated, WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { ConditionsEditor, checkedJson, type Mistake, mistakesOf } from './conditions-editor.tsx';
import { useConflict } from './conflict.tsx';
import { Dialog, Field, textOf } from './dialog.tsx';
import { type Recorded, TryPolicy } from './try-policy.tsx';

const STARTS: Record<PolicyType, string> = {
  block_action:
    '{\n  "type": "tool_call",\n  "payload.tool": "send_money",\n  "payload.arguments.amount": { "gt": 1000 }\n}',
  rate_limit: '{\n  "type": "tool_call",\n  "threshold": 100,\n  "window": "1h",\n  "per": "payload.tool"\n}',
  data_filter: '{\n  "detectors": ["email", "credit_card", "api_key"],\n  "redact": true\n}',
  require_approval:
    '{\n  "type": "tool_call",\n  "payload.tool": "refund",\n  "timeout": "1h",\n  "on_timeout": "deny"\n}',
};

type EditorProps = {
  policy?: WholePolicy;
  agents: ReadonlyMap<string, string>;
  /** The event to try it on; left out: the newest. */
  tried?: Recorded | undefined;
  onClose: () => void;
};

export function PolicyEditor({ policy, agents, tried, onClose }: EditorProps) {
  const [type, setType] = useState<PolicyType>(policy?.type ?? 'block_action');
  const [text, setText] = useState(policy === undefined ? STARTS.block_action : indented(policy.conditions.text));
  const [mistakes, setMistakes] = useState<Mistake[]>([]);
  const { guard, conflict } = useConflict(policy ?? { id: '', revision: 0 });
  /** `place`: of the policy in what is sent. */
  const marking = async <T,>(place: string, act: () => Promise<T>): Promise<T> => {
    setMistakes([]);
    try {
      return await act();
    } catch (error) {
      if (error instanceof ApiError) setMistakes(mistakesOf(error, place, text));
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
      ...(description === (policy?.description ?? '') ? {} : { description }),
    };
    await marking('', async () => {
      const rawBody = jsonWith(body, { conditions: checkedJson(text) });
      if (policy === undefined) return void (await call('POST', 'v1/policies', { rawBody }));
      return guard(async (headers) => void (await call('PATCH', pathOf(policy.id), { rawBody, headers })));
    });
    announce(`${body.name} is saved.`);
    changed('v1/policies', 'v1/audit-logs');
  };
  /** What is tried: what an evaluation and a backtest take. */
  const draftOf = (form: FormData): string => {
    const name = textOf(form, 'name');
    const severity = textOf(form, 'severity');
    const fields = { type, actions: actionsOf(form), ...(name && { name }), ...(severity && { severity }) };
    return jsonWith(fields, { conditions: checkedJson(text) });
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
      <ConditionsEditor text={text} mistakes={mistakes} onText={setText} />
      <Field label="What it is for">
        <input name="description" maxLength={2000} defaultValue={policy?.description ?? ''} />
      </Field>
      <fieldset class="try">
        <legend>Try it on an event</legend>
        <TryPolicy
          tried={tried}
          scope={policy?.agent_id ?? undefined}
          ask={(event, form) =>
            marking('/policies/0', async () => {
              const rawBody = jsonWith({}, { event, policies: `[${draftOf(form)}]` });
              return (await call<Evaluated>('POST', 'v1/policies/evaluate', { rawBody })).value;
            })
          }
        />
      </fieldset>
      {conflict}
    </Dialog>
  );
}

function actionsOf(form: FormData): string[] {
  return form.getAll('actions').map(String);
}
