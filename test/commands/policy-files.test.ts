// Files of declared policies: what YAML and JSON hold comes out as it stands, to the digit; what the service could not
// take is refused with its place; and what is pulled reads as it was.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import type { Policy } from '../../schemas/policy.ts';
import { exactJson, parseExact } from '../../src/common/exact-json.ts';
import { type FilePolicy, PolicyFileError, readPolicyFiles, textOfPolicies } from '../../src/common/policy-files.ts';
import { policy } from '../policy/support.ts';
import { runs, SEED } from '../support/seed.ts';

const folder = t.testdir({});

function fileOf(name: string, content: string | Buffer): string {
  const file = path.join(folder, name);
  writeFileSync(file, content);
  return file;
}

/** The message of the refusal, without the folder. */
function refusalOf(t: Test, content: string | Buffer, name = 'policies.yaml'): string {
  try {
    readPolicyFiles([fileOf(name, content)]);
  } catch (error) {
    if (!(error instanceof PolicyFileError)) throw error;
    return error.message.replaceAll(`${folder}/`, '');
  }
  t.fail('it was taken', { content });
  return '';
}

t.test('documents and lists of policies, in YAML and JSON, to the digit', async (t) => {
  const yaml = fileOf(
    'a.yaml',
    `# why it is there
name: one
conditions:
  tool: &tools [a, b]
  other: *tools
  payload.amount: {gt: 653247040368672769, lt: 1e400, eq: "007", ne: !!str 0755}
---
- name: two
  conditions: {patterns: ['(?i)x'], yes: no}
- {name: three}
---
`,
  );
  const json = fileOf('b.json', '[{"name": "four", "conditions": {"n": 12345678901234567890}}, {"name": "five"}]');
  const read = readPolicyFiles([yaml, json]);
  t.same(
    read.map(({ place, policy }) => [place.replace(`${folder}/`, ''), policy['name']]),
    [
      ['a.yaml:2', 'one'],
      ['a.yaml:8', 'two'],
      ['a.yaml:10', 'three'],
      ['b.json:1', 'four'],
      ['b.json:1', 'five'],
    ],
  );
  t.equal(
    exactJson(read[0]!.policy['conditions']),
    '{"tool":["a","b"],"other":["a","b"],"payload.amount":{"gt":653247040368672769,"lt":1e400,"eq":"007","ne":"0755"}}',
  );
  t.same(read[1]!.policy['conditions'], { patterns: ['(?i)x'], yes: 'no' }, 'words are text');
  t.equal(exactJson(read[3]!.policy['conditions']), '{"n":12345678901234567890}');
  t.same(readPolicyFiles([fileOf('empty.yaml', '# nothing\n')]), []);
  const plain =
    'name: a\nconditions: {a: no, b: 2026-01-02, c: 12:30:45, d: 1_000, e: null, f: "", g: 1.0, h: -0, i: 0o8, "<<": x}';
  const [{ policy: told }] = readPolicyFiles([fileOf('plain.yaml', `%YAML 1.1\n---\n${plain}\n`)]) as [FilePolicy];
  t.equal(
    exactJson(told['conditions']),
    '{"a":"no","b":"2026-01-02","c":"12:30:45","d":"1_000","e":null,"f":"","g":1,"h":0,"i":"0o8","<<":"x"}',
    'what is no number, and no word of JSON, is text',
  );
});

t.test('what YAML takes for another value than it seems to be is refused with its place', async (t) => {
  const numbers = ['01234', '0755', '0o14', '0x1F', '+5', '.5', '5.', '-01', '00', '+.5e3', '.inf', '-.Inf', '.nan'];
  for (const text of numbers)
    for (const [file, column] of [
      [`name: a\nconditions:\n  payload.zip: ${text}\n`, '3:16'],
      [`name: a\nconditions: {payload.zip: [x, ${text}]}\n`, '2:31'],
      [`name: a\nconditions: {"payload.zip": ${text}}\n`, '2:29'],
      [`name: a\nconditions:\n  payload.zip: &zip ${text}\n`, '3:21'],
    ])
      t.equal(
        refusalOf(t, file!),
        `policies.yaml:${column}: ${text} is no number of JSON: write it in quotes, or as JSON writes numbers`,
      );
  for (const [text, instead] of [
    ...[
      ['~', 'null'],
      ['Null', 'null'],
      ['NULL', 'null'],
      ['True', 'true'],
      ['TRUE', 'true'],
      ['FALSE', 'false'],
    ],
  ] as const)
    t.equal(
      refusalOf(t, `name: a\nconditions: {x: ${text}}\n`),
      `policies.yaml:2:17: ${text} is no value of JSON: write ${instead}, or write it in quotes`,
    );
  const nothing = (key: string) =>
    new RegExp(`^policies.yaml:\\d+:\\d+: "${key}" has no value: write what it is, or null$`);
  for (const [file, sentence] of [
    ['name: a\nconditions:\n  tool:\n  payload.amount: {gt: 10}\n', nothing('tool')],
    ['name: a\nconditions:\n  tool: # nothing yet\n  payload.amount: {gt: 10}\n', nothing('tool')],
    ['name: a\nconditions: {tool: , payload.amount: {gt: 10}}\n', nothing('tool')],
    ['name: a\nconditions: {tool, payload.amount: {gt: 10}}\n', nothing('tool')],
    ['{"name": "a", "conditions": {"tool": }}', nothing('tool')],
    ['name: a\nconditions: {tool: &x , other: *x}\n', nothing('tool')],
    ['name: a\nactions:\n', nothing('actions')],
    ['name: a\nconditions:\n', nothing('conditions')],
    ['name:\ntype: block_action\n', nothing('name')],
    ['name: a\nactions:\n  - block\n  -\n', /^policies.yaml:4:4: an item has no value: write it, or null$/],
    ['name: a\nconditions: {: x}\n', /^policies.yaml:2:14: a key must stand before the colon$/],
    [
      '- &a {name: one, actions: [log]}\n- {<<: *a, name: two}\n',
      /^policies.yaml:2:4: merge keys \(<<\) are not taken/,
    ],
    ['name: a\nconditions:\n  <<: {tool: x}\n', /^policies.yaml:3:3: merge keys \(<<\) are not taken/],
    ['name: a\nconditions: {x: !!binary aGk=}\n', /^policies.yaml:2:\d+: tags are not taken, but !!str: .*binary$/],
    ['name: a\nconditions: {x: !!timestamp 2026-01-01}\n', /^policies.yaml:2:\d+: tags are not taken, but !!str/],
    ['name: a\nconditions: {x: !!int 5}\n', /^policies.yaml:2:\d+: (tags are not taken|.*int)/],
    ['name: a\nconditions: {x: !!float 5}\n', /^policies.yaml:2:\d+: tags are not taken, but !!str/],
    ['name: a\nconditions: !!set {x, y}\n', /^policies.yaml:2:\d+: tags are not taken, but !!str/],
    ['name: a\nconditions: !!omap [x: 1]\n', /^policies.yaml:2:\d+: tags are not taken, but !!str/],
    [`name: a\nconditions: ${'['.repeat(5_000)}${']'.repeat(5_000)}\n`, /^policies.yaml(:\d+)*: it is nested deeper/],
  ] as [string, RegExp][])
    t.match(refusalOf(t, file), sentence, file.slice(0, 60));
});

t.test('what the service could not take is refused with its place', async (t) => {
  const bomb = Array.from({ length: 9 }, (_, i) => {
    const inner = i === 0 ? 'x' : `*a${i - 1}`;
    return `a${i}: &a${i} [${Array(9).fill(inner).join(', ')}]`;
  });
  const rows: [string | Buffer, RegExp][] = [
    [`name: z\n${bomb.join('\n')}`, /^policies.yaml:1: anchors are repeated more than 100 times$/],
    ['name: a\nconditions: &c\n  x: *c\n', /^policies.yaml:1: it is nested deeper than 64 levels$/],
    ['name: a\nname: b\n', /^policies.yaml:2:1: Map keys must be unique$/],
    ['{"name": "a", "conditions": {"x": 1, "x": 2}}', /^policies.yaml:1:\d+: Map keys must be unique$/],
    ['name: a\n---\nname: b\n---\n- name: a\n', /^policies.yaml:5: "a" is declared at policies.yaml:1, too$/],
    ['name: a\nconditions: {x: !mine 1}\n', /^policies.yaml:2:\d+: Unresolved tag: !mine$/],
    ['name: a\nconditions: {? [x] : 1}\n', /^policies.yaml:2:\d+: With stringKeys, all keys must be strings$/],
    ['name: a\nconditions: {x: *none}\n', /^policies.yaml:1: Unresolved alias .*: none$/],
    ['name: a\nconditions: [', /^policies.yaml:\d+:\d+: /],
    ['just text', /^policies.yaml:1: a policy with a `name` must stand here$/],
    ['- name: a\n- type: block_action\n', /^policies.yaml:2: a policy with a `name` must stand here$/],
    ['name: 5\n', /^policies.yaml:1: a policy with a `name` must stand here$/],
    [Buffer.from([0xff, 0xfe, 0x41]), /^policies.yaml is not UTF-8$/],
    [`name: a\ndescription: ${'x'.repeat(1_048_576)}`, /^policies.yaml has more than 1048576 bytes$/],
  ];
  for (const [content, sentence] of rows) t.match(refusalOf(t, content), sentence);
  t.throws(() => readPolicyFiles([path.join(folder, 'none.yaml')]), /^cannot read .*none.yaml \(ENOENT\)$/);
  t.throws(() => readPolicyFiles([folder]), /^cannot read .* \(EISDIR\)$/);
});

t.test('what is pulled reads as it was', async (t) => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 30 }),
    fc.constantFrom(
      'yes',
      '~',
      'null',
      '1e3',
      '0x1f',
      '- a',
      'a: b',
      '#x',
      '*a',
      '&a',
      ' x ',
      'a\n b\n\n',
      "it's",
      '|',
    ),
  );
  const scalar = fc.oneof(
    text,
    fc.constantFrom(null, true, 0, -1, 1.5, 1e21),
    fc.constantFrom('653247040368672769', '1e400', '-0.10000000000000000001').map(parseExact),
  );
  const value = fc.oneof(scalar, fc.array(scalar, { maxLength: 3 }), fc.dictionary(text, scalar, { maxKeys: 3 }));
  const made = fc
    .record({ name: text, conditions: fc.dictionary(text, value, { maxKeys: 4 }), description: fc.option(text) })
    .map(({ name, conditions, description }): Policy => {
      const rest = { name, severity: 'high' as const, ...(description === null ? {} : { description }) };
      return policy('block_action', conditions, ['block', 'log'], { ...rest, owner: 'x', applied_revision: 1 });
    });
  fc.assert(
    fc.property(fc.uniqueArray(made, { maxLength: 3, selector: ({ name }) => name }), (policies) => {
      const read = readPolicyFiles([fileOf('pulled.yaml', textOfPolicies(policies, new Map()))]);
      const declared = policies.map(({ name, description, type, conditions, actions, severity }) => {
        return { name, ...(description === undefined ? {} : { description }), type, conditions, actions, severity };
      });
      t.equal(exactJson(read.map(({ policy: one }) => one)), exactJson(declared));
    }),
    { seed: SEED, numRuns: runs(500) },
  );
});
