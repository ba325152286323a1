// Filters of a list as chips and a menu with counts, and its range of time. All of it is in the address.
import { useState } from 'preact/hooks';
import { KINDS, type Kind, useNames } from '../core/by-id.ts';
import { nowMs } from '../core/clock.ts';
import { moveMoment, place, setParams } from '../core/router.ts';
import { exactText, inputOf, ofInput, RANGES, rangeOf, zone, zoneName } from '../core/time.ts';
import { visible } from '../core/visible.ts';
import { Literal } from './literal.tsx';
import { SearchName, useFound } from './named.tsx';

type Choice = { value: string; name?: string | undefined; count?: number | undefined };
export type FilterSpec = {
  /** Name of the parameter. */
  name: string;
  label: string;
  /** The most frequent ones, where there are counts. */
  choices: readonly Choice[];
  /** Events of all further values together. */
  other?: number;
  /** More can be looked for among these. */
  found?: Kind | undefined;
};

/** `specs`: what can be chosen from; `chipsFor`: further parameters that are shown as chips where they are set. */
export function Filters({ specs, chipsFor = [] }: { specs: readonly FilterSpec[]; chipsFor?: readonly string[] }) {
  const { params } = place.value;
  const names = {
    agents: useNames('agents', params.getAll('agent_id')),
    policies: useNames('policies', params.getAll('policy_id')),
    alerts: useNames('alerts', params.getAll('alert_id')),
  };
  const nameOf = (parameter: string, value: string) => {
    const kind = KINDS[parameter];
    return kind === undefined ? value : names[kind](value);
  };
  const chips = [...specs.map(({ name }) => name), ...chipsFor].flatMap((name) =>
    params.getAll(name).map((value) => ({ name, value })),
  );
  return (
    <div class="filters">
      {specs.map((spec) => (
        <FilterMenu key={spec.name} {...spec} />
      ))}
      {chips.map(({ name, value }) => (
        <button
          key={`${name}=${value}`}
          type="button"
          class="chip"
          aria-label={`Remove the filter ${wordsOf(name)} ${visible(nameOf(name, value))}`}
          onClick={() => setParams({ [name]: params.getAll(name).filter((other) => other !== value), id: undefined })}
        >
          {wordsOf(name)}: {value === '' ? '(none)' : <Literal text={nameOf(name, value)} />} ×
        </button>
      ))}
      {chips.length > 1 && (
        <button
          type="button"
          class="link"
          onClick={() =>
            setParams({ ...Object.fromEntries(chips.map(({ name }) => [name, undefined])), id: undefined })
          }
        >
          Clear all
        </button>
      )}
    </div>
  );
}

/** `agent` of `agent_id`: what a parameter filters by, as a person calls it. */
function wordsOf(name: string): string {
  return name.replace(/_id$/, '').replaceAll('_', ' ');
}

function FilterMenu({ name, label, choices, other = 0, found: kind }: FilterSpec) {
  const { params } = place.value;
  const chosen = params.getAll(name);
  const [isOpen, setOpen] = useState(false);
  const [words, setWords] = useState('');
  const isLookedFor = kind !== undefined && isOpen && (words !== '' || choices.length === 0);
  const found = useFound(isLookedFor ? kind : undefined, words);
  const nameOf = useNames(kind ?? 'agents', kind !== undefined && isOpen ? chosen : []);
  const listed: readonly Choice[] = isLookedFor
    ? (found.value?.items ?? []).map(({ id, name: called }) => ({
        ...{ value: id, name: called, count: choices.find(({ value }) => value === id)?.count },
      }))
    : choices;
  const missing = chosen.filter((value) => !listed.some((choice) => choice.value === value));
  const shown = [...missing.map((value) => ({ value, name: kind && nameOf(value), count: undefined })), ...listed];
  const more = isLookedFor ? (found.value?.total ?? 0) - listed.length : 0;
  return (
    <details class="menu" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {label}
        {chosen.length > 0 && <span class="count">{chosen.length}</span>}
      </summary>
      <fieldset>
        <legend class="hidden">{label}</legend>
        {kind !== undefined && <SearchName label={`Search: ${label}`} words={words} onWords={setWords} />}
        {shown.length === 0 && (
          <p class="quiet">{isLookedFor && found.waiting ? 'Loading …' : 'Nothing to choose from.'}</p>
        )}
        {shown.map(({ value, name: shown, count }) => (
          <label key={value}>
            <input
              type="checkbox"
              checked={chosen.includes(value)}
              onChange={({ currentTarget }) =>
                setParams({
                  [name]: currentTarget.checked ? [...chosen, value] : chosen.filter((other) => other !== value),
                  id: undefined,
                })
              }
            />
            <span class="grow">{value === '' ? '(none)' : <Literal text={shown ?? value} />}</span>
            {count !== undefined && <span class="quiet">{count.toLocaleString('en')}</span>}
          </label>
        ))}
        {!isLookedFor && other > 0 && <p class="quiet">Others, not shown here: {other.toLocaleString('en')} events.</p>}
        {more > 0 && <p class="quiet">And {more.toLocaleString('en')} more: look for a part of the name.</p>}
      </fieldset>
    </details>
  );
}

/** `whole`: what no range at all is called. `keepsOpen`: what is open has the range, and stays open. */
export function TimeRange({ whole = 'All time', keepsOpen = false }: { whole?: string; keepsOpen?: boolean }) {
  const { params } = place.value;
  const closing = keepsOpen ? {} : { id: undefined };
  zone.value;
  const { from, to } = rangeOf(params);
  const isFixed = params.get('range') === null && (params.has('from') || params.has('to'));
  const set = (name: 'from' | 'to', text: string) => {
    const other = name === 'from' ? 'to' : 'from';
    const before = { from, to };
    setParams({ [name]: ofInput(text, before[name]), [other]: before[other], range: undefined, ...closing });
  };
  return (
    <div class="range">
      <label>
        <span class="hidden">Range of time</span>
        <select
          value={isFixed ? 'fixed' : (params.get('range') ?? '')}
          onChange={({ currentTarget }) => {
            const chosen = currentTarget.value;
            if (chosen === 'fixed')
              setParams({ range: undefined, from: from ?? new Date(nowMs() - 86_400_000).toISOString(), to });
            else setParams({ range: chosen, from: undefined, to: undefined, ...closing });
          }}
        >
          <option value="">{whole}</option>
          {Object.keys(RANGES).map((range) => (
            <option key={range} value={range}>
              Last {range}
            </option>
          ))}
          <option value="fixed">From … to …</option>
        </select>
      </label>
      {params.has('range') && (
        <button type="button" title="Counts the range back from now again" onClick={() => moveMoment(nowMs())}>
          Refresh
        </button>
      )}
      {isFixed && (
        <>
          <label>
            <span class="hidden">From ({zoneName()})</span>
            <input
              type="datetime-local"
              step="1"
              value={from === undefined ? '' : inputOf(from)}
              title={from === undefined ? '' : exactText(from)}
              onChange={({ currentTarget }) => set('from', currentTarget.value)}
            />
          </label>
          <span aria-hidden="true">–</span>
          <label>
            <span class="hidden">To ({zoneName()})</span>
            <input
              type="datetime-local"
              step="1"
              value={to === undefined ? '' : inputOf(to)}
              title={to === undefined ? '' : exactText(to)}
              onChange={({ currentTarget }) => set('to', currentTarget.value)}
            />
          </label>
        </>
      )}
    </div>
  );
}

/** Words to search for, kept in the address as `q`. */
export function Search({ label }: { label: string }) {
  const { params } = place.value;
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const words = new FormData(event.currentTarget).get('q');
        setParams({ q: String(words ?? '').trim() || undefined, id: undefined });
      }}
    >
      <label>
        <span class="hidden">{label}</span>
        <input
          type="search"
          name="q"
          key={params.get('q') ?? ''}
          defaultValue={params.get('q') ?? ''}
          placeholder={label}
          maxLength={500}
        />
      </label>
    </form>
  );
}

/** Freezes a relative range, so that the link shows the same when it is opened later. */
export function shareUrl(): string {
  const { params, screen } = place.value;
  const frozen = new URLSearchParams(params);
  if (frozen.has('range')) {
    const { from } = rangeOf(params);
    frozen.delete('range');
    if (from !== undefined) frozen.set('from', from);
    frozen.set('to', new Date(nowMs()).toISOString());
  }
  const query = frozen.toString();
  return new URL(`./${screen}${query === '' ? '' : `?${query}`}`, location.href).href;
}
