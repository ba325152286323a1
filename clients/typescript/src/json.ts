// Text of what a program hands in, at the moment at which it does: numbers digit by digit, nothing read twice.
// Two ways. `judged`: what a policy sees must be all that there is, so whatever JSON has no form for is refused
// (NotJsonError), and the copy that is made of the same reads is what runs. `recorded`: as JSON.stringify reads it,
// with big integers as digits and errors by their message.
// Invariant: text and copy come from one read of each property: a getter that changes cannot say two things.
// Failure: NotJsonError, whatever a getter, a proxy or a `toJSON` threw.
import { NotJsonError } from './errors.ts';

/**
 * Characters of texts, and values. More is no event (the service takes 1 MiB, unless it is set otherwise), and a value
 * that holds its parts over and over would stop the program.
 */
const TEXT_MAX = 4 * 1024 * 1024;

/** JSON as it was written, say by a model: sent as it is, digit by digit. Throws NotJsonError where it is none. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    try {
      JSON.parse(text);
    } catch (error) {
      throw new NotJsonError(`This is no JSON: ${(error as Error).message}`);
    }
    this.text = text;
  }
}

/** `text` undefined: it is left out, as JSON.stringify leaves out undefined. */
type Written = { text: string | undefined; copy: unknown };
type Prototyped = { constructor?: { name?: string } | undefined };

class Writer {
  readonly #isJudged: boolean;
  readonly #above = new Set<object>();
  #length = 0;

  constructor(isJudged: boolean) {
    this.#isJudged = isJudged;
  }

  write(value: unknown, at: string): Written {
    this.#length += typeof value === 'string' ? value.length + 2 : 1;
    if (this.#length > TEXT_MAX) throw new NotJsonError(`${at} is larger than an event can be.`);
    return this.#form(value, at);
  }

  #form(value: unknown, at: string): Written {
    if (value instanceof JsonText) return { text: value.text, copy: value };
    switch (typeof value) {
      case 'object':
        return value === null ? { text: 'null', copy: null } : this.#within(value, at);
      case 'bigint':
        return { text: String(value), copy: value };
      case 'number':
        if (Number.isFinite(value)) return { text: String(value), copy: value };
        return this.#isJudged ? this.#refuse(`the number ${value}`, at) : { text: `"${value}"`, copy: value };
      case 'function':
      case 'symbol':
        if (this.#isJudged) this.#refuse(`a ${typeof value}`, at);
        return { text: undefined, copy: undefined };
      default:
        return { text: JSON.stringify(value), copy: value };
    }
  }

  #within(value: object, at: string): Written {
    if (this.#above.has(value)) return this.#refuse('a value that holds itself', at);
    this.#above.add(value);
    const written = this.#isJudged ? this.#exactly(value, at) : this.#asStringify(value, at);
    this.#above.delete(value);
    return written;
  }

  #exactly(value: object, at: string): Written {
    const prototype = Object.getPrototypeOf(value) as Prototyped | null;
    const keys = Reflect.ownKeys(value);
    if (Array.isArray(value) && keys.length === value.length + 1) return this.#list(value, at);
    // Of any realm: what `JSON.parse` of another one made is plain as well.
    if (!Array.isArray(value) && (prototype === null || Object.hasOwn(prototype, 'isPrototypeOf'))) {
      const entries = keys.map((key) => {
        if (typeof key === 'symbol' || !Object.prototype.propertyIsEnumerable.call(value, key))
          return this.#refuse(`the property ${String(key)}, which JSON does not show`, at);
        return [key, (value as Record<string, unknown>)[key]] as const;
      });
      return this.#fields(entries, at, prototype === null);
    }
    if (keys.length === 0) {
      if (prototype === Map.prototype) return this.#map(value as Map<unknown, unknown>, at);
      if (prototype === Set.prototype) {
        const { text, copy } = this.#list([...(value as Set<unknown>)], at);
        return { text, copy: new Set(copy as unknown[]) };
      }
      if (prototype === Date.prototype) {
        const copy = new Date(value as Date);
        return { text: JSON.stringify(copy.toISOString()), copy };
      }
      if (prototype === URL.prototype) return { text: JSON.stringify(value), copy: new URL(String(value)) };
      if (prototype === URLSearchParams.prototype) return this.#query(value as URLSearchParams, at);
    }
    return this.#refuse(Array.isArray(value) ? 'an array with holes or names' : `a ${nameOf(prototype)}`, at);
  }

  #map(value: Map<unknown, unknown>, at: string): Written {
    const entries = [...value];
    for (const [key] of entries) if (typeof key !== 'string') this.#refuse(`a Map with the key ${String(key)}`, at);
    const { text, copy } = this.#fields(entries as [string, unknown][], at);
    return { text, copy: new Map(Object.entries(copy as object)) };
  }

  /** A name that is there more than once has a list. */
  #query(value: URLSearchParams, at: string): Written {
    const copy = new URLSearchParams(String(value));
    const fields = [...new Set(copy.keys())].map((name) => {
      const all = copy.getAll(name);
      return [name, all.length === 1 ? all[0] : all] as const;
    });
    return { text: this.#fields(fields, at).text, copy };
  }

  #asStringify(value: object, at: string): Written {
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') return this.write(toJSON.call(value, ''), at);
    if (Array.isArray(value)) return this.#list(value, at);
    if (value instanceof Map)
      return this.#fields(
        [...value].map(([key, one]) => [String(key), one] as const),
        at,
      );
    if (value instanceof Set) return this.#list([...value], at);
    const { name, message } = value instanceof Error ? value : ({} as Partial<Error>);
    return this.#fields(Object.entries({ ...(message === undefined ? {} : { name, message }), ...value }), at);
  }

  #list(value: readonly unknown[], at: string): Written {
    const all = Array.from(value, (one, i) => this.write(one, `${at}[${i}]`));
    return { text: `[${all.map(({ text }) => text ?? 'null').join()}]`, copy: all.map(({ copy }) => copy) };
  }

  #fields(entries: readonly (readonly [string, unknown])[], at: string, isBare = false): Written {
    const all = entries.map(([key, one]) => [key, this.write(one, `${at}.${key}`)] as const);
    const texts = all.flatMap(([key, { text }]) => (text === undefined ? [] : `${JSON.stringify(key)}:${text}`));
    // Defined, not assigned: a key `__proto__` is a key.
    const copy = Object.fromEntries(all.map(([key, { copy }]) => [key, copy]));
    return { text: `{${texts.join()}}`, copy: isBare ? Object.setPrototypeOf(copy, null) : copy };
  }

  #refuse(what: string, at: string): never {
    throw new NotJsonError(`${at} is ${what}: JSON has no form for it, so it cannot be judged.`);
  }
}

/** The text that a policy is asked about, and the copy that may run. Throws NotJsonError. */
export function judged(value: unknown, at: string): Written {
  return writtenBy(new Writer(true), value, at);
}

/** undefined: it has no JSON. */
export function recorded(value: unknown): string | undefined {
  try {
    return writtenBy(new Writer(false), value, 'the event').text;
  } catch {
    return undefined;
  }
}

function writtenBy(writer: Writer, value: unknown, at: string): Written {
  try {
    return writer.write(value, at);
  } catch (error) {
    if (error instanceof NotJsonError) throw error;
    throw new NotJsonError(`${at} cannot be read: ${String((error as Error | undefined)?.message ?? error)}`);
  }
}

function nameOf(prototype: Prototyped | null): string {
  return prototype?.constructor?.name || 'value of a class';
}
