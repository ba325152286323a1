#!lua
-- Starts a request that carries an Idempotency-Key.
-- KEYS[1] record
-- ARGV[1] fingerprint of the request (without ':')   ARGV[2] token of this run   ARGV[3] life of a running record in ms
-- Result: {'new'}, {'replay', outcome}, {'conflict'} (another request has this key) or {'running'}.
-- Guarantees: safe to send again: the caller's own marker is recognised.
-- Record: `running:<fingerprint>:<token>` or `done:<fingerprint>:<outcome>`.
local record = redis.call('GET', KEYS[1])
if not record then
  redis.call('SET', KEYS[1], 'running:' .. ARGV[1] .. ':' .. ARGV[2], 'PX', ARGV[3])
  return { 'new' }
end
if record == 'running:' .. ARGV[1] .. ':' .. ARGV[2] then return { 'new' } end
local state, fingerprint, at = string.match(record, '^(%a+):([^:]*):()')
if fingerprint ~= ARGV[1] then return { 'conflict' } end
if state == 'running' then return { 'running' } end
return { 'replay', string.sub(record, at) }
