-- Which run of which Redis this is: another text after a restart, a promotion, a restored file. '' where INFO is refused.
local function redis_run()
  local server, replication = redis.pcall('INFO', 'server'), redis.pcall('INFO', 'replication')
  if type(server) ~= 'string' or type(replication) ~= 'string' then return '' end
  return string.match(server, 'run_id:(%x+)') .. '/' .. string.match(replication, 'master_replid:(%x+)')
end
-- Does the caller know another one? What it has read, or believes to have written, may not be there.
local function is_other_run(known)
  return known ~= '' and known ~= redis_run()
end
