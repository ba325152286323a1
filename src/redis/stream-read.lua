#!lua flags=allow-oom
-- Reads the next entries for the owner of a lease: first those that were read before and not acknowledged, then new ones. Never blocks.
-- KEYS[1] stream   KEYS[2] lease
-- ARGV[1] the lease's text   ARGV[2] group   ARGV[3] consumer   ARGV[4] id of the last entry that reached the caller, or '0'
-- ARGV[5] most entries   ARGV[6] bytes after which it stops   ARGV[7] name of a field to leave out, or ''
-- Result: false if the lease is lost (then nothing was read), else a list of {id, {field, value, ...}};
--   an entry that was read and then deleted has no fields.
-- Guarantees: safe to send again after a lost answer: what that answer held comes again. At most three entries more than the bytes allow.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end
local after, countMax, bytesMax, without = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local entries, bytes = {}, 0
while #entries < countMax and bytes < bytesMax do
  local reply = redis.call('XREADGROUP', 'GROUP', ARGV[2], ARGV[3], 'COUNT', math.min(4, countMax - #entries), 'STREAMS', KEYS[1], after)
  local found = reply and reply[1][2] or {}
  if #found == 0 then
    if after == '>' then break end
    after = '>'
  end
  for _, entry in ipairs(found) do
    local fields = {}
    if entry[2] then
      for i = 1, #entry[2], 2 do
        if entry[2][i] ~= without then
          fields[#fields + 1] = entry[2][i]
          fields[#fields + 1] = entry[2][i + 1]
          bytes = bytes + #entry[2][i + 1]
        end
      end
    end
    entries[#entries + 1] = { entry[1], fields }
    if after ~= '>' then after = entry[1] end
  end
end
return entries
