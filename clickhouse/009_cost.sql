-- What an event cost, beside its row as `shadow` is, so the audit chain does not know it: it follows from the payload and a revision of the account's
-- price table, which is kept (010_price_revisions.sql), and can be reckoned again. Written by the store pipeline out of the event's summary
-- (schemas/entry.ts). Two columns, since each file of a part costs an insert more than what is in it. Rows of before have neither.

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS cost Nullable(Int64) COMMENT 'What its tokens cost, in millionths of the currency''s unit, e.g. 12345; null: it says none, the account had no prices, or none for its model';

ALTER TABLE {{database}}.events{{on_cluster}}
    ADD COLUMN IF NOT EXISTS priced_by LowCardinality(String) COMMENT 'Currency and revision of the price table that was asked, e.g. USD 3; empty: none was';
