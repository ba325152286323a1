// From when a policy is in force (`starts_at`), as records (inside policies.ts and policy-declaration.ts). Pure.
// Invariant: a time that is kept is one that answers can show; one that is over says nothing any more and stays.
import type { ErrorDetail } from '../../../schemas/error.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { isoTime, parseTime } from '../../../schemas/time.ts';

const EARLIEST_MS = Date.UTC(1970, 0, 1);
const LATEST_MS = Date.UTC(10_000, 0, 1) - 1;
/** The refusal of a start for a sequence: an event that it does not hear of before it begins is missing afterwards. */
const NO_SEQUENCE =
  'a sequence has to hear of what occurs before: create it with the action `log`, and give it its actions then';
const NO_SHADOW = 'a shadow is tried from when it is made; `starts_at` is for the mode `enforce`';

/** The field of the record. `asked`: of a request. */
export function startOf(asked: string | null | undefined): Pick<Policy, 'starts_at'> {
  const ms = typeof asked === 'string' ? parseTime(asked) : null;
  return ms === null || !isShown(ms) ? {} : { starts_at: isoTime(ms) };
}

/** `asked`: as a request says it. */
export function startMistakes(
  asked: string | null | undefined,
  { type, mode = 'enforce' }: { type: Policy['type']; mode?: Policy['mode'] },
): ErrorDetail[] {
  if (asked === undefined || asked === null) return [];
  const path = '/starts_at';
  if (type === 'sequence') return [{ path, message: NO_SEQUENCE }];
  if (mode === 'shadow') return [{ path, message: NO_SHADOW }];
  // Another form is refused by the schema.
  return isShown(parseTime(asked) ?? Number.NaN) ? [] : [{ path, message: 'must be of the years 1970 to 9999' }];
}

function isShown(ms: number): boolean {
  return ms >= EARLIEST_MS && ms <= LATEST_MS;
}
