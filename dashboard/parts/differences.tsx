// What was changed, readably: each place by its JSON pointer, the line before and the line after. For those who do not
// see colours the lines begin with a sign, and for those who do not see them at all they say which is which.
import type { Difference } from '../core/differences.ts';
import type { RawJson } from '../core/json.ts';
import { indented, readable, readableShort } from '../core/tokens.ts';
import { Literal } from './literal.tsx';

const LINE_CHARACTERS = 60;

export function Differences({ of, none = 'Nothing differs.' }: { of: readonly Difference[]; none?: string }) {
  if (of.length === 0) return <p class="quiet">{none}</p>;
  return (
    <dl class="differences" aria-label="Differences">
      {of.map(({ path, before, after }) => {
        // where both say the same, they differ in how they are written
        const isSame = before !== undefined && after !== undefined && readable(before.text) === readable(after.text);
        return (
          <div key={path}>
            <dt>
              <code>{path === '' ? 'the whole' : <Literal text={path} />}</code>
            </dt>
            <dd>
              {before !== undefined && (
                <del>
                  <span class="hidden">before: </span>
                  <Literal text={shown(before, isSame)} lines />
                </del>
              )}
              {after !== undefined && (
                <ins>
                  <span class="hidden">after: </span>
                  <Literal text={shown(after, isSame)} lines />
                </ins>
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

/** `asWritten`: token by token. */
function shown({ text }: RawJson, asWritten: boolean): string {
  if (!asWritten) return readableShort(text);
  return text.length <= LINE_CHARACTERS ? text : indented(text);
}
