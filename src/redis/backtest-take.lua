#!lua
-- Takes the lease of a backtest that waits, or whose owner is gone.
-- KEYS[1] lease   KEYS[2] fence   KEYS[3] hash of the account's backtests   KEYS[4] sorted set of turns
-- ARGV[1] owner's name   ARGV[2] life in ms   ARGV[3] backtest id   ARGV[4] its member in the set of turns
-- ARGV[5] '1': a lease under this very name may be taken over at once
-- Result: the lease's text `<owner>:<fence>`, or false while another process holds it, or where there is no such backtest: then it is taken off
-- the turns, and no key is left.
-- Guarantees: every success has a higher fence than all before it, so an earlier holder fails every fenced step.
if not redis.call('HGET', KEYS[3], ARGV[3]) then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('ZREM', KEYS[4], ARGV[4])
  return false
end
local held = redis.call('GET', KEYS[1])
if held then
  local own = string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':'
  if not (own and ARGV[5] == '1') then return false end
end
local lease = ARGV[1] .. ':' .. redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], lease, 'PX', ARGV[2])
return lease
