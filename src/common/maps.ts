// What is kept in a map by its key, and made where it is not there.

type Kept<K, V> = { get(key: K): V | undefined; set(key: K, value: V): unknown };

/** Not for what runs many times an event: `make` is a closure of its own each time. */
export function getOrMake<K, V>(kept: Kept<K, V>, key: K, make: () => V): V {
  let value = kept.get(key);
  if (value === undefined) {
    value = make();
    kept.set(key, value);
  }
  return value;
}

/** Keeps one more. Where there are `max` already, these are forgotten: they are made again if they come again. */
export function remember<K, V>(known: Map<K, V>, key: K, value: V, max: number): V {
  if (known.size >= max) known.clear();
  known.set(key, value);
  return value;
}
