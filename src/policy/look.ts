// Judges an event by what its bytes show, before it becomes values (between the codec on bytes and engine.ts).
// Invariant: what is answered is what the engine would answer; where some rule may match, or a limit's counter is not
// known, the answer is which rules are left. Where nothing may match, equal limits share one judgement.
import { remember } from '../common/maps.ts';
import type { Path } from './conditions/path.ts';
import type { Closer, IndexedRule, Judgement, RateCheck } from './judgement.ts';
import type { RateLimitTerms } from './kinds/rate-limit.ts';
import { byOrder, countsAll, type Plan, pivoted, rulesOfTool, TOOL } from './rule-index.ts';
import type { ToldByText } from './sequences/told-by-text.ts';
import { type Sought, UNKNOWN } from './sought.ts';
import type { TextView } from './text-view.ts';

export const NOTHING: Judgement = Object.freeze({
  rateChecks: Object.freeze([]),
  found: Object.freeze([]),
  sequences: null,
  redacted: null,
});

/** Where the paths stand that are asked without a rule's demands: the tool's, and those of limits. */
export class Places {
  readonly #places: Map<Path, number | null>;

  constructor(sought: Sought, entries: readonly IndexedRule[]) {
    this.#places = new Map([[TOOL, sought.path(TOOL)]]);
    for (const { rule } of entries)
      if (rule.terms.type === 'rate_limit' && typeof rule.terms.per !== 'string')
        this.#places.set(rule.terms.per, sought.path(rule.terms.per));
  }

  toolOf(event: TextView): unknown {
    return this.#placed(TOOL, event);
  }

  /** The value by which a limit counts an event. */
  counterAt(per: Path, event: TextView): unknown {
    return per.root === 'payload' ? this.#placed(per, event) : event[per.root];
  }

  /** The value that a path leads to; UNKNOWN: more than one thing, or something long. */
  #placed(path: Path, event: TextView): unknown {
    const place = this.#places.get(path) ?? null;
    return place === null || event.isElsewhere(place) ? UNKNOWN : event.at(place);
  }
}

/** `checkOf`: what is asked of a limit's counter. */
type LimitLookup = { places: Places; checkOf: (entry: IndexedRule, event: TextView) => RateCheck };

export function lookAt(plan: Plan, event: TextView, asked: LimitLookup): Judgement | Closer {
  const { places } = asked;
  const tool = plan.byTool === null ? undefined : places.toolOf(event);
  const always = mayMatch(pivoted(plan, event), event);
  const ofTool = mayMatch(rulesOfTool(plan, tool), event);
  if (always.length + ofTool.length === 0) {
    const counted = countedBy(plan, event, asked);
    if (counted !== null) return counted;
  }
  const told = toldOf(plan, event, { always, ofTool, asked });
  if (typeof told === 'object' && told !== null) return told;
  const first = always.length === 0 ? plan.limits : [...plan.limits, ...always].sort(byOrder);
  const entries = ofTool.length === 0 ? first : [...first, ...ofTool];
  return { entries, absent: absentOf(entries, event), ...(told && { keep: told }) };
}

type Open = { always: readonly IndexedRule[]; ofTool: readonly IndexedRule[]; asked: LimitLookup };

/** The answer that the text of an event gives by itself; null: more than sequences is open, or more is read. */
function toldOf(plan: Plan, event: TextView, { always, ofTool, asked }: Open): ReturnType<ToldByText['of']> {
  if (!always.every(isOfSequence) || !ofTool.every(isOfSequence) || !plan.limits.every(countsAll)) return null;
  const limits = countedBy(plan, event, asked)!;
  return plan.told.of(always.length === 0 ? ofTool : [...always, ...ofTool], event, limits);
}

function isOfSequence({ told }: IndexedRule): boolean {
  return told !== null;
}

/** Limits that count every event of a plan, as one judgement for equal ones; null: a counter is not known. */
function countedBy({ limits, counted }: Plan, event: TextView, { places, checkOf }: LimitLookup): Judgement | null {
  if (limits.length === 0) return NOTHING;
  let key: unknown;
  let isOne = true;
  for (const { rule } of limits) {
    const { per } = rule.terms as RateLimitTerms;
    if (typeof per === 'string') continue;
    const value = places.counterAt(per, event);
    if (value === UNKNOWN || (typeof value === 'object' && value !== null)) return null;
    key = isOne ? value : `${typeof key} ${String(key).length} ${key} ${typeof value} ${value}`;
    isOne = false;
  }
  let judgement = counted.get(key);
  if (judgement === undefined) {
    const rateChecks = limits.map((entry) => checkOf(entry, event));
    judgement = { rateChecks, found: [], sequences: null, redacted: null };
    remember(counted, key, judgement, COUNTED_KNOWN_MAX);
  }
  return judgement;
}

/** Values of paths that limits count by, with the judgement of each. */
const COUNTED_KNOWN_MAX = 1_000;
const NO_ENTRIES: readonly IndexedRule[] = [];

function mayMatch(entries: readonly IndexedRule[], event: TextView): readonly IndexedRule[] {
  let open: IndexedRule[] | undefined;
  for (const entry of entries) {
    let holds = true;
    for (const demand of entry.demands)
      if (!demand(event)) {
        holds = false;
        break;
      }
    if (!holds) continue;
    open ??= [];
    open.push(entry);
  }
  return open ?? NO_ENTRIES;
}

const NONE_ABSENT: Closer['absent'] = new Map();

/** Needles that cannot be found in the event, of each filter that has some. */
function absentOf(entries: readonly IndexedRule[], event: TextView): Closer['absent'] {
  let absent: Map<IndexedRule, Set<number>> | undefined;
  for (const entry of entries) {
    if (entry.needleDemands.length < 2) continue;
    const own = new Set<number>();
    for (const [i, demand] of entry.needleDemands.entries())
      if (demand !== null && !demand(event)) own.add(entry.needles[i]!);
    absent ??= new Map();
    absent.set(entry, own);
  }
  return absent ?? NONE_ABSENT;
}
