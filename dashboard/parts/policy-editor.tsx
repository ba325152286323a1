// The editor of a policy. Conditions are a form (policy-form.tsx) or their JSON, as the interface takes it, each behind a
// tab; below them it says what the policy would have matched. What the service refuses is reported by its place, and the
// line of that place is marked. Before it is kept it can be tried on an event, replayed over those that were recorded,
// and kept as a shadow, which is judged beside the policies in force and of which nothing comes.
// Invariant: a policy is changed by If-Match, so what another person changed meanwhile is not overwritten unseen.
import { useState } from 'preact/hooks';
import {
  POLICY_ACTIONS,
  POLICY_TYPES,
  type PolicyAction,
  type PolicyType,
  SEVERITIES,
} from '../../schemas/closed-sets.ts';
import { ApiError, call } from '../core/api.ts';
import type { TriedPolicy } from '../core/backtests.ts';
import { isId } from '../core/id-links.ts';
import { jsonWith } from '../core/json.ts';
import { pathOf } from '../core/policies.ts';
import { changed } from '../core/queries.ts';
import { indented } from '../core/tokens.ts';
import type { Evaluated, WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { BacktestInShort } from './backtest-course.tsx';
import { BacktestStart } from './backtest-start.tsx';
import { ConditionsEditor, checkedJson, linesOf, type Mistake, Mistakes, mistakesOf } from './conditions-editor.tsx';
import { useConflict } from './conflict.tsx';
import { Dialog, Field, textOf } from './dialog.tsx';
import { FormOrJson } from './form-or-json.tsx';
import { Literal } from './literal.tsx';
import { AgentField } from './named.tsx';
import { PolicyForm } from './policy-form.tsx';
import { PolicyPreview } from './policy-preview.tsx';
import { Mode, startOf } from './policy-start.tsx';
import { type Recorded, TryPolicy } from './try-policy.tsx';

/** A tool is for the person to name: what stood here as an example would be kept by mistake. */
const STARTS: Record<PolicyType, string> = {
  block_action: '{\n  "type": "tool_call",\n  "payload.tool": ""\n}',
  rate_limit: '{\n  "type": "tool_call",\n  "threshold": 100,\n  "window": "1h",\n  "per": "payload.tool"\n}',
  data_filter: '{\n  "detectors": ["email", "credit_card", "api_key"],\n  "redact": true\n}',
  sequence:
    '{\n  "type": "tool_call",\n  "payload.tool": "",\n  "after": [{ "payload.tool": "" }],\n  "within": "1h",\n  "per": "agent"\n}',
  external_check:
    '{\n  "type": "prompt",\n  "check": "",\n  "when": { "score": { "gte": 0.8 } },\n  "on_timeout": "match",\n  "on_error": "match",\n  "on_overload": "match"\n}',
  require_approval: '{\n  "type": "tool_call",\n  "payload.tool": "",\n  "timeout": "1h",\n  "on_timeout": "deny"\n}',
  budget: '{\n  "limit": "25.00 USD",\n  "window": "day",\n  "zone": "UTC",\n  "per": "agent"\n}',
};

/**
 * The actions of a new policy of each type: those that its name says. Policies that find something are looked at before
 * they stop an agent; with `log` alone no approval would be asked for.
 */
const USUAL_ACTIONS: Record<PolicyType, readonly PolicyAction[]> = {
  ...{ block_action: ['block'], rate_limit: ['block'], budget: ['block'], require_approval: ['block'] },
  ...{ data_filter: ['log'], sequence: ['log'], external_check: ['log'] },
};

type EditorProps = {
  /** Left out: a new one. */
  policy?: WholePolicy | undefined;
  /** The values that the editor begins with, where they are not those of the policy as it is. */
  draft?: TriedPolicy;
  /** The event to try it on; left out: the newest. */
  tried?: Recorded | undefined;
  onClose: () => void;
};

export function PolicyEditor({ policy, draft, tried, onClose }: EditorProps) {
  const begun = draft ?? policy;
  const [type, setType] = useState<PolicyType>(begun?.type ?? 'block_action');
  const [text, setText] = useState(begun === undefined ? STARTS.block_action : indented(begun.conditions.text));
  const [mistakes, setMistakes] = useState<Mistake[]>([]);
  const [backtest, setBacktest] = useState<string>();
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
  const save = (form: FormData) =>
    marking('', async () => {
      const texts = { conditions: checkedJson(text) };
      if (policy === undefined || form.get('mode') === 'shadow') {
        const rawBody = jsonWith(creationOf(form, type, policy), texts);
        await call('POST', 'v1/policies', { rawBody });
      } else {
        const rawBody = jsonWith(changeOf(form, policy), texts);
        await guard(async (headers) => void (await call('PATCH', pathOf(policy.id), { rawBody, headers })));
      }
      announce(
        <>
          <Literal text={textOf(form, 'name')} /> is saved.
        </>,
      );
      changed('v1/policies', 'v1/audit-logs');
    });
  /** The policy as JSON, as an evaluation and a backtest take it. */
  const draftOf = (form: FormData, more: object = {}): string => {
    const [name, severity] = [textOf(form, 'name'), textOf(form, 'severity')];
    const fields = { type, actions: actionsOf(form), ...(name && { name }), ...(severity && { severity }), ...more };
    return jsonWith(fields, { conditions: checkedJson(text) });
  };
  /** Its name may be missing while it is written. */
  const previewed = (form: FormData): string => {
    const scope = scopeOf(form, policy);
    if (scope !== null && !isId(scope)) throw new ApiError(400, 'validation_failed', 'No agent is called so.');
    return draftOf(form, { name: textOf(form, 'name') || 'draft', agent_id: scope });
  };
  return (
    <Dialog
      title={
        policy === undefined ? (
          'New policy'
        ) : (
          <>
            Change <Literal text={policy.name} />
          </>
        )
      }
      action="Save"
      onClose={onClose}
      onAct={save}
    >
      <Fields
        policy={policy}
        begun={begun}
        type={type}
        onType={(next) => {
          if (text === STARTS[type]) setText(STARTS[next]);
          setType(next);
        }}
      />
      <FormOrJson
        form={<PolicyForm type={type} text={text} onText={setText} />}
        json={<ConditionsEditor text={text} isWrong={mistakes.length > 0} lines={linesOf(mistakes)} onText={setText} />}
      />
      <Mistakes mistakes={mistakes} />
      <PolicyPreview draft={previewed} />
      <Field label="What it is for">
        <input name="description" maxLength={2000} defaultValue={policy?.description ?? ''} />
      </Field>
      <fieldset class="try">
        <legend>Try it on an event</legend>
        <TryPolicy
          tried={tried}
          scope={begun?.agent_id ?? undefined}
          ask={(event, form) =>
            marking('/policies/0', async () => {
              const rawBody = jsonWith({}, { event, policies: `[${draftOf(form)}]` });
              return (await call<Evaluated>('POST', 'v1/policies/evaluate', { rawBody })).value;
            })
          }
        />
      </fieldset>
      <fieldset class="try">
        <legend>Replay it over recorded events</legend>
        <BacktestStart
          tried={async (form) => {
            const policyText = draftOf(form, { agent_id: scopeOf(form, policy) });
            return { policy: policyText, ...(policy === undefined ? {} : { policy_id: policy.id }) };
          }}
          refused={(error) => setMistakes(mistakesOf(error, '/policy', text))}
          onStarted={({ id }) => {
            setMistakes([]);
            setBacktest(id);
          }}
        />
        {backtest !== undefined && <BacktestInShort key={backtest} id={backtest} />}
      </fieldset>
      {conflict}
    </Dialog>
  );
}

type FieldsProps = {
  policy: WholePolicy | undefined;
  begun: TriedPolicy | undefined;
  type: PolicyType;
  onType: (type: PolicyType) => void;
};

function Fields({ policy, begun, type, onType }: FieldsProps) {
  const [name, setName] = useState(policy?.name ?? begun?.name ?? '');
  const [agent, setAgent] = useState(begun?.agent_id ?? '');
  const isNew = policy === undefined;
  return (
    <>
      <Field label="Name">
        <input
          name="name"
          required
          maxLength={200}
          value={name}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
      </Field>
      <div class="columns">
        <Field label="Type">
          <select
            disabled={!isNew}
            value={type}
            onChange={({ currentTarget }) => onType(currentTarget.value as PolicyType)}
          >
            {POLICY_TYPES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
        <AgentField
          label="Applies to"
          name="agent_id"
          none="all agents"
          value={agent}
          onValue={setAgent}
          disabled={!isNew}
        />
        <Field label="Severity">
          <select name="severity" defaultValue={begun?.severity ?? ''}>
            <option value="">none</option>
            {SEVERITIES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </Field>
      </div>
      {policy?.mode !== 'shadow' && (
        <Mode
          policy={policy}
          type={type}
          onShadow={(isShadow) => {
            // names are unique, so the copy needs one of its own
            if (policy !== undefined && isShadow && name === policy.name) setName(`${name.slice(0, 191)} (shadow)`);
            if (policy !== undefined && !isShadow && name.endsWith(' (shadow)')) setName(policy.name);
          }}
        />
      )}
      <Actions begun={begun?.actions ?? USUAL_ACTIONS[type]} key={type} />
    </>
  );
}

function Actions({ begun }: { begun: readonly string[] }) {
  return (
    <fieldset class="actions">
      <legend>Actions</legend>
      {POLICY_ACTIONS.map((action) => (
        <label key={action}>
          <input type="checkbox" name="actions" value={action} defaultChecked={begun.includes(action)} /> {action}
        </label>
      ))}
      <small>
        <code>block</code> stops what matches, <code>alert</code> notifies, <code>log</code> alone records it and stops
        no agent. As a shadow a policy is tried beside those in force first.
      </small>
    </fieldset>
  );
}

function actionsOf(form: FormData): string[] {
  return form.getAll('actions').map(String);
}

/** The policy's scope. It is fixed once the policy is there. */
function scopeOf(form: FormData, policy: WholePolicy | undefined): string | null {
  return policy === undefined ? textOf(form, 'agent_id') || null : policy.agent_id;
}

/** `policy`: the one that a shadow copies. */
function creationOf(form: FormData, type: PolicyType, policy: WholePolicy | undefined): object {
  const [severity, description] = [textOf(form, 'severity'), textOf(form, 'description')];
  return {
    ...{ name: textOf(form, 'name'), type, agent_id: scopeOf(form, policy), actions: actionsOf(form) },
    ...(severity === '' ? {} : { severity }),
    ...(description === '' ? {} : { description }),
    ...(form.get('mode') === 'shadow' ? { mode: 'shadow' } : startOf(form, undefined)),
    ...(policy === undefined ? {} : { shadow_of: policy.id }),
  };
}

function changeOf(form: FormData, policy: WholePolicy): object {
  const description = textOf(form, 'description');
  return {
    ...{ name: textOf(form, 'name'), actions: actionsOf(form), severity: textOf(form, 'severity') || null },
    ...(description === (policy.description ?? '') ? {} : { description }),
    ...(policy.mode === 'shadow' ? {} : startOf(form, policy)),
  };
}
