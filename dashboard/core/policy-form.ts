// The conditions of a policy as a form has them: read from their JSON text, and changed in it. Beside the editor of the
// text, which stays what is sent: the form keeps no copy.
// Invariant: a change touches the one member that it is about; every other character stands as it was written, and
// what the form has no field for is named (`others`). Numbers are never read: they keep their text.
// Failure: text that is no JSON object is undefined, until it is one again.
import { OPERATORS } from '../../schemas/condition.ts';
import { endOfString, endOfValue, skipSpace } from './json.ts';
import { meaningOf } from './tokens.ts';

/** A member of an object, or an element of a list (`key` is '' then): where it stands in the text. */
type Member = { key: string; from: number; valueFrom: number; to: number };

/** One operator on one field. `member` is that of the field; `inner` that of its operator, if it is written as one. */
export type Test = {
  field: string;
  operator: string;
  member: number;
  inner: number | undefined;
  /** JSON texts. */
  values: string[];
};

type PolicyForm = { members: Member[]; tests: Test[]; others: string[] };

/** Operators whose operand is a list; `any of` and `is` are the short forms. */
const OF_LISTS = ['any of', 'in', 'not_in'];
const OF_TEXT = ['contains', 'starts_with', 'ends_with', 'matches', 'glob'];
const SHORT = ['is', 'any of'];
/** Their operands are objects of their own, which the form leaves to the JSON. */
const OF_COMMANDS: readonly string[] = ['shell', 'sql'];
export const FORM_OPERATORS: readonly string[] = [
  ...SHORT,
  ...OPERATORS.filter((operator) => !OF_COMMANDS.includes(operator)),
];

/** As a person reads them, in the form and where it says why. */
export const OPERATOR_WORDS: Record<string, string> = {
  ...{ is: 'is', 'any of': 'is any of', eq: 'is exactly', ne: 'is not', in: 'is in', not_in: 'is not in' },
  ...{ gt: 'is more than', gte: 'is at least', lt: 'is less than', lte: 'is at most' },
  ...{ contains: 'contains', starts_with: 'starts with', ends_with: 'ends with', matches: 'matches pattern' },
  ...{ glob: 'is like (* ?)', exists: 'exists' },
};

export function takesList(operator: string): boolean {
  return OF_LISTS.includes(operator);
}

/** `reserved`: keys that are no fields. `isShown`: the form has a control for what stands there. */
export function formOf(
  text: string,
  reserved: readonly string[] = [],
  isShown: (key: string, value: string) => boolean = () => false,
): PolicyForm | undefined {
  const members = membersOf(text);
  if (members === undefined) return undefined;
  const form: PolicyForm = { members, tests: [], others: [] };
  members.forEach(({ key, valueFrom, to }, member) => {
    const isOnce = members.every((one, i) => i === member || one.key !== key);
    const hasControl = () => isOnce && isShown(key, text.slice(valueFrom, to));
    if (reserved.includes(key) ? hasControl() : addTests(form, text, member)) return;
    form.others.push(key);
  });
  return form;
}

/** false: the form does not know what stands there. */
function addTests({ members, tests }: PolicyForm, text: string, member: number): boolean {
  const { key: field, valueFrom, to } = members[member]!;
  const value = text.slice(valueFrom, to);
  if (value[0] !== '{') {
    const values = valuesOf(value);
    if (values === undefined) return false;
    tests.push({ ...{ field, member, inner: undefined, values }, operator: value[0] === '[' ? 'any of' : 'is' });
    return true;
  }
  const found: Test[] = [];
  for (const [inner, one] of (membersOf(value) ?? []).entries()) {
    const operand = value.slice(one.valueFrom, one.to);
    const values = valuesOf(operand);
    const isKnown = FORM_OPERATORS.includes(one.key) && !SHORT.includes(one.key);
    if (!isKnown || values === undefined || takesList(one.key) !== (operand[0] === '[')) return false;
    found.push({ field, operator: one.key, member, inner, values });
  }
  tests.push(...found);
  return found.length > 0;
}

/** JSON texts of a scalar, or of a list of scalars; undefined: an input of one line could not show it. */
export function valuesOf(value: string): string[] | undefined {
  const values = value[0] === '[' ? elementsOf(value).map((one) => value.slice(one.from, one.to)) : [value];
  return values.every((one) => !'[{'.includes(one[0]!) && isOneLine(one)) ? values : undefined;
}

function isOneLine(value: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what an input would drop.
  return !/[\u0000-\u001f\u2028\u2029]/.test(meaningOf(value));
}

/** Members of the object that the text is; undefined: it is none. */
export function membersOf(text: string): Member[] | undefined {
  try {
    JSON.parse(text); // conditions of a person, and only to know that it can be read
  } catch {
    return undefined;
  }
  return text[skipSpace(text, 0)] === '{' ? partsOf(text, true) : undefined;
}

export function elementsOf(text: string): Member[] {
  return partsOf(text, false);
}

function partsOf(text: string, isObject: boolean): Member[] {
  const parts: Member[] = [];
  for (let at = skipSpace(text, skipSpace(text, 0) + 1); !'}]'.includes(text[at]!); ) {
    const keyTo = isObject ? endOfString(text, at) : at;
    const valueFrom = isObject ? skipSpace(text, skipSpace(text, keyTo) + 1) : at;
    const to = endOfValue(text, valueFrom);
    parts.push({ key: meaningOf(isObject ? text.slice(at, keyTo) : '""'), from: at, valueFrom, to });
    at = skipSpace(text, to);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return parts;
}

/** The form of a value that a person reads: text as it is, unless it would be taken for a number or a word then. */
export function shownValue(value: string, isText = false): string {
  if (value[0] !== '"') return value;
  const text = meaningOf(value);
  const written = writtenValue(text);
  return isText || (written[0] === '"' && meaningOf(written) === text) ? text : value;
}

/** JSON text of what a person wrote: a number, `true`, `false`, `null` or text in quotes is itself, all else is text. */
export function writtenValue(written: string, isText = false): string {
  if (!isText && /^[-\d"tfn]/.test(written)) {
    try {
      const value: unknown = JSON.parse(written); // what was typed, and only to know what it is
      if (typeof value !== 'object' || value === null) return written.trim();
    } catch {
      // it is text
    }
  }
  return JSON.stringify(written);
}

export function isOfText(operator: string): boolean {
  return OF_TEXT.includes(operator);
}

/** The JSON text of a reserved key; undefined: it is not there. */
export function memberValue(text: string, key: string): string | undefined {
  const found = membersOf(text)?.find((one) => one.key === key);
  return found === undefined ? undefined : text.slice(found.valueFrom, found.to);
}

/** JSON texts of the list that stands there; undefined: something else does. */
export function listOf(text: string, key: string): string[] | undefined {
  const value = memberValue(text, key);
  if (value === undefined) return [];
  return value[0] === '[' ? valuesOf(value) : undefined;
}

/** `value`: JSON text; undefined: it is taken out. */
export function withValue(text: string, key: string, value: string | undefined): string {
  const members = membersOf(text);
  if (members === undefined) return text;
  const at = members.findIndex((one) => one.key === key);
  if (at < 0) return value === undefined ? text : appended(text, members, `${JSON.stringify(key)}: ${value}`);
  return value === undefined ? without(text, members, at) : put(text, members[at]!.valueFrom, members[at]!.to, value);
}

/** Elements that stay keep their texts and what is between them. */
export function withList(text: string, key: string, values: readonly string[]): string {
  return withValue(text, key, values.length === 0 ? undefined : changedList(memberValue(text, key), values));
}

/** Texts of the elements of a list, whatever they are; none where there is no list. */
export function elementTexts(text: string, key: string): string[] {
  const value = memberValue(text, key);
  return value?.[0] === '[' ? elementsOf(value).map((one) => value.slice(one.from, one.to)) : [];
}

/** Changes one element, or adds one behind the last. `element` undefined: it is taken out, with the last one the list. */
export function withElement(text: string, key: string, at: number, element: string | undefined): string {
  const value = memberValue(text, key);
  if (value?.[0] !== '[') return element === undefined ? text : withValue(text, key, `[${element}]`);
  const elements = elementsOf(value);
  const one = elements[at];
  if (element === undefined)
    return withValue(text, key, elements.length < 2 ? undefined : without(value, elements, at));
  return withValue(
    text,
    key,
    one === undefined ? appended(value, elements, element) : put(value, one.from, one.to, element),
  );
}

/** `value`: the list that there is, of which `values` has one more, one less, or one changed. */
function changedList(value: string | undefined, values: readonly string[]): string {
  if (value?.[0] !== '[') return `[${values.join(', ')}]`;
  const elements = elementsOf(value);
  const texts = elements.map((one) => value.slice(one.from, one.to));
  const first = texts.findIndex((one, i) => one !== values[i]);
  if (first < 0) return values.length > texts.length ? appended(value, elements, values.at(-1)!) : value;
  if (values.length < texts.length) return without(value, elements, first);
  return put(value, elements[first]!.from, elements[first]!.to, values[first]!);
}

export function withTest(text: string, field: string, value = '""'): string {
  const members = membersOf(text);
  return members === undefined ? text : appended(text, members, `${JSON.stringify(field)}: ${value}`);
}

/** Gives the member another field. Where a field has several operators, all keep its name. */
export function withField(text: string, { member }: Test, field: string): string {
  const found = membersOf(text)?.[member];
  return found === undefined ? text : put(text, found.from, endOfString(text, found.from), JSON.stringify(field));
}

export function withValues(text: string, test: Test, values: readonly string[]): string {
  return inTest(text, test, (value) => (takesList(test.operator) ? changedList(value, values) : (values[0] ?? '""')));
}

export function withOperator(text: string, test: Test, operator: string): string {
  const members = membersOf(text);
  const found = members?.[test.member];
  if (found === undefined) return text;
  const old = text.slice(found.valueFrom, found.to);
  const operand = operandFor(operator, test.values);
  const changed = (part: string) => {
    if (test.inner === undefined) return SHORT.includes(operator) ? operand : `{ "${operator}": ${operand} }`;
    const inner = membersOf(part)!;
    // a short form cannot stand beside other operators
    if (SHORT.includes(operator)) return inner.length === 1 ? operand : part;
    const one = inner[test.inner]!;
    return put(part, one.from, one.to, `"${operator}": ${operand}`);
  };
  return put(text, found.valueFrom, found.to, changed(old));
}

function operandFor(operator: string, values: readonly string[]): string {
  if (takesList(operator)) return `[${values.join(', ')}]`;
  const first = values[0] ?? '""';
  if (operator === 'exists') return first === 'false' ? 'false' : 'true';
  return isOfText(operator) && first[0] !== '"' ? JSON.stringify(first) : first;
}

export function withoutTest(text: string, { member, inner }: Test): string {
  const members = membersOf(text);
  const found = members?.[member];
  if (members === undefined || found === undefined) return text;
  const value = text.slice(found.valueFrom, found.to);
  const operators = inner === undefined ? [] : membersOf(value)!;
  if (operators.length < 2) return without(text, members, member);
  return put(text, found.valueFrom, found.to, without(value, operators, inner!));
}

function inTest(text: string, { member, inner }: Test, change: (operand: string) => string): string {
  const found = membersOf(text)?.[member];
  if (found === undefined) return text;
  const value = text.slice(found.valueFrom, found.to);
  if (inner === undefined) return put(text, found.valueFrom, found.to, change(value));
  const one = membersOf(value)![inner]!;
  const from = found.valueFrom + one.valueFrom;
  return put(text, from, found.valueFrom + one.to, change(value.slice(one.valueFrom, one.to)));
}

/** Behind the last part, with what stands before that one. */
function appended(text: string, parts: readonly Member[], part: string): string {
  const last = parts.at(-1);
  if (last === undefined) {
    const open = skipSpace(text, 0) + 1;
    const isObject = text[open - 1] === '{';
    return put(text, open, skipSpace(text, open), isObject ? `\n  ${part}\n` : part);
  }
  const before = parts.length > 1 ? text.slice(parts.at(-2)!.to, last.from) : `,${gapBefore(text, last.from) || ' '}`;
  return put(text, last.to, last.to, before + part);
}

function gapBefore(text: string, at: number): string {
  return /\s*$/.exec(text.slice(0, at))![0];
}

/** With the comma that parts it from the one before, or of the first from the one behind. */
function without(text: string, parts: readonly Member[], at: number): string {
  const { from, to } = parts[at]!;
  if (at > 0) return put(text, parts[at - 1]!.to, to, '');
  return put(text, from, parts[1]?.from ?? to, '');
}

function put(text: string, from: number, to: number, part: string): string {
  return text.slice(0, from) + part + text.slice(to);
}
