// Who calls, and in whose name a change is made (made by the cache from a key's record; carried through every call after it).
// Invariant: `account` comes from the key alone, never from what a caller says.
import type { Scope } from '../../schemas/common.ts';

export type RequestLimit = { perSecond: number; burst: number };

export type Principal = {
  account: string;
  keyId: string;
  scope: Scope;
  expiresAtMs: number | null;
  /** null: the limit of the settings. */
  requestLimit: RequestLimit | null;
};

/** `actor` as the audit log shows it: `key:<key id>` or `system`. */
export type Actor = { actor: string; requestId: string };
