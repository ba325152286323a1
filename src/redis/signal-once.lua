#!lua flags=allow-oom
-- Appends one entry to a signal stream, unless an entry with the same marker was appended.
-- KEYS[1] signal stream   KEYS[2] marker   ARGV[1] field   ARGV[2] value   ARGV[3] life of the marker in ms
-- Result: 1 if it was appended, 0 if it was there already.
-- Guarantees: one entry per life of the marker, over all callers. Safe to send again.
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[3]) then return 0 end
redis.call('XADD', KEYS[1], '*', ARGV[1], ARGV[2])
return 1
