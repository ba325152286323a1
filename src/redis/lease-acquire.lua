#!lua flags=allow-oom
-- Takes the lease of one stream and group.
-- KEYS[1] lease   KEYS[2] fence
-- ARGV[1] owner's name   ARGV[2] life in ms   ARGV[3] '1': a lease under this very name may be taken over at once
-- Result: the lease's new text `<owner>:<fence>`, or false while another process holds it.
-- Guarantees: every success has a higher fence than all before it, so an earlier holder fails every fenced step.
local held = redis.call('GET', KEYS[1])
if held then
  local own = string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':'
  if not (own and ARGV[3] == '1') then return false end
end
local lease = ARGV[1] .. ':' .. redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], lease, 'PX', ARGV[2])
return lease
