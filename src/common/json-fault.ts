// Says where a text is no JSON, and what stands there (behind a parser that has refused it; src/ingest/json.ts,
// src/otlp/decode-json.ts). A second, careful pass, in order, to the first byte that no JSON could have there: a
// grammar that is broken, a key twice in one object, a bracket too deep. It runs on refused bodies alone, which are
// bounded as all bodies are.
// Invariant: every byte before the place could begin a JSON text (test/ingest/json-fault.test.ts holds this against
// another parser). What it says names what people write: Python's None, NaN and single quotes, JavaScript's trailing
// commas and comments.
import { JSON_DEPTH_MAX } from './limits.ts';

export type JsonFault = {
  /** From 1; the column in characters. */
  line: number;
  column: number;
  /** From 0, in the bytes that were given. */
  byte: number;
  /** Keys and indices on the way to it. */
  path: readonly (string | number)[];
  /** The fault at that place; completes "line 1, column 7 (byte 6): …". */
  what: string;
};

/** null: it is JSON. */
export function findJsonFault(bytes: Buffer): JsonFault | null {
  const broken = brokenUtf8(bytes);
  const finder = new Finder(broken === null ? bytes : bytes.subarray(0, broken));
  const found = finder.find();
  if (broken === null) return found;
  const byte = `0x${bytes[broken]!.toString(16).padStart(2, '0')}`;
  const what = isUtf16(bytes) ? 'this looks like UTF-16, and JSON is sent as UTF-8' : `the byte ${byte} is not UTF-8`;
  return { ...placeOf(bytes, broken), path: found?.path ?? [], what };
}

/** `line 1, column 7 (byte 6): …` */
export function faultInWords({ line, column, byte, what }: JsonFault): string {
  return `line ${line}, column ${column} (byte ${byte}): ${what}`;
}

/** Where the first sequence begins that is no UTF-8: decoded, it is a U+FFFD that does not stand in the bytes. */
function brokenUtf8(bytes: Buffer): number | null {
  const text = bytes.toString('utf8');
  let offset = 0;
  for (let from = 0; ; ) {
    const at = text.indexOf('\ufffd', from);
    if (at < 0) return null;
    offset += Buffer.byteLength(text.slice(from, at));
    if (!bytes.subarray(offset, offset + 3).equals(REPLACEMENT)) return offset;
    offset += 3;
    from = at + 1;
  }
}

const REPLACEMENT = Buffer.from('\ufffd');

function isUtf16(bytes: Buffer): boolean {
  const [a, b] = bytes;
  return (a === 0xff && b === 0xfe) || (a === 0xfe && b === 0xff);
}

function placeOf(bytes: Buffer, byte: number): Pick<JsonFault, 'line' | 'column' | 'byte'> {
  let line = 1;
  let begin = 0;
  for (let at = bytes.indexOf(LINE_END); at >= 0 && at < byte; at = bytes.indexOf(LINE_END, begin)) {
    line++;
    begin = at + 1;
  }
  let column = 1;
  for (let at = begin; at < byte; at++) if ((bytes[at]! & 0xc0) !== 0x80) column++;
  return { line, column, byte };
}

const LINE_END = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const ZERO = 0x30;
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];
const ESCAPES = new Set([...'"\\/bfnrt'].map((one) => one.charCodeAt(0)));
const LITERALS: Record<number, string> = { 116: 'true', 102: 'false', 110: 'null' };
/** A word or a key is shown in a sentence up to this length. */
const SHOWN_CHARACTERS_MAX = 40;

const NO_NUMBER =
  'is no number of JSON; write null, or text in double quotes (json.dumps writes it unless allow_nan is False)';
/** The words that people write for values, each with its form in JSON. */
const WORDS: ReadonlyMap<string, string> = new Map([
  ['None', 'is Python; JSON writes null'],
  ['True', 'is Python; JSON writes true'],
  ['False', 'is Python; JSON writes false'],
  ['undefined', 'is JavaScript; JSON writes null, or leaves the field out'],
  ...['NaN', 'nan', 'NAN', 'Infinity', 'inf', 'Inf'].map((word): [string, string] => [word, NO_NUMBER]),
]);

class FaultFound extends Error {
  readonly byte: number;

  constructor(byte: number, what: string) {
    super(what);
    this.byte = byte;
  }
}

class Finder {
  readonly #bytes: Buffer;
  readonly #path: (string | number)[] = [];
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  find(): JsonFault | null {
    try {
      this.#value(0);
      this.#space();
      if (this.#at < this.#bytes.length) throw this.#found(`${this.#stands()} follows the end of the JSON`);
      return null;
    } catch (error) {
      if (!(error instanceof FaultFound)) throw error;
      return { ...placeOf(this.#bytes, error.byte), path: [...this.#path], what: error.message };
    }
  }

  #value(depth: number): void {
    this.#space();
    const byte = this.#bytes[this.#at];
    if (byte === OPEN_OBJECT) this.#object(depth + 1);
    else if (byte === OPEN_ARRAY) this.#array(depth + 1);
    else if (byte === QUOTE) this.#string();
    else if (byte === MINUS || isDigit(byte)) this.#number();
    else if (byte !== undefined && byte in LITERALS) this.#literal(LITERALS[byte]!);
    else throw this.#noValue();
  }

  #object(depth: number): void {
    const open = this.#open(depth);
    const keys = new Map<string, number>();
    this.#space();
    if (this.#bytes[this.#at] !== CLOSE_OBJECT)
      do {
        this.#key(keys, open);
        this.#value(depth);
      } while (this.#goesOn(CLOSE_OBJECT, open));
    this.#at++;
  }

  #array(depth: number): void {
    const open = this.#open(depth);
    this.#space();
    if (this.#bytes[this.#at] !== CLOSE_ARRAY) {
      let index = 0;
      do {
        this.#path.push(index++);
        this.#value(depth);
      } while (this.#goesOn(CLOSE_ARRAY, open));
    }
    this.#at++;
  }

  #open(depth: number): number {
    if (depth > JSON_DEPTH_MAX) throw this.#found(`this is nested deeper than ${JSON_DEPTH_MAX} levels`);
    return this.#at++;
  }

  /** Its path is entered. */
  #key(keys: Map<string, number>, open: number): void {
    this.#space();
    const start = this.#at;
    if (this.#bytes[start] !== QUOTE) throw this.#noKey(open);
    this.#string();
    const key = JSON.parse(this.#bytes.toString('utf8', start, this.#at)) as string;
    this.#path.push(key);
    const first = keys.get(key);
    if (first !== undefined) {
      const { line, column } = placeOf(this.#bytes, first);
      const what = `the key ${shown(key)} stands twice in one object, first at line ${line}, column ${column}`;
      throw new FaultFound(start, what);
    }
    keys.set(key, start);
    this.#space();
    if (this.#bytes[this.#at] !== COLON)
      throw this.#found(`behind a key a colon must follow, and not ${this.#stands()}`);
    this.#at++;
  }

  /** Does a comma follow, and with it another member? Until one of the two is there, the place is the last member's. */
  #goesOn(close: number, open: number): boolean {
    this.#space();
    const byte = this.#bytes[this.#at];
    if (byte === COMMA || byte === close) {
      this.#path.pop();
      if (byte === COMMA) this.#at++;
      return byte === COMMA;
    }
    const [it, end] = close === CLOSE_OBJECT ? ['object', '}'] : ['array', ']'];
    const { line, column } = placeOf(this.#bytes, open);
    const began = `the ${it} that begins at line ${line}, column ${column}`;
    if (byte === undefined) throw this.#found(`the body ends inside ${began}`);
    throw this.#found(`in ${began} a comma or ${end} must follow, and not ${this.#stands()}`);
  }

  #string(): void {
    const start = this.#at++;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) {
        const { line, column } = placeOf(this.#bytes, start);
        throw this.#found(`the body ends inside the text that begins at line ${line}, column ${column}`);
      }
      if (byte < 0x20) throw this.#found(controlIn(byte));
      this.#at++;
      if (byte === QUOTE) return;
      if (byte === BACKSLASH) this.#escape();
    }
  }

  #escape(): void {
    const byte = this.#bytes[this.#at];
    if (byte !== undefined && ESCAPES.has(byte)) {
      this.#at++;
      return;
    }
    if (byte !== 0x75)
      throw this.#found(`behind a backslash ${this.#stands()} is no escape; write \\\\ for the sign itself`);
    this.#at++;
    for (let digits = 0; digits < 4; digits++, this.#at++)
      if (!isHex(this.#bytes[this.#at]))
        throw this.#found(`behind \\u four hexadecimal digits must follow, and not ${this.#stands()}`);
  }

  #number(): void {
    if (this.#bytes[this.#at] === MINUS) this.#at++;
    if (this.#bytes[this.#at] === ZERO) {
      this.#at++;
      if (isDigit(this.#bytes[this.#at])) throw this.#found('a number does not begin with 0');
    } else this.#digits('behind a minus');
    if (this.#bytes[this.#at] === 0x2e) {
      this.#at++;
      this.#digits('behind a decimal point');
    }
    if (((this.#bytes[this.#at] ?? 0) | 0x20) === 0x65) {
      this.#at++;
      const sign = this.#bytes[this.#at];
      if (sign === 0x2b || sign === MINUS) this.#at++;
      this.#digits('in an exponent');
    }
  }

  #digits(where: string): void {
    const word = this.#word();
    if (WORDS.has(word)) throw this.#found(saidOf(word));
    if (!isDigit(this.#bytes[this.#at])) throw this.#found(`${where} a digit must follow, and not ${this.#stands()}`);
    while (isDigit(this.#bytes[this.#at])) this.#at++;
  }

  #literal(word: string): void {
    const start = this.#at;
    for (let i = 0; i < word.length; i++, this.#at++) {
      if (this.#bytes[this.#at] === word.charCodeAt(i)) continue;
      const written = wordAt(this.#bytes, start);
      if (this.#at === this.#bytes.length) throw this.#found(`the body ends inside ${word}`);
      throw this.#found(saidOf(written));
    }
  }

  #noValue(): FaultFound {
    const byte = this.#bytes[this.#at];
    const word = this.#word();
    if (word !== '') return this.#found(saidOf(word));
    if (byte === undefined) return this.#found('the body ends where a value must follow');
    if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) {
      const isBehindComma = this.#lastBefore() === COMMA;
      if (isBehindComma)
        return this.#found(`a comma stands before ${this.#stands()}; the last element has none behind it`);
    }
    return this.#found(`a value must follow, and not ${this.#stands()}`);
  }

  #noKey(open: number): FaultFound {
    const byte = this.#bytes[this.#at];
    const word = this.#word();
    if (word !== '') return this.#found(`the key ${shown(word)} must stand in double quotes`);
    if (byte === undefined) {
      const { line, column } = placeOf(this.#bytes, open);
      return this.#found(`the body ends inside the object that begins at line ${line}, column ${column}`);
    }
    if (byte === CLOSE_OBJECT && this.#lastBefore() === COMMA)
      return this.#found('a comma stands before }; the last member has none behind it');
    return this.#found(`a key in double quotes must follow, and not ${this.#stands()}`);
  }

  /** The last byte before the place that is no white space. */
  #lastBefore(): number | undefined {
    let at = this.#at - 1;
    while (at >= 0 && isSpace(this.#bytes[at])) at--;
    return this.#bytes[at];
  }

  #word(): string {
    return wordAt(this.#bytes, this.#at);
  }

  /** Words for what stands at the place. */
  #stands(): string {
    const byte = this.#bytes[this.#at];
    if (byte === undefined) return 'the end of the body';
    if (byte === 0x27) return "a single quote (')";
    if (byte === QUOTE) return 'a text (")';
    if (byte === LINE_END) return 'a line end';
    if (byte === 0x2f || byte === 0x23)
      return `${String.fromCharCode(byte)}, of a comment perhaps, which JSON does not have`;
    const word = this.#word();
    if (word !== '') return shownWord(word);
    // What was cut off by the end of the bytes is not there: the bytes are UTF-8.
    const [character = ''] = this.#bytes.toString('utf8', this.#at, this.#at + 4);
    const code = character.codePointAt(0)!;
    return code > 0x20 && code < 0x7f
      ? character
      : `the character U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  }

  #found(what: string): FaultFound {
    return new FaultFound(this.#at, what);
  }

  #space(): void {
    while (isSpace(this.#bytes[this.#at])) this.#at++;
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === LINE_END || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= 0x39;
}

function isHex(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
}

/** A word that begins there, cut where it is long; '' for none. */
function wordAt(bytes: Buffer, at: number): string {
  return /^[A-Za-z_$][\w$]*/.exec(bytes.toString('latin1', at, at + SHOWN_CHARACTERS_MAX))?.[0] ?? '';
}

function saidOf(word: string): string {
  return `${shownWord(word)} ${WORDS.get(word) ?? 'is no value; text stands in double quotes'}`;
}

function shownWord(word: string): string {
  return word.length < SHOWN_CHARACTERS_MAX ? word : `${word}…`;
}

function shown(key: string): string {
  return JSON.stringify(key.length <= SHOWN_CHARACTERS_MAX ? key : `${key.slice(0, SHOWN_CHARACTERS_MAX)}…`);
}

function controlIn(byte: number): string {
  if (byte === LINE_END) return 'a text does not go on over a line end; write \\n';
  if (byte === 0x09) return 'a tab stands in a text; write \\t';
  const code = byte.toString(16).padStart(4, '0');
  return `the control character U+${code.toUpperCase()} stands in a text; write \\u${code}`;
}
