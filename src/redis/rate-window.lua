#!lua
-- Takes places at the counter of a rate_limit policy: an exact sliding window out of 60 sub-buckets, counted conservatively.
-- KEYS[1] counter (hash sub-bucket number -> places taken in it), PEXPIRE a little over one window
-- ARGV[1] threshold   ARGV[2] window in ms   ARGV[3] places asked for   ARGV[4] '1': what is over takes a place, too
-- Result: {how many of the places asked for are within the threshold, first come first; epoch ms at which they were counted}.
-- Guarantees: never more than the threshold are granted in any window, by Redis's clock; a place frees at most 1/60 of the
-- window late, since the oldest sub-bucket counts whole until it lies outside whole: sub-buckets b-60 to b are summed.
-- The clock never runs backwards here: a step back of less than a window stays in the newest sub-bucket; after a longer one
-- all places count as taken just now, so that the counter is right again one window later.
-- A Redis that is full refuses this script, and with it the event: nothing passes uncounted.
local threshold, window, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local bucket = math.floor((time[1] * 1000000 + time[2]) * 60 / (window * 1000))
local kept = redis.call('HGETALL', KEYS[1])
local newest = bucket
for i = 1, #kept, 2 do newest = math.max(newest, tonumber(kept[i])) end
local rebase = newest > bucket + 60
if not rebase then bucket = newest end

local taken, gone = 0, {}
for i = 1, #kept, 2 do
  if rebase or tonumber(kept[i]) >= bucket - 60 then taken = taken + tonumber(kept[i + 1]) end
  if rebase or tonumber(kept[i]) < bucket - 60 then gone[#gone + 1] = kept[i] end
end
local granted = math.max(0, math.min(asked, threshold - taken))
local places = ARGV[4] == '1' and asked or granted
if rebase then places = places + taken end
if places > 0 then
  if #gone > 0 then redis.call('HDEL', KEYS[1], unpack(gone)) end
  redis.call('HINCRBY', KEYS[1], string.format('%.0f', bucket), string.format('%.0f', places))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(window * 61 / 60) + 1))
end
return { granted, math.floor(time[1] * 1000 + time[2] / 1000) }
