-- Search by one tokenizer (decisions 11.8, src/common/search): a column for the words of a payload where they cannot be seen in its text, written by
-- the store pipeline, and a text index over them. The column is not part of a row that the audit chain knows (schemas/event-row.ts): rows of before
-- get it afterwards (pipelines/store/search-rebuild.ts), and keep their search_text, which is empty in new rows.
--
-- The index is over a text of tokens. Where `words` is empty: the payload itself, all of it ASCII, or what was searched before. Else each word; of
-- scripts without spaces each character and each two neighbours, so that any part is found; of Hangul each beginning, up to 8 syllables. \x01 begins a
-- word without spaces, \x02 one of Hangul, \x03 stands between words that are not next to each other. Merges build it, as the others
-- (clickhouse/client.ts). With a tenth of the events in Chinese or Japanese it has 1.3 times the size of the index that it replaces.

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS words String COMMENT 'Words of the payload, for the search only, a blank around each; empty: they are seen in the payload itself' CODEC(ZSTD(1));

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD INDEX IF NOT EXISTS search_words if(empty(words), lowerUTF8(replaceRegexpAll(if(empty(search_text), replaceRegexpAll(payload, '\\\\["\\\\/bfnrt]', ' '), search_text), '[\\x{80}-\\x{BF}\\x{2000}-\\x{2BFF}\\x{3000}-\\x{303F}\\x{FE10}-\\x{FE1F}\\x{FE30}-\\x{FE6F}\\x{FF00}-\\x{FF0F}\\x{FF1A}-\\x{FF20}\\x{FF3B}-\\x{FF40}\\x{FF5B}-\\x{FF65}\\x{1F000}-\\x{1FAFF}]', ' ')), concatWithSeparator(' ', replaceRegexpAll(words, '\\x01[^ ]*', ''), arrayStringConcat(ngrams(arrayStringConcat(extractAll(words, '\\x01([^ ]+)'), ' '), 1), ' '), arrayStringConcat(ngrams(arrayStringConcat(extractAll(words, '\\x01([^ ]+)'), ' '), 2), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{1})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{2})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{3})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{4})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{5})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{6})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{7})'), ' '), arrayStringConcat(extractAll(words, '\\x02([^ ]{8})'), ' '))) TYPE text(tokenizer = 'splitByNonAlpha');

ALTER TABLE {{database}}.events{{on_cluster}}
    DROP INDEX IF EXISTS payload_words;

ALTER TABLE {{database}}.events{{on_cluster}}
    COMMENT COLUMN IF EXISTS search_text 'Of rows that were stored before there was the column words: decoded strings of a payload with \\u escapes, one a line; else empty';

-- Search texts of rows of before, on their way into the table.
CREATE TABLE IF NOT EXISTS {{database}}.search_rebuild{{on_cluster}}
(
    chunk String COMMENT 'Which are written together; epoch ms at which they were begun, e.g. 1764264000000',
    id    String COMMENT 'Event, e.g. evt_01jd5x0f6w3q8z5n7r2k9v4t1m',
    words String COMMENT 'What its column of this name will hold' CODEC(ZSTD(1))
)
ENGINE = {{engine:MergeTree}} PARTITION BY chunk ORDER BY id
SETTINGS {{deduplication_window:100}};
