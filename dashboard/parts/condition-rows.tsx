// Conditions on fields, a row each: field, comparison, value. Those of a policy, and of each step of a sequence.
import {
  FORM_OPERATORS,
  formOf,
  isOfText,
  OPERATOR_WORDS,
  shownValue,
  type Test,
  takesList,
  withField,
  withOperator,
  withoutTest,
  withTest,
  withValues,
  writtenValue,
} from '../core/policy-form.ts';
import { isShown, reservedBy, type Shapes } from '../core/policy-parts.ts';
import { type Edit, Values } from './form-fields.tsx';
import { Literal } from './literal.tsx';

/** Values that were recorded, by the bare name of the field. */
export type Suggested = Readonly<Record<string, readonly string[]>>;

type RowsProps = Edit & {
  shapes: Shapes;
  suggested: Suggested;
  /** Behind the number of a condition in its name. */
  of?: string;
  /** The sentence that says what the policy matches without any conditions. */
  all?: string;
};

const FIELDS = ['type', 'payload.tool', 'payload.arguments', 'payload.prompt', 'payload.model', 'trace_id'];

/** The lists of fields and values that the rows offer; once a form. */
export function Suggestions({ fields, suggested }: { fields: Iterable<string>; suggested: Suggested }) {
  return (
    <>
      <datalist id="policy-fields">
        {[...new Set([...FIELDS, ...fields])].map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      {Object.entries(suggested).map(([name, values]) => (
        <datalist key={name} id={`policy-values-${name}`}>
          {values.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      ))}
    </>
  );
}

export function ConditionRows({ shapes, suggested, of = '', all = 'Every event.', text, onText }: RowsProps) {
  const { tests, members } = formOf(text, reservedBy(shapes))!;
  return (
    <>
      {tests.length === 0 && <p class="quiet">{all}</p>}
      {tests.map((test, i) => (
        <TestRow key={`${test.member}.${test.inner}`} n={`${i + 1}${of}`} {...{ test, suggested, text, onText }} />
      ))}
      <button type="button" onClick={() => onText(withTest(text, freeField(members.map(({ key }) => key))))}>
        Add a condition{of}
      </button>
    </>
  );
}

/** Names what has no control, since it is kept. */
export function OnlyInJson({ shapes, text }: { shapes: Shapes; text: string }) {
  const { others } = formOf(text, reservedBy(shapes), isShown(shapes))!;
  if (others.length === 0) return null;
  return (
    <p>
      Only in the JSON, and kept as it is:{' '}
      {others.map((one, i) => (
        <span key={i}>
          {i > 0 && ', '}
          <code>
            <Literal text={one} />
          </code>
        </span>
      ))}
    </p>
  );
}

export function bareName(field: string): string {
  return field.replace(/^payload\./, '');
}

function freeField(taken: readonly string[]): string {
  return FIELDS.find((one) => !taken.includes(one) && !taken.includes(bareName(one))) ?? 'payload.';
}

type RowProps = Edit & { n: string; test: Test; suggested: Suggested };

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
            {OPERATOR_WORDS[one]}
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
  return (formOf(text)?.tests.filter((one) => one.member === member).length ?? 0) > 1;
}
