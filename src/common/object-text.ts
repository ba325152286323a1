// An object as the text of JSON that came: its members are handed on as they were written (on the way from hooks,
// queries and answers to events and back).
// Before it: the text is JSON in which no object has a key twice. Invariant: what `raw` gives is a part of that text.
import { jsonOf, type Member, membersOf, objectOf, stringAt, textAt } from './json-text.ts';

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
    return [...this.#members.values()].filter((member) => !this.#isNull(member)).map(({ key }) => key);
  }

  has(key: string): boolean {
    return this.raw(key) !== undefined;
  }

  /** The value as it was written; undefined: it is missing, or null. */
  raw(key: string): string | undefined {
    const at = this.#members.get(key);
    return at === undefined || this.#isNull(at) ? undefined : textAt(this.text, at);
  }

  /** An object of all members but these, as they were written; undefined: there are no others. */
  without(keys: readonly string[]): string | undefined {
    const others = [...this.#members.values()].filter((one) => !keys.includes(one.key) && !this.#isNull(one));
    return others.length === 0 ? undefined : objectOf(this.text, others);
  }

  /** undefined: it is missing, or no string. */
  string(key: string): string | undefined {
    return stringAt(this.text, this.#members.get(key));
  }

  object(key: string): ObjectText | undefined {
    return ObjectText.of(this.raw(key));
  }

  #isNull({ start, end }: Member): boolean {
    return end - start === 4 && this.text.startsWith('null', start);
  }
}

/** Each value is the text of one. */
export function objectOfTexts(members: Texts): string {
  return objectOfPairs(Object.entries(members).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

export function objectOfPairs(pairs: readonly (readonly [key: string, text: string])[]): string {
  return `{${pairs.map(([key, text]) => `${jsonOf(key)}:${text}`).join(',')}}`;
}
