-- The events, as the store pipeline writes them: one RowBinary insert of one month per batch, columns in the order of schemas/entry.ts.
-- Sorted for an agent's list; partitioned and expired by arrival, so that a caller's clock can neither scatter partitions nor hide from retention.
-- A retried batch carries the token of the first try and vanishes (deduplication window below): that is what makes "exactly once" cheap.
--
-- What it costs, CPU a row of 475 bytes in inserts of 10,000, embedded engine, 2 shared cores (ratios are steadier than figures):
--   columns alone 8.5 us · prompt and response by JSONExtractString +2 · two projections +2 · small indexes under 1 · fsync nothing measurable
--   text indexes built at insert +18, and again by every merge; so inserts leave them out (clickhouse/client.ts) and merges build them:
--   13-14 us an insert; all merges included 38 us instead of 46 (18 without text indexes, 27 with payload_words alone), over 300,000 rows.
--   account_id and agent_id with a dictionary: 17 us instead of 20 an insert, and account-wide reads in 60 % of the CPU.
-- Parts that no merge has touched yet are searched row by row, 3.5 us a row, with the same result.
-- A bloom filter finds a trace's granules: 15 ms instead of 170 with a trace_id column in a projection, 1,000,000 rows.

CREATE TABLE IF NOT EXISTS {{database}}.events{{on_cluster}}
(
    account_id    LowCardinality(String)          COMMENT 'Account that owns the event, e.g. acc_01jd5x0f6w3q8z5n7r2k9v4t1m',
    agent_id      LowCardinality(String)          COMMENT 'Agent that produced it, e.g. agt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    id            String                          COMMENT 'Event id; sorts by arrival, since it begins with the millisecond of it, e.g. evt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    type          LowCardinality(String)          COMMENT 'prompt, completion, tool_call, error or custom',
    trace_id      String                          COMMENT 'Caller''s correlation id, 1-200 characters; empty: none, e.g. 8f3c7deb-0804-5ad0-977b-30b4395650a1',
    timestamp     DateTime64(3, 'UTC') COMMENT 'When it happened, the caller''s word, UTC ms, e.g. 2026-11-20 17:28:00.123' CODEC(Delta, ZSTD(1)),
    received_at   DateTime64(3, 'UTC') COMMENT 'When it arrived, our clock, UTC ms; decides the partition and the expiry, e.g. 2026-11-20 17:28:00.456' CODEC(Delta, ZSTD(1)),
    payload       String COMMENT 'The caller''s own JSON text, redacted where a policy says so, e.g. {"model":"gpt-4o","prompt":"Hello"}' CODEC(ZSTD(1)),
    search_text   String COMMENT 'Empty, unless the payload holds \\u escapes: then its decoded strings, one a line, for the search only' CODEC(ZSTD(1)),
    outcome       Enum8('allowed' = 1, 'blocked' = 2, 'pending' = 3) COMMENT 'What the policies decided',
    reason        LowCardinality(String)          COMMENT 'policy, agent_inactive or approval; empty: none',
    policy_id     String COMMENT 'Deciding policy; empty: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m' CODEC(ZSTD(1)),
    approval_id   String COMMENT 'Approval that a pending event waits for; empty: none, e.g. apr_01jd5x0f6w3q8z5n7r2k9v4t1m' CODEC(ZSTD(1)),
    policy_result String COMMENT 'policy_result as it was answered, JSON; empty: allowed without a match' CODEC(ZSTD(1)),
    model         LowCardinality(String)          COMMENT 'payload.model where it is text; empty: none, e.g. gpt-4o',
    token_count   Nullable(Int64)                 COMMENT 'payload.token_count where it is an integer, tokens, e.g. 512',
    tokens_used   Nullable(Int64)                 COMMENT 'payload.tokens_used where it is an integer, tokens; anomaly detection reads it, e.g. 1834',
    request_id    String COMMENT 'X-Request-Id of the submission, for its audit records, e.g. 3f9a1c' CODEC(ZSTD(1)),
    prompt        String MATERIALIZED JSONExtractString(payload, 'prompt') COMMENT 'payload.prompt where it is text, decoded; empty: none' CODEC(ZSTD(1)),
    response      String MATERIALIZED JSONExtractString(payload, 'response') COMMENT 'payload.response where it is text, decoded; empty: none' CODEC(ZSTD(1)),

    INDEX received_at_range received_at TYPE minmax GRANULARITY 1,
    INDEX trace_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 1,
    INDEX model_set model TYPE set(100) GRANULARITY 1,
    INDEX token_count_range token_count TYPE minmax GRANULARITY 1,
    INDEX tokens_used_range tokens_used TYPE minmax GRANULARITY 1,
    INDEX prompt_words lowerUTF8(prompt) TYPE text(tokenizer = 'splitByNonAlpha'),
    INDEX response_words lowerUTF8(response) TYPE text(tokenizer = 'splitByNonAlpha'),
    INDEX payload_words lowerUTF8(replaceRegexpAll(if(empty(search_text), replaceRegexpAll(payload, '\\\\["\\\\/bfnrt]', ' '), search_text), '[\\x{80}-\\x{BF}\\x{2000}-\\x{2BFF}\\x{3000}-\\x{303F}\\x{FE10}-\\x{FE1F}\\x{FE30}-\\x{FE6F}\\x{FF00}-\\x{FF0F}\\x{FF1A}-\\x{FF20}\\x{FF3B}-\\x{FF40}\\x{FF5B}-\\x{FF65}\\x{1F000}-\\x{1FAFF}]', ' ')) TYPE text(tokenizer = 'splitByNonAlpha'),

    PROJECTION by_time
    (
        SELECT account_id, timestamp, id, agent_id, type, outcome, model, trace_id
        ORDER BY account_id, timestamp, id
    ),
    PROJECTION by_arrival
    (
        SELECT account_id, received_at, id, agent_id, timestamp, outcome
        ORDER BY account_id, received_at, id
    )
)
ENGINE = {{engine:MergeTree}}
PARTITION BY toYYYYMM(received_at)
ORDER BY (account_id, agent_id, timestamp, id)
TTL received_at + toIntervalDay({{retention_days}})
SETTINGS {{deduplication_window:10000}}, lightweight_mutation_projection_mode = 'rebuild', max_compress_block_size = 65536, fsync_after_insert = 1;
