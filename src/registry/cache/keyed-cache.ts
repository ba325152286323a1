// What a front remembers of the registry, by the Redis key it was made of (inside RegistryCache; the hot path reads
// it).
// Invariants: a value is dropped when its key, or a further key it was made of, is invalidated; a load that was in
// flight meanwhile answers those who wait for it, and is not kept; those who come after the invalidation start a new
// one; misses of one key at the same time share one load. Bounded: what was not used since its turn came last goes
// first (clock), which costs a read nothing; moving an entry to the end at each read tripled its cost (measured with
// 60,000 entries). "There is none" is remembered as well, separately bounded, and only for ABSENT_MS: callers choose
// what they ask for, and such an answer belongs to no account whose changes could be watched.

/** How long "there is none" is remembered: a value may come this much later without a notice. */
const ABSENT_MS = 1_000;

type Entry<V> = { value: V; groups: readonly string[]; used: boolean };
type Load<V> = { promise: Promise<V | null>; stale: boolean; groups: string[] };

/** Says that the value is also made of this key. To be said before that key is read. */
export type DependsOn = (group: string) => void;

export class KeyedCache<V extends object> {
  readonly #max: number;
  readonly #absentMax: number;
  /** In the order in which their turns come. */
  readonly #entries = new Map<string, Entry<V>>();
  /** Key -> epoch ms until which nothing is there. */
  readonly #absent = new Map<string, number>();
  readonly #loads = new Map<string, Load<V>>();
  /** Further key -> keys of entries and loads that are made of it. */
  readonly #members = new Map<string, Set<string>>();

  constructor(max: number) {
    this.#max = max;
    this.#absentMax = Math.ceil(max / 4);
  }

  get size(): number {
    return this.#entries.size + this.#absent.size;
  }

  /** undefined: not known; null: known not to be there. */
  get(key: string): V | null | undefined {
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      entry.used = true;
      return entry.value;
    }
    const absentUntil = this.#absent.get(key);
    return absentUntil !== undefined && Date.now() < absentUntil ? null : undefined;
  }

  load(key: string, read: (dependsOn: DependsOn) => Promise<V | null>): Promise<V | null> {
    const running = this.#loads.get(key);
    if (running !== undefined) return running.promise;
    const load: Load<V> = { promise: undefined as never, stale: false, groups: [] };
    this.#loads.set(key, load);
    load.promise = this.#run(key, load, read);
    return load.promise;
  }

  invalidate(key: string): void {
    this.#drop(key);
    const members = this.#members.get(key);
    if (members !== undefined) for (const member of [...members]) this.#drop(member);
  }

  /** Drops every key that begins so. */
  invalidatePrefix(prefix: string): void {
    const keys = [...this.#entries.keys(), ...this.#absent.keys(), ...this.#loads.keys()];
    for (const key of keys) if (key.startsWith(prefix)) this.#drop(key);
  }

  clear(): void {
    for (const load of this.#loads.values()) load.stale = true;
    this.#loads.clear();
    this.#entries.clear();
    this.#absent.clear();
    this.#members.clear();
  }

  async #run(key: string, load: Load<V>, read: (dependsOn: DependsOn) => Promise<V | null>): Promise<V | null> {
    try {
      const value = await read((group) => {
        if (load.stale || load.groups.includes(group)) return;
        load.groups.push(group);
        this.#join(group, key);
      });
      if (!load.stale) this.#keep(key, load, value);
      return value;
    } finally {
      if (this.#loads.get(key) === load) this.#loads.delete(key);
      if (!load.stale && this.#entries.get(key)?.groups !== load.groups) this.#leave(load.groups, key);
    }
  }

  #keep(key: string, load: Load<V>, value: V | null): void {
    if (value === null) {
      this.#absent.delete(key);
      if (this.#absent.size >= this.#absentMax) this.#absent.delete(this.#absent.keys().next().value!);
      this.#absent.set(key, Date.now() + ABSENT_MS);
      return;
    }
    if (this.#entries.size >= this.#max) this.#makeRoom();
    this.#entries.set(key, { value, groups: load.groups, used: false });
  }

  #makeRoom(): void {
    for (const [key, entry] of this.#entries) {
      this.#entries.delete(key);
      if (!entry.used) {
        this.#leave(entry.groups, key);
        return;
      }
      entry.used = false;
      this.#entries.set(key, entry);
    }
  }

  #drop(key: string): void {
    this.#dropEntry(key);
    this.#absent.delete(key);
    const load = this.#loads.get(key);
    if (load === undefined) return;
    load.stale = true;
    this.#loads.delete(key);
    this.#leave(load.groups, key);
  }

  #dropEntry(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#leave(entry.groups, key);
  }

  #join(group: string, key: string): void {
    const members = this.#members.get(group);
    if (members === undefined) this.#members.set(group, new Set([key]));
    else members.add(key);
  }

  #leave(groups: readonly string[], key: string): void {
    for (const group of groups) {
      const members = this.#members.get(group);
      if (members?.delete(key) && members.size === 0) this.#members.delete(group);
    }
  }
}
