// What events that are steps or sinks of sequences mean, where their text alone says it (between look.ts and the engine).
// The events of an agent mostly call a few tools again and again. The first of a kind is judged by the engine; what it
// came to is kept by all that the rules at hand had read of it, and is the answer for every other one that has the
// same there, without its becoming values. Neighbours with one answer are one run (ingest/resolve-quotas.ts).
// Invariant: it is what the engine would answer. Rules that read more than type, agent and watched paths, or say
// anything else than a step or a sink, or had to work hard, or were not sure, are left to the engine each time.
import { mayHoldJson } from '../../common/inner-json.ts';
import { Budget, EXPLAIN_UNITS } from '../budget.ts';
import type { Rule } from '../compile.ts';
import { conditionsHeld } from '../explain.ts';
import type { Closer, IndexedRule, Judgement, SequencePart } from '../judgement.ts';
import { type Sought, UNKNOWN } from '../sought.ts';
import type { TextView } from '../text-view.ts';
import type { SequenceScope } from './sequence-answer.ts';

/** `isTraced`: its scopes are those of the event's trace. */
type Told = { judgement: Judgement; isTraced: boolean };

/** Kinds of events that are kept, some KB each. */
const KNOWN_MAX = 1_000;
/** What is near the bound of its work might be over it in a smaller event. */
const UNITS_MAX = 1_000_000;

/**
 * The watched paths that say all of whether a step holds, or what a sequence asks of the event itself; null: more is
 * read. `of`: the sequence.
 */
export function toldBy({ conditions, expression, schema, terms }: Rule, of: Rule, sought: Sought): number[] | null {
  if (of.terms.type !== 'sequence' || expression !== null || schema !== null || terms.type === 'data_filter')
    return null;
  const { same, sum, per } = of.terms;
  if (same.length > 0 || sum !== null || typeof per !== 'string') return null;
  const places: number[] = [];
  for (const { path } of conditions) {
    if (path.root === 'trace_id') return null;
    if (path.root !== 'payload') continue;
    const place = sought.path(path);
    if (place === null) return null;
    places.push(place);
  }
  return places;
}

export class ToldByText {
  readonly #known = new Map<string, Told>();

  /**
   * What an event with these rules open means; a function: what is to be called with what the engine makes of it; null:
   * its text does not say it. `limits`: of the limits that count every event.
   */
  of(open: readonly IndexedRule[], event: TextView, limits: Judgement): Judgement | NonNullable<Closer['keep']> | null {
    const name = nameOf(open, event);
    if (name === null) return null;
    const told = this.#known.get(name);
    if (told !== undefined) return told.isTraced ? ofTrace(told.judgement, event) : told.judgement;
    return (judgement, units) => this.#keep(name, { ...judgement, rateChecks: limits.rateChecks }, units);
  }

  #keep(name: string, judgement: Judgement, units: number): void {
    const { found, sequences, redacted, outside, spends } = judgement;
    if (units > UNITS_MAX || found.length > 0 || redacted !== null || outside !== undefined || spends !== undefined)
      return;
    if (this.#known.size >= KNOWN_MAX) this.#known.clear();
    const isTraced =
      sequences !== null &&
      [...sequences.marks, ...sequences.sinks.map(({ ask }) => ask)].some(({ scope }) => scope.agent !== null);
    const kept = sequences === null ? null : withoutEvent(sequences);
    this.#known.set(name, { judgement: { ...judgement, sequences: kept }, isTraced });
  }
}

/** All that the rules read of an event; null: they read what is not known, or read on inside of it. */
function nameOf(open: readonly IndexedRule[], event: TextView): string | null {
  let name = event.agent_id;
  let read = 0;
  for (const { told, order } of open) {
    if (told === null) return null;
    name += ` ${order}`;
    for (const place of told) {
      if ((read & (1 << place)) !== 0) continue;
      read |= 1 << place;
      const value = event.isElsewhere(place) ? UNKNOWN : event.at(place);
      if (typeof value === 'string') {
        if (mayHoldJson(value)) return null;
        name += `"${value.length} ${value}`;
      } else if (typeof value === 'object' || value === UNKNOWN) return null;
      else name += `=${String(value)}`;
    }
  }
  return name;
}

/** The explanation is made now, so that no payload is kept. */
function withoutEvent({ sinks, ...part }: SequencePart): SequencePart {
  const { isSecret } = part;
  const held = (sink: SequencePart['sinks'][number]) =>
    conditionsHeld(sink.entry.rule, sink.event, { budget: new Budget(EXPLAIN_UNITS), isSecret });
  return { ...part, sinks: sinks.map((sink) => ({ ...sink, event: null, held: held(sink) })) };
}

function ofTrace(judgement: Judgement, { agent_id: agent, trace_id: trace = '' }: TextView): Judgement {
  const scope: SequenceScope = { own: trace === '' ? null : `value ${trace}`, agent };
  const { sinks, marks, ...part } = judgement.sequences!;
  const inTrace = <T extends { scope: SequenceScope }>(one: T): T =>
    one.scope.agent === null ? one : { ...one, scope };
  return {
    ...judgement,
    sequences: {
      ...part,
      sinks: sinks.map((sink) => ({ ...sink, ask: inTrace(sink.ask) })),
      marks: marks.map(inTrace),
    },
  };
}
