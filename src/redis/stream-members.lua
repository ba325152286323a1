#!lua flags=allow-oom
-- Signs a process in as a member of a group, or out, and says who is there. The clock is Redis's.
-- KEYS[1] members (hash `<group>/<process name>` -> epoch ms of its last sign of life)
-- ARGV[1] ms after which a silent member counts as gone   ARGV[2] 'in' or 'out'   ARGV[3..] fields of the caller
-- Result: the fields of all living members, in no order.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 3, #ARGV do
  if ARGV[2] == 'in' then redis.call('HSET', KEYS[1], ARGV[i], now) else redis.call('HDEL', KEYS[1], ARGV[i]) end
end
local all, living = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  if now - tonumber(all[i + 1]) > tonumber(ARGV[1]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    living[#living + 1] = all[i]
  end
end
return living
