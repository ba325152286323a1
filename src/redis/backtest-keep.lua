#!lua
-- Keeps what a backtest has come to, its record and its state in one step; or ends it, with its result.
-- KEYS[1] lease   KEYS[2] hash of the account's backtests   KEYS[3] state   KEYS[4] sorted set of turns
-- to end it: KEYS[5] result   KEYS[6] sorted set of expiries   KEYS[7] running   KEYS[8] fence
-- ARGV[1] lease's text   ARGV[2] backtest id   ARGV[3] its record, JSON   ARGV[4] its member in the sorted sets
-- ARGV[5] `keep`, `turn` (keep, give up the lease and wait for the next turn) or `end`
-- ARGV[6] the state, or the result ('' : there is none)   ARGV[7] epoch ms: of the turn, or at which it expires
-- Result: 1; 0 where the lease is another's, or the backtest was deleted. Then nothing changed.
-- Guarantees: the position of a state and what was counted up to it are one value, so no event is counted twice or passed over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] or not redis.call('HGET', KEYS[2], ARGV[2]) then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if ARGV[5] == 'end' then
  redis.call('DEL', KEYS[1], KEYS[3], KEYS[8])
  redis.call('ZREM', KEYS[4], ARGV[4])
  if ARGV[6] ~= '' then redis.call('SET', KEYS[5], ARGV[6]) end
  redis.call('ZADD', KEYS[6], ARGV[7], ARGV[4])
  if redis.call('GET', KEYS[7]) == ARGV[2] then redis.call('DEL', KEYS[7]) end
  return 1
end
redis.call('SET', KEYS[3], ARGV[6])
if ARGV[5] == 'turn' then
  redis.call('DEL', KEYS[1])
  redis.call('ZADD', KEYS[4], 'XX', ARGV[7], ARGV[4])
end
return 1
