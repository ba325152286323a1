#!lua flags=allow-oom
-- Makes a backtest that waits or runs begin again, since events that it has counted are to be forgotten.
-- KEYS[1] lease   KEYS[2] hash of the account's backtests   KEYS[3] state
-- ARGV[1] backtest id   ARGV[2] its record as it was read   ARGV[3] its record as it is to be
-- Result: 1; 0 where the record is another one by now: nothing changed, read it again.
-- Guarantees: its owner has lost the lease, so nothing that it knows is ever kept.
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
