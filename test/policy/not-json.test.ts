// Text that begins like JSON, written in every way that some reader takes and some does not (attack T2): a policy whose
// path, operator, filter or redaction leads into it judges what it holds, or counts as met because no one can tell.
// JavaScript and Python are asked themselves what they read.
import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import t from 'tap';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import { runs, SEED } from '../support/seed.ts';
import { isMoreByJavaScript, SPELLINGS } from './json-spellings.ts';
import { decideOn, event, policy } from './support.ts';

/** Prose, code and logs: nothing of JSON is in them. */
const PROSE = [
  '[Note] The amount is 5000.',
  '[1] Smith, amount 5000',
  '[12:30:01] amount 5000',
  '[INFO] done [ok]',
  '[2024-01-01] amount=5000 [end]',
  '[[Main page]] says amount',
  '{name}, your amount is {amount}',
  '{{ amount }} and {% if x %}',
  '{ int amount = 5000; }',
  '"Amount," he said, "is 5000"',
  "'Tis the amount",
  '/usr/bin/amount',
  '`amount` is 5000',
  '```sh\namount 5000\n```',
  '(amount, 5000)',
  '{\n[redacted:email], 5000',
  '# Amount\n\n[1] is 5000',
  '{\\bf amount} 5000',
  '[ "$amount" = "5000" ] && exit 1',
  '[ "$amount" ] && echo 5000',
  '[[ "$amount" == 5000 ]] || exit',
  '{ "$amount" 5000; }',
  '"$HOME/amount" 5000',
  '- amount: 5000',
  '[/usr/bin/amount, 5000]',
  '[/amount] 5000',
  '[+] amount, 5000',
  '[!] amount 5000',
  '[.amount, 5000]',
  '[',
  '{',
  '"',
];

const AMOUNT = '"amount":5000';

t.test('a path leads into it', async (t) => {
  const rules = new RuleSet([policy('block_action', { 'payload.arguments.amount': { gt: 1000 } })]);
  const judged = (text: string) => decideOn(rules, event('tool_call', { tool: 'pay', arguments: text }));
  for (const [name, spell, isRead] of SPELLINGS) {
    const { outcome, matches } = judged(spell(AMOUNT));
    t.equal(outcome, 'blocked', name);
    const { path, reason } = matches[0]!.detail as { path: string; reason?: string };
    t.equal(reason, isRead ? undefined : 'not_json', `${name}: ${reason}`);
    if (!isRead) t.equal(path, '/arguments', name);
    const harmless = judged(spell('"amount":5'));
    t.equal(harmless.outcome, isRead ? 'allowed' : 'blocked', `${name} with 5`);
  }
  for (const text of PROSE) t.equal(judged(text).outcome, 'allowed', text);
});

t.test('every operator leads into it, and what is asked of it being there', async (t) => {
  const unreadable = SPELLINGS.filter(([, , isRead]) => !isRead).map(([, spell]) => spell('"note":"\\u0072m -rf"'));
  const read = SPELLINGS.filter(([, , isRead]) => isRead).map(([, spell]) => spell('"note":"\\u0072m -rf"'));
  const blocks = (wanted: object | string, text: string, key = 'payload.arguments') =>
    decideOn(new RuleSet([policy('block_action', { [key]: wanted })]), event('tool_call', { arguments: text }))
      .outcome === 'blocked';
  for (const wanted of [{ contains: 'rm -rf' }, { matches: '^rm -rf$' }, { glob: 'rm *' }, { starts_with: 'rm -' }])
    for (const text of [...unreadable, ...read]) t.ok(blocks(wanted, text), `${JSON.stringify(wanted)}: ${text}`);
  for (const wanted of [
    { contains: 'nowhere' },
    { ends_with: 'nowhere' },
    { matches: 'no+where' },
    { glob: 'nowhere' },
  ]) {
    for (const text of unreadable) t.ok(blocks(wanted, text), `${JSON.stringify(wanted)}: ${text}`);
    for (const text of [...read, ...PROSE]) t.notOk(blocks(wanted, text), `${JSON.stringify(wanted)}: ${text}`);
  }
  for (const text of unreadable) {
    for (const exists of [true, false])
      t.ok(blocks({ exists }, text, 'payload.arguments.approved'), `${exists} ${text}`);
    t.ok(blocks({ ne: 'x' }, text, 'payload.arguments.approved'), text);
  }
  t.ok(blocks('Bash', '["Bash",NaN]'), 'any item of a list that is text');
  t.ok(blocks('Bash', '["Bash", x'), 'a list that cannot be read');
});

t.test('a tool that is such text meets the policies on tools', async (t) => {
  const rules = new RuleSet([policy('block_action', { type: 'tool_call', tool: 'Bash' })]);
  for (const tool of ['["Bash"]', '"Bash"', '["Bash",]', "['Bash']", '["Bash", cut'])
    t.equal(decideOn(rules, event('tool_call', { tool })).outcome, 'blocked', tool);
});

t.test('a filter leads into it, and what is kept hides nothing', async (t) => {
  const MAIL = '"to":"user\\u0040example.com"';
  const conditions = [
    { detectors: ['email'], redact: true },
    { patterns: ['user@example'], redact: true },
    { detectors: ['email'], fields: ['payload.arguments.to', 'payload.arguments.x'], redact: true },
  ];
  for (const wanted of conditions) {
    const rules = new RuleSet([policy('data_filter', wanted)]);
    for (const [name, spell, isRead] of SPELLINGS) {
      for (const members of [MAIL, '"to":"user@example.com"']) {
        const text = spell(members);
        const { outcome, redacted, matches } = decideOn(rules, event('tool_call', { arguments: text }));
        t.equal(outcome, 'blocked', `${name} ${JSON.stringify(wanted)}`);
        const kept = (JSON.parse(redacted!.payloadText) as { arguments: string }).arguments;
        t.notMatch(kept, /user(?:@|\\+u0040)example/, `${name}: ${kept}`);
        if (!isRead) t.match(kept, /\[redacted:/, name);
        const again = decideOn(rules, event('tool_call', { arguments: kept }));
        t.equal(again.redacted, null, `${name}: nothing is left to be found in ${kept}`);
        const detail = matches[0]!.detail as { path: string; detector?: string; reason?: string };
        t.match(detail.path, /^\/arguments/, name);
        // A detector knows escapes of its own.
        if (!isRead && members === MAIL && detail.detector === undefined) t.equal(detail.reason, 'not_json', name);
      }
    }
    for (const text of PROSE)
      t.equal(decideOn(rules, event('tool_call', { arguments: text })).outcome, 'allowed', text);
  }
});

t.test('beside a finding in plain text the rest of the text stays', async (t) => {
  const rules = new RuleSet([policy('data_filter', { detectors: ['email'], redact: true })]);
  const kept = (text: string) =>
    (JSON.parse(decideOn(rules, event('custom', { text })).redacted!.payloadText) as { text: string }).text;
  t.equal(kept("{'to': 'user@example.com', 'n': None}"), "{'to': '[redacted:email]', 'n': None}");
  t.equal(kept('{"to":"user@example.com","x":NaN}'), '{"to":"[redacted:email]","x":NaN}');
  t.equal(kept('"user@example.com"'), '"[redacted:email]"');
  t.equal(kept("{'to': 'user\\x40example.com'}"), '[redacted:email]', 'what has no place in the text takes it whole');
});

t.test('`per`, expressions and schemas', async (t) => {
  const limit = new RuleSet([policy('rate_limit', { threshold: 1, window: '1m', per: 'payload.arguments.user' })]);
  const counter = (text: string) => judge(limit, event('tool_call', { arguments: text })).rateChecks[0]!.counterValue;
  for (const [name, spell, isRead] of SPELLINGS)
    t.equal(counter(spell('"user":"u1"')), isRead ? '"u1"' : '', `${name}: counted with those without a user`);
  const rules = new RuleSet([policy('block_action', { expression: 'json(event.payload.text).amount > 1000' })]);
  const judged = (text: string) => decideOn(rules, event('tool_call', { text })).matches[0]?.detail;
  t.match(judged('{"amount":5000,"amount":5}'), { reason: 'expression_error' });
  t.match(judged('{"amount":5,"x":NaN}'), { reason: 'expression_error' });
  t.equal(judged('{"amount":5}'), undefined);
});

t.test('what JavaScript or Python reads as more than is allowed is blocked, however it is written', async (t) => {
  const rules = new RuleSet([policy('block_action', { 'payload.arguments.amount': { gt: 1000 } })]);
  const texts = [
    ...SPELLINGS.map(([, spell]) => spell(AMOUNT)),
    ...fc.sample(written, { seed: SEED, numRuns: runs(6_000) }),
  ];
  const byPython = readByPython(texts);
  const counts = { javascript: 0, python: 0, allowed: 0 };
  texts.forEach((text, i) => {
    const { outcome } = decideOn(rules, event('tool_call', { arguments: text }));
    const isMore = { javascript: isMoreByJavaScript(text), python: byPython?.[i] === true };
    for (const reader of ['javascript', 'python'] as const) {
      if (!isMore[reader]) continue;
      counts[reader]++;
      if (outcome !== 'blocked') t.fail(`${reader} reads ${JSON.stringify(text)}, and it is ${outcome}`);
    }
    if (outcome === 'allowed') counts.allowed++;
  });
  t.ok(counts.javascript > texts.length / 20, JSON.stringify(counts));
  if (byPython !== null) t.ok(counts.python > texts.length / 20);
  t.ok(counts.allowed > 0, 'not everything is blocked');
});

const token = fc.constantFrom(
  ...['{', '}', '[', ']', '(', ')', ',', ':', ' ', '\n', '"', "'", '//', '/* */', '#', '\\'],
  ...['"amount"', "'amount'", 'amount', '"\\u0061mount"', "'\\x61mount'", '"x"', 'u"amount"'],
  ...['5000', '5', '5e3', '0x1388', '+5000', '5_000', '5000n', '.5', 'NaN', 'None', 'True', 'null', 'undefined'],
  ...['"a"', "'b'", '"\t"', '{"amount":5000}', "{'amount': 5000}", '{"amount":5}', '...'],
);
/** A text that holds the amount with some of its tokens changed, and what the tokens make by chance. */
const written = fc
  .tuple(
    fc.constantFrom(
      ...SPELLINGS.map(([, spell]) => spell(AMOUNT)),
      '{"amount":5}',
      "{'amount': 5}",
      '{"a":{"amount":1}}',
    ),
    fc.array(fc.tuple(fc.nat(80), fc.nat(3), token), { maxLength: 3 }),
    fc.constantFrom('', '', ' ', '\n', '\ufeff', '// a\n'),
  )
  .map(([text, changes, before]) =>
    changes.reduce((now, [at, cut, put]) => now.slice(0, at) + put + now.slice(at + cut), before + text),
  );

const PYTHON = `
import ast, json, sys
def more(value, level=0):
    if isinstance(value, str) and level < 4:
        return value.lstrip()[:1] in ('{', '[', '"') and read(value, level + 1)
    if isinstance(value, (list, tuple)): return any(more(item, level) for item in value)
    amount = value.get('amount') if isinstance(value, dict) else None
    return isinstance(amount, (int, float)) and not isinstance(amount, bool) and amount > 1000
def read(text, level=0):
    for reader in (json.loads, lambda t: json.loads(t, strict=False), ast.literal_eval):
        try:
            if more(reader(text), level): return True
        except Exception: pass
    return False
print(json.dumps([read(text) for text in json.load(sys.stdin)]))
`;

/** null: there is no Python here. */
function readByPython(texts: string[]): boolean[] | null {
  const { status, stdout } = spawnSync('python3', ['-W', 'ignore', '-c', PYTHON], {
    input: JSON.stringify(texts),
    maxBuffer: 64 * 1024 * 1024,
    encoding: 'utf8',
  });
  return status === 0 ? (JSON.parse(stdout) as boolean[]) : null;
}
