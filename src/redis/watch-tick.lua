#!lua flags=allow-oom
-- One tick of the watch over the agents of a partition: marks that it is watched, puts agents that are new to it among those
-- to be inspected, and says which are due.
-- KEYS[1] watch (hash: since, at, cursor)   KEYS[2] last-seen hash   KEYS[3] due (sorted set)   KEYS[4] notes (hash)
-- ARGV[1] least ms between two ticks   ARGV[2] ms between two ticks that are a gap
-- ARGV[3] ticks for one round over the last-seen hash   ARGV[4] most fields of it in one tick   ARGV[5] most agents that are due
-- ARGV[6] epoch ms, '': Redis's clock
-- Result: false if another process made a tick a moment ago; else {now, since when it is watched without a gap,
--   {agent, last-seen value, note or '', ...}}, longest due first.
-- A silence that was notified and has not ended is put off here and not returned: a thousand silent agents cost nothing more.
-- Guarantees: what is due stays due until it is settled, so a tick whose answer was lost or whose caller died is made up by
-- the next. As long as there are more agents in the last-seen hash than are watched, a round over it finds those that are new;
-- one that has left it is forgotten here, at its next look.
local time = redis.call('TIME')
local now = tonumber(ARGV[6]) or math.floor(time[1] * 1000 + time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'since', 'at', 'cursor')
local since, at = tonumber(kept[1]), tonumber(kept[2])
if at and now >= at and now - at < tonumber(ARGV[1]) then return false end
if not since or not at or now < at or now - at > tonumber(ARGV[2]) then since = now end
local now_text = string.format('%.0f', now)

local size, cursor, seen, fresh = redis.call('HLEN', KEYS[2]), kept[3] or '0', {}, {}
if size > redis.call('ZCARD', KEYS[3]) then
  local count = math.min(tonumber(ARGV[4]), math.max(100, math.ceil(size / tonumber(ARGV[3]))))
  local page = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', count)
  cursor, seen = page[1], page[2]
end
for i = 1, #seen, 2 do
  fresh[#fresh + 1] = now_text
  fresh[#fresh + 1] = seen[i]
  if #fresh >= 4000 or (i + 2 > #seen and #fresh > 0) then
    redis.call('ZADD', KEYS[3], 'NX', unpack(fresh))
    fresh = {}
  end
end
redis.call('HSET', KEYS[1], 'since', string.format('%.0f', since), 'at', now_text, 'cursor', cursor)

local due = redis.call('ZRANGE', KEYS[3], '-inf', now_text, 'BYSCORE', 'LIMIT', 0, ARGV[5])
local looks, gone, later = {}, {}, {}
if #due > 0 then
  local values = redis.call('HMGET', KEYS[2], unpack(due))
  local notes = redis.call('HMGET', KEYS[4], unpack(due))
  for i, agent in ipairs(due) do
    local ms = values[i] and string.match(values[i], '^(%d+)/')
    local told, step = string.match(notes[i] or '', '^t(%d+)/(%d+)$')
    if ms and told == ms then
      later[#later + 1] = string.format('%.0f', now + tonumber(step))
      later[#later + 1] = agent
    elseif ms then
      looks[#looks + 1] = agent
      looks[#looks + 1] = values[i]
      looks[#looks + 1] = notes[i] or ''
    else
      gone[#gone + 1] = agent
    end
  end
end
if #later > 0 then redis.call('ZADD', KEYS[3], unpack(later)) end
if #gone > 0 then
  redis.call('ZREM', KEYS[3], unpack(gone))
  redis.call('HDEL', KEYS[4], unpack(gone))
end
return { now, since, looks }
