// The tables of what is sought for the accounts that were served last, in the memory of wasm-instance.ts. When their
// room is full it is begun again.
import type { Sought } from '../policy/sought.ts';
import { signTable } from './sign-table.ts';
import { watchedTable } from './watched-table.ts';

/** Where they lie; 0: there is nothing of that kind. */
type Tables = { signs: number; watched: number };

export class SoughtTables {
  readonly #from: number;
  readonly #to: number;
  readonly #known = new Map<Sought, Tables>();
  #end: number;

  /** Between these positions. */
  constructor(from: number, to: number) {
    this.#from = from;
    this.#to = to;
    this.#end = from;
  }

  of(sought: Sought, bytes: Buffer): Tables {
    const known = this.#known.get(sought);
    if (known !== undefined) return known;
    const placed = this.#placed(sought, bytes) ?? this.#placedFirst(sought, bytes);
    this.#known.set(sought, placed);
    return placed;
  }

  #placedFirst(sought: Sought, bytes: Buffer): Tables {
    this.#known.clear();
    this.#end = this.#from;
    return this.#placed(sought, bytes)!;
  }

  /** undefined: there is no room left. */
  #placed({ signs, paths }: Sought, bytes: Buffer): Tables | undefined {
    const begun = this.#end;
    const places = { signs: 0, watched: 0 };
    const place = (make: (at: number) => Buffer) => {
      const at = this.#end;
      const table = make(at);
      this.#end = align(at + table.length);
      if (this.#end <= this.#to) bytes.set(table, at);
      return at;
    };
    if (signs.length > 0) places.signs = place((at) => signTable(signs, at));
    if (paths.length > 0) places.watched = place((at) => watchedTable(paths, at));
    if (this.#end <= this.#to) return places;
    this.#end = begun;
    return undefined;
  }
}

function align(at: number): number {
  return (at + 15) & ~15;
}
