#!lua flags=allow-oom
-- A pipeline's own writes to keys of its stream's slot, between two batches, for the owner of a lease.
-- KEYS[1] lease   KEYS[2..] keys that writes name by index
-- ARGV[1] the lease's text   ARGV[2] run of Redis that the caller knows, or ''
-- ARGV[3..] writes, each: number of words, words (a command, the index of its key in KEYS, arguments)
-- Result: false if the lease is lost, else 1. An error that begins with OTHERRUN: Redis is another one.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
if is_other_run(ARGV[2]) then return redis.error_reply('OTHERRUN this is not the Redis that was read from') end
local at = 3
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, at + words))
  at = at + words + 1
end
return 1
