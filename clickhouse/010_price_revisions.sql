-- What the price table of each account said at each of its revisions, so that the cost of an event can be reckoned again by the one that its row names.
-- Written from the registry's journal (pipelines/store/journal.ts). No row is changed, and none expires; a journal entry that is delivered twice is one.

CREATE TABLE IF NOT EXISTS {{database}}.price_revisions{{on_cluster}}
(
    account_id String                 COMMENT 'Account that owns the prices, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id         UInt64                 COMMENT 'Number of the revision of the table, from 2: 1 is empty',
    revision   UInt64                 COMMENT 'Revision of the account''s registry shard that made it so, e.g. 4711',
    actor      String                 COMMENT 'Who did it: key:<key id>, or system',
    created_at DateTime64(3, 'UTC')   COMMENT 'When, UTC ms, e.g. 2026-11-20 17:28:00.123',
    record     String                 COMMENT 'The table, JSON' CODEC(ZSTD(1))
)
ENGINE = {{engine:ReplacingMergeTree:revision}}
ORDER BY (account_id, id)
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
