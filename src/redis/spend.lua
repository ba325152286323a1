#!lua
-- The counters of budget policies: reserves for prompts, shrinks what is held once it is known what a call used, and adds what is stored.
-- KEYS one for each operation, all of one account: the base of a policy's counters of one form (Keys.budget). Names are made of it:
--   :c:SCOPE hash   s<part> -> what stored events of this part of the window used, f<part> -> the same read from stored rows at first,
--                   reserved -> sum of what is held, m<stream> -> place of the last settlement, w<share> -> until when it is said, and where
--   :a:SCOPE hash reservation -> amount; :e:SCOPE sorted set reservation -> its end, epoch ms
--   :r:ID hash scope, agent, who, amount, ends, by: a reservation, by the id of its event; :o:WHO sorted set of those that no completion was found for
--   :h:WHO hash: how often how many output tokens were seen, by a scale of fourths of powers of two; :n hash scope -> how it is shown
--   :k hash from -> epoch ms: what arrived before is read from stored rows; known -> 1: that is done
--   and by its whole name, where the event may wait for an approval, `waiting`: set of JSON [:r:ID, :e:SCOPE, :o:WHO]: what ends when it is denied
-- ARGV one for each key: JSON of the operation, `op` of reserve, use, unuse, release, settle, read, begin, fill, known, forget (src/policy/quotas/spend-store.ts)
-- Result: for each a list of texts.
-- Guarantees: left = limit - spent - what is held and has not ended, in one step; an id is reserved for once; a place of a stream settles
-- once; what ended is no longer held, whatever process died. Everything has an end: the window, or the hold.
-- A Redis that is full refuses this script, and with it the events: nothing passes uncounted.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local MILLION = 1000000
-- What is added up stays below what Redis and doubles hold: more is used up, or held, than any limit allows.
local SPENT_MAX, HELD_MAX = 9e15, 9e14
-- More output tokens than that are counted as so many: beyond 2^53 there is no next number, and no loop ends.
local TOKENS_MAX = 1e12
-- Reservations of a scope at once, and scopes that are listed.
local OPEN_MAX, LISTED_MAX = 10000, 10000
-- A call whose use is known stays held until its row is stored, at least so long.
local STORED_MS = 60000
local LEARNT_MS, LEARNT_MAX = 7 * 86400000, 512

-- Never -0, which is no integer to Redis.
local function text(number) return string.format('%.0f', number + 0) end

-- The oldest part of the window that counts now.
local function firstPart(op)
  if op.ms then return math.floor(now * 60 / op.ms) - 60 end
  local first = op.starts[1]
  for _, start in ipairs(op.starts) do if start <= now then first = start end end
  return first
end

local function resetsAt(op, first, oldest)
  if op.ms then return oldest and math.floor((oldest + 61) * op.ms / 60) or 0 end
  for _, start in ipairs(op.starts) do if start > first then return start end end
  return 0
end

-- What this call has read, and what it will write at its end: the operations of a batch concern the same few counters. By key of a hash:
-- a counter; what is added to `reserved`; fields that are set; how long a key is kept at least.
local counters, added, changed, lives = {}, {}, {}, {}
local function addReserved(key, amount)
  added[key] = (added[key] or 0) + amount
  if counters[key] then counters[key].reserved = counters[key].reserved + amount end
end

local function set(key, field, value)
  changed[key] = changed[key] or {}
  changed[key][field] = value
  if counters[key] then counters[key].fields[field] = value end
end

-- What others keep for longer is not cut short. Each change of a life is written to the append-only file and to replicas, so one lasts a
-- little longer than it must.
local LONGER_MS = 60000
local function lengthen(key, ms) lives[key] = math.max(lives[key] or 0, ms) end

local function letEnd(counter)
  while true do
    local ended, released = redis.call('ZRANGEBYSCORE', counter.e, '-inf', text(now), 'LIMIT', 0, 500), 0
    if #ended == 0 then return end
    for _, amount in ipairs(redis.call('HMGET', counter.a, unpack(ended))) do released = released + tonumber(amount or 0) end
    redis.call('HDEL', counter.a, unpack(ended))
    redis.call('ZREM', counter.e, unpack(ended))
    addReserved(counter.c, -released)
  end
end

local function counterOf(base, op, scope)
  local key = base .. ':c:' .. scope
  if counters[key] then return counters[key] end
  local counter = { c = key, a = base .. ':a:' .. scope, e = base .. ':e:' .. scope, spent = 0, fields = {} }
  local first, gone = firstPart(op), {}
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    local part = tonumber(name:match('^[sf](%d+)$') or '')
    if part and part < first then gone[#gone + 1] = name
    elseif part then
      counter.spent = counter.spent + tonumber(value)
      if value ~= '0' and (not counter.oldest or part < counter.oldest) then counter.oldest = part end
    end
    counter.fields[name] = value
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  counter.reserved = tonumber(counter.fields.reserved or 0) + (added[key] or 0)
  counters[key] = counter
  letEnd(counter)
  counter.first, counter.resets = first, resetsAt(op, first, counter.oldest)
  return counter
end

local function spend(counter, op)
  local name = 's' .. text(op.part)
  local before = tonumber(counter.fields[name] or 0)
  local amount = math.min(op.amount, math.max(0, SPENT_MAX - before))
  set(counter.c, name, text(before + amount))
  counter.spent = counter.spent + amount
  if op.amount == 0 or (counter.oldest and counter.oldest <= op.part) then return end
  counter.oldest = op.part
  counter.resets = resetsAt(op, counter.first, op.part)
end

-- It is no longer held.
local function endHold(base, scope, id, amount)
  local key = base .. ':c:' .. scope
  redis.call('HDEL', base .. ':a:' .. scope, id)
  redis.call('ZREM', base .. ':e:' .. scope, id)
  addReserved(key, -amount)
  if counters[key] and counters[key].open then counters[key].open = counters[key].open - 1 end
end

-- { known, from } of a policy; known '1': what was spent before is known.
local begun = {}
local function begunOf(base)
  if not begun[base] then
    local known, from = unpack(redis.call('HMGET', base .. ':k', 'known', 'from'))
    begun[base] = { known = known or '0', from = from or nil }
  end
  return begun[base]
end
local function knownOf(base) return begunOf(base).known end

local function keep(base, counter, op, scope, shown)
  local names = base .. ':n'
  for _, key in ipairs({ counter.c, counter.a, counter.e, names, base .. ':k' }) do lengthen(key, op.life) end
  if counter.isListed then return end
  counter.isListed = true
  if redis.call('HEXISTS', names, scope) == 0 and redis.call('HLEN', names) < LISTED_MAX then redis.call('HSET', names, scope, shown) end
end

-- What was seen of the outputs of an agent's calls of a model, as far as this call has read it.
local seen = {}
local function seenOf(key)
  if not seen[key] then
    local one = { counts = {}, all = 0 }
    local fields = redis.call('HGETALL', key)
    for i = 1, #fields, 2 do
      local count = tonumber(fields[i + 1])
      one.counts[fields[i]], one.all = count, one.all + count
    end
    seen[key] = one
  end
  return seen[key]
end

-- Output tokens that 95 of 100 calls stayed within; nil: fewer than 20 were seen.
local function percentile(key)
  local one, counts = seenOf(key), {}
  if one.all < 20 then return nil end
  for scale, count in pairs(one.counts) do counts[#counts + 1] = { tonumber(scale), count } end
  table.sort(counts, function(a, b) return a[1] < b[1] end)
  local before = 0
  for _, each in ipairs(counts) do
    before = before + each[2]
    if before >= one.all * 0.95 then return math.ceil(2 ^ ((each[1] + 1) / 4)) end
  end
end

local function learn(key, output)
  local one, scale = seenOf(key), text(math.floor(4 * math.log(output + 1) / math.log(2)))
  one.counts[scale], one.all = (one.counts[scale] or 0) + 1, one.all + 1
  set(key, scale, text(one.counts[scale]))
  lengthen(key, LEARNT_MS)
  if one.all <= LEARNT_MAX then return end
  one.all = 0
  for each, count in pairs(one.counts) do
    local half = math.floor(count / 2)
    one.counts[each], one.all = half, one.all + half
    set(key, each, text(half))
  end
end

-- Also before what reads or deletes it all, and where an operation failed: what was done before it is done whole.
local function write()
  for key, amount in pairs(added) do
    if amount ~= 0 then redis.call('HINCRBY', key, 'reserved', text(amount)) end
  end
  for key, fields in pairs(changed) do
    local command = { 'HSET', key }
    for field, value in pairs(fields) do command[#command + 1], command[#command + 2] = field, value end
    redis.call(unpack(command))
  end
  for key, ms in pairs(lives) do
    if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, text(ms + LONGER_MS)) end
  end
  counters, added, changed, lives, begun, seen = {}, {}, {}, {}, {}, {}
end

-- How many output tokens fit into what is left, beside the input.
local function fitting(op, left)
  if op.rate == 0 then return -1 end
  local tokens = math.max(0, math.min(TOKENS_MAX, math.floor((left - op.fixed) * MILLION / op.rate)))
  while tokens > 0 and op.fixed + math.ceil(tokens * op.rate / MILLION) > left do tokens = tokens - 1 end
  return tokens
end

-- A reservation, open for the completion that names none; it says where it is.
local function record(base, op, amount, ...)
  local reservation, open, ends = base .. ':r:' .. op.id, base .. ':o:' .. op.who, text(now + op.hold)
  redis.call('HSET', reservation, 'scope', op.scope, 'agent', op.agent, 'who', op.who, 'amount', text(amount), 'ends', ends, ...)
  redis.call('PEXPIRE', reservation, text(2 * op.hold + STORED_MS))
  redis.call('ZREMRANGEBYSCORE', open, '-inf', text(now))
  redis.call('ZADD', open, ends, op.id)
  lengthen(open, op.hold)
  return reservation, open
end

-- { yes, no, unknown; reserved; left; output tokens that fit, -1: they do not matter; epoch ms of the reset, 0: nothing was spent;
-- 1: what was spent before is known }
local function reserve(base, op)
  local counter, isKnown = counterOf(base, op, op.scope), knownOf(base)
  local left = op.limit - counter.spent - counter.reserved
  local function answer(word, amount, rest)
    return { word, text(amount), text(rest), text(fitting(op, left)), text(counter.resets), isKnown }
  end
  if isKnown ~= '1' and not op.counted then return answer('unknown', 0, left) end
  local held = redis.call('HGET', counter.a, op.id)
  if held then return answer('yes', tonumber(held), left) end
  counter.open = counter.open or redis.call('ZCARD', counter.e)
  local output = op.output
  if op.expected then
    local usual = percentile(base .. ':h:' .. op.model) or op.guess
    if output < 0 or usual < output then output = usual end
  end
  local amount = op.fixed + math.ceil(output * op.rate / MILLION)
  local isOver = amount > left
  if (isOver and not op.counted) or counter.open >= OPEN_MAX then
    -- Of a budget that is tried: the call is made all the same. It is one that is settled already, so nothing is charged for it.
    if op.tried then record(base, op, 0, 'by', op.id) end
    return answer('no', amount, left)
  end
  if isOver then amount = math.min(amount, HELD_MAX) end
  redis.call('HSET', counter.a, op.id, text(amount))
  redis.call('ZADD', counter.e, text(now + op.hold), op.id)
  counter.open = counter.open + 1
  addReserved(counter.c, amount)
  local reservation, open = record(base, op, amount)
  if op.waiting then
    redis.call('SADD', op.waiting, cjson.encode({ reservation, counter.e, open }))
    lengthen(op.waiting, op.hold)
  end
  keep(base, counter, op, op.scope, op.shown)
  return answer(isOver and 'no' or 'yes', amount, left - amount)
end

-- The reservation that an event is about; nil: none.
local function reservationOf(base, op)
  local id = op.target
  if id == '' and op.who ~= '' then id = redis.call('ZRANGEBYSCORE', base .. ':o:' .. op.who, text(now), '+inf', 'LIMIT', 0, 1)[1] or '' end
  if id == '' then return nil end
  local key = base .. ':r:' .. id
  local scope, agent, who, by, amount, ends = unpack(redis.call('HMGET', key, 'scope', 'agent', 'who', 'by', 'amount', 'ends'))
  if not scope or agent ~= op.agent then return nil end
  local held = redis.call('HGET', base .. ':a:' .. scope, id)
  local one = { id = id, key = key, scope = scope, open = base .. ':o:' .. who, by = by }
  one.amount, one.ends, one.held = tonumber(amount), tonumber(ends), held and tonumber(held)
  return one
end

local function hold(base, one, amount)
  amount = math.min(amount, HELD_MAX)
  redis.call('HSET', base .. ':a:' .. one.scope, one.id, text(amount))
  addReserved(base .. ':c:' .. one.scope, amount - one.held)
end

-- One that was refused is open until then.
local function again(one, isKnown)
  redis.call('ZREM', one.open, one.id)
  return { 'twice', one.scope, one.id, isKnown, '0' }
end

-- { own, found, twice; scope; reservation; 1: known; amount }: what a completion belongs to. What was held becomes what was used; where
-- that is not known, -1, it is what was reserved.
local function use(base, op)
  local isKnown = knownOf(base)
  if op.output >= 0 then learn(base .. ':h:' .. op.model, op.output) end
  local one = reservationOf(base, op)
  if not one then return { 'own', '', '', isKnown, text(math.max(0, op.amount)) } end
  if one.by and one.by ~= op.id then return again(one, isKnown) end
  redis.call('HSET', one.key, 'by', op.id)
  redis.call('ZREM', one.open, one.id)
  local amount = op.amount < 0 and (one.held or one.amount) or op.amount
  if one.held then
    hold(base, one, amount)
    redis.call('ZADD', base .. ':e:' .. one.scope, 'GT', text(now + STORED_MS), one.id)
  end
  return { 'found', one.scope, one.id, isKnown, text(math.max(0, amount)) }
end

-- A completion that was not recorded has used nothing: another may come.
local function unuse(base, op)
  local one = reservationOf(base, op)
  if not one or one.by ~= op.id then return {} end
  redis.call('HDEL', one.key, 'by')
  if not one.held then return {} end
  hold(base, one, one.amount)
  -- In its old place: the oldest is meant where a completion names none.
  local life = one.ends - now
  if life <= 0 then return {} end
  redis.call('ZADD', one.open, text(one.ends), one.id)
  lengthen(one.open, life)
  return {}
end

-- As `use`: the call came to nothing, and nothing is held of it. Where it is made all the same, it is charged as one that was not asked about.
local function release(base, op)
  local isKnown = knownOf(base)
  local one = reservationOf(base, op)
  if not one then return { 'own', '', '', isKnown, '0' } end
  if one.by then return again(one, isKnown) end
  redis.call('DEL', one.key)
  redis.call('ZREM', one.open, one.id)
  if one.held then endHold(base, one.scope, one.id, one.held) end
  return { 'found', one.scope, one.id, isKnown, '0' }
end

local function isAfter(place, mark)
  local at = {}
  for number in mark:gmatch('%d+') do at[#at + 1] = tonumber(number) end
  for i = 1, 3 do if place[i] ~= at[i] then return place[i] > at[i] end end
  return false
end

-- Shares that were reached and are not said yet in this window; at the same place again the same ones.
local function reached(counter, op, place)
  local shares = {}
  for _, share in ipairs(op.warn) do
    if counter.spent >= share * op.limit then
      local name = 'w' .. tostring(share)
      local ends, at = (counter.fields[name] or ''):match('^(%d+) (.*)$')
      if at == place or not ends or tonumber(ends) <= now then
        set(counter.c, name, text(op.ms and now + op.ms or counter.resets) .. ' ' .. place)
        shares[#shares + 1] = tostring(share)
      end
    end
  end
  return shares
end

-- { spent after it; shares of the limit that it reached }: a stored event has used `amount`.
local function settle(base, op)
  local counter = counterOf(base, op, op.scope)
  local name, place = 'm' .. op.stream, text(op.place[1]) .. ' ' .. text(op.place[2]) .. ' ' .. text(op.place[3])
  local mark = counter.fields[name]
  if not mark or isAfter(op.place, mark) then
    local from = tonumber(begunOf(base).from or '')
    if from and op.at >= from and op.part >= counter.first then spend(counter, op) end
    local held = op.target ~= '' and redis.call('HGET', counter.a, op.target)
    if held then endHold(base, op.scope, op.target, tonumber(held)) end
    set(counter.c, name, place)
    keep(base, counter, op, op.scope, op.shown)
  end
  local told = reached(counter, op, place)
  table.insert(told, 1, text(counter.spent))
  return told
end

-- For each scope, or for each that is listed: its name, how it is shown, spent, reserved, epoch ms of the reset. First whether all is known.
local function read(base, op)
  local names = {}
  if op.scope then names = { op.scope, redis.call('HGET', base .. ':n', op.scope) or '' }
  else names = redis.call('HGETALL', base .. ':n') end
  local result = { redis.call('HGET', base .. ':k', 'known') or '0' }
  for i = 1, math.min(#names, 2 * op.most), 2 do
    local counter = counterOf(base, op, names[i])
    for _, value in ipairs({ names[i], names[i + 1], text(counter.spent), text(counter.reserved), text(counter.resets) }) do
      result[#result + 1] = value
    end
  end
  return result
end

-- { epoch ms }: what arrives from now on is counted here, unless another said so before.
local function begin(base, op)
  redis.call('HSETNX', base .. ':k', 'from', text(now))
  lengthen(base .. ':k', op.life)
  begun[base] = nil
  return { begunOf(base).from, knownOf(base) }
end

-- It is forgotten since it was begun, and perhaps begun again: what was read then is not what arrived before.
local function isOther(base, op) return op.from and begunOf(base).from ~= text(op.from) end
-- What stored rows of before say of a scope, by part.
local function fill(base, op)
  if knownOf(base) == '1' or isOther(base, op) then return {} end
  local counter = counterOf(base, op, op.scope)
  for i = 1, #op.parts, 2 do set(counter.c, 'f' .. text(op.parts[i]), text(op.parts[i + 1])) end
  keep(base, counter, op, op.scope, op.shown)
  write() -- what is read of it from here on has these parts
  return {}
end

local function known(base, op)
  if not isOther(base, op) then redis.call('HSET', base .. ':k', 'known', '1') end
  begun[base] = nil
  return {}
end

-- Of a Redis that went back: all of it is read from stored rows again.
local function forget(base)
  write()
  local scopes = redis.call('HKEYS', base .. ':n')
  for _, scope in ipairs(scopes) do redis.call('DEL', base .. ':c:' .. scope, base .. ':a:' .. scope, base .. ':e:' .. scope) end
  return { text(redis.call('DEL', base .. ':k', base .. ':n')) }
end

local operations = { reserve = reserve, use = use, unuse = unuse, release = release, settle = settle, read = read, begin = begin, fill = fill, known = known, forget = forget }
local results = {}
local isDone, fault = pcall(function()
  for i, base in ipairs(KEYS) do
    local op = cjson.decode(ARGV[i])
    results[i] = operations[op.op](base, op)
  end
end)
write()
if isDone then return results end
return type(fault) == 'table' and fault or redis.error_reply(fault)
