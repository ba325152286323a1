#!lua
-- Lets go of a request of spans that is recorded.
-- KEYS[1] stream of what is held   KEYS[2] hash account -> bytes, '' -> all   KEYS[3] the body
-- ARGV[1] id   ARGV[2] account   ARGV[3] its bytes, as they were counted
-- Guarantees: safe to send again.
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
local bytes = tonumber(ARGV[3])
redis.call('DEL', KEYS[3])
redis.call('HINCRBY', KEYS[2], '', -bytes)
if redis.call('HINCRBY', KEYS[2], ARGV[2], -bytes) <= 0 then redis.call('HDEL', KEYS[2], ARGV[2]) end
return 1
