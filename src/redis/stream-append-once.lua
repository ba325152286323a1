#!lua
-- Appends one entry and keeps the request's outcome under its Idempotency-Key, in one step. Outcomes have a bound of memory of their own:
-- past it an account that has more than an even share loses its oldest.
-- KEYS[1] stream   KEYS[2] record   KEYS[3] last-seen hash   KEYS[4] list of the account's records   KEYS[5] hash account -> bytes, '' -> all
-- ARGV[1] fingerprint   ARGV[2] token of this run   ARGV[3] outcome   ARGV[4] life of the outcome in ms
-- ARGV[5] agent   ARGV[6] its last-seen value   ARGV[7] account   ARGV[8] what the record's name ends with   ARGV[9] bytes of the bound
-- ARGV[10..] fields and values of the entry, none: only the outcome is kept
-- Result: {'appended', records that were let go}; or {'lost'} if the caller's running record is gone: then nothing was appended.
-- Guarantees: safe to send again: an outcome that this very call kept is recognised, and nothing is appended twice.
local record, done = redis.call('GET', KEYS[2]), 'done:' .. ARGV[1] .. ':' .. ARGV[3]
if record == done then return { 'appended', 0 } end
if record ~= 'running:' .. ARGV[1] .. ':' .. ARGV[2] then return { 'lost' } end
if #ARGV > 9 then
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, 10))
  redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])
end
redis.call('SET', KEYS[2], done, 'PX', ARGV[4])

local bytes = kept(KEYS[4], KEYS[2], ARGV[8], #done, ARGV[4])
return { 'appended', counted(KEYS[4], KEYS[5], ARGV[7], bytes, tonumber(ARGV[9]), string.sub(KEYS[2], 1, -#ARGV[8] - 1), { [ARGV[8]] = true, n = 1 }) }
