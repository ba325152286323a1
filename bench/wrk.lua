-- For `wrk -s bench/wrk.lua URL`: posts events of the agent AGENT with the key KEY, both from the environment.
-- One event a request, or EVENTS of them in a batch. Every request has a number of its own, so that no two events are alike.
local agent, key = os.getenv('AGENT'), os.getenv('KEY')
local events = tonumber(os.getenv('EVENTS') or '1')
if not agent or not key then error('AGENT and KEY must be in the environment') end

local path = '/v1/agents/' .. agent .. '/events' .. (events > 1 and '/batch' or '')
local headers = { ['Authorization'] = 'Bearer ' .. key, ['Content-Type'] = 'application/json' }
local sent = 0

local function event()
  sent = sent + 1
  return '{"type":"tool_call","payload":{"tool":"search","arguments":{"n":' .. sent .. '},"status":"ok"}}'
end

request = function()
  if events == 1 then return wrk.format('POST', path, headers, event()) end
  local many = {}
  for i = 1, events do many[i] = event() end
  return wrk.format('POST', path, headers, '{"events":[' .. table.concat(many, ',') .. ']}')
end
