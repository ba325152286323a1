#!lua flags=allow-oom
-- Appends one entry to a signal stream, also to a full Redis: appending is part of what empties it.
-- KEYS[1] stream   ARGV[1] field   ARGV[2] value
-- Result: the entry's id. Sent again it appends again: signals allow repetition.
return redis.call('XADD', KEYS[1], '*', ARGV[1], ARGV[2])
