// Where a body is no JSON, held against another parser (@streamparser/json, byte by byte, with partial tokens: it
// refuses the first byte that no JSON could have there) on 10,000 damaged bodies; and what is said of what people send.
// GATEHOUSE_TEST_SEED repeats a run.
import { JSONParser, type JSONParser as Parser } from '@streamparser/json';
import t from 'tap';
import { ServiceError } from '../../src/common/errors.ts';
import { findJsonFault } from '../../src/common/json-fault.ts';
import { parseMarked } from '../../src/ingest/json.ts';
import { readText } from '../reference/json.ts';
import { SEED } from '../support/seed.ts';

const BODIES = 10_000;

let state = SEED >>> 0;
/** A whole number below `n`. */
function random(n: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
}
const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;

const TEXTS = [
  '',
  'a',
  'Zürich',
  '日本語',
  '😀 ok',
  'line\nend',
  '"quoted" \\ /',
  'a longer text, with: {signs} [in] it',
];
const NUMBERS = ['0', '-0', '7', '-12.5', '1e5', '1.25E-7', '12345678901234567890', '0.1'];
const SPACES = ['', '', '', ' ', '\n', '\r\n  ', '\t'];

function value(depth: number): string {
  const space = () => pick(SPACES);
  const kind = random(depth > 4 ? 4 : 6);
  if (kind === 0) return JSON.stringify(pick(TEXTS));
  if (kind === 1) return pick(NUMBERS);
  if (kind === 2) return pick(['true', 'false', 'null']);
  if (kind === 3) return pick(['"\\u00e9\\n\\/"', '"\\ud83d\\ude00"', '[]', '{}']);
  const count = random(4);
  const list = (of: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => space() + of(i) + space()).join(',') || space();
  if (kind === 4) return `[${list(() => value(depth + 1))}]`;
  return `{${list((i) => `${JSON.stringify(random(8) === 0 ? 'k' : `k${i}${pick(TEXTS)}`)}${space()}:${space()}${value(depth + 1)}`)}}`;
}

function event(): string {
  return `{"type":"custom",${pick(SPACES)}"payload":{"a":${value(0)}},"trace_id":"t-${random(9)}"}`;
}

function body(): string {
  const many = Array.from({ length: 1 + random(3) }, event).join(`,${pick(SPACES)}`);
  return pick([() => event(), () => `[${many}]`, () => `{"events":${pick(SPACES)}[${many}]}\n`])();
}

const SIGNS = [...'{}[]",:\\\'\n\t 019.-+eEtnN/x', '\u0000', 'é'].map((sign) => Buffer.from(sign));
const bytesOf = (...parts: (Buffer | Uint8Array)[]) => Buffer.concat(parts);

/** Cut, replaced, inserted, swapped: once, or a few times. */
function damaged(bytes: Buffer): Buffer {
  let result = bytes;
  for (let times = 1 + random(2) * random(3); times > 0; times--) {
    const at = random(result.length + 1);
    const [head, tail] = [result.subarray(0, at), result.subarray(at)];
    const kind = random(6);
    if (kind === 0) result = head;
    else if (kind === 1) result = bytesOf(head, result.subarray(at + 1 + random(4)));
    else if (kind === 2) result = bytesOf(head, pick(SIGNS), tail.subarray(1));
    else if (kind === 3) result = bytesOf(head, pick(SIGNS), tail);
    else if (kind === 4) result = bytesOf(head, tail.subarray(1, 2), tail.subarray(0, 1), tail.subarray(2));
    else result = bytesOf(head, Buffer.from([random(256)]), tail.subarray(random(2)));
  }
  return result;
}

type Oracle = { byte: number; path: (string | number)[] } | null;

function newParser(): { parser: Parser; isBroken: () => boolean } {
  let isBroken = false;
  const parser = new JSONParser({ emitPartialTokens: true, emitPartialValues: true });
  parser.onError = () => {
    isBroken = true;
  };
  parser.onValue = () => undefined;
  return { parser, isBroken: () => isBroken };
}

/** Finds the first fault of bytes that are UTF-8. */
function firstFault(bytes: Buffer): Oracle {
  // It takes nothing at all for something that is still to come.
  if (/^[ \t\r\n]*$/.test(bytes.toString('latin1'))) return { byte: bytes.length, path: [] };
  const { parser, isBroken } = newParser();
  for (let at = 0; at < bytes.length; at++) {
    const path = pathOf(parser);
    parser.write(bytes.subarray(at, at + 1));
    if (isBroken()) return { byte: beginOfRefused(bytes, at), path };
  }
  const path = pathOf(parser);
  return isWhole(bytes) ? null : { byte: beginOfRefused(bytes, bytes.length), path };
}

/**
 * Words and numbers it refuses a few bytes late: where another word in their place is refused while a space is not,
 * they are refused from their first byte on.
 */
function beginOfRefused(bytes: Buffer, at: number): number {
  const text = bytes.toString('latin1');
  let refused = at;
  for (let begin = at - 1; begin >= 0 && /[-+.\w]/.test(text[begin]!); begin--) {
    const goesOn = /[-\d.eE+]\d$|[\d.][eE]-$/.test(text.slice(Math.max(0, begin - 2), begin + 1));
    if (goesOn || !/[-\dtfn]/.test(text[begin]!)) continue;
    const takes = (more: string) => {
      const { parser, isBroken } = newParser();
      parser.write(Buffer.concat([bytes.subarray(0, begin), Buffer.from(more)]));
      return !isBroken();
    };
    if (takes(' ') && !takes(' null ')) refused = begin;
  }
  return refused;
}

function isWhole(bytes: Buffer): boolean {
  const { parser, isBroken } = newParser();
  // The space ends a number.
  parser.write(Buffer.concat([bytes, Buffer.from(' ')]));
  return parser.isEnded && !isBroken();
}

type Step = string | number | undefined;
/** The other parser's state: a key is being read, and its last one is still that of the member before. */
const READS_KEY = 1;

function pathOf(parser: Parser): (string | number)[] {
  const { tokenParser } = parser as unknown as {
    tokenParser: { stack: { key: Step }[]; key: Step; state: number };
  };
  const { stack, key, state } = tokenParser;
  const steps = [...stack.map((one) => one.key), state === READS_KEY ? undefined : key];
  return steps.filter((one) => one !== undefined);
}

/** How many bytes stand before the first sequence that is no UTF-8; null: all is. */
function utf8Until(bytes: Buffer): number | null {
  const isSound = (length: number) => {
    try {
      new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, length));
      return true;
    } catch {
      return false;
    }
  };
  if (isSound(bytes.length)) return null;
  let length = 0;
  // What is longer than a character and still not sound begins with the fault.
  for (let next = 1; next <= length + 4 && next <= bytes.length; next++) if (isSound(next)) length = next;
  return length;
}

/** `key twice at 7` in UTF-16 units, and the like; null: it is sound. */
function referenceFault(text: string): string | null {
  try {
    readText(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

t.test('the place is that of another parser, on 10,000 damaged bodies', async (t) => {
  const counts = { sound: 0, utf8: 0, grammar: 0, twice: 0 };
  while (counts.utf8 + counts.grammar + counts.twice < BODIES) {
    const bytes = damaged(Buffer.from(body()));
    const found = findJsonFault(bytes);
    const wrong = (what: string) =>
      t.fail(`${what}: ${JSON.stringify(bytes.toString('latin1'))} ${JSON.stringify(found)}`);
    const broken = utf8Until(bytes);
    if (broken !== null) {
      counts.utf8++;
      if (found?.byte !== broken) wrong(`UTF-8 ends at ${broken}`);
    } else {
      const text = bytes.toString();
      const oracle = firstFault(bytes);
      const twice = /^key twice at (\d+)$/.exec(referenceFault(text) ?? '')?.[1];
      const at = twice === undefined ? undefined : Buffer.byteLength(text.slice(0, Number(twice)));
      if (at !== undefined) {
        counts.twice++;
        if (found?.byte !== at || !/stands twice/.test(found.what)) wrong(`a key stands twice at ${at}`);
        if (oracle !== null && oracle.byte < at) wrong(`the other parser is earlier, at ${oracle.byte}`);
      } else if (oracle === null) {
        counts.sound++;
        if (found !== null) wrong('it is sound');
      } else {
        counts.grammar++;
        if (found?.byte !== oracle.byte) wrong(`the other parser says ${oracle.byte}`);
        else if (JSON.stringify(found.path) !== JSON.stringify(oracle.path)) wrong(`its path is ${oracle.path}`);
      }
    }
    if (found !== null) {
      const lines = bytes.toString('utf8', 0, found.byte).split('\n');
      const [line, column] = [lines.length, [...lines.at(-1)!].length + 1];
      if (found.line !== line || found.column !== column) wrong(`line ${line}, column ${column}`);
    }
    const refused = refusalOf(bytes);
    if ((refused === null) !== (found === null)) wrong('it is refused where it has no fault, or the other way round');
    else if (
      refused !== null &&
      !refused.message.includes(`line ${found!.line}, column ${found!.column} (byte ${found!.byte})`)
    )
      wrong(refused.message);
  }
  t.comment(JSON.stringify(counts));
  t.ok(
    counts.grammar > BODIES / 2 && counts.utf8 > 100 && counts.twice > 10 && counts.sound > 100,
    'every kind occurs',
  );
});

function refusalOf(bytes: Buffer, shape: 'one' | 'many' = 'many'): ServiceError | null {
  try {
    parseMarked(bytes, shape);
    return null;
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'malformed_json') return error;
    throw error;
  }
}

t.test('what people send is named', async (t) => {
  const said: [text: string, place: string, what: RegExp][] = [
    ['{"a": NaN}', 'line 1, column 7 (byte 6)', /NaN is no number of JSON.*allow_nan/],
    ['{"a": Infinity}', 'line 1, column 7 (byte 6)', /Infinity is no number/],
    ['{"a": -Infinity}', 'line 1, column 8 (byte 7)', /Infinity is no number/],
    ['{"a": nan}', 'line 1, column 8 (byte 7)', /nan is no number/],
    ['{"a": None}', 'line 1, column 7 (byte 6)', /None is Python; JSON writes null/],
    ['{"a": True}', 'line 1, column 7 (byte 6)', /True is Python; JSON writes true/],
    ['{"a": undefined}', 'line 1, column 7 (byte 6)', /undefined is JavaScript/],
    ["{'a': 1}", 'line 1, column 2 (byte 1)', /double quotes.*single quote/],
    ['{"a": \'b\'}', 'line 1, column 7 (byte 6)', /a value.*single quote/],
    ['{a: 1}', 'line 1, column 2 (byte 1)', /the key "a" must stand in double quotes/],
    ['{"a": 1,\n}', 'line 2, column 1 (byte 9)', /a comma stands before }/],
    ['[1, 2, ]', 'line 1, column 8 (byte 7)', /a comma stands before ]/],
    ['{"ü": "é", "a" 1}', 'line 1, column 16 (byte 17)', /a colon must follow, and not 1/],
    ['{"a": 1 "b": 2}', 'line 1, column 9 (byte 8)', /in the object that begins at line 1, column 1 a comma or }/],
    ['{"a": [1, 2}', 'line 1, column 12 (byte 11)', /in the array that begins at line 1, column 7 a comma or \]/],
    ['{"a": "x\ny"}', 'line 1, column 9 (byte 8)', /does not go on over a line end; write \\n/],
    ['{"a": "x\ty"}', 'line 1, column 9 (byte 8)', /a tab.*write \\t/],
    ['{"a": "C:\\dir"}', 'line 1, column 11 (byte 10)', /no escape; write \\\\/],
    ['{"a": "\\u12"}', 'line 1, column 12 (byte 11)', /four hexadecimal digits/],
    ['{"a": 01}', 'line 1, column 8 (byte 7)', /does not begin with 0/],
    ['{"a": .5}', 'line 1, column 7 (byte 6)', /a value must follow, and not \./],
    ['{"a": +1}', 'line 1, column 7 (byte 6)', /a value must follow, and not \+/],
    ['{"a": 1.}', 'line 1, column 9 (byte 8)', /behind a decimal point a digit/],
    ['{"a": 1} // note', 'line 1, column 10 (byte 9)', /comment/],
    ['{"a": 1}\n{"a": 2}', 'line 2, column 1 (byte 9)', /{ follows the end of the JSON/],
    ['{"a": "b', 'line 1, column 9 (byte 8)', /the body ends inside the text that begins at line 1, column 7/],
    ['{"a": [1', 'line 1, column 9 (byte 8)', /the body ends inside the array that begins at line 1, column 7/],
    ['', 'line 1, column 1 (byte 0)', /the body ends where a value must follow/],
    ['{"a": 1, "b": 2, "a": 3}', 'line 1, column 18 (byte 17)', /the key "a" stands twice.*first at line 1, column 2/],
    ['{"a": 1, "\\u0061": 3}', 'line 1, column 10 (byte 9)', /the key "a" stands twice/],
    ['{"constructor": 1, "a": constructor}', 'line 1, column 25 (byte 24)', /constructor is no value/],
    ['{"a": \u00a01}', 'line 1, column 7 (byte 6)', /the character U\+00A0/],
    [`${'['.repeat(64)}\n[`, 'line 2, column 1 (byte 65)', /nested deeper than 64 levels/],
  ];
  for (const [text, place, what] of said) {
    const error = refusalOf(Buffer.from(text), 'one');
    t.ok(error?.message.startsWith(`The body cannot be read as JSON: ${place}: `), `${text}: ${error?.message}`);
    t.match(error?.message, what, text);
  }
  const latin = Buffer.from('{"a": "caf\xe9"}', 'latin1');
  t.match(refusalOf(latin, 'one')?.message, 'line 1, column 11 (byte 10): the byte 0xe9 is not UTF-8');
  t.match(refusalOf(Buffer.from('\ufeff{"a": 1}', 'utf16le'), 'one')?.message, /UTF-16/);
});

t.test('in a batch the element is named, and the details have the path', async (t) => {
  const events = ['{"type":"custom","payload":{}}', '{"type":"custom","payload":{"a/b":[1,NaN]}}'];
  for (const [text, path] of [
    [`[${events}]`, '/1/payload/a~1b/1'],
    [`{"events":[${events}]}`, '/events/1/payload/a~1b/1'],
  ] as const) {
    const error = refusalOf(Buffer.from(text));
    t.match(error?.message, /^The body cannot be read as JSON in element 1: line 1, column \d+ \(byte \d+\): NaN/);
    t.match(error?.details, [{ path, message: /^line 1, column \d+ \(byte \d+\): NaN/ }]);
  }
  t.match(refusalOf(Buffer.from('[{"a":1}{"a":2}]'))?.message, /in element 0: .*a comma or ] must follow, and not {/);
  t.match(refusalOf(Buffer.from('[{"a":1},{"b":1,"b":2}]'))?.message, /in element 1: .*the key "b" stands twice/);
  t.match(refusalOf(Buffer.from('[{"a":1},{"b":"\xff"}]', 'latin1'))?.details, [{ path: '/1/b' }]);
  const one = refusalOf(Buffer.from('{"events":[1,x]}'), 'one');
  t.notMatch(one?.message, / in element /, 'a single event has none');
  const long = refusalOf(Buffer.from(`{"${'k'.repeat(100_000)}": x, "${'v'.repeat(100)}": y}`), 'one');
  t.ok(long!.message.length < 200 && long!.details![0]!.path.length < 200, 'and what is long is cut');
});
