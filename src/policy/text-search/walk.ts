// Walks the strings of a payload once for a scanner: values and keys, decoded, whatever their length, in the payload's
// order; whole numbers, where a detector inspects them; and the trace's id, which may hold a secret like any text. A
// string is walked in all its forms (texts/text-forms.ts): the value inside first, so that a path goes on into it.
// Remembers, too, the first text that begins like JSON and cannot be read: what it hides no one knows.
// Remembers for each needle where it was settled first, as a JSON pointer that never repeats a secret: a key that
// itself holds something searched for is written `[redacted]`, and what was found in a key is placed at the object that
// has it.

import type { Json, JsonObject } from '../../../schemas/common.ts';
import { type ExactNumber, isNumber } from '../../common/exact-number.ts';
import { mayHoldJson } from '../../common/inner-json.ts';
import { otherKeys, type Path } from '../conditions/path.ts';
import { pointerOf, type Step } from '../conditions/pointer.ts';
import { NUMBER_DIGITS } from '../detectors/detectors.ts';
import { mayHoldFoldable } from '../texts/folded.ts';
import { formsOf, innerAt, PLAIN, type TextForms } from '../texts/text-forms.ts';
import type { Scanner } from './scanner.ts';

/** `path` undefined: in the trace's id. */
type Place = { path: string | undefined; isKey: boolean };

export class Walker {
  readonly #scanner: Scanner;
  /** The keys and indexes that lead to the value at hand. */
  readonly #trail: Step[] = [];
  readonly #looksAtNumbers: boolean;
  readonly #looksAtNames: boolean;
  readonly #isSecret = (key: string) => {
    const { folded } = formsOf(key);
    return this.#scanner.holds(key) || (folded !== undefined && this.#scanner.holds(folded.text));
  };
  #depth = 0;
  /** Texts that the value at hand is inside of. */
  #level = 0;
  #mayBeFolded = true;
  /** For each needle that was settled since `begin`: the first path. */
  readonly places: Place[] = [];
  /** The path of the first text since `begin` that cannot be read. */
  unreadable: string | undefined;
  /** Needles whose path has been noted. */
  readonly #noted: Uint8Array;

  constructor(scanner: Scanner) {
    this.#scanner = scanner;
    this.#looksAtNumbers = scanner.looksAtNumbers;
    this.#looksAtNames = scanner.looksAtNames;
    this.#noted = new Uint8Array(scanner.needles.length);
  }

  /** `payloadText`: of the event, by which it is known whether any text in it has a folded form. */
  begin(payloadText: string): void {
    this.#noted.fill(0);
    this.unreadable = undefined;
    this.#mayBeFolded = mayHoldFoldable(payloadText);
  }

  /** Walks everything in the payload. */
  walk(payload: JsonObject): void {
    this.#depth = 0;
    this.#level = 0;
    this.#visit(payload);
  }

  walkTrace(traceId: string): void {
    if (this.#scan(traceId, formsOf(traceId))) this.#noteAt(undefined, false);
  }

  /** Walks what a path leads to: an index of an array, or on into every element, as in path.ts. */
  walkPath(payload: JsonObject, path: Path): void {
    this.#depth = 0;
    this.#level = 0;
    this.#follow(payload, path, 0);
  }

  #follow(value: Json, path: Path, at: number): void {
    if (at === path.segments.length) {
      this.#visit(value);
      return;
    }
    if (typeof value === 'string') {
      this.#inside(formsOf(value), (inner) => this.#follow(inner, path, at));
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    const depth = this.#depth++;
    if (Array.isArray(value)) this.#followItems(value, path, at, depth);
    else {
      const segment = path.segments[at]!;
      const keys = otherKeys(value, path, at);
      for (const key of Object.hasOwn(value, segment) ? [segment, ...keys] : keys) {
        this.#trail[depth] = key;
        this.#follow(value[key]!, path, at + 1);
      }
    }
    this.#depth = depth;
  }

  #followItems(items: Json[], path: Path, at: number, depth: number): void {
    const index = path.indexes[at]!;
    items.forEach((item, i) => {
      if (index >= 0 && i !== index) return;
      this.#trail[depth] = i;
      this.#follow(item, path, index < 0 ? at : at + 1);
    });
  }

  #visit(value: Json): void {
    if (typeof value === 'string') {
      const forms = this.#formsOf(value);
      if (forms.inner !== undefined) this.#inside(forms, (inner) => this.#visit(inner));
      if (this.#looksAtNames) this.#scanByName(this.#memberKey(), value);
      if (this.#scan(value, forms)) this.#note(false);
    } else if (isNumber(value)) {
      if (this.#looksAtNumbers) this.#visitNumber(value);
    } else if (typeof value === 'object' && value !== null) {
      const depth = this.#depth++;
      if (Array.isArray(value)) this.#visitItems(value, depth);
      else this.#visitMembers(value, depth);
      this.#depth = depth;
    }
  }

  #formsOf(text: string): TextForms {
    return this.#mayBeFolded || mayHoldJson(text) ? formsOf(text) : PLAIN;
  }

  /** The text as sent, and folded. */
  #scan(text: string, { folded }: TextForms): boolean {
    const isFound = this.#scanner.scan(text);
    return folded === undefined ? isFound : this.#scanner.scan(folded.text) || isFound;
  }

  #inside(forms: TextForms, go: (inner: Json) => void): void {
    const inner = innerAt(forms, this.#level);
    if (inner === undefined) return;
    if (inner.value === undefined) {
      this.unreadable ??= pointerOf(this.#trail, this.#depth, this.#isSecret);
      return;
    }
    this.#level++;
    go(inner.value);
    this.#level--;
  }

  #visitItems(items: Json[], depth: number): void {
    for (let i = 0; i < items.length; i++) {
      const item = items[i]!;
      if (this.#isPassedOver(item)) continue;
      this.#trail[depth] = i;
      if (this.#looksAtNames && typeof item === 'string') this.#scanByName(nameBefore(items, i), item);
      this.#visit(item);
    }
  }

  /** JSON.parse makes own properties only, `__proto__` among them, and nothing else is enumerable. */
  #visitMembers(members: { [key: string]: Json }, depth: number): void {
    for (const key in members) {
      if (this.#mayBeFolded ? this.#scan(key, formsOf(key)) : this.#scanner.scan(key)) {
        this.#depth = depth;
        this.#note(true);
        this.#depth = depth + 1;
      }
      const value = members[key]!;
      if (this.#isPassedOver(value)) continue;
      this.#trail[depth] = key;
      if (this.#looksAtNames && typeof value === 'string') this.#scanByName(nameBeside(members, key), value);
      this.#visit(value);
    }
  }

  #scanByName(name: string | undefined, value: string): void {
    if (name !== undefined && this.#scanner.scanNamed(name, value)) this.#note(false);
  }

  #isPassedOver(value: Json): boolean {
    return typeof value === 'number' ? !this.#looksAtNumbers : typeof value === 'boolean';
  }

  #visitNumber(value: ExactNumber): void {
    const digits = wholeDigits(value);
    if (digits !== undefined && this.#scanner.scanNumber(digits, this.#memberKey())) this.#note(false);
  }

  /** The key of the member that holds the value at hand, itself or in arrays. */
  #memberKey(): string {
    for (let depth = this.#depth - 1; depth >= 0; depth--) {
      const step = this.#trail[depth];
      if (typeof step === 'string') return step;
    }
    return '';
  }

  #note(isKey: boolean): void {
    this.#noteAt(pointerOf(this.#trail, this.#depth, this.#isSecret), isKey);
  }

  #noteAt(path: string | undefined, isKey: boolean): void {
    for (let needle = 0; needle < this.#noted.length; needle++) {
      if (this.#scanner.found[needle] === 0 || this.#noted[needle] === 1) continue;
      this.#noted[needle] = 1;
      this.places[needle] = { path, isKey };
    }
  }
}

const VALUES: ReadonlySet<string> = new Set(
  'value Value val v values content text data stringValue string_value'.split(' '),
);
const NAMES = 'name Name key Key header field param parameter variable env label title property k n id'.split(' ');

/** The name of a member such as `value`, from the `name`, `key` or the like beside it. */
export function nameBeside(members: { [key: string]: Json }, key: string): string | undefined {
  if (!VALUES.has(key)) return undefined;
  const beside = NAMES.find((name) => Object.hasOwn(members, name));
  const name = beside === undefined ? null : members[beside];
  return typeof name === 'string' ? name : undefined;
}

/** The name of an item, from the text before it: in a pair, a list of headers, a command's arguments. */
export function nameBefore(items: readonly Json[], i: number): string | undefined {
  const name = i === 0 ? undefined : items[i - 1];
  return typeof name === 'string' ? name : undefined;
}

/** The digits of a whole number of a length that detectors inspect, whatever its sign, and however it is written. */
export function wholeDigits(value: ExactNumber): string | undefined {
  const { min, max } = NUMBER_DIGITS;
  const digits = String(typeof value === 'number' ? Math.abs(value) : value.integer(max)).replace('-', '');
  return digits.length >= min && digits.length <= max && /^\d+$/.test(digits) ? digits : undefined;
}
