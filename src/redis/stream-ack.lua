#!lua flags=allow-oom
-- Ends a batch: parks what could not be processed, acknowledges its entries, moves the watermark, forgets the manifest. All or nothing.
-- KEYS[1] stream   KEYS[2] lease   KEYS[3] manifest   KEYS[4] watermark   KEYS[5] dead stream
-- ARGV[1] the lease's text   ARGV[2] group   ARGV[3] most entries in the dead stream   ARGV[4] number of ids   ARGV[5..] ids in order,
--   then for each parked entry: number of its fields and values, fields and values
-- Result: false if the lease is lost, -1 if the dead stream has no room for what is to be parked (nothing changed in both cases),
--   else the number of entries acknowledged.
-- Guarantees: run a second time for the same batch it acknowledges 0 and parks nothing. Nothing that was parked is ever dropped.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end
local ids = tonumber(ARGV[4])
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[2], ARGV[5], ARGV[5], 1)
if pending.err or #pending == 0 then return 0 end
local parked, at = 0, 5 + ids
while at <= #ARGV do
  parked, at = parked + 1, at + tonumber(ARGV[at]) + 1
end
if parked > 0 and redis.call('XLEN', KEYS[5]) + parked > tonumber(ARGV[3]) then return -1 end
local acked = 0
at = 5
while at < 5 + ids do
  local last = math.min(at + 999, 4 + ids)
  acked = acked + redis.call('XACK', KEYS[1], ARGV[2], unpack(ARGV, at, last))
  at = last + 1
end
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[5], '*', unpack(ARGV, at + 1, at + size))
  at = at + size + 1
end
redis.call('SET', KEYS[4], ARGV[4 + ids])
redis.call('DEL', KEYS[3])
return acked
