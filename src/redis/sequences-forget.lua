#!lua
-- Takes out of what has occurred who did it, where that is one agent: of its steps stays when, as of everyone's amounts.
-- KEYS scopes and logs of sequences.lua   ARGV[1] agent id   ARGV[2], ARGV[3] keys of scopes that are its own: not in logs either
-- Result: how many steps were changed. Idempotent.
local changed = 0

local function forget(mark)
  if not mark or mark[4] ~= ARGV[1] then return end
  mark[2], mark[3], mark[4] = '', '', ''
  changed = changed + 1
end

-- Entries stay where they are: who reads the log counts them.
local function forgetLogged(key)
  for i, text in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if string.find(text, ARGV[1], 1, true) then
      local entry = cjson.decode(text)
      if entry.agent == ARGV[1] then
        local scopes = {}
        for _, scope in ipairs(entry.scopes) do
          if scope ~= ARGV[2] and scope ~= ARGV[3] then scopes[#scopes + 1] = scope end
        end
        entry.id, entry.agent, entry.scopes = '', '', scopes
        for _, place in ipairs(entry.places) do place[2] = '' end
        redis.call('LSET', key, i - 1, cjson.encode(entry))
        changed = changed + 1
      end
    end
  end
end

local function forgetStates(key)
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

for _, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'list' then forgetLogged(key) else forgetStates(key) end
end
return changed
