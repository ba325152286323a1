#!lua flags=allow-oom
-- Removes a backtest with all its keys, whatever it does.
-- KEYS[1] lease   KEYS[2] fence   KEYS[3] state   KEYS[4] result   KEYS[5] running   KEYS[6] hash of the account's backtests
-- KEYS[7] sorted set of turns   KEYS[8] sorted set of expiries
-- ARGV[1] backtest id   ARGV[2] its member in the sorted sets
-- Guarantees: its owner, who finds neither lease nor record, keeps nothing afterwards.
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
if redis.call('GET', KEYS[5]) == ARGV[1] then redis.call('DEL', KEYS[5]) end
redis.call('HDEL', KEYS[6], ARGV[1])
redis.call('ZREM', KEYS[7], ARGV[2])
redis.call('ZREM', KEYS[8], ARGV[2])
return 1
