#!lua flags=allow-oom
-- Says how far a group is behind the end of a stream.
-- KEYS[1] stream   KEYS[2] watermark of the group
-- Result: {watermark, id of the stream's last entry}; the same id twice if nothing lies behind the watermark.
-- Only ids leave the script, since the entries may be large. An entry that was trimmed had been acknowledged.
local watermark = redis.call('GET', KEYS[2]) or '0-0'
if #redis.call('XRANGE', KEYS[1], '(' .. watermark, '+', 'COUNT', 1) == 0 then return { watermark, watermark } end
return { watermark, redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1] }
