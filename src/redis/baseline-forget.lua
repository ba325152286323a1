#!lua flags=allow-oom
-- Replaces the anomaly baseline of an erased agent by a mark, so that an owner who still holds it in memory cannot write it back.
-- KEYS[1] baseline   ARGV[1] life of the mark in ms
-- Result: OK.
return redis.call('SET', KEYS[1], '-', 'PX', ARGV[1])
