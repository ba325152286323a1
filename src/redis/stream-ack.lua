#!lua flags=allow-oom
-- Ends a batch: parks what could not be processed, acknowledges its entries, moves the watermark, forgets the manifest. All or nothing.
-- KEYS[1] stream   KEYS[2] lease   KEYS[3] manifest   KEYS[4] watermark   KEYS[5] dead stream   KEYS[6..] keys that writes name by index
-- ARGV[1] the lease's text   ARGV[2] group   ARGV[3] most entries in the dead stream   ARGV[4] number of ids
-- ARGV[5] number of parked entries   ARGV[6..] ids in order,
--   then for each parked entry: number of its fields and values, fields and values
--   then up to the end the pipeline's own writes, each: number of words, words (a command, the index of its key in KEYS, arguments)
-- Result: false if the lease is lost, -1 if the dead stream has no room for what is to be parked (nothing changed in both cases),
--   else the number of entries acknowledged.
-- Guarantees: run a second time for the same batch it acknowledges 0, parks nothing and writes nothing. Nothing that was parked is ever dropped.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return false end
local ids, parked = tonumber(ARGV[4]), tonumber(ARGV[5])
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[2], ARGV[6], ARGV[6], 1)
if pending.err or #pending == 0 then return 0 end
if parked > 0 and redis.call('XLEN', KEYS[5]) + parked > tonumber(ARGV[3]) then return -1 end
local acked = 0
local at = 6
while at < 6 + ids do
  local last = math.min(at + 999, 5 + ids)
  acked = acked + redis.call('XACK', KEYS[1], ARGV[2], unpack(ARGV, at, last))
  at = last + 1
end
for _ = 1, parked do
  local size = tonumber(ARGV[at])
  redis.call('XADD', KEYS[5], '*', unpack(ARGV, at + 1, at + size))
  at = at + size + 1
end
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(ARGV[at + 1], KEYS[tonumber(ARGV[at + 2])], unpack(ARGV, at + 3, at + words))
  at = at + words + 1
end
redis.call('SET', KEYS[4], ARGV[5 + ids])
redis.call('DEL', KEYS[3])
return acked
