// The conditions of a policy as a form, beside their JSON (form-or-json.tsx): each follows the other, for both show one
// text (core/policy-form.ts). What the form has no field for is named, and stays in the JSON as it is.
import { useMemo } from 'preact/hooks';
import { EVENT_TYPES, type OnCheckFailure, type PolicyType } from '../../schemas/closed-sets.ts';
import { formOf, memberValue, shownValue } from '../core/policy-form.ts';
import { SHAPES, withObject } from '../core/policy-parts.ts';
import { useRead } from '../core/queries.ts';
import { recordedFields } from '../core/recorded-fields.ts';
import { isBound } from '../core/session.ts';
import type { EventFacets, EventRow, ExternalCheck, Page } from '../core/types.ts';
import { BudgetFields } from './budget-form.tsx';
import { bareName, ConditionRows, OnlyInJson, Suggestions } from './condition-rows.tsx';
import { FilterFields } from './filter-fields.tsx';
import { Choice, type Edit, OneText, Texts } from './form-fields.tsx';
import { SequenceFields } from './sequence-form.tsx';
import '../styles/policy-form.css';

/** Fields and values are suggested from what these begin with. */
const NEWEST = 'v1/events?payload=preview&limit=100';

export function PolicyForm({ type, text, onText }: Edit & { type: PolicyType }) {
  const facets = useRead<EventFacets>('v1/events/facets').value;
  const newest = useRead<Page<EventRow>>(NEWEST).value;
  const recorded = useMemo(() => recordedFields(newest?.items.map((one) => one.payload_preview ?? '') ?? []), [newest]);
  if (formOf(text) === undefined) return <p class="quiet">The JSON cannot be read; the form comes back when it can.</p>;
  const edit = { text, onText };
  const shapes = SHAPES[type];
  const fields = [...recorded.keys()];
  const suggested: Record<string, readonly string[]> = {
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
      <ConditionRows {...{ shapes, suggested, ...edit, ...(type === 'budget' ? { all: 'Every prompt.' } : {}) }} />
      <Suggestions fields={fields} suggested={suggested} />
      {type === 'rate_limit' && <RateFields fields={fields} {...edit} />}
      {type === 'require_approval' && <ApprovalFields {...edit} />}
      {type === 'data_filter' && <DataFilterFields {...edit} />}
      {type === 'sequence' && <SequenceFields {...{ fields, suggested, ...edit }} />}
      {type === 'external_check' && <CheckFields {...edit} />}
      {type === 'budget' && <BudgetFields fields={fields} {...edit} />}
      <OneText name="expression" label="Expression (CEL)" {...edit} />
      <OnlyInJson shapes={shapes} text={text} />
    </fieldset>
  );
}

function RateFields({ fields, ...edit }: Edit & { fields: readonly string[] }) {
  return (
    <div class="columns">
      <OneText name="threshold" label="Allowed events" isValue {...edit} />
      <OneText name="window" label="In the last" isValue suggested={['1m', '5m', '1h', '1d']} {...edit} />
      <OneText name="per" label="Counted by" suggested={['agent', 'account', ...fields]} {...edit} />
    </div>
  );
}

function ApprovalFields(edit: Edit) {
  return (
    <div class="columns">
      <OneText name="timeout" label="Waits for" isValue suggested={['15m', '1h', '1d']} {...edit} />
      <Choice
        name="on_timeout"
        label="Without a decision"
        none="denied (by default)"
        choices={{ deny: 'denied', approve: 'approved' }}
        {...edit}
      />
    </div>
  );
}

function DataFilterFields(edit: Edit) {
  return (
    <>
      <FilterFields {...edit} />
      <Redact {...edit} />
    </>
  );
}

function Redact(edit: Edit) {
  return (
    <Choice
      name="redact"
      label="What is found is"
      none="stored as it was sent (by default)"
      choices={{ true: 'replaced in what is stored', false: 'stored as it was sent' }}
      {...edit}
    />
  );
}

const ON_FAILURE: Record<OnCheckFailure, string> = {
  match: 'it matches',
  skip: 'it does not match',
  pending: 'a person decides',
};

function CheckFields(edit: Edit) {
  const checks = useRead<Page<ExternalCheck>>(isBound() ? undefined : 'v1/checks').value?.items ?? [];
  return (
    <>
      <div class="columns">
        <OneText name="check" label="Asks the check" suggested={checks.map(({ name }) => name)} {...edit} />
        <Choice
          name="mode"
          label="The reply"
          none="waits for its verdict (by default)"
          choices={{ watch: 'does not wait, and nothing is stopped' }}
          {...edit}
        />
      </div>
      <Texts name="fields" label="About these fields" {...edit} />
      <Verdict {...edit} />
      <Redact {...edit} />
      <div class="columns">
        <Choice name="on_timeout" label="Not in time" none="to be chosen" choices={ON_FAILURE} {...edit} />
        <Choice name="on_error" label="An error" none="to be chosen" choices={ON_FAILURE} {...edit} />
        <Choice name="on_overload" label="No room" none="to be chosen" choices={ON_FAILURE} {...edit} />
      </div>
    </>
  );
}

/** Where nothing is written, the check's own word counts. */
function Verdict({ text, onText }: Edit) {
  const when = memberValue(text, 'when') ?? '{}';
  const onWhen = (next: string) => onText(withObject(text, 'when', next));
  const score = {
    text: memberValue(when, 'score') ?? '{}',
    onText: (next: string) => onWhen(withObject(when, 'score', next)),
  };
  if (!SHAPES.external_check['when']!(when)) return null;
  return (
    <fieldset class="step">
      <legend>Which verdict matches</legend>
      <div class="columns">
        <OneText name="gte" label="A score of at least" isValue {...score} />
        <OneText name="gt" label="A score above" isValue {...score} />
        <OneText name="lte" label="A score of at most" isValue {...score} />
        <OneText name="lt" label="A score below" isValue {...score} />
      </div>
      <Texts name="labels" label="One of these labels" text={when} onText={onWhen} />
    </fieldset>
  );
}
