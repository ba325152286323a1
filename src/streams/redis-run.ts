// Lets a script compare the run of Redis that it runs in with the one that its caller has read from (under lease.ts
// and consume.ts). A Redis that was promoted, restarted or put back to an older file may lack what was read or written
// before: then the answer is an error or a refusal, and nothing was changed. Costs Redis 25 us a call.
import { readAsset } from '../process/assets.ts';

const functions = readAsset('src/redis/redis-run.lua');

/** The script with `redis_run()` and `is_other_run(known)`. Its first line, which has its flags, stays the first. */
export function withRun(lua: string): string {
  return lua.replace('\n', () => `\n${functions}`);
}
