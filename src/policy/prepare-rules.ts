// Compiles an account's policies without holding up the process (when a front loads them): pattern by pattern, since
// one takes up to 10 ms and a policy 60, and others have their turn in between.
// Invariant: what has not changed since the last set is not compiled again.
// Failure: PolicyError for a stored policy that does not compile any more; a shadow that does not is left out.
import type { Policy } from '../../schemas/policy.ts';
import { Slices } from '../common/async.ts';
import { exactJson } from '../common/exact-json.ts';
import { PriceList, type PriceTableRecord } from '../common/prices/price-list.ts';
import { compileRule, type Rule } from './compile.ts';
import { RuleSet, type RuleSetOptions } from './engine.ts';
import type { Shadows } from './judgement.ts';
import { ShadowSet } from './shadows.ts';
import { patternSources, readAlone } from './text-search/pattern-allowance.ts';
import type { Pattern } from './text-search/program.ts';
import { signsOfPattern } from './text-search/signs.ts';

/** `policies`: the active ones. Keeps what has not changed since `previous`. `prices`: of the account, if any. */
export async function prepareRules(
  policies: readonly Policy[],
  previous?: RuleSet,
  { prices, ...options }: RuleSetOptions & { prices?: PriceTableRecord | undefined } = {},
): Promise<RuleSet> {
  const inForce = policies.filter(({ mode }) => mode === 'enforce');
  const slices = new Slices();
  const before = previous?.rules;
  const compiled = new Map<string, Rule>();
  for (const policy of inForce) compiled.set(policy.id, await compiledFrom(before, policy, slices));
  const rules = new RuleSet(inForce, { ...options, compiled, previous });
  if (prices !== undefined && prices.prices.length > 0) rules.prices = new PriceList(prices);
  if (inForce.length < policies.length) {
    const shadows = policies.filter(({ mode }) => mode === 'shadow');
    rules.shadows = await prepareShadows(shadows, previous?.shadows, rules, { options, slices });
  }
  return rules;
}

async function prepareShadows(
  policies: readonly Policy[],
  former: Shadows | undefined,
  { sought }: RuleSet,
  { options, slices }: { options: RuleSetOptions; slices: Slices },
): Promise<ShadowSet> {
  const previous = former instanceof ShadowSet ? former.rules : undefined;
  const before = previous?.rules;
  const compiled = new Map<string, Rule>();
  for (const policy of policies) {
    try {
      compiled.set(policy.id, await compiledFrom(before, policy, slices));
    } catch (error) {
      options.onRuleError?.(policy.id, error);
    }
  }
  const sound = policies.filter(({ id }) => compiled.has(id));
  return new ShadowSet(sound, { ...options, compiled, previous, sought });
}

async function compiledFrom(
  before: ReadonlyMap<string, Rule> | undefined,
  policy: Policy,
  slices: Slices,
): Promise<Rule> {
  const kept = before?.get(policy.id);
  if (kept?.policy === policy) return kept;
  const isSame = kept !== undefined && exactJson(kept.policy.conditions) === exactJson(policy.conditions);
  const rule = isSame ? { ...kept, policy } : compileRule(policy, await patternsOf(policy, slices));
  await slices.next();
  return rule;
}

/**
 * Compiles the patterns of a policy, which takes the time of compiling it. One that does not compile is left out: it is
 * found where it is said what is wrong with it.
 */
async function patternsOf({ conditions }: Policy, slices: Slices): Promise<ReadonlyMap<string, Pattern>> {
  const patterns = new Map<string, Pattern>();
  for (const source of patternSources(conditions)) {
    const pattern = readAlone(source);
    await slices.next();
    if (typeof pattern === 'string') continue;
    signsOfPattern(pattern);
    patterns.set(source.key, pattern);
    await slices.next();
  }
  return patterns;
}
