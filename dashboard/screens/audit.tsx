// The audit log: who did what, verified while one looks, and compared with a checkpoint that was kept elsewhere.
import { useState } from 'preact/hooks';
import { AUDIT_ACTIONS, RESOURCE_TYPES } from '../../schemas/closed-sets.ts';
import { type ApiError, call, query, read } from '../core/api.ts';
import { hrefOfId } from '../core/id-links.ts';
import { AUDIT_TEXTS } from '../core/json.ts';
import { many } from '../core/plural.ts';
import { useList, useRead } from '../core/queries.ts';
import { hrefOf, place, setParams } from '../core/router.ts';
import { rangeOf } from '../core/time.ts';
import type { AuditEntry, ListedEntry, Verification } from '../core/types.ts';
import { CopyButton, Time } from '../parts/buttons.tsx';
import { type Column, ListLine } from '../parts/columns.tsx';
import { Dialog, Field } from '../parts/dialog.tsx';
import { ExportMenu, FileLink } from '../parts/export.tsx';
import { Filters, Search, shareUrl, TimeRange } from '../parts/filters.tsx';
import { Cut, Literal } from '../parts/literal.tsx';
import { Actor } from '../parts/named.tsx';
import { Payload } from '../parts/payload.tsx';
import { NARROW_ROW_PX, narrow, Side } from '../parts/side.tsx';
import { Empty, Problem, Reading } from '../parts/states.tsx';
import { ViewMenu } from '../parts/view-menu.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';

const NAMES = ['action', 'actor', 'resource_type', 'resource_id'];

const COLUMNS: readonly Column<ListedEntry>[] = [
  {
    ...{ name: 'actor', label: 'By', width: 'minmax(0, 2fr)' },
    cell: ({ actor }) => (
      <span class="cut">
        <Actor actor={actor} />
      </span>
    ),
  },
];

export function Audit() {
  const { params } = place.value;
  const [dialog, setDialog] = useState<'verify' | 'compare'>();
  const filters = Object.fromEntries(NAMES.map((name) => [name, params.getAll(name)]));
  const all =
    params.has('submissions') || params.getAll('action').includes('event.submitted') || params.has('resource_id');
  const asked = query({
    ...filters,
    q: params.get('q') ?? undefined,
    ...rangeOf(params),
    submissions: all ? undefined : false,
  });
  const list = useList<ListedEntry>(`v1/audit-logs${asked === '' ? '?' : `${asked}&`}expand=summary`, {
    name: 'logs',
    kept: AUDIT_TEXTS,
  });
  const id = params.get('id');
  const named = list.items.find((entry) => entry.id === id);
  // A link may name one that is far down the list, or that the filters leave out.
  const isAlone = id !== null && named === undefined && !list.waiting;
  const alone = useRead<AuditEntry>(isAlone ? `v1/audit-logs/${encodeURIComponent(id)}` : undefined, {
    kept: AUDIT_TEXTS,
  });
  const open = named ?? (isAlone ? alone.value : undefined);
  const values = (of: readonly string[]) => of.map((value) => ({ value }));
  return (
    <div class={`screen ${id === null ? '' : 'split'}`}>
      <section class="main" aria-label="Audit log">
        <header class="bar">
          <h1 class="grow">Audit log</h1>
          <Search label="Words in an entry" />
          <TimeRange />
          <button type="button" onClick={() => setDialog('verify')}>
            Verify
          </button>
          <FileLink path="v1/audit-logs/checkpoint" name="gatehouse-checkpoint.json" isButton>
            Checkpoint
          </FileLink>
          <button type="button" onClick={() => setDialog('compare')}>
            Compare
          </button>
          <ExportMenu path={`v1/audit-logs/export${asked}`} name="audit-log" />
          <CopyButton text={shareUrl} label="Share" />
        </header>
        <div class="bar">
          <Filters
            specs={[
              { name: 'action', label: 'Action', choices: values(AUDIT_ACTIONS) },
              { name: 'resource_type', label: 'Resource', choices: values(RESOURCE_TYPES) },
            ]}
            chipsFor={['actor', 'resource_id']}
          />
          <ViewMenu screen="audit" />
        </div>
        <label class="by">
          <input
            type="checkbox"
            checked={all}
            onChange={({ currentTarget }) => setParams({ submissions: currentTarget.checked ? 'all' : undefined })}
          />{' '}
          with every event that was submitted
        </label>
        <Reading
          of={list}
          empty={list.items.length === 0 && <Empty title="No entries here">Nothing fits these filters.</Empty>}
        >
          <p class="quiet">{many(list.total, 'entry', 'entries')}</p>
          <VirtualRows
            label="Entries, newest first"
            remembers
            count={list.items.length}
            rowPx={narrow.value ? NARROW_ROW_PX : 34}
            onEnd={list.more}
            row={(index) => {
              const entry = list.items[index]!;
              const next = new URLSearchParams(params);
              next.set('id', entry.id);
              return (
                <ListLine
                  row={entry}
                  href={hrefOf('audit', next)}
                  isOpen={entry === named}
                  leadWidths="184px 140px"
                  lead={
                    <>
                      <Time at={entry.created_at} millis />
                      <span>{entry.action}</span>
                    </>
                  }
                  said={<Cut text={entry.summary || nameIn(entry) || entry.resource_id} />}
                  columns={COLUMNS}
                />
              );
            }}
          />
        </Reading>
      </section>
      {id !== null && (
        <Side label="Open entry" of={id} onClose={() => setParams({ id: undefined })}>
          {open === undefined ? <Reading of={alone}>{null}</Reading> : <Entry entry={open} />}
        </Side>
      )}
      {dialog === 'verify' && <Verify onClose={() => setDialog(undefined)} />}
      {dialog === 'compare' && <Compare onClose={() => setDialog(undefined)} />}
    </div>
  );
}

function Entry({ entry }: { entry: AuditEntry }) {
  return (
    <>
      <h2>{entry.action}</h2>
      <dl class="facts">
        <dt>Entry</dt>
        <dd>
          <code>{entry.id}</code>
        </dd>
        <dt>By</dt>
        <dd>
          <a href={hrefOf('audit', { actor: entry.actor })}>
            <Actor actor={entry.actor} />
          </a>
        </dd>
        <dt>On</dt>
        <dd>
          {entry.resource_type} <Resource id={entry.resource_id} />
          <div>
            <a href={hrefOf('audit', { resource_id: entry.resource_id })}>All entries on it</a>
          </div>
        </dd>
        <dt>At</dt>
        <dd>
          <Time at={entry.created_at} millis />
        </dd>
      </dl>
      <Payload text={entry.details.text} what="details" />
    </>
  );
}

function Resource({ id }: { id: string }) {
  const href = hrefOfId(id);
  return href === undefined ? <Literal text={id} /> : <a href={href}>{id}</a>;
}

/** The name of the resource, where the entry says it. */
function nameIn({ details }: ListedEntry): string {
  const { name } = JSON.parse(details.text) as { name?: unknown };
  return typeof name === 'string' ? name : '';
}

/** Continues from where the service cut off, until all of it is verified. */
function Verify({ onClose }: { onClose: () => void }) {
  const [parts, setParts] = useState<Verification[]>([]);
  const [error, setError] = useState<ApiError>();
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(undefined);
    setParts([]);
    try {
      for (let from: string | undefined, more = true; more; ) {
        const { value } = await read<Verification>(`v1/audit-logs/verify${query({ from })}`);
        setParts((before) => [...before, value]);
        more = value.valid !== false && value.truncated && value.continue_from !== null;
        from = value.continue_from ?? undefined;
      }
    } catch (refusal) {
      setError(refusal as ApiError);
    } finally {
      setBusy(false);
    }
  };
  const chained = parts[0]?.chained ?? 0;
  const checked = parts.reduce((sum, { entries }) => sum + entries, 0);
  return (
    <Dialog title="Verify the audit log" onClose={onClose}>
      <p>The hash chains are computed again from what is stored. What was changed, moved, added or removed is named.</p>
      {error !== undefined && <Problem error={error} retry={run} />}
      {(busy || parts.length > 0) && (
        <progress
          value={busy ? Math.min(checked, chained) : 1}
          max={busy ? Math.max(1, chained) : 1}
          aria-label="Verified"
        />
      )}
      <p role="status">
        {checked.toLocaleString('en')} of {chained.toLocaleString('en')} entries checked.
      </p>
      {!busy && parts.length > 0 && <Found parts={parts} />}
      <button type="button" class="primary" onClick={run} aria-busy={busy} disabled={busy}>
        {parts.length > 0 ? 'Verify again' : 'Verify now'}
      </button>
    </Dialog>
  );
}

function Found({ parts }: { parts: readonly Verification[] }) {
  const fault = parts.find(({ first_invalid: first }) => first !== null)?.first_invalid;
  if (parts.at(-1)?.valid === null)
    return (
      <p role="alert">Nothing was changed in what was checked, but it took too long to check all. Try again later.</p>
    );
  if (fault === undefined || fault === null)
    return (
      <p class="good">
        <strong>Nothing was changed, moved, added or removed.</strong>
      </p>
    );
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{parts.reduce((sum, { faults }) => sum + faults, 0)} faults.</strong> The first: {fault.kind} in{' '}
        {fault.chain}
        {fault.position === null ? '' : `, entry ${fault.position}`}, about <Time at={fault.at} />.
      </p>
      <p>
        {fault.entry_id !== null && <code>{fault.entry_id}</code>}{' '}
        <a
          href={hrefOf('audit', {
            submissions: 'all',
            from: new Date(Date.parse(fault.at) - 60_000).toISOString(),
            to: new Date(Date.parse(fault.at) + 60_000).toISOString(),
            ...(fault.entry_id === null ? {} : { id: fault.entry_id }),
          })}
        >
          Entries around it
        </a>
      </p>
    </div>
  );
}

function Compare({ onClose }: { onClose: () => void }) {
  const [found, setFound] = useState<Verification>();
  return (
    <Dialog
      title="Compare with a checkpoint"
      action="Compare"
      onClose={onClose}
      stay
      onAct={async (form) => {
        setFound(undefined);
        const text = await (form.get('checkpoint') as File).text();
        const key = String(form.get('public_key') ?? '').trim();
        const more = key === '' ? '' : `,"public_key":${JSON.stringify(key)}`;
        setFound(
          (await call<Verification>('POST', 'v1/audit-logs/compare', { rawBody: `{"checkpoint":${text}${more}}` }))
            .value,
        );
      }}
    >
      <p>A history that was rewritten since the checkpoint is found, even if its chains are sound.</p>
      <Field label="The checkpoint file">
        <input type="file" name="checkpoint" required accept="application/json,.json" />
      </Field>
      <Field label="Public key to trust" hint="That of this service, where it is left empty.">
        <input name="public_key" maxLength={1000} />
      </Field>
      {found !== undefined && <Found parts={[found]} />}
    </Dialog>
  );
}
