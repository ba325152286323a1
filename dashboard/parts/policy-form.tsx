// The conditions of a policy as a form, beside their JSON (form-or-json.tsx): each follows the other, for both show one
// text (core/policy-form.ts). What the form has no field for is named, and stays in the JSON as it is.
import { useMemo, useState } from 'preact/hooks';
import {
  DETECTOR_NAMES,
  EVENT_TYPES,
  ON_CHECK_FAILURE,
  ON_TIMEOUT,
  type PolicyType,
} from '../../schemas/closed-sets.ts';
import {
  FORM_OPERATORS,
  formOf,
  isOfText,
  listOf,
  memberValue,
  shownValue,
  type Test,
  takesList,
  withField,
  withList,
  withOperator,
  withoutTest,
  withTest,
  withValue,
  withValues,
  writtenValue,
} from '../core/policy-form.ts';
import { useRead } from '../core/queries.ts';
import { recordedFields } from '../core/recorded-fields.ts';
import type { EventFacets, EventRow, Page } from '../core/types.ts';
import { Field } from './dialog.tsx';
import { Literal } from './literal.tsx';
import '../styles/policy-form.css';

type Edit = { text: string; onText: (text: string) => void };

/** Keys that are no fields, by type; those of other types are refused as fields, so they are named. */
const SHOWN: Record<PolicyType, readonly string[]> = {
  block_action: ['expression'],
  rate_limit: ['threshold', 'window', 'per', 'expression'],
  data_filter: ['patterns', 'detectors', 'regions', 'fields', 'redact', 'expression'],
  require_approval: ['timeout', 'on_timeout', 'expression'],
  sequence: ['within', 'per', 'at_least', 'expression'],
  external_check: ['check', 'fields', 'when', 'redact', 'on_timeout', 'on_error', 'on_overload', 'expression'],
  budget: ['window', 'zone', 'per', 'hold', 'expression'],
};
const { sequence: ofSequence, budget: ofBudget, ...ofOthers } = SHOWN;
const RESERVED = [...new Set([...Object.values(ofOthers).flat(), 'payload_schema'])];
/** These are fields in other types. */
const ALSO_RESERVED: Partial<Record<PolicyType, readonly string[]>> = {
  sequence: [...ofSequence, 'after', 'unless', 'same', 'sum'],
  budget: [...ofBudget, 'limit', 'estimate', 'warn_at', 'unpriced'],
};
const FIELDS = ['type', 'payload.tool', 'payload.arguments', 'payload.prompt', 'payload.model', 'trace_id'];
/** Fields and values are suggested from what these begin with. */
const NEWEST = 'v1/events?payload=preview&limit=100';
const WORDS: Record<string, string> = {
  ...{ is: 'is', 'any of': 'is any of', eq: 'is exactly', ne: 'is not', in: 'is in', not_in: 'is not in' },
  ...{ gt: 'is more than', gte: 'is at least', lt: 'is less than', lte: 'is at most' },
  ...{ contains: 'contains', starts_with: 'starts with', ends_with: 'ends with', matches: 'matches pattern' },
  ...{ glob: 'is like (* ?)', exists: 'is there' },
};

export function PolicyForm({ type, text, onText }: Edit & { type: PolicyType }) {
  const form = formOf(text, [...RESERVED, ...(ALSO_RESERVED[type] ?? [])], SHOWN[type]);
  const facets = useRead<EventFacets>('v1/events/facets').value;
  const newest = useRead<Page<EventRow>>(NEWEST).value;
  const recorded = useMemo(() => recordedFields(newest?.items.map((one) => one.payload_preview ?? '') ?? []), [newest]);
  if (form === undefined) return <p class="quiet">The JSON cannot be read; the form comes back when it can.</p>;
  const edit = { text, onText };
  const valuesFor: Record<string, readonly string[]> = {
    ...Object.fromEntries(
      [...recorded].map(([path, values]) => [bareName(path), values.map((one) => shownValue(one))]),
    ),
    type: EVENT_TYPES,
    model: facets?.model.values.map(({ value }) => value) ?? [],
    agent_id: facets?.agent_id.values.map(({ value }) => value) ?? [],
  };
  return (
    <fieldset class="policy-form">
      <legend>When it matches</legend>
      {form.tests.length === 0 && <p class="quiet">Every event.</p>}
      {form.tests.map((test, i) => (
        <TestRow key={`${test.member}.${test.inner}`} n={i + 1} test={test} suggested={valuesFor} {...edit} />
      ))}
      <datalist id="policy-fields">
        {[...new Set([...FIELDS, ...recorded.keys()])].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      {Object.entries(valuesFor).map(([name, values]) => (
        <datalist key={name} id={`policy-values-${name}`}>
          {values.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      ))}
      <button type="button" onClick={() => onText(withTest(text, freeField(form.members.map(({ key }) => key))))}>
        Add a condition
      </button>
      <OfType type={type} {...edit} />
      <OneText name="expression" label="Expression (CEL)" {...edit} />
      {form.others.length > 0 && (
        <p>
          Only in the JSON, and kept as it is:{' '}
          {form.others.map((one, i) => (
            <span key={i}>
              {i > 0 && ', '}
              <code>
                <Literal text={one} />
              </code>
            </span>
          ))}
        </p>
      )}
    </fieldset>
  );
}

function bareName(field: string): string {
  return field.replace(/^payload\./, '');
}

function freeField(taken: readonly string[]): string {
  return FIELDS.find((one) => !taken.includes(one) && !taken.includes(bareName(one))) ?? 'payload.';
}

type RowProps = Edit & { n: number; test: Test; suggested: Record<string, readonly string[]> };

function TestRow({ n, test, suggested, text, onText }: RowProps) {
  const bare = bareName(test.field);
  const list = Object.hasOwn(suggested, bare) ? `policy-values-${bare}` : undefined;
  // a short form cannot stand beside other operators
  const isShared = test.inner !== undefined && hasSiblings(text, test);
  const isText = isOfText(test.operator);
  return (
    <div class="test" role="group" aria-label={`Condition ${n}`}>
      <input
        aria-label={`Field of condition ${n}`}
        list="policy-fields"
        value={test.field}
        onInput={({ currentTarget }) => onText(withField(text, test, currentTarget.value))}
      />
      <select
        aria-label={`Comparison of condition ${n}`}
        value={test.operator}
        onChange={({ currentTarget }) => onText(withOperator(text, test, currentTarget.value))}
      >
        {FORM_OPERATORS.map((one) => (
          <option key={one} value={one} disabled={isShared && (one === 'is' || one === 'any of')}>
            {WORDS[one]}
          </option>
        ))}
      </select>
      {takesList(test.operator) ? (
        <Values
          label={`value of condition ${n}`}
          list={list}
          values={test.values}
          onValues={(values) => onText(withValues(text, test, values))}
        />
      ) : (
        <input
          aria-label={`Value of condition ${n}`}
          list={list}
          value={shownValue(test.values[0]!, isText)}
          onInput={({ currentTarget }) => onText(withValues(text, test, [writtenValue(currentTarget.value, isText)]))}
        />
      )}
      <button type="button" aria-label={`Remove condition ${n}`} onClick={() => onText(withoutTest(text, test))}>
        Remove
      </button>
    </div>
  );
}

function hasSiblings(text: string, { member }: Test): boolean {
  return (formOf(text, [], [])?.tests.filter((one) => one.member === member).length ?? 0) > 1;
}

type ValuesProps = {
  label: string;
  list?: string | undefined;
  /** JSON texts. */
  values: readonly string[];
  isText?: boolean;
  onValues: (values: string[]) => void;
};

function Values({ label, list, values, isText = false, onValues }: ValuesProps) {
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

function OfType({ type, ...edit }: Edit & { type: PolicyType }) {
  if (type === 'rate_limit')
    return (
      <div class="columns">
        <OneText name="threshold" label="Allowed events" isValue {...edit} />
        <OneText name="window" label="In the last (60, 5m, 1h, 1d)" isValue {...edit} />
        <OneText name="per" label="Counted by (agent, account, payload.tool)" {...edit} />
      </div>
    );
  if (type === 'require_approval')
    return (
      <div class="columns">
        <OneText name="timeout" label="Waits for (30s, 15m, 1h, 1d)" isValue {...edit} />
        <Choice name="on_timeout" label="Without a decision" values={ON_TIMEOUT} {...edit} />
      </div>
    );
  if (type === 'sequence')
    return (
      <div class="columns">
        <OneText name="within" label="In the last (60, 5m, 1h, 1d)" isValue {...edit} />
        <OneText name="per" label="In the events of one (agent, trace, account, payload.customer)" {...edit} />
        <OneText name="at_least" label="The last step at least so often" isValue {...edit} />
      </div>
    );
  if (type === 'external_check') return <OfCheck {...edit} />;
  if (type === 'budget')
    return (
      <div class="columns">
        <OneText name="window" label="In each (1h, 30d, day, week, month)" isValue {...edit} />
        <OneText name="zone" label="Of the time zone (Europe/Berlin)" {...edit} />
        <OneText name="per" label="Of each (agent, account, trace, payload.user)" {...edit} />
      </div>
    );
  return type === 'data_filter' ? <OfFilter {...edit} /> : null;
}

/** What the verdict must be, `when`, is written in the JSON. */
function OfCheck(edit: Edit) {
  return (
    <>
      <OneText name="check" label="Asks the check" {...edit} />
      <Texts name="fields" label="About these fields" {...edit} />
      <Choice name="redact" label="What is found is" values={['true', 'false']} {...edit} />
      <div class="columns">
        <Choice name="on_timeout" label="Not in time" values={ON_CHECK_FAILURE} {...edit} />
        <Choice name="on_error" label="An error" values={ON_CHECK_FAILURE} {...edit} />
        <Choice name="on_overload" label="No room" values={ON_CHECK_FAILURE} {...edit} />
      </div>
    </>
  );
}

function OfFilter({ text, onText }: Edit) {
  const detectors = listOf(text, 'detectors');
  const token = (name: string) => JSON.stringify(name);
  return (
    <>
      {detectors !== undefined && (
        <fieldset class="actions">
          <legend>Looks for</legend>
          {DETECTOR_NAMES.map((name) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={detectors.includes(token(name))}
                onChange={({ currentTarget: { checked } }) => {
                  const others = detectors.filter((one) => one !== token(name));
                  onText(withList(text, 'detectors', checked ? [...detectors, token(name)] : others));
                }}
              />{' '}
              {name}
            </label>
          ))}
        </fieldset>
      )}
      <Texts name="patterns" label="Patterns (RE2)" {...{ text, onText }} />
      <Texts name="fields" label="Only in these fields" {...{ text, onText }} />
      <Texts name="regions" label="Countries of phone numbers (FR, DE)" {...{ text, onText }} />
      <Choice name="redact" label="What is found is" values={['true', 'false']} {...{ text, onText }} />
    </>
  );
}

const CHOICES: Record<string, string> = {
  ...{ deny: 'denied', approve: 'approved', true: 'replaced in what is stored', false: 'stored as it was sent' },
};

function Choice({
  name,
  label,
  values,
  text,
  onText,
}: Edit & { name: string; label: string; values: readonly string[] }) {
  const value = memberValue(text, name);
  const shown = value === undefined ? '' : shownValue(value);
  return (
    <Field label={label}>
      <select
        value={shown}
        onChange={({ currentTarget: { value: chosen } }) =>
          onText(withValue(text, name, chosen === '' ? undefined : writtenValue(chosen)))
        }
      >
        <option value="">as it is by default</option>
        {values.map((one) => (
          <option key={one} value={one}>
            {CHOICES[one]}
          </option>
        ))}
        {shown !== '' && !values.includes(shown) && <option value={shown}>{shown}</option>}
      </select>
    </Field>
  );
}

function Texts({ name, label, text, onText }: Edit & { name: string; label: string }) {
  const values = listOf(text, name);
  if (values === undefined) return null;
  return (
    <div class="field">
      <span>{label}</span>
      <Values label={name} values={values} isText onValues={(next) => onText(withList(text, name, next))} />
    </div>
  );
}

/** `isValue`: a number is one. */
function OneText({
  name,
  label,
  isValue = false,
  text,
  onText,
}: Edit & { name: string; label: string; isValue?: boolean }) {
  const value = memberValue(text, name);
  return (
    <Field label={label}>
      <input
        value={value === undefined ? '' : shownValue(value, !isValue)}
        onInput={({ currentTarget: { value: written } }) =>
          onText(withValue(text, name, written === '' ? undefined : writtenValue(written, !isValue)))
        }
      />
    </Field>
  );
}
