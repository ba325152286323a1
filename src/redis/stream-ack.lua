#!lua flags=allow-oom
-- Ends a batch: dead-letters what could not be processed, moves the group and its watermark behind it, forgets the manifest. All or nothing.
-- KEYS[1] stream   KEYS[2] lease   KEYS[3] manifest   KEYS[4] watermark   KEYS[5] dead stream   KEYS[6..] keys that writes name by index
-- ARGV[1] the lease's text   ARGV[2] group   ARGV[3] most entries in the dead stream   ARGV[4] id of the batch's last entry
-- ARGV[5] run of Redis that the caller knows, or ''   ARGV[6] number of dead letters
-- ARGV[7..] for each dead letter: number of its fields and values, fields and values
--   then up to the end the pipeline's own writes, each: number of words, words (a command, the index of its key in KEYS, arguments)
-- Result: false if the lease is lost, -1 if the dead stream has no room for what is to be dead-lettered (nothing changed in both cases),
--   0 if the batch had been ended before, else 1. An error that begins with NOGROUP: the group is not there, nothing changed;
--   with OTHERRUN: Redis is another one, nothing changed.
-- Guarantees: run a second time for the same batch it dead-letters nothing and writes nothing. Nothing that was dead-lettered is ever dropped.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end
if is_other_run(ARGV[5]) then return redis.error_reply('OTHERRUN this is not the Redis that was read from') end
local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local last = ARGV[4]
local ms, seq = parts(last)
local doneMs, doneSeq = parts(redis.call('GET', KEYS[4]) or '0-0')
if doneMs > ms or (doneMs == ms and doneSeq >= seq) then return 0 end
local letters = tonumber(ARGV[6])
if letters > 0 and redis.call('XLEN', KEYS[5]) + letters > tonumber(ARGV[3]) then return -1 end
local moved = redis.pcall('XGROUP', 'SETID', KEYS[1], ARGV[2], last)
if moved.err then return moved end
local at = 7
for _ = 1, letters do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[5], '*', unpack(ARGV, at + 1, at + size))
  at = at + size + 1
end
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, at + words))
  at = at + words + 1
end
redis.call('SET', KEYS[4], last)
redis.call('DEL', KEYS[3])
return 1
