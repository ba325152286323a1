#!lua
-- Moves one dead letter back to its stream, as a fresh entry.
-- KEYS[1] dead stream   KEYS[2] stream
-- ARGV[1] id in the dead stream   ARGV[2..] names of the fields that stay behind
-- Result: the fresh entry's id, or false if there is no such dead letter.
local letters = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not letters then return false end
local behind, fields = {}, {}
for i = 2, #ARGV do behind[ARGV[i]] = true end
for i = 1, #letters[2], 2 do
  if not behind[letters[2][i]] then
    fields[#fields + 1] = letters[2][i]
    fields[#fields + 1] = letters[2][i + 1]
  end
end
redis.call('XDEL', KEYS[1], ARGV[1])
return redis.call('XADD', KEYS[2], '*', unpack(fields))
