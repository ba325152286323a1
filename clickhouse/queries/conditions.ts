// Builds the WHERE of every query. It cannot be made without an account, so no query can be written that forgets one.
// Values travel as bound parameters only; `sql` given to `and` is our own text.
// Times are epoch ms, both bounds inclusive (spec 4.6).
import type { QueryParams } from '../client.ts';

/** Agents that are being erased: their rows are on their way out and must neither appear nor count. */
export type Excluded = { excludeAgents?: readonly string[] | undefined };

export class Conditions {
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

  /** `column = value`, where a value is given. `column` names the parameter, too. */
  equal(column: string, value: string | undefined): this {
    return value === undefined ? this : this.and(`${column} = {${column}:String}`, { [column]: value });
  }

  between(column: string, from: number | undefined, to: number | undefined): this {
    if (from !== undefined) this.and(`${column} >= ${instant('from')}`, { from });
    if (to !== undefined) this.and(`${column} <= ${instant('to')}`, { to });
    return this;
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
