#!lua
-- Takes out of what has occurred who did it, where that is one agent: of its steps stays when, as of everyone's amounts.
-- KEYS scopes of sequences.lua   ARGV[1] agent id
-- Result: how many steps were changed. Idempotent.
local changed = 0

local function forget(mark)
  if not mark or mark[4] ~= ARGV[1] then return end
  mark[2], mark[3], mark[4] = '', '', ''
  changed = changed + 1
end

for _, key in ipairs(KEYS) do
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if all[i] ~= '!over' then
      local before = changed
      local state = cmsgpack.unpack(all[i + 1])
      for _, way in pairs(state.ways) do
        for _, mark in ipairs(way) do forget(mark) end
      end
      forget(state.unless)
      forget(state.waits)
      forget(state.unsettled)
      if changed > before then redis.call('HSET', key, all[i], cmsgpack.pack(state)) end
    end
  end
end
return changed
