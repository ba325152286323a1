#!lua
-- Holds a request of spans until the spans around them have come.
-- KEYS[1] stream of what is held   KEYS[2] hash account -> bytes, '' -> all   KEYS[3] the body
-- ARGV[1] account   ARGV[2] bytes of an account at most   ARGV[3] bytes of all at most   ARGV[4] its head
-- ARGV[5] its body   ARGV[6] what the body's key ends with
-- Result: 1, or 0 where there is no room and nothing was written.
-- Guarantees: sent again under the same body's key it is held once.
if redis.call('EXISTS', KEYS[3]) == 1 then return 1 end
-- A stream entry, a key and what holds them take a kilobyte.
local bytes = #ARGV[4] + #ARGV[5] + 1024
local own, all = redis.call('HGET', KEYS[2], ARGV[1]) or 0, redis.call('HGET', KEYS[2], '') or 0
if own + bytes > tonumber(ARGV[2]) or all + bytes > tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[3], ARGV[5])
redis.call('XADD', KEYS[1], '*', 'account', ARGV[1], 'head', ARGV[4], 'body', ARGV[6], 'bytes', bytes)
redis.call('HINCRBY', KEYS[2], ARGV[1], bytes)
redis.call('HINCRBY', KEYS[2], '', bytes)
return 1
