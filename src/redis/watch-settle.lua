#!lua flags=allow-oom
-- Ends a poll of some agents: what is to be remembered of each, and when it is inspected next.
-- KEYS[1] due (sorted set)   KEYS[2] notes (hash)
-- ARGV: for each agent: id, epoch ms of the next poll, note ('': none)
-- Result: how many of them are still watched; nothing is written of the others, who were forgotten meanwhile.
-- Safe to send again.
local watched = 0
for i = 1, #ARGV, 3 do
  local agent, at, note = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('ZSCORE', KEYS[1], agent) then
    watched = watched + 1
    redis.call('ZADD', KEYS[1], at, agent)
    if note == '' then redis.call('HDEL', KEYS[2], agent) else redis.call('HSET', KEYS[2], agent, note) end
  end
end
return watched
