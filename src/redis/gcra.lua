#!lua flags=allow-oom
-- Takes places from a token bucket (GCRA), as many as there are, by Redis's clock.
-- KEYS[1] state: the theoretical arrival time, epoch in microseconds; expires when the bucket is full again
-- ARGV[1] places that come back per second   ARGV[2] places of a full bucket   ARGV[3] places wanted
-- Result: {places taken, microseconds until there is one more than were taken}.
-- Guarantees: in any window of s seconds at most burst + s * rate places are taken, over all callers.
-- allow-oom: a full Redis must still serve reads, and the state is one small key per API key.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval = 1000000 / tonumber(ARGV[1])
local depth = tonumber(ARGV[2]) * interval
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
-- A limit that was lowered since must not keep the key out for longer than the new bucket takes to fill.
if arrival - now > depth then arrival = now + depth end
-- A thousandth of a place is forgiven to the rounding of doubles of this size.
local taken = math.min(tonumber(ARGV[3]), math.floor((depth - (arrival - now)) / interval + 0.001))
if taken > 0 then
  arrival = arrival + taken * interval
  redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000) + 1)
end
return { taken, math.max(0, math.ceil(arrival - now + interval - depth)) }
