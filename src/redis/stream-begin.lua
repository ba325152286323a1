#!lua flags=allow-oom
-- Where a group is in its stream, and whether it worked with this very run of Redis last, for the owner of a lease.
-- KEYS[1] stream   KEYS[2] watermark of the group   KEYS[3] run of the group   KEYS[4] where its comparison began
-- Result: {watermark, run of this Redis or '' (redis-run.lua), the group's run or '', id of the stream's last entry,
--   the watermark with which the comparison of this run was begun, by whichever owner}
local last = '0-0'
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then last = info[i + 1] end
end
local watermark = redis.call('GET', KEYS[2]) or '0-0'
local run, kept = redis_run(), redis.call('GET', KEYS[3]) or ''
local from = watermark
if run == '' or run ~= kept then
  from = redis.call('GET', KEYS[4]) or watermark
  if watermark ~= '0-0' then redis.call('SET', KEYS[4], from) end
end
return { watermark, run, kept, last, from }
