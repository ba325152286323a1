// An object as the text of JSON that came: its members are handed on as they were written (on the way from hooks,
// queries and answers to events and back).
// Before it: the text is JSON in which no object has a key twice. Invariant: what `raw` gives is a part of that text.
import { jsonOf, type Member, membersOf, stringAt, textAt } from './json-text.ts';

/** Texts of JSON by the names of members; undefined: there is no such member. */
export type Texts = Readonly<Record<string, string | undefined>>;

export class ObjectText {
  readonly text: string;
  readonly #members: ReadonlyMap<string, Member>;

  private constructor(text: string, members: ReadonlyMap<string, Member>) {
    this.text = text;
    this.#members = members;
  }

  /** undefined: it is no object. */
  static of(text: string | undefined): ObjectText | undefined {
    const members = text === undefined ? undefined : membersOf(text);
    return members === undefined ? undefined : new ObjectText(text!, members);
  }

  /** Names of what is given: `null` is not. */
  get keys(): string[] {
    return [...this.#members.keys()].filter((key) => this.has(key));
  }

  has(key: string): boolean {
    return this.raw(key) !== undefined;
  }

  /** The value as it was written; undefined: it is missing, or null. */
  raw(key: string): string | undefined {
    const at = this.#members.get(key);
    const text = at === undefined ? 'null' : textAt(this.text, at);
    return text === 'null' ? undefined : text;
  }

  /** undefined: it is missing, or no string. */
  string(key: string): string | undefined {
    return stringAt(this.text, this.#members.get(key));
  }

  object(key: string): ObjectText | undefined {
    return ObjectText.of(this.raw(key));
  }
}

/** Each value is the text of one. */
export function objectOfTexts(members: Texts): string {
  return objectOfPairs(Object.entries(members).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

export function objectOfPairs(pairs: readonly (readonly [key: string, text: string])[]): string {
  return `{${pairs.map(([key, text]) => `${jsonOf(key)}:${text}`).join(',')}}`;
}
