-- Says anew where the events' tokens_used come from: answers of providers count, too (src/ingest/token-usage.ts). The column is as it was.

ALTER TABLE {{database}}.events{{on_cluster}}
    COMMENT COLUMN IF EXISTS tokens_used 'Tokens, drawn when the event arrived: payload.tokens_used where it is an integer; where it is absent, what a provider says in payload.usage, usageMetadata or usage_metadata. Anomaly detection reads it, e.g. 1834';
