-- The hash chains of the audit log: per account one for registry changes and one for each event partition, in the order of the streams.
-- A row is a block: consecutive entries of a chain. Entry n is bound by hash n = SHA-256(1, hash n-1, n, leaf n, agent n, time n), so blocks may be
-- cut anywhere: what was chained within a few seconds is one row. src/audit/hash.ts says what a leaf is.
-- Replacing by version: a block is written again, as long or longer, when its writer died before it had noted that it was written. Read with FINAL.
-- Blocks stay for ever: they hold hashes. What they cost, 64 bytes an entry before compression, goes with the events' retention (a little later,
-- so that no event outlives its leaf): then a block is an empty link that still ties its neighbours together.

CREATE TABLE IF NOT EXISTS {{database}}.audit_chain{{on_cluster}}
(
    account_id LowCardinality(String) COMMENT 'Account whose entries these are, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    chain      LowCardinality(String) COMMENT 'registry, or events-<partition>, e.g. events-3',
    first_n    UInt64                 COMMENT 'Number of the block''s first entry in its chain, from 1',
    count      UInt32                 COMMENT 'How many entries',
    previous   FixedString(32)        COMMENT 'Hash before the first entry; of the very first: SHA-256 of account and chain',
    hash       FixedString(32)        COMMENT 'Hash after the last entry',
    from_at    DateTime64(3, 'UTC')   COMMENT 'When the earliest of the entries arrived, UTC ms' CODEC(Delta, ZSTD(1)),
    last_at    DateTime64(3, 'UTC')   COMMENT 'When the latest of the entries arrived, UTC ms; decides when the contents expire' CODEC(Delta, ZSTD(1)),
    leaves     Array(FixedString(32)) COMMENT 'SHA-256 of each row as it was inserted' CODEC(NONE) TTL last_at + toIntervalDay({{retention_days}}) + toIntervalDay(2),
    agents     Array(FixedString(16)) COMMENT 'Agent that each entry tells of, 128 bits of its id; zeros: none. Covered by the hash' CODEC(ZSTD(1)) TTL last_at + toIntervalDay({{retention_days}}) + toIntervalDay(2),
    ids        Array(FixedString(16)) COMMENT 'Id of each entry''s row, 128 bits: to find it and to name it. Its time, the first 48 bits, is covered by the hash; the rest is zeros once its agent is erased' CODEC(ZSTD(1)) TTL last_at + toIntervalDay({{retention_days}}) + toIntervalDay(2),
    version    UInt64                 COMMENT 'The block with the highest one stands'
)
ENGINE = {{engine:ReplacingMergeTree:version}}
ORDER BY (account_id, chain, first_n)
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
