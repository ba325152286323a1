#!lua
-- Makes one registry change, with its journal entry, if everything it was computed from still holds. All or nothing.
-- KEYS[1] journal stream   KEYS[2] revision   KEYS[3] marker of this commit   KEYS[4..] keys that guards and writes name by index
-- ARGV[1] life of the marker in ms   ARGV[2] field of the journal entry   ARGV[3] its JSON, an object without `revision`
-- ARGV[4] number of guards, each: name, test, expected, number of words, words
--   words are a command, the index of its key in KEYS, further arguments; its reply is put to the test:
--   'is' equal to expected   'absent' nil   'present' not nil   'below' a number under expected
-- then the writes up to the end, each: number of words, words
-- Result: {'done', revision}, or {'refused', name of the first guard that does not hold} or {'lost', 0} where the shard has no
-- revision: this Redis was emptied, and a change in it would be in the way of what is restored. Then nothing changed.
-- Guarantees: the revision rises by one with each change. Safe to send again: the marker tells that this very commit was made.
local made = redis.call('GET', KEYS[3])
if made then return { 'done', tonumber(made) } end

if redis.call('EXISTS', KEYS[2]) == 0 then return { 'lost', 0 } end

local at = 5
local function call()
  local words = tonumber(ARGV[at])
  local reply = redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, at + words))
  at = at + words + 1
  return reply
end

for _ = 1, tonumber(ARGV[4]) do
  local name, test, expected = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  at = at + 3
  local reply = call()
  local holds
  if test == 'is' then holds = reply == expected
  elseif test == 'absent' then holds = not reply
  elseif test == 'present' then holds = reply and true
  elseif test == 'below' then holds = reply < tonumber(expected)
  else return redis.error_reply('ERR commit: no such test: ' .. test) end
  if not holds then return { 'refused', name } end
end

while at <= #ARGV do call() end
local revision = redis.call('INCR', KEYS[2])
redis.call('XADD', KEYS[1], '*', ARGV[2], '{"revision":' .. revision .. ',' .. string.sub(ARGV[3], 2))
redis.call('SET', KEYS[3], revision, 'PX', ARGV[1])
return { 'done', revision }
