// Controls of the form of a policy's conditions (policy-form.tsx): each shows what stands at one key of a JSON object
// and changes it there.
// Invariant: the text is the only copy. A control whose key holds what it could not show (core/policy-parts.ts) is not
// there.
import { useState } from 'preact/hooks';
import { listOf, memberValue, shownValue, withList, withValue, writtenValue } from '../core/policy-form.ts';
import { isOne } from '../core/policy-parts.ts';
import { Field } from './dialog.tsx';
import { Literal } from './literal.tsx';

/** `text`: the JSON of the object. */
export type Edit = { text: string; onText: (text: string) => void };

type OneProps = Edit & { name: string; label: string };

/** `isValue`: a number is one. `suggested`: what is often written there. */
export function OneText({
  name,
  label,
  isValue = false,
  suggested,
  hint,
  ...edit
}: OneProps & { isValue?: boolean; suggested?: readonly string[]; hint?: string }) {
  const { text, onText } = edit;
  const value = memberValue(text, name);
  if (value !== undefined && !isOne(value)) return null;
  const list = suggested === undefined ? undefined : `policy-of-${name}`;
  return (
    <Field label={label} {...(hint === undefined ? {} : { hint })}>
      <input
        list={list}
        value={value === undefined ? '' : shownValue(value, !isValue)}
        onInput={({ currentTarget: { value: written } }) =>
          onText(withValue(text, name, written === '' ? undefined : writtenValue(written, !isValue)))
        }
      />
      {list !== undefined && (
        <datalist id={list}>
          {suggested!.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </Field>
  );
}

/** `choices`: what is said of each value. `none`: what it is where the key is left out. */
export function Choice({
  name,
  label,
  choices,
  none,
  text,
  onText,
}: OneProps & { choices: Readonly<Record<string, string>>; none: string }) {
  const value = memberValue(text, name);
  if (value !== undefined && !isOne(value)) return null;
  const shown = value === undefined ? '' : shownValue(value);
  return (
    <Field label={label}>
      <select
        value={shown}
        onChange={({ currentTarget: { value: chosen } }) =>
          onText(withValue(text, name, chosen === '' ? undefined : writtenValue(chosen)))
        }
      >
        <option value="">{none}</option>
        {Object.entries(choices).map(([one, said]) => (
          <option key={one} value={one}>
            {said}
          </option>
        ))}
        {shown !== '' && !Object.hasOwn(choices, shown) && <option value={shown}>{shown}</option>}
      </select>
    </Field>
  );
}

/** A list. `areValues`: numbers among them are numbers. */
export function Texts({ name, label, areValues = false, text, onText }: OneProps & { areValues?: boolean }) {
  const values = listOf(text, name);
  if (values === undefined) return null;
  return (
    <div class="field">
      <span>{label}</span>
      <Values
        label={name}
        values={values}
        isText={!areValues}
        onValues={(next) => onText(withList(text, name, next))}
      />
    </div>
  );
}

type ValuesProps = {
  label: string;
  list?: string | undefined;
  /** JSON texts. */
  values: readonly string[];
  isText?: boolean;
  onValues: (values: string[]) => void;
};

export function Values({ label, list, values, isText = false, onValues }: ValuesProps) {
  const [next, setNext] = useState('');
  const add = () => {
    if (next === '') return;
    onValues([...values, writtenValue(next, isText)]);
    setNext('');
  };
  return (
    <div class="values">
      {values.map((one, i) => (
        <button
          key={i}
          type="button"
          class="chip"
          title="Remove"
          onClick={() => onValues(values.filter((_, at) => at !== i))}
        >
          <Literal text={shownValue(one, isText)} /> <span aria-hidden="true">×</span>
          <span class="hidden">: remove</span>
        </button>
      ))}
      <input
        aria-label={`Another ${label}`}
        placeholder="another, Enter"
        list={list}
        value={next}
        onInput={({ currentTarget }) => setNext(currentTarget.value)}
        onBlur={add}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || next === '') return;
          event.preventDefault();
          add();
        }}
      />
    </div>
  );
}
