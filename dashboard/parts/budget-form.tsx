// What a budget bounds: how much of what, in which window, and what is done about calls that it cannot reckon.
import { memberValue } from '../core/policy-form.ts';
import { limitIn, SHAPES, withLimit } from '../core/policy-parts.ts';
import { useRead } from '../core/queries.ts';
import { isBound } from '../core/session.ts';
import { Field } from './dialog.tsx';
import { Choice, type Edit, OneText, Texts } from './form-fields.tsx';

const WINDOWS = ['day', 'week', 'month', '1h', '1d', '30d'];
const ZONES = ['UTC', ...Intl.supportedValuesOf('timeZone').filter((one) => one !== 'UTC')];

export function BudgetFields({ fields, ...edit }: Edit & { fields: readonly string[] }) {
  return (
    <>
      <LimitFields {...edit} />
      <div class="columns">
        <OneText
          name="window"
          label="In each"
          hint="day, week, month; or the last 1h, 30d"
          isValue
          suggested={WINDOWS}
          {...edit}
        />
        <OneText name="zone" label="Of the time zone" hint="UTC by default." suggested={ZONES} {...edit} />
        <OneText name="per" label="Of each" suggested={['agent', 'account', 'trace', ...fields]} {...edit} />
      </div>
      <div class="columns">
        <Choice
          name="estimate"
          label="A call reserves"
          none="the usual (default)"
          choices={{ expected: 'the usual', worst: 'the most possible' }}
          {...edit}
        />
        <OneText
          name="hold"
          label="For at most"
          hint="10m by default."
          isValue
          suggested={['1m', '10m', '1h']}
          {...edit}
        />
        <Choice
          name="unpriced"
          label="A call without a known price"
          none="matches (by default)"
          choices={{ block: 'matches', allow: 'is not counted' }}
          {...edit}
        />
      </div>
      <Texts name="warn_at" label="Warns at these shares of the limit (0.8 is 80 %)" areValues {...edit} />
    </>
  );
}

function LimitFields({ text, onText }: Edit) {
  const prices = useRead<{ currency: string | null }>(isBound() ? undefined : 'v1/prices').value;
  const value = memberValue(text, 'limit');
  if (value !== undefined && !SHAPES.budget['limit']!(value)) return null;
  const currency = prices?.currency ?? 'USD';
  const limit = limitIn(text) ?? { amount: '', unit: currency };
  const units = new Map([
    [currency, currency],
    ['tokens', 'tokens'],
    ['events', 'calls'],
  ]);
  if (!units.has(limit.unit)) units.set(limit.unit, limit.unit);
  return (
    <div class="columns">
      <Field label="May use up">
        <input
          inputMode="decimal"
          value={limit.amount}
          onInput={({ currentTarget }) => onText(withLimit(text, { ...limit, amount: currentTarget.value }))}
        />
      </Field>
      <Field label="Counted in">
        <select
          value={limit.unit}
          onChange={({ currentTarget }) => onText(withLimit(text, { ...limit, unit: currentTarget.value }))}
        >
          {[...units].map(([unit, said]) => (
            <option key={unit} value={unit}>
              {said}
            </option>
          ))}
        </select>
      </Field>
    </div>
  );
}
