// Traces in which words occur, in any of their events (the filter `q` of traces.ts), by the search that lists of events
// have. What is found is a set of trace ids, so it has a bound: a word that is in more traces is refused, since no
// person reads so many, and their ids would have to be sent back with each page.
import { validationFailed } from '../../src/common/validation.ts';
import type { ClickHouse } from '../client.ts';
import { type Excluded, QueryConditions } from './conditions.ts';
import { searchOf, settingsOf } from './event-filter.ts';
import { sourcesOf } from './searched-events.ts';
import { arrivedBy } from './trace-order.ts';

/** 200 kB of ids at most, and usually 40. */
export const SEARCHED_TRACES_MAX = 1_000;

type Searched = Excluded & {
  q: string;
  onlyAgent?: string | undefined;
  /** Epoch ms: a trace that began later has no event of before. */
  from?: number | undefined;
  begunAt?: number | undefined;
};

/** Throws ServiceError validation_failed that names `q`, where they are more than SEARCHED_TRACES_MAX. */
export async function tracesWith(clickhouse: ClickHouse, account: string, asked: Searched): Promise<string[]> {
  const { q, from, onlyAgent, excludeAgents, begunAt } = asked;
  const where = new QueryConditions(account)
    .and("trace_id != ''")
    .equal('agent_id', onlyAgent)
    .exclude('agent_id', excludeAgents)
    .happenedBetween(from, undefined);
  if (begunAt !== undefined) arrivedBy(where, begunAt);
  const search = searchOf({ q });
  const { sources, params } = (await sourcesOf(clickhouse, where, { search, asked: { account, from } })).of('true');
  const each = sources.map((source) => `SELECT DISTINCT trace_id FROM ${source} LIMIT ${SEARCHED_TRACES_MAX + 1}`);
  const found = await clickhouse.query<{ trace_id: string }>(
    `SELECT DISTINCT trace_id FROM (${each.join(' UNION ALL ')}) LIMIT ${SEARCHED_TRACES_MAX + 1}`,
    { ...where.params, ...params },
    { settings: settingsOf({ q }) },
  );
  if (found.length > SEARCHED_TRACES_MAX)
    throw validationFailed('The query string does not fit.', [
      {
        path: 'q',
        message: `is in more than ${SEARCHED_TRACES_MAX.toLocaleString('en')} traces; ask for more words, or for a later \`from\``,
      },
    ]);
  return found.map((row) => row.trace_id);
}
