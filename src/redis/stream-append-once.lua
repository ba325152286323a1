#!lua
-- Appends one entry and keeps the request's outcome under its Idempotency-Key, in one step.
-- KEYS[1] stream   KEYS[2] record   KEYS[3] last-seen hash
-- ARGV[1] fingerprint   ARGV[2] token of this run   ARGV[3] outcome   ARGV[4] life of the outcome in ms
-- ARGV[5] agent   ARGV[6] its last-seen value   ARGV[7..] fields and values of the entry, none: only the outcome is kept
-- Result: 'appended'; or 'lost' if the caller's running record is gone: then nothing was appended.
-- Guarantees: safe to send again: an outcome that this very call kept is recognised, and nothing is appended twice.
local record, done = redis.call('GET', KEYS[2]), 'done:' .. ARGV[1] .. ':' .. ARGV[3]
if record == done then return 'appended' end
if record ~= 'running:' .. ARGV[1] .. ':' .. ARGV[2] then return 'lost' end
if #ARGV > 6 then
  redis.call('XADD', KEYS[1], '*', unpack(ARGV, 7))
  redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])
end
redis.call('SET', KEYS[2], done, 'PX', ARGV[4])
return 'appended'
