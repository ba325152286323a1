// Order of Redis stream ids `<ms>-<sequence>`. They say what came before what and nothing else: a single entry with a
// far id pins the time part of all later ones, so neither a time nor a lag is ever read from them.

/** Below 0 if `a` comes before `b`. */
export function compareIds(a: string, b: string): number {
  const dashA = a.indexOf('-');
  const dashB = b.indexOf('-');
  return (
    Number(a.slice(0, dashA)) - Number(b.slice(0, dashB)) || Number(a.slice(dashA + 1)) - Number(b.slice(dashB + 1))
  );
}
