// Writes the path of a value as a JSON Pointer that is safe to show: bounded, well-formed, and without keys that hold
// what is searched for. Used where a match gives its path; the keys of a payload are its sender's.
import { pointerKey } from '../../common/validation.ts';

const SEGMENT_CHARACTERS_MAX = 100;
const POINTER_CHARACTERS_MAX = 500;

/** The text in a path in place of a key that holds what is searched for. */
export const REDACTED_KEY = '[redacted]';

export type Step = string | number;

/** The pointer of the first `depth` steps. Keys that are `isSecret` are written `[redacted]`. */
export function pointerOf(steps: readonly Step[], depth = steps.length, isSecret?: (key: string) => boolean): string {
  let pointer = '';
  for (let i = 0; i < depth && pointer.length < POINTER_CHARACTERS_MAX; i++) {
    const step = steps[i]!;
    const text = typeof step === 'number' ? String(step) : isSecret?.(step) ? REDACTED_KEY : step;
    pointer += `/${pointerKey(text.slice(0, SEGMENT_CHARACTERS_MAX).toWellFormed())}`;
  }
  return pointer.slice(0, POINTER_CHARACTERS_MAX);
}
