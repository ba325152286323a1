-- How many entries streams hold. Only for a Redis that is no Cluster: the keys are of many slots.
-- KEYS    streams
-- Returns their lengths, in the order of KEYS; 0 of one that is not there
local lengths = {}
for i, key in ipairs(KEYS) do lengths[i] = redis.call('XLEN', key) end
return lengths
