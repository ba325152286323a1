// `gatehouse account …` and `gatehouse key …`: what the API cannot do for a caller who has no key yet, or has lost it,
// and what no key may do for its own account: limit it, delete it.
// A key is printed once and kept nowhere; only its hash is in the registry.
// Invariant: each is one audited change by the actor `system`, the same as through the API.

import { randomUUID } from 'node:crypto';
import { REQUEST_LIMIT } from '../../schemas/account.ts';
import { EVENT_TYPES, PERMISSIONS, type Permission, SCOPES, type Scope } from '../../schemas/closed-sets.ts';
import { NO_QUOTAS, QUOTA_MAX, type Quotas, RATE_QUOTAS } from '../../schemas/quota.ts';
import { type OwnRetention, RETENTION_DAYS_MAX } from '../../schemas/retention.ts';
import { ServiceError } from '../common/errors.ts';
import { API_KEYS_MAX } from '../common/limits.ts';
import { refuseLostRegistry } from '../composition/clients.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { refuseOutside, retentionOf } from '../registry/accounts/account-retention.ts';
import { type AccountRecord, Accounts, DEFAULT_NAME } from '../registry/accounts/accounts.ts';
import { ApiKeys } from '../registry/accounts/api-keys.ts';
import { type Command, type Context, UsageError, wholeNumber } from './context.ts';
import { withRedis } from './with-redis.ts';

export const accountCreate: Command = async (context) => {
  const name = context.args[0]!;
  await withRedis(context, async (given, config) => {
    await refuseLostRegistry(config, given.redis);
    const { account, firstKey } = await new Accounts(given).create(name, system());
    context.print(`account ${account.id}`);
    context.print(`key ${firstKey}`);
  });
};

export const accountLimit: Command = async (context) => {
  const name = context.args[0]!;
  const quotas = quotasGiven(context.options);
  const isOfKeys = quotas === undefined || context.options['per-second'] !== undefined;
  const limit = isOfKeys ? limitOf(context.options) : undefined;
  await withRedis(context, async (given) => {
    const accounts = new Accounts(given);
    const account = await accountOf(given, name);
    if (limit !== undefined) {
      await accounts.setRequestLimit(account.id, limit, system());
      context.print(limit === null ? 'by the settings' : `${limit.per_second} a second, burst ${limit.burst}`);
    }
    if (quotas === undefined && limit !== null) return;
    const after = quotas === undefined ? null : { ...NO_QUOTAS, ...account.quotas, ...quotas };
    await accounts.setQuotas(account.id, after, system());
    if (after !== null) context.print(JSON.stringify(after));
  });
};

/** undefined: none is named. */
function quotasGiven({ quota }: Context['options']): Partial<Quotas> | undefined {
  const given = [quota ?? []].flat() as string[];
  if (given.length === 0) return undefined;
  return Object.fromEntries(given.map(quotaOf));
}

/** `events=500/1000`, `keys=20`, `bytes=none`. */
function quotaOf(text: string): [string, Quotas[keyof Quotas]] {
  const [, name = '', value = ''] = /^(\w+)=(.*)$/.exec(text) ?? [];
  if (!(name in NO_QUOTAS)) throw new UsageError(`--quota takes NAME=N, of ${Object.keys(NO_QUOTAS).join(', ')}`);
  if (value === 'none') return [name, null];
  const number = (one: string) => wholeNumber(one, `quota ${name}=`, QUOTA);
  if (!(RATE_QUOTAS as readonly string[]).includes(name)) return [name, number(value)];
  const [perSecond = '', burst = perSecond] = value.split('/');
  return [name, { per_second: number(perSecond), burst: number(burst) }];
}

export const accountRetention: Command = async (context) => {
  const name = context.args[0]!;
  const own = retentionGiven(context);
  await withRedis(context, async (given, config) => {
    const accounts = new Accounts(given);
    const account = await accountOf(given, name);
    if (own !== null) asUsageOf(() => refuseOutside(own, config));
    const after = await accounts.patch(account.id, { retention: own }, system());
    context.print(JSON.stringify(retentionOf(after!, config)));
  });
};

/** null: as the settings say. */
function retentionGiven({ options }: Context): OwnRetention | null {
  const { days, type, default: isDefault } = options;
  const types = [type ?? []].flat() as string[];
  const isSaid = days !== undefined || types.length > 0;
  if ((isDefault === true) === isSaid) throw new UsageError('name --days, --type, or both; or say --default');
  if (isDefault === true) return null;
  const days_by_type = types.map((one) => {
    const [of = '', n = ''] = one.split('=');
    if (!(EVENT_TYPES as readonly string[]).includes(of))
      throw new UsageError(`--type takes ${EVENT_TYPES.join(', ')} with its days: prompt=30`);
    return [of, wholeNumber(n, `type ${of}=`, DAYS)];
  });
  return {
    days: days === undefined ? null : wholeNumber(String(days), 'days', DAYS),
    days_by_type: Object.fromEntries(days_by_type) as OwnRetention['days_by_type'],
  };
}

export const accountList: Command = async (context) => {
  await withRedis(context, async (given) => {
    for (const { id, name, request_limit, created_at } of await new Accounts(given).list()) {
      const [keys, agents] = await Promise.all([
        given.redis.hlen(given.keys.apiKeys(id)),
        given.redis.zcard(given.keys.agentIds(id, 'all')),
      ]);
      context.print(JSON.stringify({ id, name, keys, agents, request_limit, created_at }));
    }
  });
};

export const accountDelete: Command = async (context) => {
  const [name] = context.args as [string];
  await withRedis(context, async (given) => {
    const account = await accountOf(given, name);
    if (context.options['yes'] !== true) {
      const agents = await given.redis.zcard(given.keys.agentIds(account.id, 'all'));
      throw new UsageError(
        `this deletes the account ${account.name} (${account.id}) with its ${agents} agents and all that is kept of them, for ever; add --yes`,
      );
    }
    // With what it needs to know of policies and alerts, this command alone takes as long to load as all others.
    const { removeAccount } = await import('../registry/accounts/account-removal.ts');
    const removed = await removeAccount(given, account, system()).catch((error: unknown) => {
      throw asUsage(error);
    });
    context.print(`deleted ${JSON.stringify({ account: account.id, ...removed })}`);
    if (removed.agents > 0) context.print('what is stored of its agents is being erased by the pipelines');
  });
};

export const keyList: Command = async (context) => {
  await withRedis(context, async (given) => {
    const account = await accountOf(given, String(context.options['account'] ?? DEFAULT_NAME));
    const { items } = await new ApiKeys(given).list(account.id, { limit: API_KEYS_MAX, offset: 0 });
    for (const key of items) context.print(JSON.stringify(key));
  });
};

export const keyRevoke: Command = async (context) => {
  const [id] = context.args as [string];
  await withRedis(context, async (given) => {
    const account = await accountOf(given, String(context.options['account'] ?? DEFAULT_NAME));
    if (!(await new ApiKeys(given).revoke(account.id, id, system(), { mayBeLast: true })))
      throw new UsageError(
        `the account ${account.name} has no key ${id}; "gatehouse key list" shows those that it has`,
      );
    context.print(`revoked ${id}`);
  });
};

export async function accountOf(given: { redis: Commands; keys: Keys }, nameOrId: string): Promise<AccountRecord> {
  const account = await new Accounts(given).find(nameOrId);
  if (account !== null) return account;
  throw new UsageError(`there is no account "${nameOrId}"; "gatehouse account list" shows those that there are`);
}

/** The bounds of the settings that are in for it. */
const DAYS = { min: 1, max: RETENTION_DAYS_MAX };
const PER_SECOND = { min: 1, max: REQUEST_LIMIT.perSecondMax };
const BURST = { min: 1, max: REQUEST_LIMIT.burstMax };
const QUOTA = { min: 1, max: QUOTA_MAX };

function limitOf(options: Context['options']): AccountRecord['request_limit'] {
  const { 'per-second': perSecond, burst, default: isDefault } = options;
  if (isDefault === true && perSecond === undefined && burst === undefined) return null;
  if (isDefault === true || perSecond === undefined || burst === undefined)
    throw new UsageError('name both --per-second and --burst, or say --default');
  return {
    per_second: wholeNumber(String(perSecond), 'per-second', PER_SECOND),
    burst: wholeNumber(String(burst), 'burst', BURST),
  };
}

export const keyCreate: Command = async (context) => {
  const { account: name = DEFAULT_NAME, scope = 'admin', label = 'made by the command line' } = context.options;
  if (!SCOPES.includes(scope as Scope)) throw new UsageError(`--scope is one of ${SCOPES.join(', ')}`);
  const permissions = permissionsOf(context.options['permissions']);
  const agent_id = context.options['agent'] === undefined ? null : String(context.options['agent']);
  await withRedis(context, async (given) => {
    const account = await accountOf(given, String(name));
    const wanted = { label: String(label), scope: scope as Scope, agent_id, permissions };
    const created = await new ApiKeys(given).create(account.id, wanted, system()).catch((error: unknown) => {
      throw asUsage(error);
    });
    context.print(`id ${created.id}`);
    context.print(`key ${created.key}`);
  });
};

/** `submit,read` */
function permissionsOf(given: Context['options'][string]): Permission[] | null {
  if (given === undefined) return null;
  const names = String(given).split(',');
  if (new Set(names).size < names.length || !names.every((name) => (PERMISSIONS as readonly string[]).includes(name)))
    throw new UsageError(`--permissions is a list of different ones of ${PERMISSIONS.join(',')}`);
  return names as Permission[];
}

/** The usage error for options that do not go together, in the words of the command line; other errors as they are. */
export function asUsage(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'validation_failed') return error;
  const details = (error.details ?? []).map(({ path, message }) => `${path}: ${message}`);
  return new UsageError([error.message, ...details].join(' '));
}

function asUsageOf(check: () => void): void {
  try {
    check();
  } catch (error) {
    throw asUsage(error);
  }
}

export function system(): { actor: string; requestId: string } {
  return { actor: 'system', requestId: `cli-${randomUUID()}` };
}
