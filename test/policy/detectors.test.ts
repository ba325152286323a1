// Detectors: what they find, what they leave alone, that no candidate is missed, and what redaction leaves of a
// payload.

import fc from 'fast-check';
import { RE2JS } from 're2js';
import t from 'tap';
import { DETECTOR_NAMES, type DetectorName } from '../../schemas/closed-sets.ts';
import { loopShares, TooLong } from '../../src/policy/allowance.ts';
import { Budget } from '../../src/policy/budget.ts';
import { DETECTORS } from '../../src/policy/detectors/detectors.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { Decision } from '../../src/policy/judgement.ts';
import { runs, SEED } from '../support/seed.ts';
import { cpuMs, decideOn, event, matches, policy } from './support.ts';

function findings(name: DetectorName, text: string): string[] {
  const found: string[] = [];
  for (const find of DETECTORS[name].finds) {
    for (let span = find(text, 0, new Budget(1e9)); span !== null; span = find(text, span.end, new Budget(1e9))) {
      found.push(text.slice(span.start, span.end));
    }
  }
  return found;
}

// Made up for these tests; card numbers are the networks' published test numbers.
const JWT = `${b64({ alg: 'HS256', typ: 'JWT' })}.${b64({ sub: '1234567890', name: 'A' })}.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c`;
const KEY_BODY = 'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7';

function b64(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** Text, and what is to be found in it. */
const FOUND: Record<DetectorName, [string, ...string[]][]> = {
  email: [
    ['write to jane.doe+x@mail.example.co.uk.', 'jane.doe+x@mail.example.co.uk'],
    ["'o'brien@example.com'", "o'brien@example.com"],
    ['<a@b.co>,c_d@e-f.org;', 'a@b.co', 'c_d@e-f.org'],
    ['x@y@z.com', 'y@z.com'],
    ['me@example.com/path and me@example.com.', 'me@example.com', 'me@example.com'],
    ['an jörg.weiß@straße.de,', 'jörg.weiß@straße.de'],
    ['"Ann Lee"@example.org', '"Ann Lee"@example.org'],
    ['?to=ann%40example.org&x=1', 'ann%40example.org'],
    ['?to=ann%2540example.org', 'ann%2540example.org'],
    ['{"to":"ann\\u0040example.org",}', 'ann\\u0040example.org'],
    ['ann&#64;example.org', 'ann&#64;example.org'],
  ],
  phone: [
    ['+1 415 555 2671', '+1 415 555 2671'],
    ['call +44 20 7946 0958 now', '+44 20 7946 0958'],
    ['tel:+14155552671', '+14155552671'],
    ['(415) 555-2671', '(415) 555-2671'],
    ['415.555 2671', '415.555 2671'],
    ['415-555-2671 or 1-415-555-2671', '415-555-2671', '1-415-555-2671'],
    ['+49 (0)30 123456 2024', '+49 (0)30 123456 2024'],
    ['+(44) 20 7946 0958', '+(44) 20 7946 0958'],
    ['tel 0044 20 7946 0958', '0044 20 7946 0958'],
    ['+43 1 / 58858 0', '+43 1 / 58858 0'],
    ['home_212-555-0147', '212-555-0147'],
    ['+44 20 7946 0958 2026-01-31', '+44 20 7946 0958'],
    ['tel:%2B14155552671', '%2B14155552671'],
    ['?p=%2B44%2020%207946%200958', '%2B44%2020%207946%200958'],
    ['+49 30/12345678', '+49 30/12345678'],
    ['+1 - 415 - 555 - 2671', '+1 - 415 - 555 - 2671'],
    ['+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨', '+٤٤ ٢٠ ٧٩٤٦ ٠٩٥٨'],
  ],
  credit_card: [
    ['4111 1111 1111 1111', '4111 1111 1111 1111'],
    ['card:4111111111111111,', '4111111111111111'],
    ['card_5555555555554444', '5555555555554444'],
    ['3782-822463-10005 is Amex', '3782-822463-10005'],
    ['5555  5555  5555  4444', '5555  5555  5555  4444'],
    ['3714-4963-5398-431', '3714-4963-5398-431'],
    ['amex-371449635398431', '371449635398431'],
    ['pan%3D5555555555554444', '5555555555554444'],
    ['6011111111111117 3530111333300000 30569309025904', '6011111111111117', '3530111333300000', '30569309025904'],
    ...['.', '/', '_', ':', '+', '·', ' - ', ' / ', '   ', '%20'].map((by): [string, string] => {
      const card = ['4111', '1111', '1111', '1111'].join(by);
      return [`card ${card} ok`, card];
    }),
    ['3782.822463.10005', '3782.822463.10005'],
    ['4111111111111111.0', '4111111111111111'],
    ['a,5555555555554444.00,b', '5555555555554444'],
    ['-4111111111111111', '4111111111111111'],
    ['رقم ٤١١١ ١١١١ ١١١١ ١١١١', '٤١١١ ١١١١ ١١١١ ١١١١'],
    ['४१११११११११११११११', '४१११११११११११११११'],
  ],
  iban: [
    ['DE89370400440532013000', 'DE89370400440532013000'],
    ['pay GB29 NWBK 6016 1331 9268 19.', 'GB29 NWBK 6016 1331 9268 19'],
    ['ch9300762011623852957', 'ch9300762011623852957'],
    ['FR14-2004-1010-0505-0001-3M02-606', 'FR14-2004-1010-0505-0001-3M02-606'],
    ['DE89  3704  0044  0532  0130  00', 'DE89  3704  0044  0532  0130  00'],
    ['DE89.3704.0044.0532.0130.00', 'DE89.3704.0044.0532.0130.00'],
    ['DE89/3704/0044/0532/0130/00', 'DE89/3704/0044/0532/0130/00'],
    ['DE89%203704%200044%200532%200130%2000', 'DE89%203704%200044%200532%200130%2000'],
    ['DE89 370400440532013000', 'DE89 370400440532013000'],
    ['IBAN DE 89 37040044 0532013000', 'DE 89 37040044 0532013000'],
    ['NO93 8601.11.17947', 'NO93 8601.11.17947'],
    ['DE٨٩٣٧٠٤٠٠٤٤٠٥٣٢٠١٣٠٠٠', 'DE٨٩٣٧٠٤٠٠٤٤٠٥٣٢٠١٣٠٠٠'],
  ],
  ssn: [
    ['123-45-6789', '123-45-6789'],
    ['SSN: 078 05 1120.', '078 05 1120'],
    ['applicant_078-05-1120', '078-05-1120'],
    ['SSN-078-05-1120', '078-05-1120'],
    ['"ssn": "078051120"', '078051120'],
    ['Social Security No. 078051120', '078051120'],
    ...['.', '/', '_', ' - ', '%20'].map((by): [string, string] => {
      const number = ['078', '05', '1120'].join(by);
      return [`id ${number};`, number];
    }),
    ['٠٧٨-٠٥-١١٢٠', '٠٧٨-٠٥-١١٢٠'],
    ['soc. sec. no. 078051120', '078051120'],
    ['("ssn", "078051120")', '078051120'],
    ['the SSN is 078051120', '078051120'],
    ['ssn%3D078051120', '078051120'],
  ],
  ip_address: [
    ['from 192.168.0.1:8080', '192.168.0.1'],
    ['10.0.0.255, 8.8.8.8.', '10.0.0.255', '8.8.8.8'],
    ['node_198.51.100.7', '198.51.100.7'],
    ['http://[fe80::42]/', 'fe80::42'],
    ['2001:db8::8a2e:370:7334', '2001:db8::8a2e:370:7334'],
    ['[fe80::1ff:fe23:4567:890a%eth0]', 'fe80::1ff:fe23:4567:890a'],
    ['::ffff:192.168.0.1', '192.168.0.1', '::ffff:192.168.0.1'],
    ['2001:0db8:0000:0000:0000:ff00:0042:8329/64', '2001:0db8:0000:0000:0000:ff00:0042:8329'],
  ],
  api_key: [
    [`AKIA${'IOSFODNN7EXAMPLE'}`, 'AKIAIOSFODNN7EXAMPLE'],
    [`token ghp_${'a1B2'.repeat(9)}!`, `ghp_${'a1B2'.repeat(9)}`],
    [`sk-proj-${'Ab3dEf6h'.repeat(3)}`, `sk-proj-${'Ab3dEf6h'.repeat(3)}`],
    [`sk_live_${'4eC39HqLyjWDarjt'}`, 'sk_live_4eC39HqLyjWDarjt'],
    [`xoxb-${'1234567890-abcdefghij'}`, 'xoxb-1234567890-abcdefghij'],
    [`"api_key": "${'9f8a7b6c5d4e3f2a1b0c'}"`, '9f8a7b6c5d4e3f2a1b0c'],
    [`CLIENT_SECRET=${'q9W8e7R6t5Y4u3I2o1P0'}`, 'q9W8e7R6t5Y4u3I2o1P0'],
    [`gth_${'0aB1'.repeat(10)}`, `gth_${'0aB1'.repeat(10)}`],
    [`%3Dglrt-${'aB3d'.repeat(5)}`, `glrt-${'aB3d'.repeat(5)}`],
    [`x\\nhvs.${'Ab3'.repeat(10)}`, `hvs.${'Ab3'.repeat(10)}`],
    [`12345678:AA${'b'.repeat(33)}`, `12345678:AA${'b'.repeat(33)}`],
    [`hooks.slack.com/services/${'T0AB12CDE/B0AB12CDE/'}${'aB3'.repeat(8)}`, `T0AB12CDE/B0AB12CDE/${'aB3'.repeat(8)}`],
    [`AWS_SECRET_ACCESS_KEY=${'a1B2c3D4e5/F6g7H8i9J0'.repeat(2)}`, 'a1B2c3D4e5/F6g7H8i9J0'.repeat(2)],
    [`authorization: bearer ${'x9Y8'.repeat(8)}`, 'x9Y8'.repeat(8)],
    [`run --api-key ${'0a1b'.repeat(8)} now`, '0a1b'.repeat(8)],
    [`AccountKey=${'q1W2e3R4'.repeat(10)}==;Suffix=x`, `${'q1W2e3R4'.repeat(10)}==`],
    ...[
      ['("x-api-key", "', '")'],
      ['<api_key>', '</api_key>'],
      ['<add key="ApiKey" value="', '"/>'],
      ['env["API_KEY"] = "', '"'],
      ['my API key is ', '.'],
      ['| api_key | ', ' |'],
      ['api_key%3D', '&x'],
      ['api_key%22%3A%22', '%22'],
      ['"api_key\\u003d', '"'],
      ['Authorization: Basic ', ''],
      ['Authorization: ', ''],
      ['send it with bearer ', ' to'],
      ['PRIVATE-TOKEN: ', ''],
      ['refresh_token=', '&'],
      ['x-goog-api-key: ', ''],
      ['Ocp-Apim-Subscription-Key: ', ''],
      ['webhook secret: ', ''],
    ].map(([before, behind]): [string, string] => [`${before}${'x9Y8'.repeat(8)}${behind}`, 'x9Y8'.repeat(8)]),
  ],
  jwt: [
    [`Bearer ${JWT}`, JWT],
    [`{"t":"${JWT}"}`, JWT],
    [`t=${JWT.replaceAll('.', '%2E')}&x`, JWT.replaceAll('.', '%2E')],
    ...['{ "alg": "HS256" }', '{\n  "alg": "HS256"\n}', '{\r\n"typ":"JWT"}'].map((header): [string, string] => {
      const token = JWT.replace(/^[^.]+/, Buffer.from(header).toString('base64url'));
      return [`Bearer ${token}`, token];
    }),
  ],
  private_key: [
    [
      `-----BEGIN PRIVATE KEY-----\n${KEY_BODY}\n-----END PRIVATE KEY-----\nrest`,
      `-----BEGIN PRIVATE KEY-----\n${KEY_BODY}\n-----END PRIVATE KEY-----`,
    ],
    [`x -----BEGIN OPENSSH PRIVATE KEY-----\n${KEY_BODY}`, `-----BEGIN OPENSSH PRIVATE KEY-----\n${KEY_BODY}`],
    [`-----BEGIN PRIVATE KEY-----\n${KEY_BODY}\nls -l /tmp`, `-----BEGIN PRIVATE KEY-----\n${KEY_BODY}`],
    [
      `-----BEGIN EC PRIVATE KEY-----\n-----END Y-----\n${KEY_BODY}\n-----END EC PRIVATE KEY-----;`,
      `-----BEGIN EC PRIVATE KEY-----\n-----END Y-----\n${KEY_BODY}\n-----END EC PRIVATE KEY-----`,
    ],
    [`AGE-SECRET-KEY-1${'QZ'.repeat(29)}.`, `AGE-SECRET-KEY-1${'QZ'.repeat(29)}`],
    ...['%20', '+'].map((by): [string, string] => {
      const key = `-----BEGIN${by}RSA${by}PRIVATE${by}KEY-----%0A${'Ab3+'.repeat(9)}%0A-----END${by}RSA${by}PRIVATE${by}KEY-----`;
      return [`k=${key}&x`, key];
    }),
    [
      `PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n${KEY_BODY}\nPrivate-MAC: ${'0a'.repeat(32)}\nend`,
      `PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n${KEY_BODY}\nPrivate-MAC: ${'0a'.repeat(32)}`,
    ],
  ],
};

/** Ordinary text that must raise no alarm. */
const CLEAN: Record<DetectorName, string[]> = {
  email: [
    ...['user@localhost', 'npm i @scope/pkg@1.2.3', 'logo@2x.png', '@handle', 'a @ b.com', 'x@.com', '.@a.b'],
    ...['git@gitlab.com:group/project.git', 'left-pad@1.3.0.tgz', 'golang.org/x/net@v0.17.0-rc.1'],
    ...['mysql://root:pw@db.example.com/x', 'layer = model@head.bias', 'icon@3x.webp'],
  ],
  phone: [
    '4155552671',
    '2026-11-20 17:28',
    '+5',
    '1+12345678901',
    '200 300 4000',
    '192.168.100.1000',
    '12345678901234',
    'ISBN 978-3-16-148410-0',
    '+0200',
    'sum + 4915112345678',
    '+-4111 1111 1111',
    '300-400 5000',
    '00491234567890',
  ],
  credit_card: [
    '4111111111111112',
    '1732123456789',
    '0.4111111111111111',
    'a4111111111111111',
    '123e4567-4111-1111-1111-111111111111',
    '41111111111111111111',
    '0000000000000000',
    '4111 11111111 1111',
    '4111.1111.1111.1111.5',
    '12.4111.1111.1111.1111',
    '4111-1111 1111.1111',
    '4111, 1111, 1111, 1111',
    '4111 | 1111 | 1111 | 1111',
    '4111\n1111\n1111\n1111',
    '4111/1111/1111/1111/2222/3333',
    '4111111111111111.05',
    '0.٤١١١١١١١١١١١١١١١',
  ],
  iban: [
    'DE00370400440532013000',
    'US133000000121212121212',
    'XDE89370400440532013000',
    'DE893704004405320130',
    'de89 3704004405 32013000',
    'in 2024 1234 5678 9012 3456',
    'commit de89370400440532013000abcd',
    'fr76 3000 6000 0112 34zz 8901 89',
  ],
  ssn: [
    '000-12-3456',
    '666-12-3456',
    '900-12-3456',
    '123-00-4567',
    '123-45-0000',
    '123456789',
    '1123-45-6789',
    '2023-12-3456',
    '123-45-6789-1',
    'ticket 078051120',
    '2024/078/05/1120',
    '1.078.05.1120',
    'the second 078051120',
    '078-05.1120',
  ],
  ip_address: [
    '1.2.3',
    '256.1.1.1',
    '1.2.3.4.5',
    'v1.2.3.4',
    '01.2.3.4',
    'std::vector',
    'a[1::2]',
    'x::y',
    '12:34:56',
    '::',
    'Ace::bad',
    '2026-11-20T17:28:00',
    'Firefox/115.0.0.1',
    'AssemblyVersion=4.0.0.0',
    'release 10.4.0.2',
    '127.0.0.1:8080 and 0.0.0.0',
    'rows[::250]',
    'rows[100::3]',
  ],
  api_key: [
    'sk-learn-is-a-machine-learning-library',
    'api_key = os.environ["OPENAI_API_KEY"]',
    'task-1234567890123456789012',
    'akiaiosfodnn7example',
    'your access_token: see the documentation',
    'git switch sk-add-retry-to-uploader-2026',
    `${'pk'}_live_${'aB3d'.repeat(6)}`,
    'client_secret: secret/data/team7/app1/db2',
    '$ANTHROPIC_API_KEY_2',
    'api_key: <paste yours here, 32 characters>',
    'the access token is described in section-4-of-2-and-7-b',
    'next_page_token: CAUQAA1b2C3d4E5f6G7h8',
    'api key, private key and account number are different things',
    'bearer of bad news 20260101',
  ],
  jwt: ['eyJhbGciOiJIUzI1NiJ9', 'eyJub3QiOjF9.eyJhIjoxfQ.x', 'eyJ.eyJ.eyJ', 'monkeyJam.is.fun'],
  private_key: ['-----BEGIN PUBLIC KEY-----', 'my PRIVATE KEY is safe', '-----BEGIN CERTIFICATE-----'],
};

t.test('each detector finds what it is named for, and nothing around it', async (t) => {
  for (const name of DETECTOR_NAMES) {
    for (const [text, ...expected] of FOUND[name]) t.strictSame(findings(name, text), expected, `${name}: ${text}`);
  }
});

t.test('ordinary text, numbers and identifiers raise no alarm', async (t) => {
  for (const name of DETECTOR_NAMES)
    for (const text of CLEAN[name]) t.strictSame(findings(name, text), [], `${name}: ${text}`);
});

t.test('whatever a detector finds, its candidate pattern finds first', async (t) => {
  const samples = DETECTOR_NAMES.flatMap((name) => FOUND[name].map(([text]) => text));
  const pieces = fc.array(
    fc.oneof(
      fc.constantFrom(...samples),
      fc.stringMatching(/^[ -~]{0,6}$/),
      fc.constantFrom('-', ' ', '.', ':', '4111', '00'),
    ),
    { maxLength: 6 },
  );
  const candidates = Object.fromEntries(DETECTOR_NAMES.map((name) => [name, RE2JS.compile(DETECTORS[name].candidate)]));
  fc.assert(
    fc.property(pieces, (parts) => {
      const text = parts.join('');
      return DETECTOR_NAMES.every((name) => findings(name, text).length === 0 || candidates[name]!.test(text));
    }),
    { seed: SEED, numRuns: runs(2000), examples: [[['+', '-', '4111 1111 1111 1111']]] },
  );
  for (const name of DETECTOR_NAMES) for (const [text] of FOUND[name]) t.ok(candidates[name]!.test(text), text);
});

t.test('a secret is found however it is written or hidden', async (t) => {
  const rules = new RuleSet([policy('data_filter', { detectors: ['email', 'iban'], patterns: ['s3cret'] })]);
  const padding = 'lorem ipsum '.repeat(6_000);
  const escaped = (text: string) =>
    [...text].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  let deep = '"s3cret"';
  for (let i = 0; i < 60; i++) deep = i % 2 === 0 ? `[${deep}]` : `{"k":${deep}}`;
  const hidden = [
    `{"a":"${escaped('me@example.com')}"}`,
    `{"${escaped('s3cret')}":1}`,
    `{"me@example.com":null}`,
    `{"a":"${padding}me@example.com"}`,
    `{"a":["${padding}",{"b":"s3cret${padding}"}]}`,
    `{"a":${deep}}`,
    '{"__proto__":{"x":"s3cret"}}',
    '{"constructor":"s3cret"}',
    '{"a":"de89 3704 0044 0532 0130 00"}',
    '{"a":"\\ud83d s3cret"}',
    '{"":"s3cret"}',
    '{"a":"s3cre","b":"s3cret"}',
  ];
  for (const text of hidden) t.equal(decideOn(rules, event('custom', text)).outcome, 'blocked', text.slice(0, 60));
  t.equal(
    decideOn(rules, event('custom', { a: 's3cre', b: 't', c: ['me@', 'example.com'] })).outcome,
    'allowed',
    'strings are apart',
  );
});

// -- redaction

function redacted(conditions: object, text: string): string {
  const rules = new RuleSet([policy('data_filter', { ...conditions, redact: true }, ['log'])]);
  return decideOn(rules, event('custom', text)).redacted?.payloadText ?? text;
}

t.test('redaction replaces matches and keeps every other token as it was sent', async (t) => {
  const cases: [object, string, string][] = [
    [
      { detectors: ['email'] },
      '{"z": 1e400, "a":"to me@example.com!", "n":1.0}',
      '{"z": 1e400, "a":"to [redacted:email]!", "n":1.0}',
    ],
    [
      { patterns: ['b+'] },
      '{"a":"\\u0061bb\\n\\/bc\\u0062", "b":12345678901234567890}',
      '{"a":"\\u0061[redacted:pattern]\\n\\/[redacted:pattern]c[redacted:pattern]", "[redacted:pattern]":12345678901234567890}',
    ],
    [
      { detectors: ['email'] },
      '{"a@b.co":1,"c@d.co":{"x":"e@f.co"}}',
      '{"[redacted:email]":1,"[redacted:email]~2":{"x":"[redacted:email]"}}',
    ],
    [
      { detectors: ['email'], patterns: ['me@ex[a-z]*', 'com is'] },
      '{"a":"me@example.com is me"}',
      '{"a":"[redacted:email] me"}',
    ],
    [
      { detectors: ['email'], fields: ['a.b'] },
      '{"a":[{"b":"x@y.io"},{"c":"x@y.io"}],"b":"x@y.io"}',
      '{"a":[{"b":"[redacted:email]"},{"c":"x@y.io"}],"b":"x@y.io"}',
    ],
    // Text inside text: its escapes stay as they were sent, and it still parses.
    [
      { detectors: ['email'] },
      '{"arguments":"{\\"csv\\":\\"mail\\\\nzoe@example.com\\",\\"b\\":[1, 2]}"}',
      '{"arguments":"{\\"csv\\":\\"mail\\\\n[redacted:email]\\",\\"b\\":[1, 2]}"}',
    ],
    [
      { detectors: ['credit_card'] },
      '{"a":"{\\"card\\":4111111111111111,\\"n\\":1.0}"}',
      '{"a":"{\\"card\\":\\"[redacted:credit_card]\\",\\"n\\":1.0}"}',
    ],
    [
      { patterns: ['x.*y'] },
      '{"a":"[\\"1x2\\",3,\\"4y5\\"]"}',
      '{"a":"[\\"1[redacted:pattern]\\",\\"[redacted:pattern]\\",\\"[redacted:pattern]5\\"]"}',
    ],
    [
      { detectors: ['email'], fields: ['arguments.to'] },
      '{"arguments":"{\\"to\\":\\"a@b.co\\",\\"cc\\":\\"a@b.co\\"}"}',
      '{"arguments":"{\\"to\\":\\"[redacted:email]\\",\\"cc\\":\\"a@b.co\\"}"}',
    ],
    // Folded: what was sent is replaced.
    [
      { patterns: ['secret'] },
      '{"a":"my se\u200bcret and ｓecret"}',
      '{"a":"my [redacted:pattern] and [redacted:pattern]"}',
    ],
    // By what a value is called, and over the members of one array or object.
    [
      { detectors: ['api_key'] },
      '{"api_key":"8f14e45fceea167a5a36dedd4bea2543","env":[{"value":"8f14e45fceea167a5a36dedd4bea2543","name":"API_KEY"}]}',
      '{"api_key":"[redacted:api_key]","env":[{"value":"[redacted:api_key]","name":"API_KEY"}]}',
    ],
    [
      { detectors: ['api_key'] },
      '[{"header":"x-api-key","value":"8f14e45fceea167a5a36dedd4bea2543"},{"Name":"API_KEY_PROD","Value":"8f14e45fceea167a5a36dedd4bea2543"},{"k":"ａｐｉ＿ｋｅｙ","v":"8f14e45fceea167a5a36\u200bdedd4bea2543"}]',
      '[{"header":"x-api-key","value":"[redacted:api_key]"},{"Name":"API_KEY_PROD","Value":"[redacted:api_key]"},{"k":"ａｐｉ＿ｋｅｙ","v":"[redacted:api_key]"}]',
    ],
    [
      { detectors: ['api_key'] },
      '{"headers":[["x-api-key","8f14e45fceea167a5a36dedd4bea2543"],["id","8f14e45fceea167a5a36dedd4bea2543"]],"argv":["run","--api-key","8f14e45fceea167a5a36dedd4bea2543","8f14e45fceea167a5a36dedd4bea2543"]}',
      '{"headers":[["x-api-key","[redacted:api_key]"],["id","8f14e45fceea167a5a36dedd4bea2543"]],"argv":["run","--api-key","[redacted:api_key]","8f14e45fceea167a5a36dedd4bea2543"]}',
    ],
    [
      { detectors: ['ssn'] },
      '{"ssn":"078051120","a":[{"name":"Social Security Number","value":"078051120"}],"id":"078051120"}',
      '{"ssn":"[redacted:ssn]","a":[{"name":"Social Security Number","value":"[redacted:ssn]"}],"id":"078051120"}',
    ],
    [
      { detectors: ['api_key'] },
      '{"Authorization":"Bearer 8f14e45fceea167a5a36dedd4bea2543","id":"8f14e45fceea167a5a36dedd4bea2543"}',
      '{"Authorization":"Bearer [redacted:api_key]","id":"8f14e45fceea167a5a36dedd4bea2543"}',
    ],
    [
      { detectors: ['private_key'] },
      '{"lines":["-----BEGIN RSA PRIVATE KEY-----","MIIEpAIBAAKCAQEAsecret","-----END RSA PRIVATE KEY-----","after"]}',
      '{"lines":["[redacted:private_key]","[redacted:private_key]","[redacted:private_key]","after"]}',
    ],
    [
      { detectors: ['private_key'] },
      '{"head":"-----BEGIN PRIVATE KEY-----","body":"MIIEvQIBADANBgkqhkiG9w0BAQ","tail":"-----END PRIVATE KEY-----","n":1}',
      '{"head":"[redacted:private_key]","body":"[redacted:private_key]","tail":"[redacted:private_key]","n":1}',
    ],
    [{ patterns: ['x'], fields: ['a.1'] }, '{"a":["x","x"]}', '{"a":["x","[redacted:pattern]"]}'],
    [{ patterns: ['😀+'] }, '{"a":"a😀😀b\\ud83d\\ude00"}', '{"a":"a[redacted:pattern]b[redacted:pattern]"}'],
    [{ patterns: ['^s.*t$'] }, '{"a":"secret","b":"secrets"}', '{"a":"[redacted:pattern]","b":"secrets"}'],
    [{ patterns: ['a*'] }, '{"x":"baab"}', '{"x":"b[redacted:pattern]b"}'],
    [
      { detectors: ['private_key'] },
      '{"k":"-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----\\n"}',
      '{"k":"[redacted:private_key]\\n"}',
    ],
  ];
  for (const [conditions, text, expected] of cases) t.equal(redacted(conditions, text), expected, text);
});

t.test('whole numbers are looked at by their digits', async (t) => {
  const found = (detectors: string[], payload: string) =>
    matches('data_filter', { detectors }, event('custom', payload));
  for (const payload of [
    '{"card":4111111111111111}',
    '{"a":[[4111111111111111]]}',
    '{"amex":378282246310005}',
    '{"long":4000000000000000006}',
    '{"card":-4111111111111111}',
    '{"card":4111111111111111.0}',
    '{"card":4.111111111111111e15}',
    '{"amex":378282246310005.00}',
  ])
    t.ok(found(['credit_card'], payload), payload);
  for (const payload of [
    '{"card":4111111111111112}',
    '{"card":4111111111111111.5}',
    '{"card":-4111111111111112}',
    '{"card":4.111111111111112E15}',
    '{"card":41111111111111110000000}',
    '{"at":1732642800000}',
    '{"n":411111111111}',
  ])
    t.notOk(found(['credit_card'], payload), payload);
  for (const payload of [
    '{"ssn":123456789}',
    '{"SSN":[123456789]}',
    '{"social_security_number":123456789}',
    '{"user_ssn":123456789}',
  ])
    t.ok(found(['ssn'], payload), payload);
  for (const payload of [
    '{"id":123456789}',
    '{"ssn":666456789}',
    '{"ssn":12345678}',
    '{"assnet":123456789}',
    '{"ssn":{"id":123456789}}',
  ])
    t.notOk(found(['ssn'], payload), payload);
  t.notOk(found(['email', 'phone', 'api_key'], '{"card":4111111111111111}'), 'others look at text');
  const both = { detectors: ['credit_card', 'ssn'] };
  t.equal(
    redacted(both, '{"a": 4111111111111111 ,"ssn":[123456789, 1],"b":4111111111111112,"c":1.50}'),
    '{"a": "[redacted:credit_card]" ,"ssn":["[redacted:ssn]", 1],"b":4111111111111112,"c":1.50}',
  );
  t.equal(
    redacted(both, '[-4111111111111111, 4111111111111111.0,4.111111111111111E+15,378282246310005.00,4e15,-1,true]'),
    '["[redacted:credit_card]", "[redacted:credit_card]","[redacted:credit_card]","[redacted:credit_card]",4e15,-1,true]',
  );
  t.equal(
    redacted({ ...both, fields: ['b'] }, '{"a":4111111111111111,"b":[4111111111111111]}'),
    '{"a":4111111111111111,"b":["[redacted:credit_card]"]}',
  );
});

t.test("a trace's id is looked at, and redacted to a token", async (t) => {
  const secret = 'ticket-of-jay@example.com';
  const judged = (conditions: object, { traceKey = 'k', payload = {} } = {}) => {
    const rules = new RuleSet([policy('data_filter', { redact: true, ...conditions }, ['log'])], { traceKey });
    return decideOn(rules, event('custom', payload, { trace_id: secret }));
  };
  const tokenOf = ({ redacted }: Decision) => redacted?.traceId;
  const whole = judged({ detectors: ['email'] });
  t.same(whole.matches[0]!.detail, { detector: 'email', field: 'trace_id' });
  const token = tokenOf(whole);
  t.match(token, /^redacted-[0-9a-f]{32}$/);
  const other = judged({ patterns: ['jay'], fields: ['trace_id'] }, { payload: { a: 'jay' } });
  t.equal(tokenOf(other), token, 'the same id has the same token, whatever found it');
  t.not(tokenOf(judged({ detectors: ['email'] }, { traceKey: 'l' })), token, 'but not of another account');
  const beside = new RuleSet([policy('data_filter', { redact: true, detectors: ['email'] }, ['log'])]);
  t.equal(tokenOf(decideOn(beside, event('custom', { a: secret }, { trace_id: 't-1' }))), 't-1');
  t.equal(other.redacted?.payloadText, '{"a":"jay"}', '`fields` is what is looked at');
  t.same(judged({ detectors: ['email'], fields: ['text'] }).matches, [], 'and nothing else');
});

t.test('keys that redaction makes equal are kept apart in linear time', async (t) => {
  const keyed = (n: number) => `{${Array.from({ length: n }, (_, i) => `"a${i}@example.com":${i}`).join()}}`;
  const ms = (n: number) => cpuMs(3, () => redacted({ detectors: ['email'] }, keyed(n)));
  const names = Object.keys(JSON.parse(redacted({ detectors: ['email'] }, keyed(3_000))));
  t.same(names.slice(0, 3), ['[redacted:email]', '[redacted:email]~2', '[redacted:email]~3']);
  t.equal(names.length, 3_000, 'none is lost');
  t.same(
    redacted({ detectors: ['email'] }, '{"a@b.co":1,"[redacted:email]~2":2,"c@d.co":3,"e@f.co":4}'),
    '{"[redacted:email]":1,"[redacted:email]~2":2,"[redacted:email]~3":3,"[redacted:email]~4":4}',
    'beside what looks like one of them',
  );
  const [many, few] = [ms(32_000), ms(1_000)];
  // Linear work makes it 32, and quadratic work 1,024: what caches and the collector add lies well between.
  t.ok(many < 200 * few, `1,000 keys take ${few.toFixed(1)} ms, 32,000 take ${many.toFixed(1)}`);
});

t.test('what is not matched comes through any redaction byte for byte', async (t) => {
  const token = fc.oneof(
    fc.constantFrom(
      '1e400',
      '-0.0',
      '12345678901234567890',
      'true',
      'null',
      '[]',
      '{}',
      '"\\u00e9\\"\\\\"',
      '"plain"',
      '"a\\/b"',
    ),
    fc.string({ unit: 'binary', maxLength: 8 }).map((text) => JSON.stringify(text)),
    fc.constant('"S@S.SS"'),
  );
  const json = fc.letrec<{ json: string }>((tie) => ({
    json: fc.oneof(
      { depthSize: 'small', maxDepth: 4 },
      token,
      fc.array(tie('json'), { maxLength: 4 }).map((items) => `[ ${items.join(' ,')}]`),
      fc
        .array(tie('json'), { maxLength: 4 })
        .map((items) => `{${items.map((item, i) => `"k${i}" : ${item}`).join(',')} }`),
    ),
  })).json;
  fc.assert(
    fc.property(fc.array(json, { minLength: 1, maxLength: 4 }), (items) => {
      const text = `{${items.map((item, i) => `"m${i}":${item}`).join()}}`;
      const expected = text.replaceAll('"S@S.SS"', '"[redacted:email]"');
      // Random text may hold an address of its own; then only soundness is asked for.
      const result = redacted({ detectors: ['email'] }, text);
      JSON.parse(result);
      return result === expected || JSON.stringify(items).replaceAll('S@S.SS', '').includes('@');
    }),
    { seed: SEED, numRuns: runs(1500) },
  );
  t.pass();
});

t.test('several redactions make one copy', async (t) => {
  const rules = new RuleSet([
    policy('data_filter', { detectors: ['email'], redact: true }, ['log']),
    policy('data_filter', { patterns: ['card'], redact: true }, ['alert']),
    policy('data_filter', { patterns: ['keep'] }, ['log']),
  ]);
  const text = '{"a":"card of me@example.com","b":"keep"}';
  const { redacted, outcome, matches } = decideOn(rules, event('custom', text));
  t.equal(outcome, 'allowed');
  t.equal(matches.length, 3);
  t.equal(redacted?.payloadText, '{"a":"[redacted:pattern] of [redacted:email]","b":"keep"}');
});

t.test('what takes long to redact is not done on the loop that answers', async (t) => {
  const rules = new RuleSet([policy('data_filter', { patterns: ['(a+)+$|'], redact: true }, ['log'])]);
  const view = (length: number) => event('custom', { t: `${'a'.repeat(length)}!` });
  t.ok(judge(rules, view(100), loopShares().begin('acc', 0)).redacted);
  t.throws(() => judge(rules, view(30_000), loopShares().begin('acc', 0)), TooLong);
  t.ok(judge(rules, view(30_000)).redacted, 'elsewhere it is');
});

t.test('where places cannot be found in time the rest is replaced whole', async (t) => {
  const text = JSON.stringify({ a: `x${'ab'.repeat(100_000)}`, b: 'left', c: 1.5 });
  const copy = redacted({ patterns: ['[ab](?:.*c)?'] }, text);
  t.strictSame(JSON.parse(copy), {
    '[redacted:pattern]': '[redacted:pattern]',
    '[redacted:pattern]~2': '[redacted:pattern]',
    '[redacted:pattern]~3': 1.5,
  });
});

t.test('no text makes detectors cost more than 50 ms, to judge or to redact', async (t) => {
  const size = 256 * 1024;
  const seeds = [
    '1',
    '4111 ',
    '+1 ',
    '+12 345 678 901 234 5 ',
    '1.1.1.',
    '999.1.1.1 ',
    'a@',
    'a@1.1.1.1.1.1.1.1.1.1 ',
    '@',
    'a:',
    'abcd:',
    'eyJ',
    'eyJ.',
    'eyJhbGciOiJhbGci.eyJ.',
    'sk-',
    'api_key=',
    'api_key=aaaaaaaaaaaaaaaaaaaaaaa ',
    '-----BEGIN PRIVATE KEY-----',
    '666-11-2222 ',
    'DE89 3704 0044 0532 0130 01 ',
    '4111-1111-1111-1112 ',
    'AKIA',
    'a@b.co ',
    '٤',
    '٤١١١ ١١١١ ١١١١ ١١١٢ ',
    '4111.',
    'de89 3704.0044 0532 0130 00 01 ',
    'ewog',
    'bearer aaaaaaaaaaaaaaaaaaaaaaa ',
  ];
  const rules = new RuleSet([policy('data_filter', { detectors: [...DETECTOR_NAMES], redact: true })]);
  let [worst, worstOf] = [0, ''];
  for (const part of seeds) {
    const view = event('custom', { t: part.repeat(size / part.length) });
    const judged = cpuMs(3, () => judge(rules, view));
    if (judged > worst) [worst, worstOf] = [judged, part];
  }
  t.ok(worst < 50, `worst ${worst.toFixed(1)} ms: ${worstOf}`);
  t.comment(`worst ${worst.toFixed(1)} ms (${worstOf})`);
});
