#!lua flags=allow-oom
-- Says that something continues, so that others can tell since when it has done so without a gap.
-- KEYS[1] hash: since, at   ARGV[1] ms between two marks that are a gap   ARGV[2] epoch ms, '': Redis's clock
-- Result: epoch ms since when. A clock that was set back is a gap as well.
local time = redis.call('TIME')
local now = tonumber(ARGV[2]) or math.floor(time[1] * 1000 + time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'since', 'at')
local since, at = tonumber(kept[1]), tonumber(kept[2])
if not since or not at or now < at or now - at > tonumber(ARGV[1]) then since = now end
redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'at', string.format('%.0f', now))
return since
