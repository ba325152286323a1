// Small globs over short texts: `*` any characters, `?` one (words of commands and SQL, names of models).
// Invariant: time is at most the product of both lengths.

/** Is the text, as a whole, what the glob says? */
export function isLike(text: string, glob: string): boolean {
  let [t, g, star, from] = [0, 0, -1, 0];
  while (t < text.length) {
    const wanted = glob[g];
    if (wanted === '*') {
      star = g++;
      from = t;
    } else if (wanted !== undefined && (wanted === '?' || wanted === text[t])) {
      t++;
      g++;
    } else if (star >= 0) {
      g = star + 1;
      t = ++from;
    } else return false;
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}
