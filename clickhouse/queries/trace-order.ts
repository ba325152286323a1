// What traces are listed by, and where a page of them begins (traces.ts). Equal values come in the order in which the
// traces began, in the direction of the list, so that every trace has one place.
// A value moves with each event of its trace. So a list by a value is of what had arrived when it began, its first page
// as well: each trace has one value from page to page, and none is shown twice or passed over. Arrival is read off the
// event's id, which the projection of the timeline has.
import type { TraceSort } from '../../schemas/closed-sets.ts';
import type { Position } from '../../schemas/paging.ts';
import { ID_PREFIXES, idTime } from '../../src/common/ids.ts';
import { boundedSum } from './bounded-sum.ts';
import type { Order, QueryConditions } from './conditions.ts';

/** Epoch us. */
export const MICROS = 'toUnixTimestamp64Milli(timestamp) * 1000 + timestamp_micros';
/**
 * An event's place in the order of time and arrival as one number, whose least is a trace's beginning: the time, and 24
 * of the id's characters. Tuples took three times as long to compare.
 */
export const FIRST = `bitOr(bitShiftLeft(toUInt256(${MICROS}), 192), reinterpretAsUInt256(reverse(substring(id, 5, 24))))`;
export const BEGAN = 'toInt64(bitShiftRight(first, 192))';

/** As large as a time of a cursor may be. */
const VALUE_MAX = 8_640_000_000_000_000;

/** Integers. `blocked`: a condition of events that are blocked by now. */
function valueBy(sort: Exclude<TraceSort, 'started_at'>, blocked: string): string {
  switch (sort) {
    case 'duration':
      return `max(${MICROS}) - min(${MICROS})`;
    // What is not known comes behind zero.
    case 'tokens':
    case 'cost':
      return `ifNull(${boundedSum(sort === 'cost' ? sort : 'tokens_used', VALUE_MAX)}, -1)`;
    case 'events':
      return 'toInt64(count())';
    case 'blocked':
      return `toInt64(countIf(${blocked}))`;
    case 'errors':
      return "toInt64(countIf(type = 'error'))";
  }
}

export type TraceOrder = { sort?: TraceSort | undefined; order?: Order | undefined };

/** The value that a list of traces selects, its order, and the condition for the traces after a given one. */
export function traceOrder({ sort = 'started_at', order = 'desc' }: TraceOrder, blocked: string) {
  const isByTime = sort === 'started_at';
  const behind = order === 'asc' ? '>' : '<';
  return {
    /** Selected beside `first`. */
    value: isByTime ? `${BEGAN} / 1000` : valueBy(sort, blocked),
    by: isByTime ? `first ${order}` : `value ${order}, first ${order}`,
    /** Adds the condition to groups. */
    after(having: QueryConditions, { at, id }: Position): void {
      const first = `first ${behind} toUInt256OrZero({after_first:String})`;
      if (isByTime) having.and(first, { after_first: id });
      else
        having.and(`(value ${behind} {after_value:Int64} OR value = {after_value:Int64} AND ${first})`, {
          after_first: id,
          after_value: Math.round(at),
        });
    },
  };
}

/** Keeps the events that had arrived at `begunAt`, epoch ms. */
export function arrivedBy(where: QueryConditions, begunAt: number): void {
  where.and('id < {begun_id:String}', { begun_id: ID_PREFIXES.event + idTime(begunAt + 1) });
}
