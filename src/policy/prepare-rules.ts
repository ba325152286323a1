// Compiles an account's policies without holding up the process (when a front loads them): pattern by pattern, since
// one takes up to 10 ms and a policy 60, and others have their turn in between.
// Invariant: what has not changed since the last set is not compiled again.
// Failure: PolicyError for a stored policy that does not compile any more.
import type { Policy } from '../../schemas/policy.ts';
import { exactJson } from '../common/exact-json.ts';
import { compileRule, type Rule } from './compile.ts';
import { readPattern } from './conditions/operands.ts';
import { RuleSet, type RuleSetOptions } from './engine.ts';
import { literalOf } from './text-search/literal-prefilter.ts';
import { patternSources } from './text-search/pattern-allowance.ts';
import type { Pattern } from './text-search/program.ts';

/** Milliseconds of compiling after which other work is let in. */
const SLICE_MS = 5;

/** Keeps what has not changed since `previous`. */
export async function prepareRules(
  policies: readonly Policy[],
  previous?: RuleSet,
  options: RuleSetOptions = {},
): Promise<RuleSet> {
  const before = previous?.rules;
  const compiled = new Map<string, Rule>();
  const slices = new Slices();
  for (const policy of policies) {
    const kept = before?.get(policy.id);
    const same = kept !== undefined && exactJson(kept.policy.conditions) === exactJson(policy.conditions);
    if (same) compiled.set(policy.id, { ...kept, policy });
    else compiled.set(policy.id, compileRule(policy, await patternsOf(policy, slices)));
    await slices.next();
  }
  return new RuleSet(policies, { ...options, compiled, previous });
}

class Slices {
  #begunMs = performance.now();

  async next(): Promise<void> {
    if (performance.now() - this.#begunMs < SLICE_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#begunMs = performance.now();
  }
}

/**
 * What takes the time of compiling a policy. One that does not compile is found out where it is said what is wrong with
 * it.
 */
async function patternsOf({ conditions }: Policy, slices: Slices): Promise<ReadonlyMap<string, Pattern>> {
  const patterns = new Map<string, Pattern>();
  for (const source of patternSources(conditions)) {
    const pattern = readPattern(source);
    await slices.next();
    if (typeof pattern === 'string') continue;
    literalOf(pattern);
    patterns.set(source, pattern);
    await slices.next();
  }
  return patterns;
}
