// API keys, browsers that are signed in, and the account.
import { useState } from 'preact/hooks';
import { PERMISSIONS, SCOPES } from '../../schemas/closed-sets.ts';
import { call } from '../core/api.ts';
import { changed, useList, useRead } from '../core/queries.ts';
import { isAdmin, session, signOut } from '../core/session.ts';
import { ofInput, zoneName } from '../core/time.ts';
import type { Account, ApiKey, ApiKeyCreated, BrowserSession } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { announce } from '../parts/announce.tsx';
import { CopyButton, Time } from '../parts/buttons.tsx';
import { setTheme, type Theme, theme } from '../parts/colours.ts';
import { Dialog, Field, textOf } from '../parts/dialog.tsx';
import { Literal } from '../parts/literal.tsx';
import { AgentField, AgentName } from '../parts/named.tsx';
import { NotifyButton } from '../parts/notify-button.tsx';
import { More, Reading } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';

export function Settings() {
  const me = session.value;
  return (
    <div class="screen scrolls">
      <h1>Settings</h1>
      <section aria-labelledby="you">
        <h2 id="you">You</h2>
        <dl class="facts">
          <dt>Account</dt>
          <dd>
            <Literal text={me?.account_name ?? ''} />
          </dd>
          <dt>Signed in with</dt>
          <dd>
            <Literal text={me?.key_label ?? ''} /> (<code>{me?.key_id}</code>, {me?.scope})
          </dd>
          <dt>Until</dt>
          <dd>{me?.expires_at !== null && me?.expires_at !== undefined && <Time at={me.expires_at} />}</dd>
          <dt>Looks</dt>
          <dd>
            <label>
              <span class="hidden">Light or dark</span>
              <select value={theme.value} onChange={({ currentTarget }) => setTheme(currentTarget.value as Theme)}>
                <option value="system">as the system</option>
                <option value="light">light</option>
                <option value="dark">dark</option>
              </select>
            </label>
          </dd>
          <dt>Notifications</dt>
          <dd>
            <NotifyButton />
          </dd>
        </dl>
        <button type="button" onClick={() => void signOut().catch((error: Error) => announce(error.message))}>
          Sign out
        </button>
      </section>
      {isAdmin.value ? (
        <>
          <Keys />
          <Sessions />
        </>
      ) : (
        <p class="quiet">Keys and sessions are shown to keys with the scope admin.</p>
      )}
      <TheAccount />
    </div>
  );
}

function Keys() {
  const list = useList<ApiKey>('v1/api-keys');
  const [dialog, setDialog] = useState<'new' | ApiKey>();
  const [made, setMade] = useState<ApiKeyCreated>();
  return (
    <section aria-labelledby="keys">
      <header class="bar">
        <h2 id="keys" class="grow">
          API keys
        </h2>
        <button type="button" class="primary" onClick={() => setDialog('new')}>
          New key
        </button>
      </header>
      <Reading of={list}>
        <Table
          head={['Label', 'Scope', 'Ends in', 'Agent', 'Last used', 'Expires', 'Revoke']}
          rows={list.items.map((key) => ({
            key: key.id,
            cells: [
              <>
                <Literal text={key.label} /> {key.id === session.value?.key_id && <span class="badge">yours</span>}
              </>,
              `${key.scope}: ${key.permissions.join(', ')}`,
              <code>…{key.hint}</code>,
              key.agent_id === null ? 'any' : <AgentName id={key.agent_id} />,
              key.last_used_at === null ? 'never' : <Time at={key.last_used_at} ago />,
              key.expires_at === null ? 'never' : <Time at={key.expires_at} />,
              <button
                type="button"
                class="danger"
                aria-label={`Revoke ${visible(key.label)}`}
                onClick={() => setDialog(key)}
              >
                Revoke
              </button>,
            ],
          }))}
        />
        <More of={list} />
      </Reading>
      {dialog === 'new' && <NewKey onClose={() => setDialog(undefined)} onMade={setMade} />}
      {typeof dialog === 'object' && <Revoke apiKey={dialog} onClose={() => setDialog(undefined)} />}
      {made !== undefined && (
        <Dialog
          title={
            <>
              The key <Literal text={made.label} />
            </>
          }
          onClose={() => setMade(undefined)}
        >
          <p>It is shown once, here. Keep it where secrets are kept.</p>
          <p>
            <code class="secret">{made.key}</code>
          </p>
          <CopyButton text={made.key} label="Copy the key" />
        </Dialog>
      )}
    </section>
  );
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (key: ApiKeyCreated) => void }) {
  const [agent, setAgent] = useState('');
  const [scope, setScope] = useState<string>('write');
  return (
    <Dialog
      title="New API key"
      action="Create"
      onClose={onClose}
      onAct={async (form) => {
        const permissions = form.getAll('permissions').map(String);
        const agent = textOf(form, 'agent_id');
        const expires = ofInput(textOf(form, 'expires_at'));
        const { value } = await call<ApiKeyCreated>('POST', 'v1/api-keys', {
          body: {
            label: textOf(form, 'label'),
            scope,
            ...(agent === '' || scope === 'admin' ? {} : { agent_id: agent }),
            ...(scope === 'write' && permissions.length > 0 ? { permissions } : {}),
            ...(expires === undefined ? {} : { expires_at: expires }),
          },
        });
        changed('v1/api-keys');
        onMade(value);
      }}
    >
      <Field label="Label" hint="Whose key it is.">
        <input name="label" required maxLength={200} />
      </Field>
      <div class="columns">
        <Field label="Scope">
          <select value={scope} onChange={({ currentTarget }) => setScope(currentTarget.value)}>
            {SCOPES.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
        {scope !== 'admin' && (
          <AgentField label="Bound to an agent" name="agent_id" none="no" value={agent} onValue={setAgent} />
        )}
        <Field label={`Expires (${zoneName()})`}>
          <input type="datetime-local" name="expires_at" />
        </Field>
      </div>
      {scope === 'write' && (
        <fieldset class="actions">
          <legend>It may (none chosen: all of these)</legend>
          {PERMISSIONS.map((name) => (
            <label key={name}>
              <input type="checkbox" name="permissions" value={name} /> {name}
            </label>
          ))}
        </fieldset>
      )}
    </Dialog>
  );
}

function Revoke({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  return (
    <Dialog
      title={
        <>
          Revoke <Literal text={apiKey.label} />
        </>
      }
      action="Revoke"
      danger
      onClose={onClose}
      onAct={async () => {
        await call('DELETE', `v1/api-keys/${apiKey.id}`);
        announce(
          <>
            <Literal text={apiKey.label} /> is revoked.
          </>,
        );
        changed('v1/api-keys', 'v1/sessions');
      }}
    >
      <p>
        Within a second every process refuses it, and the browsers that are signed in with it are signed out.
        {apiKey.id === session.value?.key_id && ' That is this browser, too.'}
      </p>
    </Dialog>
  );
}

function Sessions() {
  const list = useList<BrowserSession>('v1/sessions');
  const [open, setOpen] = useState<BrowserSession>();
  return (
    <section aria-labelledby="sessions">
      <h2 id="sessions">Browsers that are signed in</h2>
      <Reading of={list}>
        <Table
          head={['Key', 'Address', 'Browser', 'Since', 'Last used', 'End']}
          rows={list.items.map((one) => ({
            key: one.id,
            cells: [
              <>
                <Literal text={one.key_label} /> {one.id === session.value?.id && <span class="badge">this one</span>}
              </>,
              one.ip,
              <Literal text={one.user_agent} />,
              <Time at={one.created_at} ago />,
              <Time at={one.last_used_at} ago />,
              <button
                type="button"
                class="danger"
                aria-label={`End the session of ${visible(one.key_label)}`}
                onClick={() => setOpen(one)}
              >
                End
              </button>,
            ],
          }))}
        />
      </Reading>
      {open !== undefined && <EndSession session={open} onClose={() => setOpen(undefined)} />}
    </section>
  );
}

function EndSession({ session: of, onClose }: { session: BrowserSession; onClose: () => void }) {
  return (
    <Dialog
      title={`End the session of ${of.key_label}`}
      action="End it"
      danger
      onClose={onClose}
      onAct={async () => {
        await call('DELETE', `v1/sessions/${of.id}`);
        announce('The session is ended.');
        changed('v1/sessions');
      }}
    >
      <p>
        <Literal text={of.user_agent || 'The browser'} />, signed in from {of.ip || 'an unknown address'} at{' '}
        <Time at={of.created_at} />, is signed out within a second.
        {of.id === session.value?.id && ' That is this browser.'}
      </p>
    </Dialog>
  );
}

type InForce = Account & { request_limit: { per_second: number; burst: number } };

function TheAccount() {
  const account = useRead<InForce>('v1/account');
  const [isOpen, setOpen] = useState(false);
  const { value } = account;
  return (
    <section aria-labelledby="account">
      <h2 id="account">Account</h2>
      <Reading of={account}>
        {value !== undefined && (
          <>
            <dl class="facts">
              <dt>Name</dt>
              <dd>
                <Literal text={value.name} /> (<code>{value.id}</code>)
              </dd>
              <dt>An agent is missed after</dt>
              <dd>{value.agent_down_seconds ?? 300} s of silence</dd>
              <dt>Requests of a key</dt>
              <dd>
                {value.request_limit.per_second.toLocaleString('en')} a second,{' '}
                {value.request_limit.burst.toLocaleString('en')} at once
              </dd>
            </dl>
            {isAdmin.value && (
              <button type="button" onClick={() => setOpen(true)}>
                Change
              </button>
            )}
            {isOpen && (
              <Dialog
                title="Change the account"
                action="Save"
                onClose={() => setOpen(false)}
                onAct={async (form) => {
                  const seconds = textOf(form, 'seconds');
                  await call('PATCH', 'v1/account', {
                    body: { agent_down_seconds: seconds === '' ? null : Number(seconds) },
                  });
                  changed('v1/account');
                }}
              >
                <Field label="Seconds of silence before an agent is missed" hint="5 to 604,800; empty: 300">
                  <input
                    name="seconds"
                    type="number"
                    min={5}
                    max={604_800}
                    defaultValue={String(value.agent_down_seconds ?? '')}
                  />
                </Field>
              </Dialog>
            )}
          </>
        )}
      </Reading>
    </section>
  );
}
