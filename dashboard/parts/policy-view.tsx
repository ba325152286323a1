// One policy: what it asks for, switching and changing it, and behind tabs its revisions, backtests and
// shadows. The tab is in the address.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../core/api.ts';
import { nowMs } from '../core/clock.ts';
import { pathOf, usePolicy } from '../core/policies.ts';
import { changed, forget } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { WholePolicy } from '../core/types.ts';
import { announce } from './announce.tsx';
import { Severity, Time } from './buttons.tsx';
import { useConflict } from './conflict.tsx';
import { Dialog } from './dialog.tsx';
import { Literal } from './literal.tsx';
import { AgentName } from './named.tsx';
import { Payload } from './payload.tsx';
import { PolicyBacktests } from './policy-backtests.tsx';
import { PolicyEditor } from './policy-editor.tsx';
import { PolicyRevisions } from './policy-revisions.tsx';
import { PolicyShadows } from './policy-shadows.tsx';
import { InForce } from './policy-start.tsx';
import { ShadowView } from './shadow-report.tsx';
import { Reading } from './states.tsx';

type Tab = { title: string; show: (policy: WholePolicy) => ComponentChildren };

const TABS: Record<string, Tab> = {
  '': { title: 'As it is', show: (policy) => <AsItIs policy={policy} /> },
  revisions: { title: 'Revisions', show: ({ id }) => <PolicyRevisions id={id} /> },
  backtests: { title: 'Backtests', show: (policy) => <PolicyBacktests policy={policy} /> },
  shadows: { title: 'Shadows', show: (policy) => <PolicyShadows policy={policy} /> },
  report: { title: 'Report', show: (policy) => <ShadowView policy={policy} /> },
};

/** A shadow has a report, others have shadows. */
function tabsOf({ mode }: WholePolicy): [string, Tab][] {
  return Object.entries(TABS).filter(([name]) => name !== (mode === 'shadow' ? 'shadows' : 'report'));
}

export function PolicyView({ id }: { id: string }) {
  const reading = usePolicy(id);
  const policy = reading.value;
  const tab = place.value.params.get('tab') ?? '';
  if (policy === undefined && reading.error?.status === 404) return <Deleted id={id} />;
  return (
    <Reading of={reading}>
      {policy !== undefined && (
        <>
          <h2>
            <Literal text={policy.name} />
          </h2>
          <Tabs policy={policy} tab={tab} />
          {(TABS[tab] ?? TABS['']!).show(policy)}
        </>
      )}
    </Reading>
  );
}

function Deleted({ id }: { id: string }) {
  return (
    <>
      <h2>
        <Literal text={id} />
      </h2>
      <p>There is no such policy now. If there was one, these are its revisions.</p>
      <PolicyRevisions id={id} />
    </>
  );
}

function Tabs({ policy, tab }: { policy: WholePolicy; tab: string }) {
  return (
    <nav class="tabs" aria-label="Of this policy">
      <ul>
        {tabsOf(policy).map(([name, { title }]) => (
          <li key={name}>
            <a href={hrefOf('policies', { id: policy.id, tab: name })} aria-current={name === tab ? 'page' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function AsItIs({ policy }: { policy: WholePolicy }) {
  // As it was when a person asked for it: what others change meanwhile is a conflict when it is sent.
  const [dialog, setDialog] = useState<{ does: 'edit' | 'delete' | 'switch'; policy: WholePolicy }>();
  const close = () => setDialog(undefined);
  return (
    <>
      <Facts policy={policy} />
      <h3>Conditions</h3>
      <Payload text={policy.conditions.text} what="conditions" />
      <div class="bar">
        <a href={hrefOf('events', { policy_id: policy.id, range: '24h' })}>What it matched in 24 h</a>
        <a href={hrefOf('audit', { resource_id: policy.id })}>Audit entries</a>
        {policy.mode === 'shadow' && (
          <a href={hrefOf('policies', { id: policy.id, tab: 'report' })}>Report and promote</a>
        )}
        {may('configure') && (
          <>
            <button type="button" onClick={() => setDialog({ does: 'edit', policy })}>
              Change
            </button>
            <button type="button" onClick={() => setDialog({ does: 'switch', policy })}>
              Switch {policy.status === 'active' ? 'off' : 'on'}
            </button>
            <button type="button" class="danger" onClick={() => setDialog({ does: 'delete', policy })}>
              Delete
            </button>
          </>
        )}
      </div>
      {dialog?.does === 'edit' && <PolicyEditor policy={dialog.policy} onClose={close} />}
      {dialog?.does === 'switch' && <Switch policy={dialog.policy} onClose={close} />}
      {dialog?.does === 'delete' && <Delete policy={dialog.policy} onClose={close} />}
    </>
  );
}

function Facts({ policy }: { policy: WholePolicy }) {
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
        <InForce policy={policy} />
      </dd>
      {policy.starts_at !== undefined && (
        <>
          <dt>In force from</dt>
          <dd>
            <Time at={policy.starts_at} />
          </dd>
        </>
      )}
      {policy.mode === 'shadow' && (
        <>
          <dt>Mode</dt>
          <dd>
            <span class="badge shadow">shadow</span> decides nothing
            {policy.expires_at !== undefined && (
              <>
                ; expires at <Time at={policy.expires_at} />
              </>
            )}
          </dd>
        </>
      )}
      <dt>Applies to</dt>
      <dd>{policy.agent_id === null ? 'all agents' : <AgentName id={policy.agent_id} />}</dd>
      <dt>Revision</dt>
      <dd>
        {policy.revision}, <Time at={policy.updated_at} />
      </dd>
      {policy.owner !== undefined && (
        <>
          <dt>Declared by</dt>
          <dd>
            <Literal text={policy.owner} />
            {policy.applied_revision !== policy.revision && ', and changed by hand since'}
          </dd>
        </>
      )}
      {policy.description !== undefined && (
        <>
          <dt>For</dt>
          <dd>
            <Literal text={policy.description} lines />
          </dd>
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
      title={
        <>
          Switch <Literal text={policy.name} /> {isOn ? 'off' : 'on'}
        </>
      }
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
          : policy.starts_at === undefined || Date.parse(policy.starts_at) <= nowMs()
            ? 'From the next second on, events are judged by it.'
            : 'It judges events from its start time on.'}
      </p>
      {conflict}
    </Dialog>
  );
}

function Delete({ policy, onClose }: Changing) {
  const { guard, conflict } = useConflict(policy);
  return (
    <Dialog
      title={
        <>
          Delete <Literal text={policy.name} />
        </>
      }
      action="Delete"
      danger
      onClose={onClose}
      onAct={() =>
        guard(async (headers) => {
          await call('DELETE', pathOf(policy.id), { headers });
          announce(
            <>
              <Literal text={policy.name} /> is deleted.
            </>,
          );
          forget(pathOf(policy.id));
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
