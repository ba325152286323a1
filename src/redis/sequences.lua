#!lua
-- Says of events which sequences match, and keeps which steps they are: in one step, in the order given, for events of one account.
-- src/policy/sequences/sequence-memory.ts does the same in memory, and says what the words mean.
-- KEYS[1] hash: `<memory>` -> '1', what occurred in its window is known; `<memory>/over` -> epoch ms until which scopes are missing,
-- there for each memory that has a scope
-- `<memory>/cut` -> entries that its log has lost
-- KEYS[2] list `<epoch ms> <key of what comes>`: events that were approved, or recorded, and are kept as steps by the next call
-- KEYS others, named in the input by their number. A scope: hash value -> state (msgpack), `!over` -> epoch ms until which values are
-- missing; PEXPIRE a little over the window. An index: sorted set of a memory's scopes by the epoch ms at which nothing of them counts.
-- The log of a memory: list of JSON, what occurred while it is not known, the oldest first; read by who makes it known.
-- ARGV[1] JSON {memories: [[name, window, steps, at least, has unless 0/1, index, most, log]],
--   events: [[id, outcome, asks, marks, later, waitMs, at, agent, recorded 0/1, or 2: it may be blocked yet, times, submission or 0]],
--   submission, alone, build}
--   times: it stands for so many that are alike, of which it is the last. Where one of them is a step in a memory that is not known,
--   whose log has each by itself, nothing is done: the answer is {now, unasked}
--   submission: of all, or of those that name none of their own
--   alone: each event is of one memory, and is given again for another
--   later: key of what comes once it is approved or recorded, or 0
--   build: nothing, or of who makes the one memory known {token, lease, read, policies, policy, text, wanted, member}: its steps are kept
--   although it is not known; nothing is done where the key `lease` is not `token`. read: entries of the log that were kept; where there
--   are no others and the policy is `text` still, the memory is known from now on. The last five are left out where there are more.
--   ask [memory, value, own, unless, open or 0, all or 0, blocks 0/1, amount]
--   mark [memory, value, scopes, [[place, path, any outcome 0/1]], amount]   most, amount: five parts of six digits, the lowest first, or 0
--   at: epoch ms at which it occurred; 0: now
-- ARGV[2], ARGV[3] values of a scope and scopes of a memory that are kept
-- ARGV[4...] for each event what is written to `later`: JSON {id, agent, memories, keys, marks}, which names its keys itself
-- Result: JSON {now, built: `lost`, `more`, `changed`, `known` or nothing, answers: for each event, for each ask [reason or 0, [[epoch ms, id, path]], id of what it waits for or 0], or 0}
-- Guarantees: a step is kept only of an event that is not blocked, by these sequences either, unless any outcome counts; one of `unless` only
-- once the event is recorded, but for those behind it in its submission, which are recorded with it or not at all. An event is asked
-- about before it is kept. The clock is Redis's. What a call reads of a scope it reads once, and writes once, at its end.
local input = cjson.decode(ARGV[1])
local VALUES_MAX, SCOPES_MAX = tonumber(ARGV[2]), tonumber(ARGV[3])
local ANY, OVER = '*', '!over'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at, keys, memories
local isBuild = false
local LOG_MAX, LEASE_MS = 20000, 10000

local function read(given)
  local names = {}
  memories = {}
  for i, one in ipairs(given) do
    memories[i] = { name = one[1], window = one[2], steps = one[3], least = one[4], unless = one[5] == 1, index = keys[one[6]] }
    memories[i].most = one[7] ~= 0 and one[7] or nil
    memories[i].log = keys[one[8]]
    names[2 * i - 1], names[2 * i] = one[1], one[1] .. '/over'
  end
  if #names == 0 then return end
  for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do
    local memory = memories[math.ceil(i / 2)]
    if i % 2 == 1 then memory.known = value == '1' else memory.over = tonumber(value or 0) end
  end
end

local function isFresh(mark, memory) return mark and mark[1] > at - memory.window end

-- A scope as far as this call knows it. `ends`: until when it is kept. `order`: values whose states are known, false: none is there.
-- `isWhole`: there are no others. `count`: how many there are.
local scopes = {}

local function scopeOf(memory, key)
  local scope = scopes[key]
  if not scope then
    scope = { key = key, index = memory.index, ends = tonumber(redis.call('ZSCORE', memory.index, key) or 0), states = {}, order = {}, changed = {} }
    scopes[key] = scope
  end
  return scope
end

local function know(scope, value, raw)
  if scope.states[value] == nil then
    scope.states[value] = raw and cmsgpack.unpack(raw) or false
    if raw then scope.order[#scope.order + 1] = value end
  end
end

local function overOf(scope)
  if not scope.over then scope.over = tonumber(redis.call('HGET', scope.key, OVER) or 0) end
  return scope.over
end

-- Of a value, false: there is none.
local function stateOf(scope, value)
  if scope.states[value] == nil then
    if scope.isWhole then return false end
    local raw = redis.call('HMGET', scope.key, value, ANY, OVER)
    know(scope, value, raw[1])
    know(scope, ANY, raw[2])
    scope.over = scope.over or tonumber(raw[3] or 0)
  end
  return scope.states[value]
end

local function knowAll(scope)
  if scope.isWhole then return end
  local all, before = redis.call('HGETALL', scope.key), scope.order
  scope.order = {}
  for i = 1, #all, 2 do
    if all[i] == OVER then scope.over = scope.over or tonumber(all[i + 1])
    elseif scope.states[all[i]] then scope.order[#scope.order + 1] = all[i]
    elseif scope.states[all[i]] == nil then know(scope, all[i], all[i + 1]) end
  end
  local isListed = {}
  for _, value in ipairs(scope.order) do isListed[value] = true end
  for _, value in ipairs(before) do if not isListed[value] then scope.order[#scope.order + 1] = value end end
  scope.isWhole, scope.over, scope.count = true, scope.over or 0, #scope.order
end

local function isKept(scope) return scope.ends > at end

local function statesOf(memory, key, value)
  local scope = scopeOf(memory, key)
  if not isKept(scope) then return {} end
  if value ~= ANY then
    local state = stateOf(scope, value) or stateOf(scope, ANY)
    return state and { state } or {}
  end
  knowAll(scope)
  local states = {}
  for i, one in ipairs(scope.order) do states[i] = scope.states[one] end
  return states
end

local function emptyState() return { ways = {}, starts = {}, sums = {}, last = 0 } end

-- The oldest sixtieth of a window counts whole until it lies outside whole.
local function isLive(part, memory) return (part + 1) * memory.window / 60 > at - memory.window end

local function isTooMuch(state, memory, amount)
  local sum, above = { 0, 0, 0, 0, 0 }, 0
  for i = 1, 5 do sum[i] = amount[i] end
  for part, some in pairs(state.sums) do
    if isLive(tonumber(part), memory) then
      for i = 1, 5 do sum[i] = sum[i] + some[i] end
    end
  end
  for i = 1, 5 do
    sum[i] = sum[i] + above
    above = i < 5 and math.floor(sum[i] / 1000000) or 0
    sum[i] = sum[i] - above * 1000000
  end
  for i = 5, 1, -1 do
    if sum[i] ~= memory.most[i] then return sum[i] > memory.most[i] end
  end
  return false
end

-- The last step need not have occurred: the event at hand may be too much by itself.
local function wayOfSum(state, memory, amount)
  local before = memory.steps > 1 and state.ways[memory.steps - 1] or {}
  if memory.steps > 1 and not isFresh(before[1], memory) or not isTooMuch(state, memory, amount) then return nil end
  local last = state.ways[memory.steps]
  return isFresh(last and last[1], memory) and last or before
end

local function wayIn(ask, memory, key)
  local states = statesOf(memory, key, ask[2])
  if #states == 0 then states[1] = emptyState() end
  for _, state in ipairs(states) do
    local way
    if memory.most then way = wayOfSum(state, memory, ask[8])
    else
      local start = state.starts[memory.least]
      way = start and start > at - memory.window and state.ways[memory.steps]
    end
    if way then return way end
  end
end

local function isTouched(memory, key, value)
  for _, state in ipairs(statesOf(memory, key, value)) do
    if state.last > at - memory.window then return true end
  end
  return false
end

local function isOver(memory, key, value)
  local scope = scopeOf(memory, key)
  if not isKept(scope) then return memory.over > at end
  return overOf(scope) > at and not stateOf(scope, value)
end

local function answerTo(ask, submission)
  local memory, value, own, unless, open, all = memories[ask[1]], ask[2], keys[ask[3]], keys[ask[4]], ask[5], ask[6]
  if not memory.known then return { 'state_unknown', {}, 0 } end
  local reason, way = 0, nil
  if memory.steps > 0 then
    way = wayIn(ask, memory, own)
    if not way and open > 0 and isTouched(memory, keys[open], value) then way = wayIn(ask, memory, keys[all]) end
    if not way then
      if not isOver(memory, own, value) then return 0 end
      reason = 'budget'
    end
  end
  local waits = 0
  if memory.unless then
    local state = value ~= ANY and statesOf(memory, unless, value)[1] or {}
    if isFresh(state.unless, memory) then return 0 end
    if isFresh(state.unsettled, memory) then
      if state.unsettled[3] == submission then return 0 end
      waits = state.unsettled[2]
    elseif isFresh(state.waits, memory) then waits = state.waits[2] end
  end
  return { reason, way or {}, waits }
end

local function copied(list)
  local copy = {}
  for i, item in ipairs(list) do copy[i] = item end
  return copy
end

local function addTo(sums, start, amount, memory)
  local part = string.format('%.0f', math.floor(start * 60 / memory.window))
  local sum = sums[part] or { 0, 0, 0, 0, 0 }
  for i = 1, 5 do sum[i] = sum[i] + amount[i] end
  sums[part] = sum
  for other in pairs(sums) do if not isLive(tonumber(other), memory) then sums[other] = nil end end
end

local function take(state, mark, place, path, id, agent, times)
  local memory, value = memories[mark[1]], mark[2]
  local here = { at, id, path, agent }
  if place == 0 then
    if value ~= ANY and (not state.unless or state.unless[1] <= at) then state.unless = here end
    return
  end
  state.last = at
  local way = {}
  if place > 1 then
    local before = state.ways[place - 1]
    if not isFresh(before and before[1], memory) then return end
    way = copied(before)
  end
  way[place] = here
  state.ways[place] = way
  if place == memory.steps then
    for _ = 1, math.min(times, memory.least) do
      table.insert(state.starts, 1, way[1][1])
      state.starts[memory.least + 1] = nil
    end
    if memory.most then addTo(state.sums, way[1][1], mark[5], memory) end
  end
end

local function isStale(state, memory)
  return state.last <= at - memory.window and not isFresh(state.unless, memory) and not isFresh(state.waits, memory)
    and not isFresh(state.unsettled, memory)
end

-- The scope, where it is kept from now on.
local function admit(memory, key)
  local scope, ends = scopeOf(memory, key), at + memory.window
  if not isKept(scope) then
    redis.call('DEL', key)
    redis.call('HSETNX', KEYS[1], memory.name .. '/over', '0')
    redis.call('ZREMRANGEBYSCORE', memory.index, '-inf', at)
    if redis.call('ZCARD', memory.index) >= SCOPES_MAX then
      memory.over = math.max(memory.over, ends)
      redis.call('HSET', KEYS[1], memory.name .. '/over', string.format('%.0f', memory.over))
      return nil
    end
    scope.states, scope.order, scope.changed, scope.isWhole, scope.count, scope.over, scope.ends = {}, {}, {}, true, 0, 0, 0
  end
  if ends > scope.ends then
    redis.call('ZADD', memory.index, string.format('%.0f', ends), key)
    scope.ends = ends
  end
  scope.life = memory.window + 1000
  return scope
end

-- Makes room for one more value; false: there is none.
local function hasRoom(scope, memory)
  if not scope.count then scope.count = redis.call('HLEN', scope.key) - (redis.call('HEXISTS', scope.key, OVER)) end
  if scope.count < VALUES_MAX then return true end
  knowAll(scope)
  local left = {}
  for _, value in ipairs(scope.order) do
    if isStale(scope.states[value], memory) then
      scope.states[value], scope.changed[value] = false, nil
      redis.call('HDEL', scope.key, value)
    else left[#left + 1] = value end
  end
  scope.order, scope.count = left, #left
  if #left < VALUES_MAX then return true end
  scope.over = math.max(scope.over, at + memory.window)
  redis.call('HSET', scope.key, OVER, string.format('%.0f', scope.over))
  return false
end

-- The values whose states an event without one, or with this one, is a step in.
local function toMark(scope, memory, value)
  if not stateOf(scope, value) and hasRoom(scope, memory) then
    local any = value ~= ANY and stateOf(scope, ANY)
    local state = any and cmsgpack.unpack(cmsgpack.pack(any)) or emptyState()
    state.unless, state.waits, state.unsettled = nil, nil, nil
    scope.states[value], scope.changed[value] = state, true
    scope.order[#scope.order + 1] = value
    scope.count = scope.count + 1
  end
  if value ~= ANY then return scope.states[value] and { value } or {} end
  knowAll(scope)
  return scope.order
end

-- The oldest entries go: by then they are stored, where who makes the memory known looks first.
local function note(memory, mark, outcome, id, agent, isKnown)
  local scopes = {}
  for i, number in ipairs(mark[3]) do scopes[i] = keys[number] end
  local entry = { at = at, id = id, agent = agent, outcome = outcome, recorded = isKnown and 1 or 0 }
  entry.value, entry.scopes, entry.places, entry.amount = mark[2], scopes, mark[4], mark[5]
  redis.call('HSETNX', KEYS[1], memory.name .. '/over', '0')
  if redis.call('RPUSH', memory.log, cjson.encode(entry)) > LOG_MAX then
    redis.call('LPOP', memory.log)
    redis.call('HINCRBY', KEYS[1], memory.name .. '/cut', 1)
  end
  redis.call('PEXPIRE', memory.log, string.format('%.0f', memory.window + 1000))
end

-- `of`: id, agent, times, submission; `isKnown`: it is recorded, and approved if it had to be; `isOpen`: events of its own submission wait
-- for it, too.
local function keep(mark, outcome, of)
  local memory, value, id, agent, isKnown = memories[mark[1]], mark[2], of.id, of.agent, of.isKnown
  if not memory.known and not isBuild then return note(memory, mark, outcome, id, agent, isKnown) end
  local places, waits = {}, false
  for _, place in ipairs(mark[4]) do
    local waitsHere = place[1] == 0 and outcome ~= 'blocked' and not isKnown
    if not waitsHere and (outcome == 'allowed' or place[3] == 1) then places[#places + 1] = place end
    waits = waits or waitsHere
  end
  if #places == 0 and not waits then return end
  for _, number in ipairs(mark[3]) do
    local scope = admit(memory, keys[number])
    if scope then
      for _, field in ipairs(toMark(scope, memory, value)) do
        local state = scope.states[field]
        scope.changed[field] = true
        if waits and value ~= ANY then state[outcome == 'allowed' and 'unsettled' or 'waits'] = { at, id, of.isOpen and '' or of.submission, agent } end
        for _, place in ipairs(places) do take(state, mark, place[1], place[2], id, agent, of.times) end
      end
    end
  end
end

local function write()
  local lives = {}
  for key, scope in pairs(scopes) do
    if scope.life then
      local fields = { 'HSET', key }
      for value in pairs(scope.changed) do fields[#fields + 1], fields[#fields + 2] = value, cmsgpack.pack(scope.states[value]) end
      if #fields > 2 then redis.call(unpack(fields)) end
      -- Not in seconds of the window alone: what is filled in occurred before now.
      redis.call('PEXPIRE', key, string.format('%.0f', scope.life))
      lives[scope.index] = scope.life
    end
  end
  for index, life in pairs(lives) do redis.call('PEXPIRE', index, string.format('%.0f', life)) end
end

keys = KEYS
read(input.memories)
for _, event in ipairs(input.events) do
  for _, mark in ipairs(event[10] > 1 and event[4] or {}) do
    if not memories[mark[1]].known then return cjson.encode({ now = now, unasked = true, answers = {} }) end
  end
end

-- Bounded: a call works off so many.
local APPROVED_AT_ONCE = 100
local isOther = false
for _ = 1, APPROVED_AT_ONCE do
  local approved = redis.call('LPOP', KEYS[2])
  if not approved then break end
  isOther = true
  local ms, later = string.match(approved, '^(%d+) (.+)$')
  -- By the front that counted it, under ''; by who made a memory known since, or tries a policy alone, under its name.
  local all, texts = redis.call('HGETALL', later), {}
  for i = 1, #all, 2 do texts[all[i]] = all[i + 1] end
  for by, text in pairs(texts) do
    local event = cjson.decode(text)
    at, keys = math.min(tonumber(ms), now), event.keys
    read(event.memories)
    for _, mark in ipairs(event.marks) do
      if by ~= '' or not texts[memories[mark[1]].name] then keep(mark, 'allowed', { id = event.id, agent = event.agent, isKnown = true, times = 1 }) end
    end
  end
  redis.call('DEL', later)
end

keys = KEYS
if isOther then read(input.memories) end
local answers, build = {}, input.build
if build then
  if redis.call('GET', keys[build.lease]) ~= build.token then
    write()
    return cjson.encode({ now = now, built = 'lost', answers = {} })
  end
  redis.call('PEXPIRE', keys[build.lease], LEASE_MS)
  isBuild = true
end
for i, event in ipairs(input.events) do
  local id, outcome, later, waitMs = event[1], event[2], event[5], event[6]
  at = event[7] > 0 and event[7] or now
  local submission = event[11] ~= 0 and event[11] or input.submission
  answers[i] = {}
  for j, ask in ipairs(event[3]) do
    answers[i][j] = answerTo(ask, submission)
    if answers[i][j] ~= 0 and ask[7] == 1 then outcome = 'blocked' end
  end
  local of = { id = id, agent = event[8], isKnown = event[9] == 1, isOpen = event[9] == 2, times = event[10], submission = submission }
  for _, mark in ipairs(event[4]) do keep(mark, outcome, of) end
  if outcome ~= 'blocked' and later > 0 then
    redis.call('HSET', keys[later], (isBuild or input.alone) and memories[event[4][1][1]].name or '', ARGV[3 + i])
    redis.call('PEXPIRE', keys[later], string.format('%.0f', waitMs))
  end
end
write()
local built
if build and build.text then
  local memory = memories[1]
  if redis.call('LLEN', memory.log) > build.read or redis.call('HEXISTS', KEYS[1], memory.name .. '/cut') == 1 then built = 'more'
  elseif redis.call('HGET', keys[build.policies], build.policy) ~= build.text then built = 'changed'
  else
    built = 'known'
    redis.call('HSET', KEYS[1], memory.name, '1')
    redis.call('DEL', memory.log)
    redis.call('SREM', keys[build.wanted], build.member)
  end
end
return cjson.encode({ now = now, built = built, answers = answers })
