// A caller's text on the page: names, comments, trace ids, payloads, whatever the service did not write itself. What
// cannot be seen is named (core/visible.ts), and the text is isolated, so that a right-to-left name moves nothing
// beside it.
import { piecesOf, visible } from '../core/visible.ts';

/** `lines`: it keeps its breaks of lines. */
export function Literal({ text, lines = false }: { text: string; lines?: boolean }) {
  return (
    <bdi class={lines ? 'literal lines' : 'literal'}>
      {piecesOf(text, lines).map((piece, i) =>
        typeof piece === 'string' ? (
          piece
        ) : (
          <span key={i} class="unseen" title={`What cannot be seen here: ${piece.names}`}>
            {piece.names}
          </span>
        ),
      )}
    </bdi>
  );
}

/** On one line, cut where there is no room; whole where the pointer rests, and in what a row opens. */
export function Cut({ text, preview = false }: { text: string; preview?: boolean }) {
  return (
    <span class={preview ? 'cut preview' : 'cut'} title={visible(text)}>
      <Literal text={text} />
    </span>
  );
}
