// JSON read the plain way, for the reference: one character after the other, into a tree that knows where each token
// stands. Refuses bad UTF-8, bad grammar, a key twice in one object, nesting deeper than 64.
// Shares no code with src/ and is not meant to be fast.

/** `start`, `end`: UTF-16 offsets of the value's text. Strings have their `text` decoded. */
export type Node = { start: number; end: number; isNull?: boolean } & (
  | { kind: 'object'; members: { key: StringNode; value: Node }[] }
  | { kind: 'array'; items: Node[] }
  | { kind: 'string'; text: string }
  | { kind: 'other' }
);
export type StringNode = Node & { kind: 'string' };

/** A number as it is in the text. */
export class Written {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** How many 10^-500 it is: enough for the numbers that tests make. */
  get scaled(): bigint {
    const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d+))?$/.exec(
      this.text,
    )!;
    return BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(500 + Number(exponent) - fraction.length);
  }
}

/** The value of a tree, with its numbers as they are written. */
export function writtenValue(node: Node, text: string): unknown {
  if (node.kind === 'string') return node.text;
  if (node.kind === 'array') return node.items.map((item) => writtenValue(item, text));
  if (node.kind === 'object')
    return Object.fromEntries(node.members.map(({ key, value }) => [key.text, writtenValue(value, text)]));
  const token = text.slice(node.start, node.end);
  return /^[-\d]/.test(token) ? new Written(token) : (JSON.parse(token) as unknown);
}

/** As JSON.stringify, but with numbers that it would change as they are written. */
export function writtenJson(value: unknown): string {
  if (value instanceof Written) {
    const near = Number(value.text);
    const isSame = Number.isFinite(near) && new Written(String(near)).scaled === value.scaled;
    return isSame ? JSON.stringify(near) : value.text;
  }
  if (Array.isArray(value)) return `[${value.map(writtenJson).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([key, item]) => `${JSON.stringify(key)}:${writtenJson(item)}`)
    .join()}}`;
}

class Malformed extends Error {}

const DEPTH_MAX = 64;

export function readBytes(bytes: Buffer): { text: string; root: Node } {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Malformed('UTF-8');
  }
  return { text, root: readText(text) };
}

/** `depthMax`: an answer may nest deeper than the body that it echoes. */
export function readText(text: string, depthMax = DEPTH_MAX): Node {
  const reader = new Reader(text, depthMax);
  const root = reader.value(0);
  reader.space();
  if (reader.at !== text.length) throw new Malformed('something follows');
  return root;
}

class Reader {
  at = 0;
  readonly #text: string;
  readonly #depthMax: number;

  constructor(text: string, depthMax: number) {
    this.#text = text;
    this.#depthMax = depthMax;
  }

  space(): void {
    while (this.at < this.#text.length && ' \t\n\r'.includes(this.#text[this.at]!)) this.at++;
  }

  value(depth: number): Node {
    this.space();
    const start = this.at;
    switch (this.#text[this.at]) {
      case '{':
        return this.#object(depth + 1);
      case '[':
        return this.#array(depth + 1);
      case '"':
        return this.#string();
    }
    const token = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)/.exec(
      this.#text.slice(this.at),
    );
    if (token === null) throw new Malformed(`no value at ${start}`);
    this.at += token[0].length;
    return { kind: 'other', start, end: this.at, isNull: token[0] === 'null' };
  }

  #object(depth: number): Node {
    const start = this.#open(depth);
    const members: { key: StringNode; value: Node }[] = [];
    const keys = new Set<string>();
    for (this.space(); members.length > 0 || this.#text[this.at] !== '}'; this.space()) {
      if (this.#text[this.at] !== '"') throw new Malformed(`no key at ${this.at}`);
      const key = this.#string();
      if (keys.has(key.text)) throw new Malformed(`key twice at ${key.start}`);
      keys.add(key.text);
      this.#expect(':');
      members.push({ key, value: this.value(depth) });
      if (!this.#comma('}')) break;
    }
    this.#expect('}');
    return { kind: 'object', members, start, end: this.at };
  }

  #array(depth: number): Node {
    const start = this.#open(depth);
    const items: Node[] = [];
    this.space();
    if (this.#text[this.at] !== ']')
      do items.push(this.value(depth));
      while (this.#comma(']'));
    this.#expect(']');
    return { kind: 'array', items, start, end: this.at };
  }

  #open(depth: number): number {
    if (depth > this.#depthMax) throw new Malformed('too deep');
    return this.at++;
  }

  #comma(close: string): boolean {
    this.space();
    if (this.#text[this.at] === close) return false;
    this.#expect(',');
    return true;
  }

  #expect(what: string): void {
    this.space();
    if (this.#text[this.at] !== what) throw new Malformed(`${what} is missing at ${this.at}`);
    this.at++;
  }

  #string(): StringNode {
    const start = this.at++;
    let text = '';
    for (; this.#text[this.at] !== '"'; ) {
      const unit = unitAt(this.#text, this.at);
      text += unit.decoded;
      this.at += unit.raw.length;
    }
    this.at++;
    return { kind: 'string', text, start, end: this.at };
  }
}

const ESCAPES: Record<string, string> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

/** One UTF-16 unit of a string: as it is written, and what it represents. */
function unitAt(text: string, at: number): { raw: string; decoded: string } {
  const here = text[at];
  if (here === undefined || here < ' ') throw new Malformed(`bad character at ${at}`);
  if (here !== '\\') return { raw: here, decoded: here };
  const hex = /^\\u([0-9a-fA-F]{4})/.exec(text.slice(at, at + 6));
  if (hex !== null) return { raw: hex[0], decoded: String.fromCharCode(Number.parseInt(hex[1]!, 16)) };
  const decoded = ESCAPES[text[at + 1] ?? ''];
  if (decoded === undefined) throw new Malformed(`bad escape at ${at}`);
  return { raw: text.slice(at, at + 2), decoded };
}

/** How each decoded UTF-16 unit of a string is written. `raw`: what is between the quotes. */
export function unitsOf(raw: string): string[] {
  const units: string[] = [];
  for (let at = 0; at < raw.length; ) {
    const unit = unitAt(raw, at).raw;
    units.push(unit);
    at += unit.length;
  }
  return units;
}
