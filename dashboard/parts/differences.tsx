// What was changed, readably: each place by its JSON pointer, the line before and the line after. For those who do not
// see colours the lines begin with a sign, and for those who do not see them at all they say which is which.
import type { Difference } from '../core/differences.ts';
import type { RawJson } from '../core/json.ts';
import { indented } from '../core/tokens.ts';

const LINE_CHARACTERS = 60;

export function Differences({ of, none = 'Nothing differs.' }: { of: readonly Difference[]; none?: string }) {
  if (of.length === 0) return <p class="quiet">{none}</p>;
  return (
    <dl class="differences" aria-label="Differences">
      {of.map(({ path, before, after }) => (
        <div key={path}>
          <dt>
            <code>{path === '' ? 'the whole' : path}</code>
          </dt>
          <dd>
            {before !== undefined && (
              <del>
                <span class="hidden">before: </span>
                {shown(before)}
              </del>
            )}
            {after !== undefined && (
              <ins>
                <span class="hidden">after: </span>
                {shown(after)}
              </ins>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What fits into a line stays in one. */
function shown({ text }: RawJson): string {
  return text.length <= LINE_CHARACTERS ? text : indented(text);
}
