#!lua flags=allow-oom
-- Prolongs a lease, if the caller still holds it.
-- KEYS[1] lease   ARGV[1] the lease's text   ARGV[2] life in ms   ARGV[3] run of Redis that the owner knows, or ''
-- Result: 1, or 0 if the lease ran out or has another owner, or Redis is another one.
if redis.call('GET', KEYS[1]) ~= ARGV[1] or is_other_run(ARGV[3]) then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
