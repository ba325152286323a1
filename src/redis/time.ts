// The clock that windows and queues go by: Redis's own, since several processes read and write the same
// times.
import type { Commands } from './client.ts';

/** Epoch ms. Throws what the client throws while Redis is away. */
export async function redisTime(redis: Commands): Promise<number> {
  const [seconds, microseconds] = await redis.time();
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
}
