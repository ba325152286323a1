// Checks: services outside that policies of the type external_check ask. How each does (its last calls, over all
// processes), making, changing and deleting one, and asking one about a text.
// Invariant: a secret is written here and never read: no answer has it.
import { useState } from 'preact/hooks';
import { SPEAKS } from '../../schemas/closed-sets.ts';
import { call } from '../core/api.ts';
import { many } from '../core/plural.ts';
import { changed, useList } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import { may } from '../core/session.ts';
import type { CheckTried, ExternalCheck } from '../core/types.ts';
import { announce } from '../parts/announce.tsx';
import { Time } from '../parts/buttons.tsx';
import { Dialog, Field, textOf } from '../parts/dialog.tsx';
import { Literal } from '../parts/literal.tsx';
import { Empty, More, Reading } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';

type Open = { kind: 'new' } | { kind: 'try' | 'change' | 'delete'; check: ExternalCheck };
type Speaks = ExternalCheck['speaks'];

const EVERY_MS = 10_000;

export function Checks() {
  const list = useList<ExternalCheck>('v1/checks?activity=true', { everyMs: EVERY_MS });
  const [open, setOpen] = useState<Open>();
  const mayChange = may('configure');
  const close = () => setOpen(undefined);
  const none = (
    <Empty title="No checks yet">
      <p>
        A check is a service of yours that judges texts: a guard model, a moderation, a search for names. Policies of
        the type <code>external_check</code> ask it about events.
      </p>
    </Empty>
  );
  return (
    <div class="screen scrolls">
      <header class="bar">
        <h1 class="grow">Checks</h1>
        <a href={hrefOf('policies')}>Policies</a>
        {mayChange && (
          <button type="button" class="primary" onClick={() => setOpen({ kind: 'new' })}>
            New check
          </button>
        )}
      </header>
      <Reading of={list} empty={list.items.length === 0 && none}>
        <Table
          head={['Check', 'Address', 'State', 'Last calls', 'Took', 'Failed', 'More']}
          rows={list.items.map((check) => ({
            key: check.id,
            cells: [
              <>
                <Literal text={check.name} />
                <div class="quiet">{check.speaks}</div>
              </>,
              <Literal text={check.url} />,
              <State check={check} />,
              <LastCalls check={check} />,
              <Took check={check} />,
              <Failed check={check} />,
              mayChange && (
                <span class="bar">
                  <button type="button" onClick={() => setOpen({ kind: 'try', check })}>
                    Try
                  </button>
                  <button type="button" onClick={() => setOpen({ kind: 'change', check })}>
                    Change
                  </button>
                  <button type="button" class="danger" onClick={() => setOpen({ kind: 'delete', check })}>
                    Delete
                  </button>
                </span>
              ),
            ],
          }))}
        />
        <More of={list} />
      </Reading>
      {open?.kind === 'new' && <Edit onClose={close} />}
      {open?.kind === 'change' && <Edit check={open.check} onClose={close} />}
      {open?.kind === 'try' && <Try check={open.check} onClose={close} />}
      {open?.kind === 'delete' && <Delete check={open.check} onClose={close} />}
    </div>
  );
}

type Of = { check: ExternalCheck };

function State({ check: { activity } }: Of) {
  if (activity === undefined || activity.calls + activity.open_on === 0)
    return <span class="quiet">not asked in 24 h</span>;
  if (activity.open_on === 0) return <span class="badge active">asked</span>;
  return (
    <>
      <span class="badge failed">not asked now</span>
      <div class="quiet">
        it failed again and again; {many(activity.open_on, 'process tries', 'processes try')} one call in 5 s
      </div>
    </>
  );
}

function LastCalls({ check: { activity } }: Of) {
  const at = activity?.last_call_at ?? null;
  if (activity === undefined || at === null) return <span class="quiet">none in 24 h</span>;
  return (
    <>
      {activity.calls}, <Time at={at} ago />
    </>
  );
}

function Took({ check: { activity, timeout_ms: most } }: Of) {
  const p50 = activity?.p50_ms ?? null;
  const p95 = activity?.p95_ms ?? null;
  return (
    <>
      {p50 !== null && p95 !== null && `${p50} ms; 95 % at most ${p95} ms`}
      <div class="quiet">{most.toLocaleString('en')} ms are given</div>
    </>
  );
}

function Failed({ check: { activity } }: Of) {
  const some = Object.entries(activity?.failures ?? {}).filter(([, n]) => n > 0);
  if (some.length === 0) return <span class="quiet">0</span>;
  return <>{some.map(([reason, n]) => `${n} ${reason}`).join(', ')}</>;
}

/** Those forms that have a field, as they are called there. */
const HAS: Record<'model' | 'prompt' | 'language', readonly Speaks[]> = {
  model: ['openai_chat', 'openai_moderation'],
  prompt: ['openai_chat'],
  language: ['presidio'],
};

function Edit({ check, onClose }: { check?: ExternalCheck; onClose: () => void }) {
  const [speaks, setSpeaks] = useState<Speaks>(check?.speaks ?? 'gatehouse');
  const isNew = check === undefined;
  return (
    <Dialog
      title={isNew ? 'New check' : `Change ${check.name}`}
      action={isNew ? 'Create' : 'Save'}
      onClose={onClose}
      onAct={async (form) => {
        const body = isNew ? creationOf(form, speaks) : changeOf(form, check);
        if (isNew) await call('POST', 'v1/checks', { body });
        else if (Object.keys(body).length > 0) await call('PATCH', pathOf(check), { body });
        announce(isNew ? 'The check is saved. Try it before a policy uses it.' : 'Saved.');
        changed('v1/checks', 'v1/audit-logs');
      }}
    >
      <div class="columns">
        <Field label="Name" {...(isNew ? { hint: 'Policies name it, so it stays.' } : {})}>
          <input name="name" required maxLength={200} defaultValue={check?.name ?? ''} disabled={!isNew} />
        </Field>
        <Field label="Speaks">
          <select
            value={speaks}
            disabled={!isNew}
            onChange={({ currentTarget }) => setSpeaks(currentTarget.value as Speaks)}
          >
            {SPEAKS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </Field>
      </div>
      <Field label="Address" hint="The whole https address that texts are sent to.">
        <input name="url" type="url" required maxLength={2_000} defaultValue={check?.url ?? ''} />
      </Field>
      <Field label="Secret" hint={secretHint(check)}>
        <input name="secret" autocomplete="off" spellcheck={false} maxLength={4_096} />
      </Field>
      {check?.secret_set && (
        <label>
          <input type="checkbox" name="no_secret" /> send none from now on
        </label>
      )}
      <Own speaks={speaks} check={check} />
      <div class="columns">
        <Field label="Milliseconds given" hint="For the whole call; the caller of an event waits for it.">
          <input
            name="timeout_ms"
            type="number"
            min={10}
            max={5_000}
            required
            defaultValue={check?.timeout_ms ?? 1_000}
          />
        </Field>
        <Field label="Calls at once" hint="Of each process; more are not made.">
          <input name="at_once" type="number" min={1} max={256} required defaultValue={check?.at_once ?? 32} />
        </Field>
      </div>
    </Dialog>
  );
}

function secretHint(check: ExternalCheck | undefined): string {
  const sent = 'Sent as “Authorization: Bearer …”, and never shown again.';
  if (check?.secret_set !== true) return `${sent} Left empty: none is sent.`;
  return `${sent} Left empty: as it is. Where the address changes it is to be said again.`;
}

function Own({ speaks, check }: { speaks: Speaks; check: ExternalCheck | undefined }) {
  return (
    <>
      {HAS.model.includes(speaks) && (
        <Field label="Model" {...(speaks === 'openai_chat' ? {} : { hint: `Left empty: ${MODERATION_MODEL}.` })}>
          <input name="model" required={speaks === 'openai_chat'} maxLength={200} defaultValue={check?.model ?? ''} />
        </Field>
      )}
      {HAS.prompt.includes(speaks) && (
        <Field label="What the judge is told" hint="Left empty: the text alone is sent, as Llama Guard has it.">
          <textarea name="prompt" rows={3} maxLength={8_000} defaultValue={check?.prompt ?? ''} />
        </Field>
      )}
      {HAS.language.includes(speaks) && (
        <Field label="Language of texts" hint="Two letters.">
          <input name="language" pattern="[a-z]{2}" required defaultValue={check?.language ?? 'en'} />
        </Field>
      )}
    </>
  );
}

function creationOf(form: FormData, speaks: Speaks): object {
  const given = ['secret', 'model', 'prompt', 'language'].flatMap((name) => {
    const text = textOf(form, name);
    return text === '' ? [] : [[name, text]];
  });
  return {
    ...{ name: textOf(form, 'name'), speaks, url: textOf(form, 'url'), ...Object.fromEntries(given) },
    ...{ timeout_ms: Number(form.get('timeout_ms')), at_once: Number(form.get('at_once')) },
  };
}

const MODERATION_MODEL = 'omni-moderation-latest';

/** The fields that differ. */
function changeOf(form: FormData, check: ExternalCheck): Record<string, unknown> {
  const after: Record<string, unknown> = { url: textOf(form, 'url') };
  for (const name of ['timeout_ms', 'at_once'] as const) after[name] = Number(form.get(name));
  for (const name of ['model', 'prompt', 'language'] as const)
    if (HAS[name].includes(check.speaks)) after[name] = textOf(form, name);
  if (check.speaks === 'openai_moderation' && after['model'] === '') after['model'] = MODERATION_MODEL;
  const before = check as Record<string, unknown>;
  const changes = Object.entries(after).filter(([name, value]) => value !== (before[name] ?? ''));
  const isNone = form.has('no_secret');
  const secret = textOf(form, 'secret');
  if (isNone || secret !== '') changes.push(['secret', isNone ? null : secret]);
  return Object.fromEntries(changes.map(([name, value]) => [name, name === 'prompt' && value === '' ? null : value]));
}

function Try({ check, onClose }: Of & { onClose: () => void }) {
  const [said, setSaid] = useState<CheckTried>();
  return (
    <Dialog
      title={`Ask ${check.name} about a text`}
      action="Ask"
      stay
      onClose={onClose}
      onAct={async (form) => {
        setSaid(undefined);
        const body = { text: textOf(form, 'text') };
        setSaid((await call<CheckTried>('POST', `${pathOf(check)}/try`, { body })).value);
        changed('v1/checks');
      }}
    >
      <p>It is sent to the service as that of a prompt. Nothing is recorded.</p>
      <Field label="Text">
        <textarea name="text" rows={4} required maxLength={16_384} />
      </Field>
      <div role="status">{said !== undefined && <Said said={said} />}</div>
    </Dialog>
  );
}

function Said({ said: { match, score, labels, reason, ms } }: { said: CheckTried }) {
  if (reason !== null)
    return (
      <p>
        It said nothing: <span class="badge failed">{reason}</span> after {ms} ms
      </p>
    );
  return (
    <p>
      {match === null ? 'It gave no word of its own' : match ? 'It matches' : 'It does not match'}
      {score !== null && `, with the score ${score}`}
      {labels.length > 0 && (
        <>
          , as <Literal text={labels.join(', ')} />
        </>
      )}
      ; {ms} ms
    </p>
  );
}

function Delete({ check, onClose }: Of & { onClose: () => void }) {
  return (
    <Dialog
      title={`Delete ${check.name}`}
      action="Delete"
      danger
      onClose={onClose}
      onAct={async () => {
        await call('DELETE', pathOf(check));
        announce('The check is deleted.');
        changed('v1/checks', 'v1/audit-logs');
      }}
    >
      <p>It is refused while a policy names it, also one that is switched off.</p>
    </Dialog>
  );
}

function pathOf({ id }: ExternalCheck): string {
  return `v1/checks/${encodeURIComponent(id)}`;
}
