// Who calls, what they may, and in whose name a change is made (made by the cache from a key's record; carried through
// every call after it).
// Invariant: `account` and `agentId` come from the key alone, never from what a caller says. What a key may is one
// number, made with the principal, so that the check on the path of an event is one comparison of bits.

import type { AccountStatus, Permission, Scope } from '../../../schemas/closed-sets.ts';
import type { Quotas } from '../../../schemas/quota.ts';
import { ServiceError } from '../../common/errors.ts';
import { BOUND_SHARE_MAX } from '../../common/limits.ts';
import { validationFailed } from '../../common/validation.ts';

export type RequestLimit = { perSecond: number; burst: number };

/**
 * A bit each. `admin`: keys and account settings. `account`: what concerns all agents, which a key bound to one may
 * not. `active`: whatever needs a key; a suspended account's keys do not have it.
 */
export const RIGHTS = { submit: 1, read: 2, decide: 4, configure: 8, admin: 16, account: 32, active: 64 } as const;

/** The permissions of a scope where `permissions` is not given: the contract's meaning. */
export const PERMISSIONS_OF: Record<Scope, readonly Permission[]> = {
  read: ['read'],
  write: ['submit', 'read', 'decide', 'configure'],
  admin: ['submit', 'read', 'decide', 'configure'],
};

export type Principal = {
  account: string;
  keyId: string;
  scope: Scope;
  permissions: readonly Permission[];
  /** The agent that the key is bound to; null: to none. */
  agentId: string | null;
  /** May a call name an agent that is not there yet, which is then registered? */
  registersAgents: boolean;
  /** Sum of RIGHTS; follows from the three above, and from whether the account is suspended. */
  rights: number;
  expiresAtMs: number | null;
  /** null: the limit of the settings. */
  requestLimit: RequestLimit | null;
  /** The quotas of the account, over all its keys; null: none. */
  quotas: Quotas | null;
  /** The session that the key is used by; null: by itself. */
  sessionId: string | null;
};

export function rightsOf(
  { scope, permissions, agentId }: Pick<Principal, 'scope' | 'permissions' | 'agentId'>,
  status: AccountStatus = 'active',
): number {
  let rights = agentId === null ? RIGHTS.account : 0;
  if (status === 'active') rights |= RIGHTS.active;
  if (scope === 'admin') rights |= RIGHTS.admin;
  for (const permission of permissions) rights |= RIGHTS[permission];
  return rights;
}

/** `actor` as the audit log shows it: `key:<key id>`, `operator:<name>` or `system`. */
export type Actor = {
  actor: string;
  requestId: string;
  /** The agent of a key that is bound to one: nothing but what is this agent's is changed in its name. */
  boundTo?: string | null;
  /** False: of a key that is kept to agents that are there. */
  registersAgents?: boolean;
  /** Where the call came from, and with which program; '' where that is not known. */
  ip?: string;
  userAgent?: string;
  /** The caller's trace; '' where there is none. */
  traceparent?: string;
};

/** May the actor change what belongs to `agent` (null: to the whole account)? */
export function isWithin({ boundTo }: Actor, agent: string | null): boolean {
  return boundTo === undefined || boundTo === null || boundTo === agent;
}

/** Is it a key that is bound to an agent? */
export function isBound({ boundTo }: Actor): boolean {
  return boundTo !== undefined && boundTo !== null;
}

/** In whose name work of the actor waits: what keys of agents ask for keeps no other of the account waiting. */
export function waitingAs(actor: Actor, account: string): string {
  return isBound(actor) ? `${account}/agents` : account;
}

/** The share of a bound of the account that the actor may fill, beside all that is there. */
export function shareOf(actor: Actor, max: number): number {
  return isBound(actor) ? Math.floor(max * BOUND_SHARE_MAX) : max;
}

/** For what is made, or moved to another agent. Throws ServiceError validation_failed. */
export function keepWithin(actor: Actor, agent: string | null, { what, path }: { what: string; path: string }): void {
  if (isWithin(actor, agent)) return;
  const message = `must be ${actor.boundTo}, the agent that this key is bound to`;
  throw validationFailed(`The ${what} cannot be kept.`, [{ path, message }]);
}

export function ownRequest(): ServiceError {
  return new ServiceError('own_request', 'A key that is bound to an agent does not decide what this agent asks for.', {
    recorded: false,
  });
}
