// Beside the page: lays large payloads out, and searches in all of them, so that no task of the page grows with the
// payload. It is given one text, and then words to look for.
import { layOut, linesWith, searchedOf } from './tokens.ts';

let text = '';
let searched: readonly string[] | undefined;

addEventListener('message', ({ data }: MessageEvent<{ text: string } | { words: string }>) => {
  const answer = postMessage as (value: unknown, transfer: Transferable[]) => void;
  if ('text' in data) {
    text = data.text;
    const { lines, count } = layOut(text);
    answer({ lines, count }, [lines.buffer]);
  } else {
    searched ??= searchedOf(layOut(text));
    answer({ words: data.words, found: linesWith(searched, data.words) }, []);
  }
});
