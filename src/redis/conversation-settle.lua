#!lua
-- Notes what became of a conversation's messages.
-- KEYS[1] sorted set of messages that were let through, by time   KEYS[2] hash message -> who asks about it
-- ARGV[1] life in ms   ARGV[2] messages kept at most   ARGV[3] hash of the message that was stopped, '' none   ARGV[4] who asked about it
-- ARGV[5] what is asked about it from now on, '' as if it were new   ARGV[6..] hashes of the messages that were let through, in order
-- Result: 1.
-- Guarantees: safe to send again; a claim that another request has made meanwhile stays.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 6, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
  redis.call('HDEL', KEYS[2], ARGV[i])
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[2]) - 1)
if ARGV[3] ~= '' and redis.call('HGET', KEYS[2], ARGV[3]) == ARGV[4] then
  if ARGV[5] == '' then redis.call('HDEL', KEYS[2], ARGV[3]) else redis.call('HSET', KEYS[2], ARGV[3], ARGV[5]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
