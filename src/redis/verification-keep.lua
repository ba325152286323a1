#!lua
-- Keeps an order to verify the audit chains of an account, or a step of it.
-- KEYS[1] the job   KEYS[2] set of the accounts whose job is not finished
-- ARGV[1] the job as it was read, '' where there was none, `*`: whatever it is   ARGV[2] as it is now, '': as it was
-- ARGV[3] account   ARGV[4] '1': nothing is left to be done
-- Result: 1; 0 where the job is another one by now. Then nothing changed.
-- Guarantees: a job that is not finished is in the set.
if ARGV[1] ~= '*' and (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] ~= '' then redis.call('SET', KEYS[1], ARGV[2]) end
if ARGV[4] == '1' then redis.call('SREM', KEYS[2], ARGV[3]) else redis.call('SADD', KEYS[2], ARGV[3]) end
return 1
