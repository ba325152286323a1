#!lua flags=allow-oom
-- Prolongs a lease, if the caller still holds it.
-- KEYS[1] lease   ARGV[1] the lease's text   ARGV[2] life in ms
-- Result: 1, or 0 if the lease ran out or has another owner.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
