#!lua flags=allow-oom
-- Deletes a key if it still holds the caller's text: a lease, or the marker of a running request.
-- KEYS[1] key   ARGV[1] text
-- Result: 1 if it was deleted, else 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
