// Agents, policies and keys by their names, and a field that chooses an agent, of however many there are.
import { useState } from 'preact/hooks';
import { query } from '../core/api.ts';
import { type Kind, useActor, useNames } from '../core/by-id.ts';
import { type Read, useRead } from '../core/queries.ts';
import { hrefOf } from '../core/router.ts';
import type { Page } from '../core/types.ts';
import { visible } from '../core/visible.ts';
import { Field } from './dialog.tsx';
import { Literal } from './literal.tsx';

export function AgentName({ id }: { id: string }) {
  return <Literal text={useNames('agents', [id])(id)} />;
}

export function AgentLink({ id }: { id: string }) {
  return (
    <a href={hrefOf('agent', { id })}>
      <AgentName id={id} />
    </a>
  );
}

/** Who did something; what the log calls them where the pointer rests. */
export function Actor({ actor }: { actor: string | null }) {
  return (
    <span title={visible(actor ?? '')}>
      <Literal text={useActor(actor)} />
    </span>
  );
}

type Named = { id: string; name: string };
/** As many as a page of these lists holds. */
const FOUND_MAX = 100;

/** Those with these words in their names, the newest first. `kind` undefined: nothing is asked for. */
export function useFound(kind: Kind | undefined, words: string, limit = FOUND_MAX): Read<Page<Named>> {
  const q = words.trim().slice(0, 200);
  return useRead<Page<Named>>(kind && `v1/${kind}${query({ limit, q })}`, { behind: true, keeps: true });
}

/** A field to look among more than can be shown. Enter is no decision about the form that it stands in. */
export function SearchName({
  label,
  words,
  onWords,
}: {
  label: string;
  words: string;
  onWords: (words: string) => void;
}) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder="Part of a name"
      maxLength={200}
      value={words}
      onInput={({ currentTarget }) => onWords(currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') event.preventDefault();
      }}
    />
  );
}

type AgentFieldProps = {
  label: string;
  /** In the form around it. */
  name?: string;
  /** Id; '': none. */
  value: string;
  onValue: (id: string) => void;
  /** What choosing none is called; left out: one must be chosen. */
  none?: string;
  disabled?: boolean;
};

/** What is chosen is always among the options. */
export function AgentField({ label, name, value, onValue, none, disabled = false }: AgentFieldProps) {
  const [words, setWords] = useState('');
  const found = useFound(disabled ? undefined : 'agents', words);
  const nameOf = useNames('agents', [value]);
  const options = found.value?.items ?? [];
  const isMissing = value !== '' && !options.some(({ id }) => id === value);
  const isSearched = words !== '' || (found.value?.total ?? 0) > options.length;
  return (
    <div>
      <Field label={label}>
        <select
          name={name}
          value={value}
          disabled={disabled}
          onChange={({ currentTarget }) => onValue(currentTarget.value)}
        >
          {none !== undefined && <option value="">{none}</option>}
          {isMissing && <option value={value}>{visible(nameOf(value))}</option>}
          {options.map((one) => (
            <option key={one.id} value={one.id}>
              {visible(one.name)}
            </option>
          ))}
        </select>
      </Field>
      {isSearched && <SearchName label={`Search agents for “${label}”`} words={words} onWords={setWords} />}
      {isSearched && (
        <small role="status">
          {options.length.toLocaleString('en')} of {(found.value?.total ?? 0).toLocaleString('en')} agents are among the
          choices.
        </small>
      )}
    </div>
  );
}
