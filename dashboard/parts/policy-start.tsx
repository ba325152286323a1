// From when a policy is in force: how it is chosen in the editor, and the mark of one that waits. Times are by the clock
// that is switched to, whose zone is named.
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { PolicyType } from '../../schemas/closed-sets.ts';
import { nowMs } from '../core/clock.ts';
import { dayText, exactText, inputOf, ofInput, tomorrow, zone, zoneName } from '../core/time.ts';
import type { Policy, WholePolicy } from '../core/types.ts';
import { useNow } from './buttons.tsx';
import { Field, textOf } from './dialog.tsx';

type ModeProps = {
  policy: WholePolicy | undefined;
  type: PolicyType;
  onShadow: (isShadow: boolean) => void;
};

export function Mode({ policy, type, onShadow }: ModeProps) {
  const [mode, setMode] = useState(() => (waits(policy?.starts_at, nowMs()) ? 'later' : 'enforce'));
  const mayWait = type !== 'sequence';
  const shown = mode === 'later' && !mayWait ? 'enforce' : mode;
  return (
    <div class="columns">
      <Field label="Save it" {...(shown === 'shadow' ? { hint: SHADOW } : {})}>
        <select
          name="mode"
          value={shown}
          onChange={({ currentTarget }) => {
            setMode(currentTarget.value);
            onShadow(currentTarget.value === 'shadow');
          }}
        >
          <option value="enforce">in force at once</option>
          {mayWait && <option value="later">in force from a time on</option>}
          <option value="shadow">{policy === undefined ? 'as a shadow' : 'as a shadow beside the one in force'}</option>
        </select>
      </Field>
      {shown === 'later' && (
        <Field label="In force from" hint={`Time in ${zoneName()}. Until then it judges no event.`}>
          <input
            type="datetime-local"
            name="starts_at"
            required
            step="any"
            defaultValue={policy?.starts_at === undefined ? `${tomorrow()}T00:00` : inputOf(policy.starts_at)}
          />
        </Field>
      )}
    </div>
  );
}

const SHADOW =
  'For 14 days a shadow is judged on what agents do. It decides nothing; its report says what it would have decided, and promotes it.';

/** The `starts_at` that is sent; nothing where it stays as it is. */
export function startOf(form: FormData, policy: WholePolicy | undefined): { starts_at?: string | null } {
  const before = policy?.starts_at;
  if (form.get('mode') !== 'later') return waits(before, nowMs()) ? { starts_at: null } : {};
  const at = ofInput(textOf(form, 'starts_at'), before);
  return at === undefined || at === before ? {} : { starts_at: at };
}

type Starting = { policy: Pick<Policy, 'starts_at' | 'status'> };

/** `from tomorrow 00:00` of a policy that is not in force yet, its status of others. */
export function InForce({ policy: { starts_at: at, status } }: Starting) {
  const shown = <span class={`badge ${status}`}>{status}</span>;
  return at === undefined || status !== 'active' ? shown : <Waiting at={at} then={shown} />;
}

/** The same, and nothing of others. */
export function NotYet({ policy: { starts_at: at, status } }: Starting) {
  return at === undefined || status !== 'active' ? null : <Waiting at={at} then={null} />;
}

function Waiting({ at, then }: { at: string; then: VNode | null }) {
  zone.value; // drawn again when it is switched
  return waits(at, useNow(LOOK_MS)) ? (
    <span class="badge waits" title={exactText(at)}>
      from {dayText(at)}
    </span>
  ) : (
    then
  );
}

const LOOK_MS = 1_000;

function waits(at: string | undefined, atMs: number): boolean {
  return at !== undefined && atMs < Date.parse(at);
}
