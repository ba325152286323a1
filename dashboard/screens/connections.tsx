// Connections of products that send inference hooks: their addresses, secrets, and what is answered where nothing can be
// judged. After one is made, its address and its secret are there to be copied, and its first request is waited for.
// Invariant: a secret is shown once, where it was made here; no answer of the service has it.
import { useState } from 'preact/hooks';
import { AGENTS_BY, CONNECTION_MODES, ON_FAILURE } from '../../schemas/closed-sets.ts';
import { call } from '../core/api.ts';
import { changed, useList, useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { Connection } from '../core/types.ts';
import { announce } from '../parts/announce.tsx';
import { CopyButton, Time } from '../parts/buttons.tsx';
import { Dialog, Field, textOf } from '../parts/dialog.tsx';
import { Literal } from '../parts/literal.tsx';
import { AgentField, AgentName } from '../parts/named.tsx';
import { Empty, More, Reading, serviceUrl } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';

type Open =
  | { kind: 'new' }
  | { kind: 'join'; connection: Connection; secret?: string }
  | { kind: 'change' | 'secrets' | 'switch' | 'delete'; connection: Connection };

const EVERY_MS = 10_000;
const WAITING_MS = 2_000;

export function Connections() {
  const list = useList<Connection>('v1/connections', { everyMs: EVERY_MS });
  const [open, setOpen] = useState<Open>();
  const mayChange = may('configure');
  const close = () => setOpen(undefined);
  const none = (
    <Empty title="No connections yet">
      <p>
        A product that runs elsewhere and sends inference hooks asks here before each prompt and each call of a tool. It
        needs an address and a secret, which a connection has.
      </p>
    </Empty>
  );
  return (
    <div class="screen scrolls">
      <header class="bar">
        <h1 class="grow">Connections</h1>
        <a href={hrefOf('start')}>Other ways to send</a>
        {mayChange && (
          <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
            New connection
          </button>
        )}
      </header>
      <Reading of={list} empty={list.items.length === 0 && none}>
        <Table
          head={['Connection', 'Agents', 'Mode', 'Where it fails', 'Secrets', 'Last request', 'More']}
          rows={list.items.map((connection) => ({
            key: connection.id,
            cells: [
              <>
                <Literal text={connection.name} />{' '}
                {connection.status === 'inactive' && <span class="badge inactive">inactive</span>}
              </>,
              <Agents connection={connection} />,
              connection.mode,
              connection.on_failure,
              connection.secrets_set === 0 ? <span class="badge waits">none yet</span> : connection.secrets_set,
              connection.last_request_at === null ? (
                <span class="quiet">none yet</span>
              ) : (
                <Time at={connection.last_request_at} ago />
              ),
              <span class="bar">
                <button type="button" onClick={() => setOpen({ kind: 'join', connection })}>
                  Address
                </button>
                {mayChange && <Acts connection={connection} onOpen={setOpen} />}
              </span>,
            ],
          }))}
        />
        <More of={list} />
      </Reading>
      {open !== undefined && <Opened open={open} onOpen={setOpen} onClose={close} />}
    </div>
  );
}

function Agents({ connection: { agent_id: agent, agents_by: by } }: { connection: Connection }) {
  return agent === null ? <>one for each {by}</> : <AgentName id={agent} />;
}

function Acts({ connection, onOpen }: { connection: Connection; onOpen: (open: Open) => void }) {
  return (
    <>
      <button type="button" onClick={() => onOpen({ kind: 'change', connection })}>
        Change
      </button>
      <button type="button" onClick={() => onOpen({ kind: 'secrets', connection })}>
        Secrets
      </button>
      <button type="button" onClick={() => onOpen({ kind: 'switch', connection })}>
        Switch {connection.status === 'active' ? 'off' : 'on'}
      </button>
      <button type="button" class="danger" onClick={() => onOpen({ kind: 'delete', connection })}>
        Delete
      </button>
    </>
  );
}

function Opened({ open, onOpen, onClose }: { open: Open; onOpen: (open: Open) => void; onClose: () => void }) {
  switch (open.kind) {
    case 'new':
      return (
        <Edit
          onClose={onClose}
          onMade={(connection, secret) =>
            onOpen({ kind: 'join', connection, ...(secret === undefined ? {} : { secret }) })
          }
        />
      );
    case 'change':
      return <Edit connection={open.connection} onClose={onClose} />;
    case 'join':
      return <Join connection={open.connection} secret={open.secret} onClose={onClose} />;
    case 'secrets':
      return <Secrets connection={open.connection} onClose={onClose} onMade={onOpen} />;
    default:
      return <Act kind={open.kind} connection={open.connection} onClose={onClose} />;
  }
}

type EditProps = {
  /** Left out: a new one. */
  connection?: Connection;
  onClose: () => void;
  /** `secret`: one that was made here. */
  onMade?: (connection: Connection, secret: string | undefined) => void;
};

function Edit({ connection, onClose, onMade }: EditProps) {
  const [agent, setAgent] = useState(connection?.agent_id ?? '');
  const [whose, setWhose] = useState<Whose>('theirs');
  const isNew = connection === undefined;
  return (
    <Dialog
      title={isNew ? 'New connection' : `Change ${connection.name}`}
      action={isNew ? 'Create' : 'Save'}
      onClose={onClose}
      stay={isNew}
      onAct={async (form) => {
        const body = {
          ...{ name: textOf(form, 'name'), mode: textOf(form, 'mode'), on_failure: textOf(form, 'on_failure') },
          ...{
            timeout_ms: Number(form.get('timeout_ms')),
            agent_id: agent || null,
            agents_by: textOf(form, 'agents_by'),
          },
        };
        if (!isNew) {
          const known = connection as unknown as Record<string, unknown>;
          const changes = Object.entries(body).filter(([name, value]) => value !== known[name]);
          if (changes.length === 0) return;
          await call('PATCH', pathOf(connection.id), { body: Object.fromEntries(changes) });
          changed('v1/connections', 'v1/audit-logs');
          return;
        }
        const secret = secretOf(form, whose);
        const secrets = secret === undefined ? {} : { secrets: [secret] };
        const { value } = await call<Connection>('POST', 'v1/connections', { body: { ...body, ...secrets } });
        changed('v1/connections', 'v1/audit-logs');
        onMade?.(value, whose === 'ours' ? secret : undefined);
      }}
    >
      <Field label="Name">
        <input name="name" required maxLength={200} defaultValue={connection?.name ?? ''} />
      </Field>
      <div class="columns">
        <Field label="Mode" hint="watch: all is judged and recorded, and everything allowed.">
          <Options name="mode" of={CONNECTION_MODES} value={connection?.mode ?? 'enforce'} />
        </Field>
        <Field label="Where it fails" hint="What is answered to what cannot be judged.">
          <Options name="on_failure" of={ON_FAILURE} value={connection?.on_failure ?? 'deny'} />
        </Field>
        <Field label="Milliseconds to answer" hint="Less than the product waits.">
          <input
            name="timeout_ms"
            type="number"
            min={100}
            max={9_500}
            required
            defaultValue={connection?.timeout_ms ?? 4_000}
          />
        </Field>
      </div>
      <div class="columns">
        <AgentField label="Agent of its events" none="by their names" value={agent} onValue={setAgent} />
        <Field label="Without one: an agent for each">
          <Options name="agents_by" of={AGENTS_BY} value={connection?.agents_by ?? 'application'} />
        </Field>
      </div>
      {isNew && <SecretField whose={whose} onWhose={setWhose} />}
    </Dialog>
  );
}

function Options({ name, of, value }: { name: string; of: readonly string[]; value: string }) {
  return (
    <select name={name} defaultValue={value}>
      {of.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  );
}

/** Who makes the secret: the product, which shows it; this page; none does yet. */
type Whose = 'theirs' | 'ours' | 'none';

function SecretField({ whose, onWhose }: { whose: Whose; onWhose: (whose: Whose) => void }) {
  return (
    <div class="columns">
      <Field label="Secret">
        <select value={whose} onChange={({ currentTarget }) => onWhose(currentTarget.value as Whose)}>
          <option value="theirs">the product shows one</option>
          <option value="ours">make one here</option>
          <option value="none">none yet</option>
        </select>
      </Field>
      {whose === 'theirs' && <Written name="secret" label="The secret that it shows" isNeeded />}
    </div>
  );
}

function Written({
  name,
  label,
  isNeeded = false,
  hint,
}: {
  name: string;
  label: string;
  isNeeded?: boolean;
  hint?: string;
}) {
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      <input
        name={name}
        required={isNeeded}
        autocomplete="off"
        spellcheck={false}
        pattern="whsec_[A-Za-z0-9+\/]{32,86}={0,2}"
        title="whsec_ and Base64"
        placeholder="whsec_…"
      />
    </Field>
  );
}

function secretOf(form: FormData, whose: Whose): string | undefined {
  if (whose === 'none') return undefined;
  return whose === 'theirs' ? textOf(form, 'secret') : newSecret();
}

/** 32 random bytes, as Standard Webhooks has them. */
function newSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

/** Where the product is to send, and whether it has. `secret`: made a moment ago, and not shown again. */
function Join({
  connection,
  secret,
  onClose,
}: {
  connection: Connection;
  secret: string | undefined;
  onClose: () => void;
}) {
  const address = `${serviceUrl()}/v1/hooks/inference/${connection.id}`;
  return (
    <Dialog title={`Join ${connection.name}`} onClose={onClose}>
      <p>The product sends its hooks to this address; no key goes with them.</p>
      <p>
        <code class="secret">{address}</code>
      </p>
      <CopyButton text={address} label="Copy the address" />
      {secret !== undefined && (
        <>
          <p>This secret signs them. It is shown once, here.</p>
          <p>
            <code class="secret">{secret}</code>
          </p>
          <CopyButton text={secret} label="Copy the secret" />
        </>
      )}
      <LastRequest connection={connection} />
    </Dialog>
  );
}

function LastRequest({ connection }: { connection: Connection }) {
  const { value = connection } = useRead<Connection>(pathOf(connection.id), { everyMs: WAITING_MS });
  const { last_request_at: at, secrets_set: secrets, agent_id: agent } = value;
  return (
    <p role="status">
      {at === null ? (
        'Waiting for its first request …'
      ) : (
        <>
          It asked <Time at={at} ago />.{' '}
          {secrets === 0 ? (
            'Set its secret now: nothing is judged before.'
          ) : (
            <a
              href={agent === null ? hrefOf('events', { live: '1' }) : hrefOf('events', { agent_id: agent, live: '1' })}
            >
              Events
            </a>
          )}
        </>
      )}
    </p>
  );
}

type Changing = { connection: Connection; onClose: () => void };

/** Secrets are set as a whole, so the one that still counts is written again. */
function Secrets({ connection, onClose, onMade }: Changing & { onMade: (open: Open) => void }) {
  const [whose, setWhose] = useState<Whose>('theirs');
  return (
    <Dialog
      title={`Secrets of ${connection.name}`}
      action="Set"
      stay
      onClose={onClose}
      onAct={async (form) => {
        const present = textOf(form, 'present');
        const secret = secretOf(form, whose);
        const secrets = [secret ?? '', present].filter((one) => one !== '');
        const { value } = await call<Connection>('PATCH', pathOf(connection.id), { body: { secrets } });
        announce(secrets.length === 0 ? 'No secret is set: nothing is judged.' : 'The secrets are set.');
        changed('v1/connections', 'v1/audit-logs');
        if (whose === 'ours' && secret !== undefined) onMade({ kind: 'join', connection: value, secret });
        else onClose();
      }}
    >
      <p>
        While two are set, what is signed by either is judged. So nothing is refused while one takes the place of the
        other: set both, let the product sign with the new one, then set that one alone.
      </p>
      <SecretField whose={whose} onWhose={setWhose} />
      <Written
        name="present"
        label="The present secret"
        hint="Left empty: it counts no longer. What is set is never shown, so it is to be written again."
      />
    </Dialog>
  );
}

function Act({ kind, connection, onClose }: Changing & { kind: 'switch' | 'delete' }) {
  const isOn = connection.status === 'active';
  const path = pathOf(connection.id);
  const does = {
    switch: {
      action: isOn ? 'Switch off' : 'Switch on',
      says: isOn
        ? `Nothing is judged while it is off: each request gets ${connection.on_failure}.`
        : 'It is judged again.',
      run: () => call('PATCH', path, { body: { status: isOn ? 'inactive' : 'active' } }),
    },
    delete: {
      action: 'Delete',
      says: 'What is still sent to its address is denied. What was recorded stays.',
      run: () => call('DELETE', path),
    },
  }[kind];
  return (
    <Dialog
      title={connection.name}
      action={does.action}
      danger={kind === 'delete' || isOn}
      onClose={onClose}
      onAct={async () => {
        await does.run();
        announce('Done.');
        changed('v1/connections', 'v1/audit-logs');
      }}
    >
      <p>{does.says}</p>
    </Dialog>
  );
}

function pathOf(id: string): string {
  return `v1/connections/${encodeURIComponent(id)}`;
}
