#!lua flags=allow-oom
-- Takes outcomes that have expired out of an account's list, and their bytes out of the sums.
-- KEYS[1] list of the account's records   KEYS[2] hash account -> bytes, '' -> all
-- ARGV[1] account   ARGV[2] how many at most
-- Result: how many there were; as many as ARGV[2]: there may be more.
-- Guarantees: safe to send again.
local now = tonumber(redis.call('TIME')[1]) * 1000
local freed, taken = 0, 0
for _ = 1, tonumber(ARGV[2]) do
  local untilMs, size = string.match(redis.call('LINDEX', KEYS[1], 0) or '', '^(%d+)/(%d+)/')
  if not untilMs or tonumber(untilMs) > now then break end
  redis.call('LPOP', KEYS[1])
  freed = freed + size
  taken = taken + 1
end
if freed > 0 then
  redis.call('HINCRBY', KEYS[2], '', -freed)
  redis.call('HINCRBY', KEYS[2], ARGV[1], -freed)
end
if redis.call('LLEN', KEYS[1]) == 0 then
  local left = redis.call('HGET', KEYS[2], ARGV[1])
  if left then redis.call('HINCRBY', KEYS[2], '', -left) end
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return taken
