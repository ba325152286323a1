// Agents, policies and keys by their names, and a field that chooses an agent, of however many there are: the service
// searches, the page holds what it suggests.
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { query } from '../core/api.ts';
import { type Kind, useActor, useNames } from '../core/by-id.ts';
import { isId } from '../core/id-links.ts';
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

/** Those with these words in their names, or with this id, the newest first. `kind` undefined: nothing is asked for. */
export function useFound(kind: Kind | undefined, words: string, limit = FOUND_MAX): Read<Page<Named>> {
  const written = words.trim().slice(0, 200);
  const by = isId(written) ? { id: written } : { q: written };
  return useRead<Page<Named>>(kind && `v1/${kind}${query({ limit, ...by })}`, { behind: true, keeps: true });
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
  /** The label of choosing none; left out: one must be chosen. */
  none?: string;
  disabled?: boolean;
};

/**
 * A field that is written into: a part of a name suggests agents, a whole name or an id chooses one. What is no agent
 * stands as the value, so that it is refused and nothing else is taken in its place.
 */
export function AgentField({ label, name, value, onValue, none, disabled = false }: AgentFieldProps) {
  /** undefined: as it was chosen. */
  const [written, setWritten] = useState<string>();
  const field = useRef<HTMLInputElement>(null);
  const list = useId();
  const found = useFound(disabled ? undefined : 'agents', written ?? '');
  const nameOf = useNames('agents', [isId(value) ? value : '']);
  const options = found.value?.items ?? [];
  const isSound = value === '' ? none !== undefined : isId(value);
  const take = (text: string) => {
    setWritten(text);
    onValue(options.find((one) => one.id === text || [one.name, visible(one.name)].includes(text))?.id ?? text.trim());
  };
  // what was written before its answer was there
  useEffect(() => {
    if (written === undefined || isSound) return;
    take(written);
    field.current?.dispatchEvent(new Event('change', { bubbles: true })); // the form around it has another value now
  }, [found.value]);
  useLayoutEffect(() => field.current?.setCustomValidity(isSound ? '' : 'No agent is called so.'), [isSound]);
  return (
    <div>
      <Field label={label}>
        <input
          ref={field}
          type={name === undefined ? 'search' : 'text'}
          list={list}
          autocomplete="off"
          disabled={disabled}
          placeholder={none ?? 'Part of a name'}
          value={written ?? visible(nameOf(value))}
          onFocus={({ currentTarget }) => currentTarget.select()}
          onInput={({ currentTarget }) => take(currentTarget.value)}
          onBlur={() => isSound && setWritten(undefined)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            event.preventDefault(); // it chooses, and sends nothing
            if (!isSound && options.length === 1) onValue(options[0]!.id);
            if (isSound || options.length === 1) setWritten(undefined);
          }}
        />
      </Field>
      {name !== undefined && <input type="hidden" name={name} value={value} />}
      <datalist id={list}>
        {options.map((one) => (
          <option key={one.id} value={visible(one.name)} />
        ))}
      </datalist>
      <Suggested found={found} isSound={isSound} />
    </div>
  );
}

/** How many there are, where not all are suggested, and that what is written is none of them. */
function Suggested({ found: { value, waiting, busy }, isSound }: { found: Read<Page<Named>>; isSound: boolean }) {
  const { items, total } = value ?? { items: [], total: 0 };
  if (isSound && total <= items.length) return null;
  if (waiting || busy) return <small role="status">Loading …</small>;
  const said = `${items.length.toLocaleString('en')} of ${total.toLocaleString('en')} agents are suggested`;
  return (
    <small role="status">
      {total === 0 ? 'No agent has this in its name.' : `${said}: write a part of a name, or an id.`}
    </small>
  );
}
