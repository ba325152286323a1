#!lua flags=allow-oom
-- Reads or writes the manifest of the batch that is about to be written, for the owner of a lease.
-- KEYS[1] lease   KEYS[2] manifest
-- ARGV[1] the lease's text   ARGV[2] the manifest's JSON, or '' to read   ARGV[3] run of Redis that the caller knows, or ''
-- Result: false if the lease is lost, else {manifest or '', its age in ms by Redis's clock}. An error that begins with OTHERRUN:
--   Redis is another one, nothing changed.
-- Guarantees: a manifest keeps the age of its first writing, however often it is rewritten.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
if is_other_run(ARGV[3]) then return redis.error_reply('OTHERRUN this is not the Redis that was read from') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('GET', KEYS[2])
local at, text = now, ''
if kept then
  local bar = string.find(kept, '|', 1, true)
  at, text = tonumber(string.sub(kept, 1, bar - 1)), string.sub(kept, bar + 1)
end
if ARGV[2] ~= '' then
  text = ARGV[2]
  redis.call('SET', KEYS[2], string.format('%.0f', at) .. '|' .. text)
end
return { text, math.floor(now - at) }
