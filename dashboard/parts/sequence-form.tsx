// What a sequence asks of the events before: its steps, what must not have been, which values must be equal, how often,
// and how much in sum. Each step is a form of conditions of its own, in the text that stands there.
import { useState } from 'preact/hooks';
import {
  elementTexts,
  formOf,
  memberValue,
  shownValue,
  withElement,
  withField,
  withoutTest,
  withTest,
  withValue,
  withValues,
} from '../core/policy-form.ts';
import { OF_STEP, SHAPES, withObject } from '../core/policy-parts.ts';
import { ConditionRows, OnlyInJson, type Suggested } from './condition-rows.tsx';
import { FilterFields } from './filter-fields.tsx';
import { Choice, type Edit, OneText } from './form-fields.tsx';

type FieldsProps = Edit & { fields: readonly string[]; suggested: Suggested };

const STEPS_MAX = 3;
const PAIRS_MAX = 3;
const ANY_TOOL = '{ "payload.tool": "" }';
const { after: isAfter, unless: isUnless, same: isSame, sum: isSum } = SHAPES.sequence;

export function SequenceFields({ fields, suggested, ...edit }: FieldsProps) {
  const { text, onText } = edit;
  const steps = elementTexts(text, 'after');
  const unless = memberValue(text, 'unless');
  return (
    <>
      {isAfter!(memberValue(text, 'after') ?? '[]') && (
        <fieldset class="step">
          <legend>What must have occurred before, in this order</legend>
          {steps.map((step, i) => (
            <Step
              key={i}
              name={`step ${i + 1}`}
              mayBeBlocked
              text={step}
              onText={(next) => onText(withElement(text, 'after', i, next))}
              {...{ suggested }}
            />
          ))}
          {steps.length < STEPS_MAX && (
            <button type="button" onClick={() => onText(withElement(text, 'after', steps.length, ANY_TOOL))}>
              Add a step
            </button>
          )}
        </fieldset>
      )}
      {unless === undefined && (
        <button type="button" onClick={() => onText(withValue(text, 'unless', ANY_TOOL))}>
          Add what must not have occurred
        </button>
      )}
      {unless !== undefined && isUnless!(unless) && (
        <Step
          name="the exception"
          text={unless}
          onText={(next) => onText(withValue(text, 'unless', next))}
          {...{ suggested }}
        />
      )}
      <div class="columns">
        <OneText name="within" label="In the last" isValue suggested={['5m', '1h', '1d']} {...edit} />
        <OneText
          name="per"
          label="In the events of one"
          suggested={['agent', 'trace', 'account', ...fields]}
          {...edit}
        />
      </div>
      <EqualValues {...edit} />
      <HowMuch {...edit} />
    </>
  );
}

type StepProps = {
  name: string;
  text: string;
  /** undefined: it is taken out. */
  onText: (text: string | undefined) => void;
  suggested: Suggested;
  /** An exception counts only what was not blocked. */
  mayBeBlocked?: boolean;
};

function Step({ name, text, onText, suggested, mayBeBlocked = false }: StepProps) {
  const [hasMore] = useState(() => Object.keys(OF_STEP).some((key) => memberValue(text, key) !== undefined));
  const edit = { text, onText };
  return (
    <fieldset class="step">
      <legend>{mayBeBlocked ? capital(name) : 'What must not have occurred before'}</legend>
      <ConditionRows shapes={OF_STEP} of={` of ${name}`} suggested={suggested} {...edit} />
      <details open={hasMore}>
        <summary>What its texts hold, and more of {name}</summary>
        <FilterFields {...edit} />
        {mayBeBlocked && (
          <Choice
            name="outcome"
            label="What was blocked"
            none="is no step (by default)"
            choices={{ any: 'is a step, too' }}
            {...edit}
          />
        )}
        <OneText name="expression" label="Expression (CEL)" {...edit} />
      </details>
      <OnlyInJson shapes={OF_STEP} text={text} />
      <button type="button" onClick={() => onText(undefined)}>
        Remove {name}
      </button>
    </fieldset>
  );
}

function capital(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1);
}

/** Pairs of paths. While both sides are one path, writing the first writes the other. */
function EqualValues({ text, onText }: Edit) {
  const pairs = memberValue(text, 'same') ?? '{}';
  const form = formOf(pairs);
  if (form === undefined || !isSame!(pairs)) return null;
  const onPairs = (next: string) => onText(withObject(text, 'same', next));
  return (
    <fieldset class="step">
      <legend>Values that must be equal, now and before</legend>
      {form.tests.map((pair, i) => {
        const before = shownValue(pair.values[0]!, true);
        const withBefore = (to: string, path: string) => withValues(to, pair, [JSON.stringify(path)]);
        return (
          <div key={i} class="pair" role="group" aria-label={`Equal value ${i + 1}`}>
            <input
              aria-label={`Path now of equal value ${i + 1}`}
              list="policy-fields"
              value={pair.field}
              onInput={({ currentTarget: { value } }) => {
                const next = withField(pairs, pair, value);
                onPairs(before === pair.field ? withBefore(next, value) : next);
              }}
            />
            <input
              aria-label={`Path before of equal value ${i + 1}`}
              list="policy-fields"
              value={before}
              onInput={({ currentTarget: { value } }) => onPairs(withBefore(pairs, value))}
            />
            <button
              type="button"
              aria-label={`Remove equal value ${i + 1}`}
              onClick={() => onPairs(withoutTest(pairs, pair))}
            >
              Remove
            </button>
          </div>
        );
      })}
      {form.tests.length < PAIRS_MAX && (
        <button type="button" onClick={() => onPairs(withTest(pairs, 'payload.', '"payload."'))}>
          Add an equal value
        </button>
      )}
    </fieldset>
  );
}

/** How often the last step must have been, or how much its numbers and the event's are together. */
function HowMuch(edit: Edit) {
  const { text, onText } = edit;
  const sum = memberValue(text, 'sum') ?? '{}';
  const ofSum = { text: sum, onText: (next: string) => onText(withObject(text, 'sum', next)) };
  return (
    <div class="columns">
      <OneText name="at_least" label="The last step at least so often" isValue {...edit} />
      {isSum!(sum) && (
        <>
          <OneText name="path" label="Or: the sum of the numbers at" {...ofSum} />
          <OneText name="gt" label="is more than" isValue {...ofSum} />
        </>
      )}
    </div>
  );
}
