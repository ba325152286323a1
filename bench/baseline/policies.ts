// The baseline's policies, compiled once at start into plain functions. Patterns are V8 regular expressions, as most
// engineers would take; rate limits are fixed windows, one INCRBY and one EXPIRE a counter and request (store.ts).
import type { Event, Match, Policy, PolicyResult } from './schemas.ts';

type Test = (event: Event) => boolean;
export type RateLimit = { policy: Policy; threshold: number; windowSeconds: number; perAgent: boolean; concerns: Test };
export type Rules = { direct: { policy: Policy; matches: Test }[]; rateLimits: RateLimit[] };

const UNIT_SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 };

export function compile(policies: readonly Policy[]): Rules {
  const rules: Rules = { direct: [], rateLimits: [] };
  for (const policy of policies) {
    const { threshold, window, per, patterns, ...fields } = policy.conditions;
    const fits = fieldsTest(fields);
    if (policy.type === 'rate_limit') {
      const windowSeconds = secondsOf(window as string | number);
      const perAgent = per !== 'account';
      rules.rateLimits.push({ policy, threshold: Number(threshold), windowSeconds, perAgent, concerns: fits });
    } else if (policy.type === 'data_filter') {
      const expressions = (patterns as string[]).map((pattern) => new RegExp(pattern, 'u'));
      const hits = (text: string) => expressions.some((expression) => expression.test(text));
      rules.direct.push({ policy, matches: (event) => fits(event) && someString(event.payload, hits) });
    } else {
      rules.direct.push({ policy, matches: fits });
    }
  }
  return rules;
}

/** The policies that match without asking the counters. */
export function matchedBy(rules: Rules, event: Event): Policy[] {
  return rules.direct.filter(({ matches }) => matches(event)).map(({ policy }) => policy);
}

/** `over`: the rate limits that this event is over. */
export function decide(matched: readonly Policy[], over: readonly Policy[]): PolicyResult {
  const matches = [...matched, ...over].map(matchOf);
  const blocking = matches.find(({ actions }) => actions.includes('block'));
  return {
    outcome: blocking ? 'blocked' : 'allowed',
    reason: blocking ? 'policy' : null,
    policy_id: blocking?.policy_id ?? null,
    matches,
  };
}

function matchOf({ id, name, type, actions }: Policy): Match {
  return { policy_id: id, name, type, actions, severity: null, detail: {} };
}

/** All fields must hold: a value is equal, an array holds it, `{gt: n}` is below it. */
function fieldsTest(fields: Record<string, unknown>): Test {
  const tests = Object.entries(fields).map(([path, wanted]) => {
    const read = reader(path);
    const holds = condition(wanted);
    return (event: Event) => holds(read(event));
  });
  return (event) => tests.every((test) => test(event));
}

function reader(path: string): (event: Event) => unknown {
  if (path === 'type' || path === 'trace_id') return (event) => event[path];
  const steps = path.startsWith('payload.') ? path.slice('payload.'.length).split('.') : [path];
  return ({ payload }) => {
    let value: unknown = payload;
    for (const step of steps) {
      if (typeof value !== 'object' || value === null) return undefined;
      value = (value as Record<string, unknown>)[step];
    }
    return value;
  };
}

function condition(wanted: unknown): (value: unknown) => boolean {
  if (Array.isArray(wanted)) {
    const set = new Set(wanted);
    return (value) => set.has(value);
  }
  if (typeof wanted === 'object' && wanted !== null && 'gt' in wanted) {
    const bound = Number(wanted.gt);
    return (value) => typeof value === 'number' && value > bound;
  }
  return (value) => value === wanted;
}

/** Whether any string in the value, at whatever depth, passes. */
function someString(value: unknown, passes: (text: string) => boolean): boolean {
  if (typeof value === 'string') return passes(value);
  if (typeof value !== 'object' || value === null) return false;
  for (const item of Array.isArray(value) ? value : Object.values(value)) if (someString(item, passes)) return true;
  return false;
}

function secondsOf(window: string | number): number {
  const [, count, unit] = /^(\d+)([smhd]?)$/.exec(String(window)) ?? [];
  return Number(count) * UNIT_SECONDS[(unit || 's') as keyof typeof UNIT_SECONDS];
}
