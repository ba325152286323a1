// The answer where Redis has lost the registry (presence.ts finds out).
import { ServiceError } from '../../common/errors.ts';

/** The answer to a write: nothing was recorded. */
export function registryMissing(): ServiceError {
  return new ServiceError(
    'unavailable',
    'Redis has lost the registry (registry_missing); nothing was recorded. It is to be restored by those who run the service.',
    { recorded: false, retryAfterSeconds: 5 },
  );
}
