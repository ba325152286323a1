// What is looked for in the texts of an event: in a data filter, and in a step of a sequence.
import { DETECTOR_NAMES } from '../../schemas/closed-sets.ts';
import { listOf, withList } from '../core/policy-form.ts';
import { type Edit, Texts } from './form-fields.tsx';

export function FilterFields({ text, onText }: Edit) {
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
    </>
  );
}
