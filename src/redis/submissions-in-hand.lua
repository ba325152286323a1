#!lua flags=allow-oom
-- Says of a front since when at least it has its submissions in hand, and answers for all fronts.
-- KEYS[1] hash front -> `<since> <at>`, epoch ms: none of its submissions began before `since`, it said so at `at`
-- ARGV[1] front, '': none   ARGV[2] since, '': it has stopped   ARGV[3] ms after which a front that says nothing has nothing in hand
-- Result: { now, oldest }: every submission that began before `oldest` has been answered.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function text(number) return string.format('%.0f', number) end

local front, since, silentMs = ARGV[1], ARGV[2], tonumber(ARGV[3])
if front ~= '' and since == '' then redis.call('HDEL', KEYS[1], front)
elseif front ~= '' then redis.call('HSET', KEYS[1], front, since .. ' ' .. text(now)) end
local oldest, fields = now, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
  local of, at = fields[i + 1]:match('^(%d+) (%d+)$')
  if tonumber(at) < now - silentMs then redis.call('HDEL', KEYS[1], fields[i])
  else oldest = math.min(oldest, tonumber(of), tonumber(at)) end
end
return { text(now), text(oldest) }
