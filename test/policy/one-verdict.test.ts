// One event, one verdict: whatever was judged before, whatever other policies the account has, whatever was changed
// meanwhile, and however the event came. Events are made of texts that are hard to judge: text inside text, dressed-up
// letters, secrets, base64, and texts under which the states of a pattern explode.
import fc from 'fast-check';
import t from 'tap';
import { DETECTOR_NAMES } from '../../schemas/closed-sets.ts';
import type { Policy } from '../../schemas/policy.ts';
import { INNER_LEVELS_MAX } from '../../src/common/inner-json.ts';
import { judge, RuleSet } from '../../src/policy/engine.ts';
import type { EventView } from '../../src/policy/judgement.ts';
import { prepareRules } from '../../src/policy/prepare-rules.ts';
import { cpuMsOf } from '../support/own-time.ts';
import { runs, SEED as seed } from '../support/seed.ts';
import { SECRETS, secret, arbitraryPayload as view } from './arbitrary-events.ts';
import { decideOn, event, policy } from './support.ts';

/** The policies of an account with a careful owner; the last has a pattern with very many states. */
const POLICIES: Policy[] = [
  ...DETECTOR_NAMES.map((name) => policy('data_filter', { detectors: [name], redact: true }, ['log'])),
  policy('data_filter', { patterns: ['(?i)password.{0,50}secret', '(?i)ignore (?:all )?previous'] }),
  policy('data_filter', { patterns: ['AKIA[0-9A-Z]{16}', 'ghp_[A-Za-z0-9]{36}'], fields: ['payload.text'] }),
  policy('block_action', { 'payload.arguments.amount': { gt: 10 } }),
  policy('block_action', { text: { contains: 'all previous' } }),
  policy('block_action', { a: { matches: '(?i)secret$' } }),
  policy('block_action', { tool: ['a', 'b'] }),
  policy('block_action', { expression: 'has(event.payload.a) && event.payload.a == "x"' }),
  policy('data_filter', { patterns: ['(?:a|b)*a(?:a|b){16}c'] }),
];
/** Those of another team. */
const OTHERS: Policy[] = Array.from({ length: 200 }, (_, i) =>
  i % 2 === 0
    ? policy('data_filter', { patterns: [`(?i)phrase ${i} [a-z]{3}`, `b[^b]{${10 + (i % 30)}}${i}`] }, ['log'])
    : policy('block_action', { text: { contains: `word ${i}` } }, ['log']),
);

/** The verdict of each policy, by its id: the detail of its match. */
function verdicts(rules: RuleSet, of: EventView): Map<string, string> {
  return new Map(decideOn(rules, of).matches.map((match) => [match.policy_id, JSON.stringify(match.detail)]));
}

t.test('a policy says the same alone and beside others, cold and warm, before and after changes', async (t) => {
  const warm = new RuleSet([...OTHERS, ...POLICIES]);
  let changing = await prepareRules(POLICIES);
  let changes = 0;
  const seen = { matches: 0, budget: 0 };
  await fc.assert(
    fc.asyncProperty(view, async (payload) => {
      const of = event('tool_call', payload);
      if (++changes % 8 === 0) {
        const some = POLICIES.map((one, i) => ((i + changes) % 9 === 0 ? { ...one, name: `renamed ${changes}` } : one));
        changing = await prepareRules([...some, ...OTHERS.slice(0, changes % 20)], changing);
      }
      const sets = [verdicts(warm, of), verdicts(warm, of), verdicts(changing, of)];
      for (const one of POLICIES) {
        const alone = verdicts(new RuleSet([one]), of).get(one.id);
        if (alone !== undefined) seen.matches++;
        if (alone?.includes('budget')) seen.budget++;
        // A path is shown without a key that any filter of the account finds something in.
        const isSame = (other: string | undefined) => other === alone || withoutPath(other) === withoutPath(alone);
        if (!sets.every((set) => isSame(set.get(one.id)))) return false;
      }
      return true;
    }),
    { seed, numRuns: runs(200) },
  );
  t.ok(seen.matches > 20, `${seen.matches} matches, ${seen.budget} of them over their budget`);
});

function withoutPath(detail: string | undefined): string | undefined {
  return detail?.replaceAll(/"path":"[^"]*"/g, '""').replaceAll(/,"conditions":\[.*?\]/g, '');
}

t.test('judged with pauses, and beside another event of the account, it is the same', async (t) => {
  const rules = new RuleSet([...OTHERS, ...POLICIES]);
  let pauses = 0;
  const pause = () => {
    pauses++;
    return new Promise<void>((resolve) => setImmediate(resolve));
  };
  await fc.assert(
    fc.asyncProperty(view, view, async (first, second) => {
      const both = [first, second].map((payload) => event('tool_call', payload));
      const apart = await Promise.all(both.map((of) => rules.turns.do(rules.judging(of), pause)));
      return both.every((of, i) => {
        const { found } = judge(rules, of);
        return JSON.stringify(found.map(shown)) === JSON.stringify(apart[i]!.found.map(shown));
      });
    }),
    { seed, numRuns: runs(20) },
  );
  t.ok(pauses > 0, `${pauses} pauses`);
});

function shown({ entry, detail }: { entry: { order: number }; detail: unknown }): unknown {
  return [entry.order, detail];
}

t.test('nine detectors and fifty patterns read a payload of 1 MiB to its end, each time', async (t) => {
  const filters = [
    policy('data_filter', { detectors: DETECTOR_NAMES }),
    policy('data_filter', {
      patterns: Array.from(
        { length: 50 },
        (_, i) => `${FORMS[i % FORMS.length]}${String.fromCharCode(97 + (i % 26))}${i}`,
      ),
    }),
  ];
  const base64 = Buffer.alloc(786_432, 'Who reads this is kind. ').toString('base64');
  const texts = {
    prose: 'The quick brown fox jumps over the lazy dog, it is said. '.repeat(18_400),
    base64: base64.replace(/A/g, 'B'),
    numbers: Array.from({ length: 100_000 }, (_, i) => (i * 7_919) % 1_000_003).join(' '),
    lock: Array.from(
      { length: 9_000 },
      (_, i) => `sha512-${i}abcdefghijklmnopqrstuvwxyz/ABCDEFGHIJKLMNOPQRSTUVWXYZ+${i}==`,
    ).join('\n'),
  };
  for (const [name, long] of Object.entries(texts)) {
    const clean = event('custom', { text: long });
    const found = event('custom', { text: `${long}\n4111 1111 1111 1111 zoe@example.com` });
    for (let time = 1; time <= 3; time++) {
      const rules = new RuleSet(filters);
      t.equal(decideOn(rules, clean).outcome, 'allowed', `${name}, time ${time}`);
      t.equal(decideOn(rules, found).outcome, 'blocked', `${name} with a card, time ${time}`);
    }
  }
});

const FORMS = [
  'AKIA[0-9A-Z]{16}',
  '(?i)password.{0,50}secret',
  '(?i)\\b(?:password|passwd|secret|token)\\b\\s*[:=]\\s*\\S{8,}',
  'eyJ[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]{10,}',
  '[A-Za-z0-9+/]{40}',
  '\\p{L}{30}',
];

t.test('a copy that was redacted parses at every level, and holds none of what was found', async (t) => {
  const rules = new RuleSet(POLICIES.slice(0, DETECTOR_NAMES.length));
  let redacted = 0;
  fc.assert(
    fc.property(view, (payload) => {
      const of = event('tool_call', payload);
      const copy = decideOn(rules, of).redacted?.payloadText;
      if (copy === undefined) return true;
      redacted++;
      const parsed = JSON.parse(copy) as object;
      if (!hasSameShape(payload, parsed)) return false;
      return decideOn(rules, event('tool_call', copy)).redacted === null;
    }),
    { seed, numRuns: runs(1_500) },
  );
  t.ok(redacted > 20, `${redacted} payloads with something to redact`);
});

/** Is each object, array, and text that holds one, so in the copy, as far down as text inside text is read? */
function hasSameShape(before: unknown, after: unknown, level = 0): boolean {
  if (typeof before === 'string') {
    const inner = innerOf(before);
    if (inner === undefined) return typeof after === 'string';
    if (level === INNER_LEVELS_MAX) return after === '[redacted:not_json]';
    return hasSameShape(inner, innerOf(after as string), level + 1);
  }
  if (typeof before !== 'object' || before === null) return true;
  const [one, other] = [Object.values(before), Object.values(after ?? {})];
  return one.length === other.length && one.every((item, i) => hasSameShape(item, other[i], level));
}

function innerOf(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

t.test('folding never loses what is found in the text as it was sent', async (t) => {
  const part = fc.oneof(
    secret,
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.constantFrom('é', '日本', '😀', '\u00ad'),
  );
  const rules = new RuleSet([
    policy('data_filter', { patterns: SECRETS.map((plain) => plain.replaceAll(/[.+*?^${}()|[\]\\]/g, '\\$&')) }),
    ...SECRETS.map((plain) => policy('block_action', { text: { contains: plain } })),
  ]);
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), (parts) => {
      const long = parts.join(' ');
      const found = decideOn(rules, event('custom', { text: long })).matches.length;
      const isThere = SECRETS.filter((plain) => long.includes(plain)).length;
      return isThere === 0 || found >= isThere + 1;
    }),
    { seed, numRuns: runs(2_000) },
  );
  t.pass();
});

t.test('a megabyte of marks on one character is folded in bounded time, and what is beside it is found', async (t) => {
  const rules = new RuleSet([policy('block_action', { text: { contains: 'zoe@example.com' } })]);
  const marks = '\u0301\u0316'.repeat(250_000);
  const most = marks.repeat(14);
  t.equal(decideOn(rules, event('custom', { text: `zoe@ex\u00adample.com e${most}` })).matches.length, 1, 'of 14 MB');
  for (const text of [`e${marks} zoe@ex\u00adample.com`, `zoe@ex\u00adample.com e${marks}`]) {
    const ms = cpuMsOf(() => t.equal(decideOn(rules, event('custom', { text })).matches.length, 1));
    t.ok(ms < 5_000, `${ms} ms`);
  }
});
