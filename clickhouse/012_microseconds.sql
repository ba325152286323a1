-- What an event's timestamp has behind the millisecond. A column of its own, since `timestamp` is in the sorting key, whose types cannot be
-- altered, and since its eight bytes are in the leaf of every row that has been chained (src/audit/hash.ts): rows of before keep theirs, and
-- theirs is 0 here. Lists order by timestamp, timestamp_micros, id. An agent's is read in the order of the key as far as that goes, and sorted
-- among the rows of one millisecond; the account's by the projection, which holds the whole order.
-- The projection by_time is dropped for one that has the column. Parts of before get it from the next rewrite of parts (queries/erase-agent.ts),
-- which begins within half a minute of the pipelines: 1 us of CPU a row. Until then the account's timeline reads them row by row, with the same result.

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS timestamp_micros UInt16 COMMENT 'When it happened, behind the millisecond of timestamp: 0 to 999 us, e.g. 456' CODEC(ZSTD(1)) AFTER request_id;

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD PROJECTION IF NOT EXISTS by_microsecond
    (
        SELECT account_id, timestamp, timestamp_micros, id, agent_id, type, outcome, model, trace_id, _part_offset
        ORDER BY account_id, timestamp, timestamp_micros, id
    );

ALTER TABLE {{database}}.events{{on_cluster}}
    DROP PROJECTION IF EXISTS by_time;
