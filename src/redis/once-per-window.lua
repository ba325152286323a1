#!lua flags=allow-oom
-- Lets one through per window, and the same one again whenever it is replayed.
-- KEYS[1] marker   ARGV[1] id   ARGV[2] window in ms
-- Result: 1 if this id is the window's, 0 if another was there first.
local held = redis.call('GET', KEYS[1])
if held then return held == ARGV[1] and 1 or 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
