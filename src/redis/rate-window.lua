#!lua
-- Takes places at counters of rate_limit policies: each an exact sliding window out of 60 sub-buckets, counted conservatively.
-- KEYS counters: hash sub-bucket number -> places taken in it, `newest` -> the last of them, `sum` -> all places in it; PEXPIRE a little
-- over one window
-- ARGV seven for each key: threshold   window in ms   places asked for   '1': what is over takes a place, too
--   places to be held in advance   held ones that come back unused   the sub-bucket in which those were counted
-- Result: five for each key: how many of the places asked for are within the threshold, first come first; how many are held in
-- advance, none unless all asked for are granted; the sub-bucket in which both are counted, and for how many ms it lasts; in how many ms
-- the next place is free, 0 where all were granted. Then the epoch ms at which they were counted.
-- What is held counts as taken, and is at most a small share of what is free: held by a few fronts, it must not be what blocks events.
-- Places come back to the sub-bucket that has them; where that is gone, or holds fewer, they are not taken off anything.
-- Guarantees: never more than the threshold are granted in any window, by Redis's clock; a place frees at most 1/60 of the
-- window late, since the oldest sub-bucket counts whole until it lies outside whole: sub-buckets b-60 to b are summed.
-- The clock never runs backwards here: a step back of less than a window stays in the newest sub-bucket; after a longer one
-- all places count as taken just now, so that the counter is right again one window later.
-- Costs four commands while the newest sub-bucket is in use, however many there are: `sum` is kept, and what leaves the window is taken off it.
-- A Redis that is full refuses this script, and with it the events: nothing passes uncounted.
local time = redis.call('TIME')
local us = time[1] * 1000000 + time[2]

local function field(number) return string.format('%.0f', number) end

-- Of what is free one caller holds at most this part.
local SHARE = 128

-- In how many ms enough has left the window for one more place, of `taken` after this call.
local function freeIn(key, threshold, window, bucket, taken)
  local numbers = {}
  for number = bucket - 60, bucket do numbers[#numbers + 1] = field(number) end
  local missing = taken - threshold + 1
  for i, places in ipairs(redis.call('HMGET', key, unpack(numbers))) do
    if places then missing = missing - tonumber(places) end
    if missing <= 0 then return math.max(1, math.ceil(((bucket + i) * window * 1000 / 60 - us) / 1000)) end
  end
  return window
end

local function take(key, threshold, window, asked, isAllTaken, hold, back, backBucket)
  local bucket = math.floor(us * 60 / (window * 1000))
  local kept = redis.call('HMGET', key, 'newest', 'sum')
  local newest = tonumber(kept[1]) or bucket
  local taken, gone = tonumber(kept[2] or 0), {}
  local rebase = newest > bucket + 60
  if not rebase then bucket = math.max(bucket, newest) end
  local isNew = not kept[1] or rebase or bucket - newest > 60
  if isNew then
    if not rebase then taken = 0 end
  elseif bucket > newest then
    local left = {}
    for number = newest - 60, bucket - 61 do left[#left + 1] = field(number) end
    for i, places in ipairs(redis.call('HMGET', key, unpack(left))) do
      if places then
        taken = taken - tonumber(places)
        gone[#gone + 1] = left[i]
      end
    end
  end
  local isBack = false
  if back > 0 and not isNew and backBucket >= bucket - 60 then
    isBack = tonumber(redis.call('HGET', key, field(backBucket)) or 0) >= back
    if isBack then
      redis.call('HINCRBY', key, field(backBucket), field(-back))
      taken = taken - back
    end
  end
  local granted = math.max(0, math.min(asked, threshold - taken))
  local held = 0
  if hold > 0 and granted == asked then held = math.max(0, math.min(hold, math.floor((threshold - taken - asked) / SHARE))) end
  local lasts = math.floor(((bucket + 1) * window * 1000 / 60 - us) / 1000)
  lasts = math.max(0, math.min(lasts, math.ceil(window / 60)))
  local places = (isAllTaken and asked or granted) + held
  if rebase then places = places + taken end
  if places == 0 and not isBack then
    return granted, held, bucket, lasts, granted < asked and freeIn(key, threshold, window, bucket, taken) or 0
  end
  if isNew then redis.call('DEL', key) end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  redis.call('HINCRBY', key, field(bucket), field(places))
  redis.call('HSET', key, 'newest', field(bucket), 'sum', field(rebase and places or taken + places))
  -- From a sub-bucket's first place on: that outlives its last one's window.
  if isNew or bucket > newest then redis.call('PEXPIRE', key, field(math.ceil(window * 61 / 60) + 1)) end
  local free = granted < asked and freeIn(key, threshold, window, bucket, rebase and places or taken + places) or 0
  return granted, held, bucket, lasts, free
end

local result = {}
for i = 1, #KEYS do
  local at, to = 7 * (i - 1), 5 * (i - 1)
  local function number(place) return tonumber(ARGV[at + place]) end
  result[to + 1], result[to + 2], result[to + 3], result[to + 4], result[to + 5] =
    take(KEYS[i], number(1), number(2), number(3), ARGV[at + 4] == '1', number(5), number(6), number(7))
end
result[5 * #KEYS + 1] = math.floor(time[1] * 1000 + time[2] / 1000)
return result
