-- What shadow policies would have made of an event, beside its row: rows and answers are the same with and without shadows, so the audit chain does
-- not know it (schemas/event-row.ts). Written by the store pipeline out of the event's summary (schemas/entry.ts). It holds ids and words of a
-- closed set, nothing of the payload. Empty in rows of before, and in most others: the report of a shadow reads the column alone to find its own.

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS shadow String COMMENT 'What shadows would have made of it, JSON, e.g. [{"policy_id":"pol_01jd5x0f6w3q8z5n7r2k9v4t1m","revision":3,"would":"blocked"}]; empty: nothing' CODEC(ZSTD(1));
