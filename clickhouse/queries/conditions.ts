// Builds the WHERE of every query. It cannot be made without an account, so no query can be written that forgets one.
// Values travel as bound parameters only; `sql` given to `and` is our own text.
// Times are epoch ms with a fraction of whole microseconds, both bounds inclusive. A column that holds milliseconds is
// compared as exactly as one of two: nothing lies between two of them.
import type { Position } from '../../schemas/paging.ts';
import { microsOf } from '../../schemas/time.ts';
import type { QueryParams } from '../client.ts';

/** Agents that are being erased: their rows are on their way out and must neither appear nor count. */
export type Excluded = { excludeAgents?: readonly string[] | undefined };

/** The value of a filter: one value, or several of which any will do. */
export type AnyOf<T extends string> = T | readonly T[];

export function valuesOf<T extends string>(filter: AnyOf<T>): readonly T[] {
  return typeof filter === 'string' ? [filter] : filter;
}

export type Order = 'asc' | 'desc';

type OrderedBy = { time: string; micros?: string; id: string; order?: Order | undefined };

/** Events are ordered by when they happened, equal times by their arrival. */
export const EVENT_ORDER = { time: 'timestamp', micros: 'timestamp_micros', id: 'id' } as const;

export function orderByEvents(order: Order): string {
  return `ORDER BY timestamp ${order}, timestamp_micros ${order}, id ${order}`;
}

export class QueryConditions {
  readonly #clauses: string[] = [];
  readonly params: QueryParams = {};

  constructor(account: string) {
    this.and('account_id = {account:String}', { account });
  }

  and(sql: string, params: QueryParams = {}): this {
    this.#clauses.push(sql);
    Object.assign(this.params, params);
    return this;
  }

  /** `column` is the value, or one of the values, where any is given. `column` names the parameter, too. */
  equal(column: string, filter: AnyOf<string> | undefined): this {
    if (filter === undefined) return this;
    const [value = '', ...others] = valuesOf(filter);
    // One value may be a place in the primary key, by which rows come in the order asked for.
    if (others.length === 0) return this.and(`${column} = {${column}:String}`, { [column]: value });
    return this.and(`${column} IN {${column}:Array(String)}`, { [column]: [value, ...others] });
  }

  between(column: string, from: number | undefined, to: number | undefined): this {
    if (from !== undefined) this.and(`${column} >= ${instant('from')}`, { from: Math.ceil(from) });
    if (to !== undefined) this.and(`${column} <= ${instant('to')}`, { to: Math.floor(to) });
    return this;
  }

  /**
   * Filters events by `timestamp` and its microseconds. As in `after`, the first comparisons are there for the indexes.
   */
  happenedBetween(from: number | undefined, to: number | undefined): this {
    if (from !== undefined) this.#happened('>', 'from', from);
    if (to !== undefined) this.#happened('<', 'to', to);
    return this;
  }

  #happened(beyond: '<' | '>', name: string, at: number): void {
    const micros = microsOf(at);
    this.and(`timestamp ${beyond}= ${instant(name)}`, { [name]: Math.floor(at) });
    // The first, or the last of a millisecond: all of it.
    if (micros === (beyond === '>' ? 0 : 999)) return;
    this.and(`(timestamp ${beyond} ${instant(name)} OR timestamp_micros ${beyond}= {${name}_micros:UInt16})`, {
      [`${name}_micros`]: micros,
    });
  }

  /**
   * Behind the position in an order by `time` and `id`, of events with `micros` in between. The first comparison says
   * nothing new, but it alone is a range that the primary key and projections know.
   */
  after(position: Position | undefined, { time, micros, id, order = 'desc' }: OrderedBy): this {
    if (position === undefined) return this;
    const behind = order === 'asc' ? '>' : '<';
    const at = instant('after_at');
    const byId = `${id} ${behind} {after_id:String}`;
    const inMs =
      micros === undefined
        ? byId
        : `${micros} ${behind} {after_micros:UInt16} OR ${micros} = {after_micros:UInt16} AND ${byId}`;
    return this.and(`${time} ${behind}= ${at} AND (${time} ${behind} ${at} OR ${inMs})`, {
      after_at: Math.floor(position.at),
      after_id: position.id,
      ...(micros === undefined ? {} : { after_micros: microsOf(position.at) }),
    });
  }

  exclude(column: string, agents: readonly string[] | undefined): this {
    if (agents === undefined || agents.length === 0) return this;
    return this.and(`${column} NOT IN {excluded:Array(String)}`, { excluded: agents });
  }

  get sql(): string {
    return this.#clauses.join(' AND ');
  }
}

/** A parameter of epoch ms as a DateTime64(3). */
export function instant(parameter: string): string {
  return `fromUnixTimestamp64Milli({${parameter}:Int64}, 'UTC')`;
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
