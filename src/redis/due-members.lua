-- What is due in sorted sets whose scores are times. Only for a Redis that is no Cluster: the keys are of many slots.
-- KEYS    sorted sets
-- ARGV    now, at most so many members of each, then for each set how many of the first are left out
-- Returns for each set its members with a score of at most now, lowest first
local due = {}
for i, key in ipairs(KEYS) do
  due[i] = redis.call('ZRANGEBYSCORE', key, '-inf', ARGV[1], 'LIMIT', ARGV[i + 2], ARGV[2])
end
return due
