#!lua
-- Finds how much of a conversation was let through before, and claims the rest for this request, message by message.
-- KEYS[1] sorted set of messages that were let through, by time   KEYS[2] hash message -> who asks about it   KEYS[3] sorted set of the account's
-- conversations, by time
-- ARGV[1] life in ms   ARGV[2] what the names of KEYS[1] and KEYS[2] end with   ARGV[3] conversations at most   ARGV[4] claims at most
-- ARGV[5] this request   ARGV[6..] hashes of the messages, the oldest first
-- Result: {how many messages were let through, then for each of the others who asked about it first}.
-- Guarantees: safe to send again. Past the bound the conversation that was longest silent is forgotten.
local time = redis.call('TIME')
local now, life, name = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1]), ARGV[2]
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - life)
redis.call('ZADD', KEYS[3], now, name)
redis.call('PEXPIRE', KEYS[3], life)
if redis.call('ZCARD', KEYS[3]) > tonumber(ARGV[3]) then
  local oldest = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
  redis.call('ZREM', KEYS[3], oldest)
  for i = 1, 2 do redis.call('DEL', string.sub(KEYS[i], 1, -#name - 1) .. oldest) end
end

local seen = 0
for i = #ARGV, 6, -1 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    seen = i - 5
    break
  end
end
if redis.call('HLEN', KEYS[2]) > tonumber(ARGV[4]) then redis.call('DEL', KEYS[2]) end
local result = { seen }
for i = seen + 6, #ARGV do
  redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[5])
  result[#result + 1] = redis.call('HGET', KEYS[2], ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], life)
redis.call('PEXPIRE', KEYS[2], life)
return result
