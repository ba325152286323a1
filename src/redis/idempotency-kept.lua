-- Counts what is kept for a time, and lets the oldest go past the bound. Stands in front of scripts that keep something.
local EVICTED_MAX, OVERHEAD = 16, 180
local now = tonumber(redis.call('TIME')[1]) * 1000

-- Notes a record of `size` bytes whose name ends with `ending`, for `life` ms. Result: its bytes, reckoned.
local function kept(order, record, ending, size, life)
  local bytes = #record + size + OVERHEAD
  redis.call('RPUSH', order, string.format('%.0f/%d/%s', now + life, bytes, ending))
  return bytes
end

-- Adds to the sums of `account` and of all; past `max` an account that has more than an even share loses its oldest, of the names that begin
-- with `names`, up to the first of `own` (a set of endings). Result: how many were let go.
local function counted(order, sums, account, bytes, max, names, own)
  local of = redis.call('HINCRBY', sums, account, bytes)
  local all = redis.call('HINCRBY', sums, '', bytes)
  local share = max / (redis.call('HLEN', sums) - 1)
  local freed, evicted = 0, 0
  for _ = 1, EVICTED_MAX + own.n * 2 do
    local untilMs, size, name = string.match(redis.call('LINDEX', order, 0) or '', '^(%d+)/(%d+)/(.*)$')
    if not name or own[name] then break end
    local isExpired = tonumber(untilMs) <= now
    if not isExpired and (all - freed <= max or of - freed <= share) then break end
    redis.call('LPOP', order)
    if not isExpired then
      redis.call('DEL', names .. name)
      evicted = evicted + 1
    end
    freed = freed + size
  end
  if freed > 0 then
    redis.call('HINCRBY', sums, account, -freed)
    redis.call('HINCRBY', sums, '', -freed)
  end
  return evicted
end
