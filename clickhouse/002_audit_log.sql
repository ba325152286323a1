-- The audit log of everything but events: registry changes, which arrive here through the journal with their record.
-- The entries of event submissions are not stored: clickhouse/queries/list-audit-logs.ts reads them off the event rows, so that they cost
-- nothing at insert and can never disagree with their source (a materialized view's second insert can be torn off by a kill).
-- Replacing, and read with FINAL: a journal entry that is delivered twice is one entry. It never expires.

CREATE TABLE IF NOT EXISTS {{database}}.audit_log{{on_cluster}}
(
    account_id    String                 COMMENT 'Account that the entry belongs to, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id            String                 COMMENT 'Entry id, e.g. log_01jd5x0f6w3q8z5n7r2k9v4t1m',
    action        LowCardinality(String) COMMENT 'What was done, dotted, e.g. policy.created',
    actor         String                 COMMENT 'Who did it: key:<key id>, agent:<agent id> or system',
    resource_type LowCardinality(String) COMMENT 'Kind of resource acted on, e.g. policy',
    resource_id   String                 COMMENT 'Its id, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m',
    details       String                 COMMENT 'JSON object, e.g. {"name":"no payments","request_id":"3f9a1c"}' CODEC(ZSTD(1)),
    created_at    DateTime64(3, 'UTC')   COMMENT 'When, UTC ms, e.g. 2026-11-20 17:28:00.123' CODEC(Delta, ZSTD(1)),
    about_agent   String                 MATERIALIZED multiIf(resource_type = 'agent', resource_id, startsWith(actor, 'agent:'), substring(actor, 7), JSONExtractString(details, 'agent_id')) COMMENT 'Agent that the entry tells of, and with which it is erased; empty: none'
)
ENGINE = {{engine:ReplacingMergeTree}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, id)
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
