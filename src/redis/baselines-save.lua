#!lua flags=allow-oom
-- Keeps the anomaly baselines of some agents, for the owner of a lease. Also in a full Redis: a record is of fixed size, and
-- the pipeline whose progress empties Redis must not wait for it.
-- KEYS[1] lease   KEYS[2..] baselines
-- ARGV[1] the lease's text   ARGV[2] life in ms   ARGV[3..] a record for each baseline
-- Result: false if the lease is lost (then nothing was written), else 1.
-- Guarantees: a former owner overwrites nothing; the mark of an erased agent ('-') is never overwritten.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return false end
for i = 2, #KEYS do
  if redis.call('STRLEN', KEYS[i]) ~= 1 then redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[2]) end
end
return 1
