-- What each policy said at each of its revisions: one row a revision, deletions among them. Made of the registry's journal together with the audit entry
-- of the change (pipelines/store/journal.ts), and kept as long as that: no row is changed, and none expires.
-- Replacing, and read with FINAL: a journal entry that is delivered twice is one revision.

CREATE TABLE IF NOT EXISTS {{database}}.policy_revisions{{on_cluster}}
(
    account_id    String                 COMMENT 'Account that owns the policy, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    policy_id     String                 COMMENT 'The policy, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m',
    revision      UInt64                 COMMENT 'Number of the revision, from 1',
    agent_id      String                 COMMENT 'Agent that the policy is scoped to, and with which it is erased; empty: none',
    action        Enum8('created' = 1, 'updated' = 2, 'deleted' = 3) COMMENT 'What was done to the policy',
    actor         String                 COMMENT 'Who did it: key:<key id>, or system',
    created_at    DateTime64(3, 'UTC')   COMMENT 'When, UTC ms, e.g. 2026-11-20 17:28:00.123' CODEC(Delta, ZSTD(1)),
    restored_from UInt64                 COMMENT 'Revision whose text was put back; 0: none',
    differences   String                 COMMENT 'JSON array of what differs from the revision before, e.g. [{"path":"/severity","before":null,"after":"high"}]' CODEC(ZSTD(1)),
    record        String                 COMMENT 'The policy as it was from then on, JSON; empty: deleted' CODEC(ZSTD(1))
)
ENGINE = {{engine:ReplacingMergeTree}}
ORDER BY (account_id, policy_id, revision)
SETTINGS {{deduplication_window:1000}}, fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
