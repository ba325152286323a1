-- Deliveries of notifications, one row each: as the queue in Redis last knew it. Fed by the journal, with its revision.
-- Replacing by revision, and read with FINAL: a row may arrive twice or late, the newest one stands.
-- `signal` is kept so that a delivery that failed can be sent again after the queue has let go of it.

CREATE TABLE IF NOT EXISTS {{database}}.deliveries{{on_cluster}}
(
    account_id      String                 COMMENT 'Account that the delivery belongs to, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id              String                 COMMENT 'Delivery id, also the webhook-id, e.g. dlv_01jd5x0f6w3q8z5n7r2k9v4t1m',
    alert_id        String                 COMMENT 'Alert whose notification it is, e.g. alr_01jd5x0f6w3q8z5n7r2k9v4t1m',
    alert_name      String                 COMMENT 'Name of the alert when the delivery was made',
    agent_id        Nullable(String)       COMMENT 'Agent that the (newest) signal is about; null: none',
    event_id        Nullable(String)       COMMENT 'Event that the (newest) signal follows from; null: none',
    trigger         LowCardinality(String) COMMENT 'policy_violation, anomaly_detected, agent_down or rate_limit_exceeded',
    severity        Enum8('low' = 1, 'medium' = 2, 'high' = 3, 'critical' = 4) COMMENT 'Of the (newest) signal',
    channel         LowCardinality(String) COMMENT 'email, chat_app or webhook',
    target          String                 COMMENT 'Scheme and host of a URL, or the mail address',
    status          LowCardinality(String) COMMENT 'pending, delivered, failed or cancelled',
    count           UInt64                 COMMENT 'Signals that it tells of, e.g. 1',
    test            Bool                   COMMENT 'Asked for by POST /v1/alerts/{id}/test',
    attempts        String                 COMMENT 'JSON array of attempts, oldest first' CODEC(ZSTD(1)),
    transport       LowCardinality(Nullable(String)) COMMENT 'How the last attempt sent the mail: smtp or outbox; null: no attempt, or another channel',
    next_attempt_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When it is tried next, UTC ms; null: never',
    created_at      DateTime64(3, 'UTC')   COMMENT 'When it was enqueued first, UTC ms; decides partition and expiry',
    updated_at      DateTime64(3, 'UTC')   COMMENT 'When it last changed, UTC ms',
    signal          String                 COMMENT 'JSON of the (newest) signal' CODEC(ZSTD(1)),
    revision        UInt64                 COMMENT 'Revision of the account''s registry shard that made the row so, e.g. 4711',
    policy_ids      Array(String)
        MATERIALIZED arrayMap(policy -> JSONExtractString(policy, 'id'), JSONExtractArrayRaw(signal, 'policies'))
        COMMENT 'Policies that the (newest) signal names, e.g. [pol_01jd5x0f6w3q8z5n7r2k9v4t1m]'
)
ENGINE = {{engine:ReplacingMergeTree:revision}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, id)
TTL created_at + toIntervalDay({{retention_days}})
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
