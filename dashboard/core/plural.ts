// Numbers with what they count, in words for people.

/** `1 trace`, `2,000 traces`. */
export function many(n: number, one: string, more = `${one}s`): string {
  return `${n.toLocaleString('en')} ${n === 1 ? one : more}`;
}
