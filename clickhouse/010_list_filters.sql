-- What lists are filtered by besides the columns that rows were made with: an event by any of its matches, a delivery by the policies it tells of,
-- an anomaly by the policy that blocked. Rows of before get `matched` and `policy_ids` when they are read, and an empty `policy_id`.
--
-- `matched` is made of policy_result when a row is inserted, which costs nothing where that is empty. One column for all three filters, since each
-- file of a part costs an insert more than what is in it. The filter of its terms is made by merges (clickhouse/client.ts).

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS matched Array(LowCardinality(String))
        MATERIALIZED if(empty(policy_result), CAST([], 'Array(LowCardinality(String))'), CAST(arrayDistinct(arrayFilter(term -> NOT endsWith(term, ':'), arrayFlatten(arrayMap(match -> [concat('policy:', JSONExtractString(match, 'policy_id')), concat('severity:', JSONExtractString(match, 'severity')), concat('detector:', JSONExtractString(match, 'detail', 'detector'))], JSONExtractArrayRaw(policy_result, 'matches'))))), 'Array(LowCardinality(String))'))
        COMMENT 'Of all its matches, each once: policy:<id>, severity:<level>, detector:<name>, e.g. [policy:pol_01jd5x0f6w3q8z5n7r2k9v4t1m, severity:high]';

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD INDEX IF NOT EXISTS matched_bloom matched TYPE bloom_filter(0.01) GRANULARITY 4;

ALTER TABLE {{database}}.anomalies{{on_cluster}}
    ADD COLUMN IF NOT EXISTS policy_id Nullable(String) COMMENT 'Policy that blocked the event, of a blocked_event; null: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m';

ALTER TABLE {{database}}.deliveries{{on_cluster}}
    ADD COLUMN IF NOT EXISTS policy_ids Array(String)
        MATERIALIZED arrayMap(policy -> JSONExtractString(policy, 'id'), JSONExtractArrayRaw(signal, 'policies'))
        COMMENT 'Policies that the (newest) signal names, e.g. [pol_01jd5x0f6w3q8z5n7r2k9v4t1m]';
