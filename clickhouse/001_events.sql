-- The events, as the store pipeline writes them: one RowBinary insert of one month per batch, columns in the order of schemas/event-row.ts.
-- Sorted for an agent's list; partitioned and expired by arrival, so that a caller's clock can neither scatter partitions nor hide from retention.
-- A retried batch carries the token of the first try and vanishes (deduplication window below): that is what makes "exactly once" cheap.
--
-- What it costs, CPU a row, embedded engine, 2 shared cores, next to the table as it was in the same run (ratios are steadier than figures):
--   a stream of inserts of 1,500 rows of 475 bytes with few different words, merges included: 47 us instead of 59; of 3,000 rows with
--   forty words each: 74 instead of 94. Columns alone are 8.5 us of it in large inserts, two projections 2.7, and every file of a part
--   costs: an insert makes 47 (30 of them the projections'), so one minmax index has all ranges.
--   Words are gathered where a row is merged for the first time: 3 us a row where they repeat (100 events of 60 words over and over), 8 to 20
--   with forty of 20,000 different ones; later merges join what is there for 0.3 to 3. So inserts leave
--   text indexes out (clickhouse/client.ts), and until then rows are searched one by one, 3.5 us a row, with the same result.
--   prompt and response have token bloom filters, 1.5 us a row, where text indexes cost 9 to 27: the API searches whole payloads.
--   merge_selector_base 10 rewrites a row 1.7 times where 5 did 2.9 times, over 225,000 rows, and leaves 12 parts instead of 6.
--   Statistics of columns (auto_statistics_types) no read uses: every merge made them.
--   account_id and agent_id with a dictionary: 17 us instead of 20 an insert, and account-wide reads in 60 % of the CPU.
-- Granules of 1,024 rows, for reads of an agent's page and of a week: 8,192 rows of one agent are most of a month. Merges cost the same.
-- And of 256 KB, of which 500 bytes of event take 1.3: who reads one row unpacks half of its granule's payloads, ten times as much where payloads
-- are ten times as large. A timeline finds its rows by key in 32 ms instead of 56 (10 million). Inserts and merges under load cost the same within the noise,
-- an insert of 500,000 rows a quarter to a half more; with 128 KB searches took a third longer. Indexes span four granules, so
-- that each of their filters holds about as many rows as before.
-- A bloom filter finds a trace's granules: 15 ms instead of 170 with a trace_id column in a projection, 1,000,000 rows.
-- Merges write their parts to the disk before the old ones go, which the embedded engine does within half a minute: else a power
-- failure could take rows that had been synced when they were inserted. 5 % of all it costs.
-- The microseconds are a column of their own: a row's order is timestamp, timestamp_micros, id, and an agent's list is read in the order of the key as
-- far as that goes and sorted among the rows of one millisecond.
-- `matched` is made of policy_result at the insert, which costs nothing where that is empty. One column for three filters, since each file of a
-- part costs an insert more than what is in it.
-- `words` and `shadow` stand beside the row that the audit chain knows (schemas/event-row.ts): the store pipeline makes the one of the payload and
-- the other of the event's summary (pipelines/store/stored-rows.ts).
-- search_words is over a text of tokens (clickhouse/queries/search.ts has the same expression, to the letter). Where `words` is empty: the payload
-- itself, all of it ASCII. Else each word; of scripts without spaces each character and each two neighbours, so that any part is found; of Hangul each
-- beginning, up to 8 syllables. \x01 begins a word without spaces, \x02 one of Hangul, \x03 stands between words that are not next to each other.
-- by_time knows where a row lies (_part_offset): the rest of a timeline's rows is read from there (queries/event-rows.ts).
-- counts holds the totals that lists and the audit log answer: 12 ms for an account of 10 million rows, where reading a column of them took
-- 37. It costs an insert 1 ms of CPU (of 18), a large one 0.9 us a row, and 0.05 bytes a row on disk.
-- No setting may leave projections out of inserts: parts with and without them are never merged with each other.
-- An erasure drops the projections of the parts that it touches, and they are made anew afterwards (queries/erase-agent.ts). With 'rebuild'
-- the engine makes them with the erased rows in them (26.7, ClickHouse issue 111791): timelines and audit log went on counting these.

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
    outcome       Enum8('allowed' = 1, 'blocked' = 2, 'pending' = 3) COMMENT 'What the policies decided',
    reason        LowCardinality(String)          COMMENT 'policy, agent_inactive or approval; empty: none',
    policy_id     String COMMENT 'Deciding policy; empty: none, e.g. pol_01jd5x0f6w3q8z5n7r2k9v4t1m' CODEC(ZSTD(1)),
    approval_id   String COMMENT 'Approval that a pending event waits for; empty: none, e.g. apr_01jd5x0f6w3q8z5n7r2k9v4t1m' CODEC(ZSTD(1)),
    policy_result String COMMENT 'policy_result as it was answered, JSON; empty: allowed without a match' CODEC(ZSTD(1)),
    model         LowCardinality(String)          COMMENT 'payload.model where it is text; empty: none, e.g. gpt-4o',
    token_count   Nullable(Int64)                 COMMENT 'payload.token_count where it is an integer, tokens, e.g. 512',
    tokens_used   Nullable(Int64)                 COMMENT 'Tokens, drawn when the event arrived: payload.tokens_used where it is an integer; where it is absent, what a provider says in payload.usage, usageMetadata or usage_metadata. Anomaly detection reads it, e.g. 1834',
    request_id    String COMMENT 'X-Request-Id of the submission, for its audit records, e.g. 3f9a1c' CODEC(ZSTD(1)),
    timestamp_micros UInt16                       COMMENT 'When it happened, behind the millisecond of timestamp: 0 to 999 us, e.g. 456' CODEC(ZSTD(1)),
    words         String COMMENT 'Words of the payload, for the search only, a blank around each; empty: they are seen in the payload itself' CODEC(ZSTD(1)),
    shadow        String COMMENT 'What shadows would have made of it, JSON, e.g. [{"policy_id":"pol_01jd5x0f6w3q8z5n7r2k9v4t1m","revision":3,"would":"blocked"}]; empty: nothing' CODEC(ZSTD(1)),
    matched Array(LowCardinality(String))
        MATERIALIZED if(empty(policy_result), CAST([], 'Array(LowCardinality(String))'), CAST(arrayDistinct(arrayFilter(term -> NOT endsWith(term, ':'), arrayFlatten(arrayMap(match -> [concat('policy:', JSONExtractString(match, 'policy_id')), concat('severity:', JSONExtractString(match, 'severity')), concat('detector:', JSONExtractString(match, 'detail', 'detector'))], JSONExtractArrayRaw(policy_result, 'matches'))))), 'Array(LowCardinality(String))'))
        COMMENT 'Its matches, each once: policy:<id>, severity:<level>, detector:<name>, e.g. [policy:pol_01jd5x0f6w3q8z5n7r2k9v4t1m, severity:high]',
    prompt        String MATERIALIZED JSONExtractString(payload, 'prompt') COMMENT 'payload.prompt where it is text, decoded; empty: none' CODEC(ZSTD(1)),
    response      String MATERIALIZED JSONExtractString(payload, 'response') COMMENT 'payload.response where it is text, decoded; empty: none' CODEC(ZSTD(1)),

    INDEX ranges (received_at, timestamp, token_count, tokens_used) TYPE minmax GRANULARITY 4,
    INDEX trace_bloom trace_id TYPE bloom_filter(0.001) GRANULARITY 4,
    INDEX model_set model TYPE set(100) GRANULARITY 4,
    INDEX prompt_words lowerUTF8(prompt) TYPE tokenbf_v1(4096, 3, 0) GRANULARITY 4,
    INDEX response_words lowerUTF8(response) TYPE tokenbf_v1(4096, 3, 0) GRANULARITY 4,
    INDEX matched_bloom matched TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX search_words if(empty(words), lowerUTF8(replaceRegexpAll(replaceRegexpAll(payload, '\\\\["\\\\/bfnrt]', ' '), '[\\x{80}-\\x{BF}\\x{2000}-\\x{2BFF}\\x{3000}-\\x{303F}\\x{FE10}-\\x{FE1F}\\x{FE30}-\\x{FE6F}\\x{FF00}-\\x{FF0F}\\x{FF1A}-\\x{FF20}\\x{FF3B}-\\x{FF40}\\x{FF5B}-\\x{FF65}\\x{1F000}-\\x{1FAFF}]', ' ')), concatWithSeparator(' ', replaceRegexpAll(words, '\\x01[^ ]*', ''), arrayStringConcat(ngrams(arrayStringConcat(extractAll(words, '\\x01([^ ]+)'), ' '), 1), ' '), arrayStringConcat(ngrams(arrayStringConcat(extractAll(words, '\\x01([^ ]+)'), ' '), 2), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{1})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{2})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{3})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{4})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{5})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{6})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{7})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{8})'), ' '))) TYPE text(tokenizer = 'splitByNonAlpha'),

    PROJECTION by_time
    (
        SELECT account_id, timestamp, timestamp_micros, id, agent_id, type, outcome, model, trace_id, _part_offset
        ORDER BY account_id, timestamp, timestamp_micros, id
    ),
    PROJECTION by_arrival
    (
        SELECT account_id, received_at, id, agent_id, timestamp, outcome
        ORDER BY account_id, received_at, id
    ),
    PROJECTION counts
    (
        SELECT account_id, agent_id, type, outcome, count()
        GROUP BY account_id, agent_id, type, outcome
    )
)
ENGINE = {{engine:MergeTree}}
PARTITION BY toYYYYMM(received_at)
ORDER BY (account_id, agent_id, timestamp, id)
TTL received_at + toIntervalDay({{retention_days}})
SETTINGS {{deduplication_window:10000}}, lightweight_mutation_projection_mode = 'drop', max_compress_block_size = 65536,
    index_granularity = 1024, index_granularity_bytes = 262144, auto_statistics_types = '', merge_selector_base = 10,
    fsync_after_insert = 1, min_rows_to_fsync_after_merge = 1, fsync_part_directory = 1;
