// The token bucket in Redis (gcra.lua has its contract): of a key's requests, and of the agents that calls register.
import { readAsset } from '../../process/assets.ts';
import { Script } from '../../redis/script.ts';

export const gcra = new Script<[taken: number, untilNextUs: number]>('gcra', readAsset('src/redis/gcra.lua'));
