// The signs of a condition on the payload (text-search/signs.ts): what stands in the bytes of an event for which it
// holds. Of its path each key, of its operators those that ask for text. Part of compiling a condition.
// What is asked for is folded where the text is, so either form of it must show.

import type { PatternAllowance } from '../text-search/pattern-allowance.ts';
import { anySigns, type Sign, signsOfPattern, signsOfText } from '../text-search/signs.ts';
import { foldedText } from '../texts/folded.ts';
import { globPattern, HOLD_FOR_NOTHING } from './operands.ts';
import type { Path } from './path.ts';

/** One sign of each must show. */
export type ConditionSigns = { keys: readonly (readonly Sign[])[]; texts: readonly (readonly Sign[])[] };

const NO_SIGNS: ConditionSigns = { keys: [], texts: [] };
const ASK_FOR_TEXT: ReadonlySet<string> = new Set(['eq', 'in', 'contains', 'starts_with', 'ends_with']);

export function signsOfCondition(
  path: Path,
  operators: ReadonlyMap<string, unknown>,
  patterns: PatternAllowance,
): ConditionSigns {
  if (path.root !== 'payload' || holdsForNothing(operators)) return NO_SIGNS;
  const keys = path.segments.filter((_, i) => path.indexes[i]! < 0).map((key) => signsOfEither(key, signsOfText));
  const texts = [...operators].map(([name, operand]) => {
    const wanted = Array.isArray(operand) ? operand : [operand];
    if (!wanted.every((text) => typeof text === 'string')) return null;
    if (name === 'glob')
      return anySigns(
        wanted.map((glob) => signsOfEither(glob, (form) => signsOfPattern(patterns.pattern(globPattern(form))))),
      );
    if (name === 'matches') return anySigns(wanted.map((source) => signsOfPattern(patterns.pattern(source))));
    return ASK_FOR_TEXT.has(name) ? anySigns(wanted.map((text) => signsOfEither(text, signsOfText))) : null;
  });
  return { keys: keys.filter((signs) => signs !== null), texts: texts.filter((signs) => signs !== null) };
}

function signsOfEither(text: string, signsOf: (form: string) => readonly Sign[] | null): Sign[] | null {
  return anySigns([...new Set([text, foldedText(text)])].map((form) => signsOf(form)));
}

/** True also where nothing is at the path. */
function holdsForNothing(operators: ReadonlyMap<string, unknown>): boolean {
  if (operators.get('exists') === false) return true;
  const names = [...operators.keys()].filter((name) => name !== 'exists');
  return operators.get('exists') !== true && names.every((name) => HOLD_FOR_NOTHING.has(name));
}
