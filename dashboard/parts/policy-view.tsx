// One policy: what it asks for, switching and changing it, and its history from the audit log.
import { useState } from 'preact/hooks';
import { useAgentNames } from '../core/agents.ts';
import { call, query } from '../core/api.ts';
import { changed, useRead } from '../core/queries.ts';
import { hrefOf, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { AuditLog, Policy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Severity, Time } from './buttons.tsx';
import { Dialog } from './dialog.tsx';
import { Payload } from './payload.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { Reading } from './states.tsx';

export function PolicyView({ id }: { id: string }) {
  const reading = useRead<Policy>(`v1/policies/${encodeURIComponent(id)}`);
  const policy = reading.value;
  return <Reading of={reading}>{policy !== undefined && <Shown policy={policy} />}</Reading>;
}

function Shown({ policy }: { policy: Policy }) {
  const names = useAgentNames();
  const [dialog, setDialog] = useState<'edit' | 'delete' | 'switch'>();
  const close = () => setDialog(undefined);
  const isOn = policy.status === 'active';
  return (
    <>
      <h2>{policy.name}</h2>
      <dl class="facts">
        <dt>Type</dt>
        <dd>{policy.type}</dd>
        <dt>Actions</dt>
        <dd>
          {policy.actions.join(', ')} <Severity severity={policy.severity} />
        </dd>
        <dt>Status</dt>
        <dd>
          <span class={`badge ${policy.status}`}>{policy.status}</span>
        </dd>
        <dt>Applies to</dt>
        <dd>{policy.agent_id === null ? 'all agents' : (names.get(policy.agent_id) ?? policy.agent_id)}</dd>
        <dt>Revision</dt>
        <dd>
          {policy.revision}, <Time at={policy.updated_at} />
        </dd>
        {policy.description !== undefined && (
          <>
            <dt>For</dt>
            <dd>{policy.description}</dd>
          </>
        )}
      </dl>
      <h3>Conditions</h3>
      <Payload text={JSON.stringify(policy.conditions)} />
      <div class="bar">
        <a href={hrefOf('events', { policy_id: policy.id, range: '24h' })}>What it matched in 24 h</a>
        {may('configure') && (
          <>
            <button type="button" onClick={() => setDialog('edit')}>
              Change
            </button>
            <button type="button" onClick={() => setDialog('switch')}>
              Switch {isOn ? 'off' : 'on'}
            </button>
            <button type="button" class="danger" onClick={() => setDialog('delete')}>
              Delete
            </button>
          </>
        )}
      </div>
      <History id={policy.id} />
      {dialog === 'edit' && <PolicyEditor policy={policy} agents={names} onClose={close} />}
      {dialog === 'switch' && (
        <Dialog
          title={`Switch ${policy.name} ${isOn ? 'off' : 'on'}`}
          action={isOn ? 'Switch off' : 'Switch on'}
          danger={isOn}
          onClose={close}
          onAct={async () => {
            await call('PATCH', `v1/policies/${policy.id}`, {
              body: { status: isOn ? 'inactive' : 'active' },
              headers: { 'If-Match': `"${policy.revision}"` },
            });
            changed('v1/policies');
          }}
        >
          <p>
            {isOn
              ? 'From the next second on, no event is judged by it.'
              : 'From the next second on, events are judged by it.'}
          </p>
        </Dialog>
      )}
      {dialog === 'delete' && (
        <Dialog
          title={`Delete ${policy.name}`}
          action="Delete"
          danger
          onClose={close}
          onAct={async () => {
            await call('DELETE', `v1/policies/${policy.id}`, { headers: { 'If-Match': `"${policy.revision}"` } });
            announce(`${policy.name} is deleted.`);
            setParams({ id: undefined });
            changed('v1/policies');
          }}
        >
          <p>Events that it matched keep its name and revision. It cannot be brought back.</p>
        </Dialog>
      )}
    </>
  );
}

function History({ id }: { id: string }) {
  const reading = useRead<{ logs: AuditLog[] }>(
    `v1/audit-logs${query({ resource_type: 'policy', resource_id: id, limit: 20 })}`,
  );
  return (
    <section aria-label="History">
      <h3>History</h3>
      <Reading of={reading}>
        <ol class="history">
          {reading.value?.logs.map((entry) => (
            <li key={entry.id}>
              <Time at={entry.created_at} /> {entry.action} by <code>{entry.actor}</code>
              <Difference details={entry.details} />
            </li>
          ))}
        </ol>
      </Reading>
    </section>
  );
}

function Difference({ details }: { details: Record<string, unknown> }) {
  const before = (details['before'] ?? {}) as Record<string, unknown>;
  const after = (details['after'] ?? {}) as Record<string, unknown>;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const others = ((details['changed'] ?? []) as string[]).filter((name) => !names.includes(name));
  return (
    <>
      {names.map((name) => (
        <div key={name}>
          <code>{name}</code> <del>{JSON.stringify(before[name])}</del> <ins>{JSON.stringify(after[name])}</ins>
        </div>
      ))}
      {others.length > 0 && <div class="quiet">changed: {others.join(', ')}</div>}
    </>
  );
}
