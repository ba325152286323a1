// How far the erasure of a deleted agent has come (GET /v1/erasures/{agent_id}).
import Type from 'typebox';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const When = Type.Union([ResponseTime, Type.Null()]);

export const ErasureReport = Type.Object({
  agent_id: about(Type.String(), 'The agent that was deleted.', exampleId('agt')),
  ordered_at: about(ResponseTime, 'When it was deleted: since then it is unknown to every call.'),
  rows_erased_at: about(When, 'When its rows were taken out of the tables. null: not yet.'),
  clickhouse_clean_at: about(When, 'Since when none of its bytes is in a file of ClickHouse. null: not yet.'),
  redis_clean_at: about(
    When,
    "Since when none is in Redis's append-only file. null: not yet, or Redis is your own and does not let us have it rewritten.",
  ),
  clean_by: about(
    ResponseTime,
    'By when all of it should be gone while everything runs: Redis rewrites its file for all erasures of an hour together.',
  ),
});
export type ErasureReport = Type.Static<typeof ErasureReport>;
