#!lua flags=allow-oom
-- Claims due deliveries of one lane: they are due again when the claim ends, unless a result is committed before.
-- KEYS[1] the lane (sorted set id -> due time)   KEYS[2] the shard's lanes   KEYS[3] records (hash id -> JSON)
-- ARGV[1] now, ms   ARGV[2] end of the claim, ms: its token, too   ARGV[3] how many at most   ARGV[4] the lane's name in KEYS[2]
-- ARGV[5] 'oldest' or 'newest' of what is due first
-- Result: the records of what was claimed. An id without a record is dropped. KEYS[2] then says when the lane is due next.
-- Works while Redis is full: sending is part of what empties it.
local ids = ARGV[5] == 'newest'
  and redis.call('ZRANGE', KEYS[1], ARGV[1], '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, ARGV[3])
  or redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[3])
local claimed = {}
for _, id in ipairs(ids) do
  local record = redis.call('HGET', KEYS[3], id)
  if record then
    redis.call('ZADD', KEYS[1], ARGV[2], id)
    claimed[#claimed + 1] = record
  else
    redis.call('ZREM', KEYS[1], id)
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if first[2] then redis.call('ZADD', KEYS[2], first[2], ARGV[4]) else redis.call('ZREM', KEYS[2], ARGV[4]) end
return claimed
