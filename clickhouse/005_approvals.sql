-- What pending events wait for: one row an approval, its newest state, written by the journal.
-- Replacing by revision: a change that arrives twice or late does no harm. Lists read it with FINAL.
-- An event's final outcome is read off this table, never written into the event's row (clickhouse/queries/final-outcome.ts). That needs no
-- FINAL: an approval is decided once, so a row with an outcome other than `pending` is never contradicted by another.
-- `created_at` is the event's arrival: both expire together, and all states of an approval lie in one partition.

CREATE TABLE IF NOT EXISTS {{database}}.approvals{{on_cluster}}
(
    account_id  LowCardinality(String)        COMMENT 'Account that owns the event, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id          String                        COMMENT 'Approval id, e.g. apr_01jd5x0f6w3q8z5n7r2k9v4t1m',
    agent_id    LowCardinality(String)        COMMENT 'Agent that the event is of, e.g. agt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    event_id    String                        COMMENT 'Event that waits, e.g. evt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    policy_id   String                        COMMENT 'Policy that asked for it, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m',
    policy_name String                        COMMENT 'Its name when it asked',
    status      Enum8('pending' = 1, 'approved' = 2, 'denied' = 3, 'expired' = 4) COMMENT 'What has become of it',
    outcome     Enum8('allowed' = 1, 'blocked' = 2, 'pending' = 3) COMMENT 'What the event ends as; pending: undecided',
    on_timeout  Enum8('deny' = 1, 'approve' = 2) COMMENT 'What becomes of it if nobody decides',
    created_at  DateTime64(3, 'UTC')          COMMENT 'When the event arrived, UTC ms; decides partition and expiry, e.g. 2026-11-20 17:28:00.123',
    expires_at  DateTime64(3, 'UTC')          COMMENT 'When it is decided by timeout, UTC ms, e.g. 2026-11-20 18:28:00.123',
    decided_at  Nullable(DateTime64(3, 'UTC')) COMMENT 'When it was decided, UTC ms; null: undecided',
    decided_by  Nullable(String)              COMMENT 'key:<key id>, or system for a timeout; null: undecided',
    comment     Nullable(String)              COMMENT 'What the one who decided said; null: nothing',
    reason      LowCardinality(String)        COMMENT 'approval, agent_inactive or policy; empty: undecided',
    blocked_by  String                        COMMENT 'Policy made since that blocks the event; empty: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m',
    revision    UInt64                        COMMENT 'Revision of the account''s registry shard that made it so, e.g. 4711',

    INDEX id_bloom id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX event_bloom event_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = {{engine:ReplacingMergeTree:revision}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, id)
TTL created_at + toIntervalDay({{retention_days}})
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
