// Small globs (common/glob.ts) over words of commands that are not known in all places (used by shell-condition.ts).
// Invariant: time is at most the product of both lengths, and longer texts match nothing.
import { UNKNOWN } from './shell-expansions.ts';

/** Longer words are no names of commands or files. */
const UNSURE_CHARACTERS_MAX = 256;

/** As isLike, of a text that is not known in all places (`UNKNOWN`), or a glob itself (`*`, `?`, `[…]`). */
export function mayBeLike(text: string, glob: string): boolean {
  if (text.length > UNSURE_CHARACTERS_MAX) return false;
  const unsure = text.replaceAll(/\[[^\]]*\]/g, '?');
  let reached = new Uint8Array(glob.length + 1);
  reached[0] = 1;
  spread(reached, glob);
  for (const c of unsure) {
    const next = new Uint8Array(glob.length + 1);
    if (c === UNKNOWN || c === '*') {
      let isOpen = false;
      for (let i = 0; i <= glob.length; i++) {
        isOpen ||= reached[i] === 1;
        if (isOpen) next[i] = 1;
        // What a shell puts for `*` is a name, no path.
        if (c === '*' && glob[i] === '/') isOpen = false;
      }
    } else
      for (let i = 0; i < glob.length; i++) {
        if (reached[i] !== 1) continue;
        if (glob[i] === '*') next[i] = 1;
        else if (glob[i] === '?' || c === '?' || glob[i] === c) next[i + 1] = 1;
      }
    spread(next, glob);
    reached = next;
  }
  return reached[glob.length] === 1;
}

/** A star may be nothing. */
function spread(reached: Uint8Array, glob: string): void {
  for (let i = 0; i < glob.length; i++) if (reached[i] === 1 && glob[i] === '*') reached[i + 1] = 1;
}
