-- Why a decided event ends as it does, where it is not for the decision alone (decisions 11.5). Rows from before these columns say nothing of it.

ALTER TABLE {{database}}.approvals{{on_cluster}}
    ADD COLUMN IF NOT EXISTS reason LowCardinality(String) COMMENT 'approval, agent_inactive or policy; empty: undecided, or the decision' AFTER comment,
    ADD COLUMN IF NOT EXISTS blocked_by String COMMENT 'Policy made since that blocks the event; empty: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m' AFTER reason;
