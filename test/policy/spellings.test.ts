// The shipped policies on destructive commands against their corpora of spellings: how much of what they name do they
// meet, and how much of what they meet is meant? Both are in policies/README.md. Besides, the forms in which a command
// comes: JSON inside text, lists of words, other letters.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { readPolicyFiles } from '../../src/common/policy-files.ts';
import { RuleSet } from '../../src/policy/engine.ts';
import { mistakesOf } from '../../src/policy/policy-work.ts';
import { assetPath } from '../../src/process/assets.ts';
import { decideOn, event, policy } from './support.ts';

export const shipped = (name: string) => {
  const file = path.join(assetPath('policies'), 'destructive-commands.yaml');
  const { type, conditions, actions } = readPolicyFiles([file]).find((one) => one.policy['name'] === name)!.policy;
  return new RuleSet([policy(type as 'block_action', conditions as object, actions as ['block'])]);
};
const blocks = (rules: RuleSet, args: unknown) =>
  decideOn(rules, event('tool_call', { tool: 'shell', arguments: args })).matches.length > 0;

type Spelling = { text: string; isMeant: boolean };
const corpusOf = (name: string): Spelling[] =>
  readFileSync(assetPath(`test/policy/spellings/${name}.txt`), 'utf8')
    .split('\n')
    .filter((line) => /^[+-] /.test(line))
    .map((line) => ({
      text: line.slice(2).replaceAll(/\\([nt])/g, (_, c: string) => (c === 'n' ? '\n' : '\t')),
      isMeant: line.startsWith('+'),
    }));

const CORPORA: [string, string, (text: string) => unknown][] = [
  ['destructive shell commands', 'destructive-shell', (command) => ({ command })],
  ['destructive SQL', 'destructive-sql', (query) => ({ query })],
];

for (const [name, file, args] of CORPORA)
  t.test(name, async (t) => {
    const rules = shipped(name);
    const corpus = corpusOf(file);
    const judged = corpus.map((one) => ({ ...one, isMet: blocks(rules, args(one.text)) }));
    for (const { text, isMeant, isMet } of judged)
      if (isMet !== isMeant) t.comment(`${isMeant ? 'missed' : 'not meant'}: ${JSON.stringify(text)}`);
    const meant = judged.filter(({ isMeant }) => isMeant);
    const met = judged.filter(({ isMet }) => isMet);
    const right = meant.filter(({ isMet }) => isMet).length;
    const recall = right / meant.length;
    const precision = right / met.length;
    t.comment(
      `${meant.length} meant, ${corpus.length - meant.length} harmless: recall ${recall}, precision ${precision}`,
    );
    t.ok(meant.length >= 150 && corpus.length - meant.length >= 100);
    t.equal(recall, 1);
    t.equal(precision, 1);
  });

t.test('a command is found in every form in which it comes', async (t) => {
  const rules = shipped('destructive shell commands');
  for (const args of [
    'rm -rf /',
    '{"command": "rm -r -f /"}',
    { cmd: ['rm', '-rf', '/'] },
    ['bash', '-lc', 'rm -rf /'],
    { command: 'rm', args: ['-rf', '/'] },
    { command: 'rm', args: '-r -f /' },
    { steps: [{ run: 'ls' }, { run: 'rm -rf /' }] },
    { command: 'ｒｍ -rf /' },
    { command: 'r\u200bm -rf\u00a0/' },
  ])
    t.ok(blocks(rules, args), JSON.stringify(args));
  for (const args of [
    ['ls', 'rm -i', 'x'],
    { command: 'ls', args: ['-rf'] },
    { text: ['rm', 'is', 'a', 'command'] },
    {},
  ])
    t.notOk(blocks(rules, args), JSON.stringify(args));
});

t.test('a match names the entry that was met', async (t) => {
  const shell = [{ command: 'ls' }, { command: 'rm', flags: ['r', 'f'] }];
  const rules = new RuleSet([policy('block_action', { arguments: { shell } })]);
  const { matches } = decideOn(rules, event('tool_call', { arguments: { argv: ['rm', '-fr', 'x'] } }));
  t.same(matches[0]?.detail, { condition: 'arguments', operator: 'shell', path: '/arguments/argv', entry: 1 });
});

t.test('what is beyond the bounds counts as met, and says so', async (t) => {
  const rules = shipped('destructive shell commands');
  for (const command of [
    '$('.repeat(5_000),
    '{rm,ls}'.repeat(50),
    `${'sudo '.repeat(5_000)}rm`,
    'rm;'.repeat(50_000),
  ]) {
    const { matches } = decideOn(rules, event('tool_call', { arguments: { command } }));
    t.equal(matches[0]?.detail.reason, 'budget', command.slice(0, 10));
  }
});

t.test('an operand that is wrong is refused with its place and what to write', async (t) => {
  const refused = (conditions: object) =>
    mistakesOf({ type: 'block_action', conditions, actions: ['block'] })
      .map(({ path, message }) => `${path} ${message}`)
      .join('\n');
  for (const [conditions, sentence] of [
    [{ a: { shell: 'rm' } }, /^\/conditions\/a\/shell must be an object .*did you mean \{"command": "rm"\}/],
    [{ a: { shell: [] } }, /1 to 50 entries/],
    [{ a: { shell: { comand: 'rm' } } }, /did you mean `command`/],
    [{ a: { shell: { command: 'rm', flags: 'r' } } }, /shell\/flags must be a list .*did you mean \["r"\]/],
    [
      { a: { shell: [{ command: 'rm', flags: ['-r'] }] } },
      /shell\/0\/flags\/0 must be without its dashes; did you mean "r"/,
    ],
    [{ a: { shell: { command: 'rm -rf' } } }, /the name of a command alone/],
    [{ a: { shell: { command: 'rm', redirect_to: 'x' } } }, /cannot stand beside `command`/],
    [{ a: { shell: { output_of: 'curl' } } }, /`run_by`/],
    [{ a: { sql: { statement: 'drip' } } }, /must be of drop, truncate/],
    [{ a: { sql: { statement: 'drop', where: 'none' } } }, /for `delete` and `update` alone/],
    [{ a: { sql: { object: 'table' } } }, /must have one of statement/],
  ] as const)
    t.match(refused(conditions), sentence);
});
