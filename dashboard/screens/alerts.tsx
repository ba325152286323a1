// Alerts: who is notified of what, by which channel.
import { useState } from 'preact/hooks';
import { CHANNELS, SEVERITIES, TRIGGERS } from '../../schemas/closed-sets.ts';
import { call } from '../core/api.ts';
import { changed, useList } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { isBound, may } from '../core/session.ts';
import type { Alert, NewAlert } from '../core/types.ts';
import { announce } from '../parts/announce.tsx';
import { CopyButton, Time } from '../parts/buttons.tsx';
import { Dialog, Field, textOf } from '../parts/dialog.tsx';
import { Literal } from '../parts/literal.tsx';
import { AgentField } from '../parts/named.tsx';
import { Empty, More, Reading } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';

type Open = { kind: 'new' } | { kind: 'test' | 'switch' | 'delete'; alert: Alert } | { kind: 'secret'; secret: string };

export function Alerts() {
  const list = useList<Alert>('v1/alerts');
  const [open, setOpen] = useState<Open>();
  const mayChange = may('configure') && !isBound();
  return (
    <div class="screen scrolls">
      <header class="bar">
        <h1 class="grow">Alerts</h1>
        <a href={hrefOf('deliveries')}>Deliveries</a>
        {mayChange && (
          <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
            New alert
          </button>
        )}
      </header>
      <Reading
        of={list}
        empty={
          list.items.length === 0 && (
            <Empty title="No alerts yet">
              <p>
                An alert notifies people, by mail, chat or webhook, when a policy is violated, something is unusual, or
                an agent falls silent.
              </p>
            </Empty>
          )
        }
      >
        <Table
          head={['Alert', 'When', 'Channel', 'Target', 'Status', 'Changed', 'More']}
          rows={list.items.map((alert) => ({
            key: alert.id,
            cells: [
              <Literal text={alert.name} />,
              `${alert.trigger}${alert.conditions.severity === undefined ? '' : `, from ${alert.conditions.severity} on`}`,
              alert.channel,
              <Literal text={alert.target} />,
              <span class={`badge ${alert.status}`}>{alert.status}</span>,
              <Time at={alert.updated_at} ago />,
              <>
                <a href={hrefOf('deliveries', { alert_id: alert.id })}>Deliveries</a>
                {mayChange && (
                  <span class="bar">
                    <button type="button" onClick={() => setOpen({ kind: 'test', alert })}>
                      Test
                    </button>
                    <button type="button" onClick={() => setOpen({ kind: 'switch', alert })}>
                      Switch {alert.status === 'active' ? 'off' : 'on'}
                    </button>
                    <button type="button" class="danger" onClick={() => setOpen({ kind: 'delete', alert })}>
                      Delete
                    </button>
                  </span>
                )}
              </>,
            ],
          }))}
        />
        <More of={list} />
      </Reading>
      {open?.kind === 'new' && (
        <NewOne onClose={() => setOpen(undefined)} onSecret={(secret) => setOpen({ kind: 'secret', secret })} />
      )}
      {open?.kind === 'secret' && <Secret secret={open.secret} onClose={() => setOpen(undefined)} />}
      {open !== undefined && 'alert' in open && (
        <Act kind={open.kind} alert={open.alert} onClose={() => setOpen(undefined)} />
      )}
    </div>
  );
}

function Act({ kind, alert, onClose }: { kind: 'test' | 'switch' | 'delete'; alert: Alert; onClose: () => void }) {
  const path = `v1/alerts/${alert.id}`;
  const isOn = alert.status === 'active';
  const does = {
    test: {
      action: 'Send a test',
      says: (
        <>
          A notification that is marked as a test goes to <Literal text={alert.target} />. What came of it is among the
          deliveries.
        </>
      ),
      run: () => call('POST', `${path}/test`),
    },
    switch: {
      action: isOn ? 'Switch off' : 'Switch on',
      says: isOn ? 'It sends nothing while it is off.' : 'It sends again from now on.',
      run: () => call('PATCH', path, { body: { status: isOn ? 'inactive' : 'active' } }),
    },
    delete: { action: 'Delete', says: 'Notifications that still wait are cancelled.', run: () => call('DELETE', path) },
  }[kind];
  return (
    <Dialog
      title={alert.name}
      action={does.action}
      danger={kind === 'delete'}
      onClose={onClose}
      onAct={async () => {
        await does.run();
        announce(kind === 'test' ? 'A test is on its way.' : 'Done.');
        changed('v1/alerts', 'v1/deliveries');
      }}
    >
      <p>{does.says}</p>
    </Dialog>
  );
}

function NewOne({ onClose, onSecret }: { onClose: () => void; onSecret: (secret: string) => void }) {
  const [agent, setAgent] = useState('');
  const [channel, setChannel] = useState<string>('webhook');
  return (
    <Dialog
      title="New alert"
      action="Create"
      onClose={onClose}
      stay
      onAct={async (form) => {
        const severity = textOf(form, 'severity');
        const { value } = await call<NewAlert>('POST', 'v1/alerts', {
          body: {
            name: textOf(form, 'name'),
            trigger: textOf(form, 'trigger'),
            channel,
            target: textOf(form, 'target'),
            agent_id: textOf(form, 'agent_id') || null,
            conditions: severity === '' ? {} : { severity },
            throttle_seconds: Number(textOf(form, 'throttle') || 0),
          },
        });
        changed('v1/alerts');
        if (value.secret === undefined) onClose();
        else onSecret(value.secret);
      }}
    >
      <Field label="Name">
        <input name="name" required maxLength={200} />
      </Field>
      <div class="columns">
        <Field label="When">
          <select name="trigger">
            {TRIGGERS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <Field label="From this severity on">
          <select name="severity">
            <option value="">any</option>
            {SEVERITIES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <AgentField label="Agent" name="agent_id" none="all agents" value={agent} onValue={setAgent} />
      </div>
      <div class="columns">
        <Field label="Channel">
          <select value={channel} onChange={({ currentTarget }) => setChannel(currentTarget.value)}>
            {CHANNELS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        <Field
          label={channel === 'email' ? 'Mail address' : 'Address'}
          hint={channel === 'email' ? '' : 'https, reachable from the service'}
        >
          {channel === 'email' ? (
            <input name="target" required type="email" />
          ) : (
            <input name="target" required type="url" />
          )}
        </Field>
        <Field label="Seconds between two" hint="What comes in between is told as one summary.">
          <input name="throttle" type="number" min={0} max={86_400} defaultValue="0" />
        </Field>
      </div>
    </Dialog>
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog title="The secret of the webhook" onClose={onClose}>
      <p>It signs every notification. It is shown once, here.</p>
      <p>
        <code class="secret">{secret}</code>
      </p>
      <CopyButton text={secret} label="Copy the secret" />
    </Dialog>
  );
}
