// Builds the WHERE of every query. It cannot be made without an account, so no query can be written that forgets one.
// Values travel as bound parameters only; `sql` given to `and` is our own text.
// Times are epoch ms, both bounds inclusive.
import type { Position } from '../../schemas/paging.ts';
import type { QueryParams } from '../client.ts';

/** Agents that are being erased: their rows are on their way out and must neither appear nor count. */
export type Excluded = { excludeAgents?: readonly string[] | undefined };

/** What a filter takes: a value, or several of which any will do. */
export type AnyOf<T extends string> = T | readonly T[];

export function valuesOf<T extends string>(filter: AnyOf<T>): readonly T[] {
  return typeof filter === 'string' ? [filter] : filter;
}

export type Order = 'asc' | 'desc';

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
    if (from !== undefined) this.and(`${column} >= ${instant('from')}`, { from });
    if (to !== undefined) this.and(`${column} <= ${instant('to')}`, { to });
    return this;
  }

  /**
   * Behind the position in an order by `time` and `id`. The first comparison says nothing new, but it alone is a range
   * that the primary key and projections know.
   */
  after(
    position: Position | undefined,
    { time, id, order = 'desc' }: { time: string; id: string; order?: Order | undefined },
  ): this {
    if (position === undefined) return this;
    const behind = order === 'asc' ? '>' : '<';
    const at = instant('after_at');
    return this.and(`${time} ${behind}= ${at} AND (${time} ${behind} ${at} OR ${id} ${behind} {after_id:String})`, {
      after_at: position.at,
      after_id: position.id,
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
