// Makes inputs out of inputs that are there: bytes changed, pieces moved, repeated, cut, mixed with others, and words
// of the trade put in. Pure, and the same for the same random numbers.
import { shellSpelling, sqlSpelling } from './spellings.ts';

const WORDS: Record<string, readonly string[]> = {
  json: [
    '{"events":[',
    '"type":"prompt"',
    '"payload":{',
    '\\u0000',
    '\\ud800',
    '1e400',
    '-0',
    '1E+2',
    '[[[[',
    ']}',
    '"trace_id":"',
    '0.1e-7',
    '\\"',
    '\t',
    'ÿ',
    '\u2028',
    '"timestamp":"2026-11-25T00:00:00Z"',
    'null',
    '"__proto__":',
    '9007199254740993',
  ],
  gzip: [
    '\x1f\x8b\x08\x00',
    '\x1f\x8b\x08\x1f',
    '\x00\x00\x00\x00\x00\x03',
    '\x03\x00',
    '\x01\x00\x00\xff\xff',
    '\xed\xc1\x01\x01',
    '\x00\x00\x00\x00',
    '\xff\xff\xff\xff',
  ],
  expression: [
    'event.payload',
    '.exists(x, ',
    '.map(x, ',
    '.filter(x, ',
    '.matches("',
    '(a+)+$',
    '.join(',
    '.split("")',
    '.size()',
    ' == ',
    ' && ',
    ' || ',
    '!',
    '[',
    ']',
    '{"a": ',
    '}',
    'timestamp("',
    'duration("',
    '.format([',
    'string(',
    '1.0 / 0.0',
    '-9223372036854775808',
    '"\\u{10FFFF}"',
    'b"\\xff"',
    'has(event.payload.a)',
    ' in ',
    '.lowerAscii()',
    '? 1 : 2',
    'cel.bind(x, ',
  ],
  pattern: [
    '(?i)',
    '\\p{L}',
    '{1,50}',
    '{20}',
    '+',
    '*?',
    '(?:',
    '|',
    ')',
    '[^',
    ']',
    '\\b',
    '^',
    '$',
    '\\d',
    '[[:alpha:]]',
    '\\Q',
    '\\E',
    '(?P<n>',
    '.',
    '\\x{10FFFF}',
    '\\C',
    '(?s)',
    'é',
    '\ud83d\ude00',
    '---',
    '\n',
    'a{0}',
  ],
  schema: [
    '"type":"object"',
    '"properties":{',
    '"items":',
    '"anyOf":[',
    '"not":',
    '"pattern":"(a+)+$"',
    '"minLength":',
    '"const":',
    '"enum":[',
    '"required":["',
    '"$ref":"#"',
    '"uniqueItems":true',
    '"patternProperties":{',
    '"additionalProperties":false',
    '"maximum":1e308',
    '"multipleOf":0.01',
    '"dependentSchemas":{',
    '"if":',
    '"payload":{',
    '1e999',
    'null',
    '"$data":',
  ],
  spans: [
    '\x0a\x00',
    '\x12\xff\xff\xff\xff\x0f',
    '\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01',
    '\x0b\x0c',
    '\x2a\x02\x0a\x00',
    '\x32\x02\x0a\x00',
    'gen_ai.prompt.0.content',
    'llm.input_messages.9999.message.tool_calls.0.tool_call.function.name',
    'gen_ai.operation.name',
    'openinference.span.kind',
    '__proto__',
    '[{"role":"user","parts":[{"type":"tool_call","name":"x"',
    '{"arrayValue":{"values":[',
    '"kvlistValue":',
    '"intValue":"-9223372036854775809"',
    '"startTimeUnixNano":"99999999999999999999"',
    '\\ud800',
    'null',
    '1e999',
  ],
  inner: [
    ...['{', '}', '[', ']', '(', ')', ',', ':', '\n', '"', "'", '\\', '\\"', '// ', '/* */', '# ', '```json\n'],
    ...['"amount"', "'amount'", 'amount:', '"\\u0061mount"', "'\\x61mount'", '{"amount":5000}', "{'amount': 5000}"],
    ...['5000', '5', '5e3', '0x1388', '+5000', '5_000', 'NaN', 'None', 'True', 'null', 'undefined', '-Infinity', '...'],
  ],
  commands: [
    ...[
      '$(',
      '`',
      '${',
      "$'",
      '"',
      "'",
      '\\',
      '\\\n',
      '<<E\n',
      '<<-E',
      '<<<',
      '<(',
      '((',
      '{a,b}',
      '{1..9}',
      ';',
      '|',
      '&&',
      '&',
      '\n',
    ],
    ...[
      'if ',
      'then ',
      'fi',
      'for x in ',
      'do ',
      'done',
      'case x in ',
      'esac',
      'f() {',
      '}',
      '(',
      ')',
      '[[ ',
      'rm ',
      '-rf ',
      '/ ',
      '#',
    ],
    ...[
      'a=b ',
      '$a',
      '$@',
      '"$@"',
      'sudo ',
      'xargs ',
      'bash -c ',
      'eval ',
      'echo ',
      '| sh',
      '| base64 -d',
      'printf ',
      'tr a b',
      '2>&1',
      '>|',
    ],
    ...[
      'DROP TABLE ',
      'DELETE FROM ',
      'WHERE ',
      '1=1',
      ' OR ',
      '/*',
      '*/',
      '/*!',
      '--',
      '--1',
      '$$',
      'EXEC(',
      "N'",
      'os.system("',
      'run(["',
      'é',
    ],
  ],
  http: [
    '\r\n',
    '\n',
    '\r\n\r\n',
    'Content-Length: 5\r\n',
    'Transfer-Encoding: chunked\r\n',
    '0\r\n\r\n',
    'Host: a\r\n',
    'GET / HTTP/1.1\r\n',
    'POST ',
    ' HTTP/1.1',
    'Expect: 100-continue\r\n',
    'Connection: close\r\n',
    'Authorization: Bearer x\r\n',
    '\0',
    ' ',
    '%00',
    '?limit=',
    '&cursor=',
    'Upgrade: websocket\r\n',
    'Cookie: a=b\r\n',
    ':',
    'ÿ',
    'Content-Type: application/json\r\n',
    'If-Match: "1"\r\n',
    'Idempotency-Key: k\r\n',
  ],
};

export const KINDS = [
  ...(['json', 'gzip', 'expression', 'pattern', 'schema', 'spans', 'inner', 'commands'] as const),
  ...(['shell', 'sql', 'hook', 'http', 'framing'] as const),
];
export type Kind = (typeof KINDS)[number];

/** Kinds whose inputs are not changed: each is one more spelling of what must not pass. */
const SPELLINGS: Partial<Record<Kind, (random: () => number) => string>> = {
  shell: shellSpelling,
  sql: sqlSpelling,
  hook: shellSpelling,
};

/** Bytes an input may grow to: what makes it larger finds only what is bounded anyway. */
const BYTES_MAX = 64 * 1024;
const CHANGES_MAX = 6;

export function mutated(kind: Kind, corpus: readonly string[], random: () => number): string {
  const spelling = SPELLINGS[kind];
  if (spelling !== undefined) return spelling(random);
  const below = (n: number) => Math.floor(random() * n);
  const one = <T>(list: readonly T[]): T => list[below(list.length)]!;
  let text = one(corpus);
  for (let changes = 1 + below(CHANGES_MAX); changes > 0; changes--) {
    const at = below(text.length + 1);
    const length = Math.min(text.length - at, 1 + below(1 + below(64)));
    const [before, piece, after] = [text.slice(0, at), text.slice(at, at + length), text.slice(at + length)];
    switch (below(8)) {
      case 0:
        text = before + String.fromCharCode(below(below(4) === 0 ? 0x110 : 0x80)) + piece + after;
        break;
      case 1:
        text = before + after;
        break;
      case 2:
        text = before + piece.repeat(1 + below(1 << below(12))) + after;
        break;
      case 3:
        text = before + one(WORDS[kind]!) + piece + after;
        break;
      case 4:
        text = before + one(WORDS[kind]!).repeat(1 + below(1 << below(9))) + after;
        break;
      case 5: {
        const other = one(corpus);
        text = before + other.slice(below(other.length + 1));
        break;
      }
      case 6: {
        const to = below(before.length + 1);
        text = before.slice(0, to) + piece + before.slice(to) + after;
        break;
      }
      default:
        text = text.replaceAll(/\d+/g, (digits) =>
          below(3) === 0 ? one(['0', '1', '999999', '1e9', '18446744073709551616']) : digits,
        );
    }
    if (text.length > BYTES_MAX) text = text.slice(0, BYTES_MAX);
  }
  return text;
}
