// Conditions as JSON text, with the lines marked that the service does not take.
import { ApiError } from '../core/api.ts';
import { layOut, lineAt, lineOf } from '../core/tokens.ts';
import { piecesOf } from '../core/visible.ts';
import { Literal } from './literal.tsx';

export type Mistake = { path: string; message: string; line: number };

export function ConditionsEditor({
  text,
  isWrong,
  lines: marked,
  onText,
}: {
  text: string;
  isWrong: boolean;
  /** Those with a mistake, from 0 on. */
  lines: ReadonlySet<number>;
  onText: (text: string) => void;
}) {
  const lines = text.split('\n');
  const unseen = lines.flatMap((line, i) =>
    piecesOf(line, true).some((piece) => typeof piece !== 'string') ? [i] : [],
  );
  return (
    <div class="field">
      <label for="conditions">Conditions (JSON)</label>
      <div class="editor">
        <div class="gutter" aria-hidden="true">
          {lines.map((_, i) => (
            <div key={i} class={marked.has(i) ? 'mistake' : ''}>
              {i + 1}
            </div>
          ))}
        </div>
        <textarea
          id="conditions"
          spellcheck={false}
          rows={Math.max(6, lines.length)}
          value={text}
          aria-invalid={isWrong}
          aria-describedby="mistakes"
          onInput={({ currentTarget }) => onText(currentTarget.value)}
        />
      </div>
      {unseen.length > 0 && (
        <ul class="mistakes" aria-label="Characters that cannot be seen">
          {unseen.map((i) => (
            <li key={i}>
              <strong>Line {i + 1} has characters that cannot be seen: </strong>
              <code>
                <Literal text={lines[i]!.trim()} lines />
              </code>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

export function linesOf(mistakes: readonly Mistake[]): Set<number> {
  return new Set(mistakes.map(({ line }) => line));
}

/** Below the form and the text: they are of both. */
export function Mistakes({ mistakes }: { mistakes: readonly Mistake[] }) {
  return (
    <ul id="mistakes" class="mistakes">
      {mistakes.map(({ path, message, line }) => (
        <li key={path + message}>
          {line >= 0 && <strong>Line {line + 1}: </strong>}
          <code>
            <Literal text={path} />
          </code>{' '}
          <Literal text={message} />
        </li>
      ))}
    </ul>
  );
}

/** Where a refusal says that something is wrong. `place`: of the policy in what was sent. */
export function mistakesOf({ details }: ApiError, place: string, text: string): Mistake[] {
  return details.map(({ path, message }) => {
    const own = path.startsWith(place) ? path.slice(place.length) : path;
    return { path: own, message, line: lineIn(text, own) };
  });
}

/** The text, to stand in a call. Throws ApiError naming the place, as the service would. */
export function checkedJson(text: string, name = 'conditions'): string {
  try {
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new ApiError(400, 'validation_failed', `This is no JSON: ${name}.`, '', [
      { path: `/${name}`, message: (error as Error).message },
    ]);
  }
}

/** Line of the text at a pointer such as `/conditions/window`; -1: it is not in there. */
function lineIn(text: string, pointer: string): number {
  if (!pointer.startsWith('/conditions')) return -1;
  const layout = layOut(text);
  for (let path = pointer.slice('/conditions'.length); ; path = path.slice(0, path.lastIndexOf('/'))) {
    const line = lineAt(layout, path);
    if (line >= 0) return text.slice(0, lineOf(layout, line).from).split('\n').length - 1;
    if (path === '') return -1;
  }
}
