-- The registry as Redis holds it, one row a resource: its newest revision. `gatehouse registry restore` rebuilds an empty Redis from here.
-- Replacing by revision, and read with FINAL: changes may arrive twice or late, the newest one stands.

CREATE TABLE IF NOT EXISTS {{database}}.registry{{on_cluster}}
(
    account_id String                 COMMENT 'Account that owns the resource, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    kind       LowCardinality(String) COMMENT 'agent, policy, alert, api_key or account',
    id         String                 COMMENT 'Resource id, e.g. agt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    revision   UInt64                 COMMENT 'Revision of the account''s registry shard that made the record so, e.g. 4711',
    at         DateTime64(3, 'UTC')   COMMENT 'When, UTC ms, e.g. 2026-11-20 17:28:00.123',
    record     String                 COMMENT 'The record, JSON; empty: deleted' CODEC(ZSTD(1))
)
ENGINE = {{engine:ReplacingMergeTree:revision}}
ORDER BY (account_id, kind, id)
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
