// require_approval: matches when its fields do; the event is pending until a person decides, or until `timeout` and
// then as `on_timeout` says. That is what the type means, so it is pending with `alert` alone and with `block`, too:
// `block` here does not refuse the event but holds it back. Only `log` alone lets it pass (dry run).

import { below } from '../policy-error.ts';
import { DAY_SECONDS, parseDuration } from './duration.ts';
import type { PolicyKind } from './policy-kind.ts';

export type RequireApprovalTerms = { type: 'require_approval'; timeoutSeconds: number; onTimeout: 'deny' | 'approve' };

const TIMEOUT_SECONDS_DEFAULT = 3_600;
const TIMEOUT_SECONDS_MAX = 30 * DAY_SECONDS;

export const requireApproval: PolicyKind<RequireApprovalTerms> = {
  reserved: ['timeout', 'on_timeout'],
  compile(conditions, at, { mistakes }) {
    const { timeout = TIMEOUT_SECONDS_DEFAULT, on_timeout: onTimeout = 'deny' } = conditions;
    const timeoutSeconds = parseDuration(timeout);
    if (timeoutSeconds === null || timeoutSeconds > TIMEOUT_SECONDS_MAX) {
      mistakes.add(
        below(at, 'timeout'),
        'must be whole seconds or a duration like "30s", "5m", "1h", "1d", at most 30 days',
      );
    }
    if (onTimeout !== 'deny' && onTimeout !== 'approve')
      mistakes.add(below(at, 'on_timeout'), 'must be deny or approve');
    if (timeoutSeconds === null) return undefined;
    return { type: 'require_approval', timeoutSeconds, onTimeout: onTimeout as 'deny' | 'approve' };
  },
};
