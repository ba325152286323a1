#!lua
-- Keeps how far an outgoing feed is, and when it is looked at next.
-- KEYS[1] lease   KEYS[2] hash of the account's outgoing feeds   KEYS[3] hash of their states   KEYS[4] sorted set of turns
-- ARGV[1] lease's text   ARGV[2] outgoing feed id   ARGV[3] its state, JSON ('' : as it is)   ARGV[4] its member in the sorted set
-- ARGV[5] epoch ms: when it is looked at next
-- Result: 1; 0 where the lease is another's, or the outgoing feed was deleted. Then nothing changed.
-- Guarantees: no place of an owner that was paused past its lease covers a later one.
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not redis.call('HGET', KEYS[2], ARGV[2]) then return 0 end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[3], ARGV[2], ARGV[3]) end
redis.call('ZADD', KEYS[4], 'XX', ARGV[5], ARGV[4])
return 1
