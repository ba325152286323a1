// Measures the ready policies against spellings of what they are for, and of what only looks like it (asked by
// library.test.ts). A policy's spellings are in the file that has its name. A line with `+` is to be met, one with `-`
// to be let pass: a text that a tool gave back, in which `\n`, `\t` and `\uXXXX` are read as such; behind `+=` and `-=`
// the payload of a call, as it is sent; behind `+#` and `-#`, of a rate limit, runs of events that begin at once: how
// many, every how many ms, of which type and trace, if any.
// A filter with `redact` has met a line only if it finds nothing more in what is kept of it.
import { existsSync, readFileSync } from 'node:fs';
import type { EventType } from '../../../schemas/closed-sets.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { judge, RuleSet } from '../../../src/policy/engine.ts';
import type { EventView } from '../../../src/policy/judgement.ts';
import { ReplayedCounters } from '../../../src/policy/replay/replayed-counters.ts';
import { assetPath } from '../../../src/process/assets.ts';
import { decideOn, event } from '../support.ts';

type Run = [count: number, everyMs: number, type: EventType, traceId?: string];
type Measured = {
  toBeMet: number;
  toPass: number;
  /** How much is met of what is to be met. */
  recall: number;
  /** How much is right of what is met. */
  precision: number;
  /** Lines that were judged otherwise than they say. */
  wrong: string[];
};

const LINE = /^([+-])([=#]?) (.*)$/gm;

/** null: there are no spellings of it. */
export function measured(policy: Policy): Measured | null {
  const file = assetPath(`test/policy/spellings/${policy.name.replaceAll(' ', '-')}.txt`);
  if (!existsSync(file)) return null;
  const rules = new RuleSet([policy]);
  const counts = { '+': 0, '-': 0, missed: 0, falsely: 0 };
  const wrong: string[] = [];
  for (const [line, sign, kind, text] of readFileSync(file, 'utf8').matchAll(LINE)) {
    const isMet = kind === '#' ? overLimit(policy, inRuns(text!)) > 0 : isFound(rules, viewOf(kind!, text!));
    counts[sign as '+' | '-']++;
    if (isMet === (sign === '+')) continue;
    counts[isMet ? 'falsely' : 'missed']++;
    wrong.push(line);
  }
  const right = counts['+'] - counts.missed;
  return {
    toBeMet: counts['+'],
    toPass: counts['-'],
    recall: right / counts['+'],
    precision: right / (right + counts.falsely),
    wrong,
  };
}

function viewOf(kind: string, text: string): EventView {
  if (kind === '=') return event('tool_call', text);
  const result = text.replaceAll(/\\(n|t|u[0-9a-f]{4})/g, (written) => JSON.parse(`"${written}"`) as string);
  return event('tool_call', { tool: 'get_webpage', result });
}

function isFound(rules: RuleSet, view: EventView): boolean {
  const { matches, redacted } = decideOn(rules, view);
  if (matches.length === 0 || redacted === null) return matches.length > 0;
  return decideOn(rules, event(view.type, redacted.payloadText)).matches.length === 0;
}

function inRuns(text: string): EventView[] {
  return (JSON.parse(text) as Run[]).flatMap(([count, everyMs, type, trace_id]) =>
    Array.from({ length: count }, (_, i) => {
      const timestamp = new Date(Date.UTC(2026, 0, 1) + i * everyMs).toISOString();
      return event(type, {}, { trace_id, timestamp });
    }),
  );
}

/** How many events are over a rate limit, where each counts by the time that it has. */
export function overLimit(policy: Policy, events: readonly EventView[]): number {
  const rules = new RuleSet([policy]);
  const counters = new ReplayedCounters();
  return events
    .map((view) => ({ checks: judge(rules, view).rateChecks, at: Date.parse(view.timestamp) }))
    .sort((a, b) => a.at - b.at)
    .filter(({ checks, at }) => checks.some((check) => counters.take(check.counterValue, check, at) > 0)).length;
}
