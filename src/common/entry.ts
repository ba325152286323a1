// Looks into tables by names that others chose (everywhere). Pure.

/** The entry of a table under this name: names that every object has, as `constructor`, are no entries. */
export function entryOf<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}
