// What events that are steps or sinks of sequences mean, where their text alone says it (between look.ts and judge()).
// The events of an agent mostly call a few tools again and again. The first of a kind is judged by the engine; what it
// came to is kept by all that the rules at hand had read of it, and is the answer for every other one that has the
// same there, without its becoming values. Neighbours with one answer are one run (ingest/resolve-quotas.ts).
// Invariant: it is what the engine would answer. Rules that read more than type, agent and watched paths, or say
// anything else than a step or a sink, or had to work hard, or were not sure, are left to the engine each time.
import { mayHoldJson } from '../../common/inner-json.ts';
import { remember } from '../../common/maps.ts';
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
/** The most work of a judgement that is kept: one near the bound of its work might be over it in a smaller event. */
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
  /** The judgement found last: mostly it is that again, and its name need not be made. */
  #last: { open: readonly IndexedRule[]; agent: string; read: Read; told: Told } | undefined;

  /**
   * The judgement of an event with these rules open; a function: to be called with the judgement of the engine; null:
   * its text does not say it. `limits`: of the limits that count every event.
   */
  of(open: readonly IndexedRule[], event: TextView, limits: Judgement): Judgement | NonNullable<Closer['keep']> | null {
    const last = this.#last;
    if (last !== undefined && last.agent === event.agent_id && isSame(last, open, event))
      return answer(last.told, event);
    const read = readBy(open, event);
    if (read === null) return null;
    const name = nameOf(open, event.agent_id, read);
    const told = this.#known.get(name);
    if (told !== undefined) {
      this.#last = { open, agent: event.agent_id, read, told };
      return answer(told, event);
    }
    return (judgement, units) => this.#keep(name, { ...judgement, rateChecks: limits.rateChecks }, units);
  }

  #keep(name: string, judgement: Judgement, units: number): void {
    const { found, sequences, redacted, outside, spends } = judgement;
    if (units > UNITS_MAX || found.length > 0 || redacted !== null || outside !== undefined || spends !== undefined)
      return;
    const isTraced =
      sequences !== null &&
      [...sequences.marks, ...sequences.sinks.map(({ ask }) => ask)].some(({ scope }) => scope.agent !== null);
    const kept = sequences === null ? null : withoutEvent(sequences);
    remember(this.#known, name, { judgement: { ...judgement, sequences: kept }, isTraced }, KNOWN_MAX);
  }
}

type Read = readonly [place: number, value: unknown][];

function answer({ judgement, isTraced }: Told, event: TextView): Judgement {
  return isTraced ? ofTrace(judgement, event) : judgement;
}

function isSame(
  last: { open: readonly IndexedRule[]; read: Read },
  open: readonly IndexedRule[],
  event: TextView,
): boolean {
  if (last.open.length !== open.length) return false;
  for (let i = 0; i < open.length; i++) if (last.open[i] !== open[i]) return false;
  for (const [place, value] of last.read) if (event.isElsewhere(place) || event.at(place) !== value) return false;
  return true;
}

/** All that the rules read of an event; null: they read what is not known, or read on inside of it. */
function readBy(open: readonly IndexedRule[], event: TextView): Read | null {
  const read: [number, unknown][] = [];
  let places = 0;
  for (const { told } of open) {
    if (told === null) return null;
    for (const place of told) {
      if ((places & (1 << place)) !== 0) continue;
      places |= 1 << place;
      const value = event.isElsewhere(place) ? UNKNOWN : event.at(place);
      if (typeof value === 'object' || value === UNKNOWN || (typeof value === 'string' && mayHoldJson(value)))
        return null;
      read.push([place, value]);
    }
  }
  return read;
}

function nameOf(open: readonly IndexedRule[], agent: string, read: Read): string {
  let name = agent;
  for (const { order } of open) name += ` ${order}`;
  for (const [, value] of read) name += typeof value === 'string' ? `"${value.length} ${value}` : `=${String(value)}`;
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
