#!lua flags=allow-oom
-- Removes the entries that every group has acknowledged.
-- KEYS[1] stream   ARGV[1..] groups that must exist
-- Result: {entries removed, groups on the stream that are not in ARGV}; {-1, 0} if a group is missing: then nothing may go.
-- Guarantees: never removes an entry that any group, named or not, has yet to read or to acknowledge.
if redis.call('EXISTS', KEYS[1]) == 0 then return { 0, 0 } end
local missing = {}
for _, group in ipairs(ARGV) do missing[group] = true end

local function parts(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(seq)
end

local lowMs, lowSeq, unknown = nil, nil, 0
for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
  if missing[group.name] then missing[group.name] = nil else unknown = unknown + 1 end
  local ms, seq = parts(group['last-delivered-id'])
  seq = seq + 1
  if group.pending > 0 then ms, seq = parts(redis.call('XPENDING', KEYS[1], group.name)[2]) end
  if not lowMs or ms < lowMs or (ms == lowMs and seq < lowSeq) then lowMs, lowSeq = ms, seq end
end
if next(missing) or not lowMs then return { -1, 0 } end
return { redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-%.0f', lowMs, lowSeq)), unknown }
