#!lua
-- Notes of spans what is remembered of them, where nothing is yet. Behind idempotency-kept.lua.
-- KEYS[1] list of the account's notes   KEYS[2] hash account -> bytes, '' -> all   KEYS[3..] notes
-- ARGV[1] life in ms   ARGV[2] account   ARGV[3] bytes of the bound   then three for each note: what its name ends with, its value, and the
-- value that it takes the place of ('': only none)
-- Result: {notes that were let go, then for each the value that is there now}.
-- Guarantees: safe to send again.
local result, own, bytes, names = { 0 }, { n = 0 }, 0, ''
for i = 3, #KEYS do
  local at = 4 + (i - 3) * 3
  local ending, value, before = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local there = redis.call('GET', KEYS[i])
  if not there then
    redis.call('SET', KEYS[i], value, 'PX', ARGV[1])
    bytes = bytes + kept(KEYS[1], KEYS[i], ending, #value, ARGV[1])
    own[ending], own.n = true, own.n + 1
    names = string.sub(KEYS[i], 1, -#ending - 1)
    there = value
  elseif there == before then
    redis.call('SET', KEYS[i], value, 'KEEPTTL')
    there = value
  end
  result[#result + 1] = there
end
if bytes > 0 then result[1] = counted(KEYS[1], KEYS[2], ARGV[2], bytes, tonumber(ARGV[3]), names, own) end
return result
