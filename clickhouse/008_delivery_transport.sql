-- How a mail went (decisions 10.1). Rows from before this column say nothing of it.

ALTER TABLE {{database}}.deliveries{{on_cluster}}
    ADD COLUMN IF NOT EXISTS transport LowCardinality(Nullable(String)) COMMENT 'How the last attempt sent the mail: smtp or outbox; null: no attempt, or another channel' AFTER attempts;
