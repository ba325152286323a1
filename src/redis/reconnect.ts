// How long a client of Redis waits before it tries to connect again (used by every client of this folder).
/** Wait before a reconnect: grows to half a second, so that service is back well within 2 s of Redis. */
const RECONNECT_MS_STEP = 25;
const RECONNECT_MS_MAX = 500;

/**
 * The pause before the attempt that follows so many failed ones; with jitter, so that not all processes come at once.
 */
export function reconnectMs(attempt: number): number {
  return Math.min(attempt * RECONNECT_MS_STEP, RECONNECT_MS_MAX) + Math.floor(Math.random() * RECONNECT_MS_STEP);
}
