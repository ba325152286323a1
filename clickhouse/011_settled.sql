-- What an event has used of budgets, beside its row as its cost is: what was spent of a budget is the sum of these, and is read from here again
-- where Redis has lost it (clickhouse/queries/settled-amounts.ts). Written by the store pipeline out of the event's summary (schemas/entry.ts).

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS settled String COMMENT 'JSON: of each budget its policy, what it counts and for whom as hashes, whose it is in words, and the amount: money in millionths; empty: of none' CODEC(ZSTD(1));
