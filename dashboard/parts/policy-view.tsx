// One policy: what it asks for, switching and changing it, and behind tabs its revisions. The tab is in the address.
import { useState } from 'preact/hooks';
import { useAgentNames } from '../core/agents.ts';
import { call } from '../core/api.ts';
import { pathOf, usePolicy } from '../core/policies.ts';
import { changed } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Severity, Time } from './buttons.tsx';
import { useConflict } from './conflict.tsx';
import { Dialog } from './dialog.tsx';
import { Payload } from './payload.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { PolicyRevisions } from './policy-revisions.tsx';
import { Reading } from './states.tsx';

const TABS: Record<string, string> = { '': 'As it is', revisions: 'Revisions' };

export function PolicyView({ id }: { id: string }) {
  const reading = usePolicy(id);
  const policy = reading.value;
  const tab = place.value.params.get('tab') ?? '';
  if (policy === undefined && reading.error?.status === 404) return <Deleted id={id} />;
  return (
    <Reading of={reading}>
      {policy !== undefined && (
        <>
          <h2>{policy.name}</h2>
          <Tabs id={id} tab={tab} />
          {tab === 'revisions' ? <PolicyRevisions id={id} /> : <AsItIs policy={policy} />}
        </>
      )}
    </Reading>
  );
}

function Deleted({ id }: { id: string }) {
  return (
    <>
      <h2>{id}</h2>
      <p>There is no such policy now. If there was one, these are its revisions.</p>
      <PolicyRevisions id={id} />
    </>
  );
}

function Tabs({ id, tab }: { id: string; tab: string }) {
  return (
    <nav class="tabs" aria-label="Of this policy">
      <ul>
        {Object.entries(TABS).map(([name, title]) => (
          <li key={name}>
            <a href={hrefOf('policies', { id, tab: name })} aria-current={name === tab ? 'page' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function AsItIs({ policy }: { policy: WholePolicy }) {
  const names = useAgentNames();
  const [dialog, setDialog] = useState<'edit' | 'delete' | 'switch'>();
  const close = () => setDialog(undefined);
  return (
    <>
      <Facts policy={policy} scope={policy.agent_id === null ? 'all agents' : names.get(policy.agent_id)} />
      <h3>Conditions</h3>
      <Payload text={policy.conditions.text} />
      <div class="bar">
        <a href={hrefOf('events', { policy_id: policy.id, range: '24h' })}>What it matched in 24 h</a>
        <a href={hrefOf('audit', { resource_id: policy.id })}>Audit entries</a>
        {may('configure') && (
          <>
            <button type="button" onClick={() => setDialog('edit')}>
              Change
            </button>
            <button type="button" onClick={() => setDialog('switch')}>
              Switch {policy.status === 'active' ? 'off' : 'on'}
            </button>
            <button type="button" class="danger" onClick={() => setDialog('delete')}>
              Delete
            </button>
          </>
        )}
      </div>
      {dialog === 'edit' && <PolicyEditor policy={policy} agents={names} onClose={close} />}
      {dialog === 'switch' && <Switch policy={policy} onClose={close} />}
      {dialog === 'delete' && <Delete policy={policy} onClose={close} />}
    </>
  );
}

function Facts({ policy, scope }: { policy: WholePolicy; scope: string | undefined }) {
  return (
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
      <dd>{scope ?? policy.agent_id}</dd>
      <dt>Revision</dt>
      <dd>
        {policy.revision}, <Time at={policy.updated_at} />
      </dd>
      {policy.owner !== undefined && (
        <>
          <dt>Declared by</dt>
          <dd>
            {policy.owner}
            {policy.applied_revision !== policy.revision && ', and changed by hand since'}
          </dd>
        </>
      )}
      {policy.description !== undefined && (
        <>
          <dt>For</dt>
          <dd>{policy.description}</dd>
        </>
      )}
    </dl>
  );
}

type Changing = { policy: WholePolicy; onClose: () => void };

function Switch({ policy, onClose }: Changing) {
  const { guard, conflict } = useConflict(policy);
  const isOn = policy.status === 'active';
  return (
    <Dialog
      title={`Switch ${policy.name} ${isOn ? 'off' : 'on'}`}
      action={isOn ? 'Switch off' : 'Switch on'}
      danger={isOn}
      onClose={onClose}
      onAct={() =>
        guard(async (headers) => {
          await call('PATCH', pathOf(policy.id), { body: { status: isOn ? 'inactive' : 'active' }, headers });
          changed('v1/policies', 'v1/audit-logs');
        })
      }
    >
      <p>
        {isOn
          ? 'From the next second on, no event is judged by it.'
          : 'From the next second on, events are judged by it.'}
      </p>
      {conflict}
    </Dialog>
  );
}

function Delete({ policy, onClose }: Changing) {
  const { guard, conflict } = useConflict(policy);
  return (
    <Dialog
      title={`Delete ${policy.name}`}
      action="Delete"
      danger
      onClose={onClose}
      onAct={() =>
        guard(async (headers) => {
          await call('DELETE', pathOf(policy.id), { headers });
          announce(`${policy.name} is deleted.`);
          setParams({ id: undefined, tab: undefined, revision: undefined, with: undefined });
          changed('v1/policies', 'v1/audit-logs');
        })
      }
    >
      <p>
        Events that it matched keep its name and revision, and its revisions can still be read. It cannot be brought
        back: a new one can be made of the text of its last revision.
      </p>
      {conflict}
    </Dialog>
  );
}
