-- Flagged events. Replacing, and read with FINAL: an anomaly's id follows from what was flagged, so a replay writes the same row again.

CREATE TABLE IF NOT EXISTS {{database}}.anomalies{{on_cluster}}
(
    account_id String                 COMMENT 'Account that the anomaly belongs to, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id         String                 COMMENT 'Anomaly id, e.g. ano_01jd5x0f6w3q8z5n7r2k9v4t1m',
    agent_id   String                 COMMENT 'Agent that behaved so, e.g. agt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    event_id   Nullable(String)       COMMENT 'Event that was flagged; null: a rate, not one event',
    kind       LowCardinality(String) COMMENT 'token_spike, error_rate, volume_spike or blocked_event',
    severity   Enum8('low' = 1, 'medium' = 2, 'high' = 3, 'critical' = 4) COMMENT 'How bad',
    observed   Nullable(Float64)      COMMENT 'Value seen, in the unit of the kind (tokens, share of 1, events), e.g. 18340',
    baseline   Nullable(Float64)      COMMENT 'Value expected, same unit, e.g. 1200',
    score      Nullable(Float64)      COMMENT 'How far off, in the kind''s own measure, e.g. 6.3',
    message    String                 COMMENT 'One sentence for people' CODEC(ZSTD(1)),
    timestamp  DateTime64(3, 'UTC')   COMMENT 'When it happened, UTC ms, e.g. 2026-11-20 17:28:00.123',
    created_at DateTime64(3, 'UTC')   COMMENT 'When it was flagged, UTC ms; decides partition and expiry, e.g. 2026-11-20 17:28:00.456',
    policy_id  Nullable(String)       COMMENT 'Policy that blocked the event, of a blocked_event; null: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m'
)
ENGINE = {{engine:ReplacingMergeTree}}
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, timestamp, id)
TTL created_at + toIntervalDay({{retention_days}})
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
