// `gatehouse account create` and `gatehouse key create`: what the API cannot do for a caller who has no key yet; and
// `gatehouse account limit`, which no key may do for itself.
// A key is printed once and kept nowhere; only its hash is in the registry.
// Invariant: each is one audited change by the actor `system`, the same as through the API.
import { randomUUID } from 'node:crypto';
import { PERMISSIONS, type Permission, SCOPES, type Scope } from '../../schemas/common.ts';
import type { Config } from '../config.ts';
import { ServiceError } from '../errors.ts';
import type { Commands } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { type AccountRecord, Accounts } from '../registry/accounts.ts';
import { ApiKeys } from '../registry/api-keys.ts';
import { sayToPeople } from '../sentence.ts';
import { makeCommands, makeKeys, redisReady, refuseLostRegistry, STORES_READY_MS_MAX } from '../stores.ts';
import { type Command, type Context, exactly, UsageError, wholeNumber, withAddresses } from './context.ts';

export const accountCreate: Command = async (context) => {
  exactly(context.args, 1, 'NAME');
  const name = context.args[0]!;
  await withRegistry(context, async (given, config) => {
    await refuseLostRegistry(config, given.redis);
    const { account, firstKey } = await new Accounts(given).create(name, system());
    context.print(`account ${account.id}`);
    context.print(`key ${firstKey}`);
  });
};

export const accountLimit: Command = async (context) => {
  exactly(context.args, 1, 'NAME');
  const name = context.args[0]!;
  const limit = limitOf(context.options);
  await withRegistry(context, async (given) => {
    const accounts = new Accounts(given);
    const account = await accounts.byName(name);
    if (account === null) throw new UsageError(`there is no account "${name}"`);
    await accounts.setRequestLimit(account.id, limit, system());
    context.print(limit === null ? 'by the settings' : `${limit.per_second} a second, burst ${limit.burst}`);
  });
};

/** The bounds of the settings that stand in for it. */
const PER_SECOND = { min: 1, max: 1_000_000 };
const BURST = { min: 1, max: 10_000_000 };

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
  exactly(context.args, 0, '');
  const { account: name = 'default', scope = 'admin', label = 'made by the command line' } = context.options;
  if (!SCOPES.includes(scope as Scope)) throw new UsageError(`--scope is one of ${SCOPES.join(', ')}`);
  const permissions = permissionsOf(context.options['permissions']);
  const agent_id = context.options['agent'] === undefined ? null : String(context.options['agent']);
  await withRegistry(context, async (given) => {
    const account = await new Accounts(given).byName(String(name));
    if (account === null) throw new UsageError(`there is no account "${name}"`);
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

/** What does not go together is said in the words of the command line. */
function asUsage(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'validation_failed') return error;
  const details = (error.details ?? []).map(({ path, message }) => `${path}: ${message}`);
  return new UsageError([error.message, ...details].join(' '));
}

function system(): { actor: string; requestId: string } {
  return { actor: 'system', requestId: `cli-${randomUUID()}` };
}

async function withRegistry(
  context: Context,
  use: (given: { redis: Commands; keys: Keys }, config: Config) => Promise<void>,
): Promise<void> {
  const config = withAddresses(context.config);
  const redis = makeCommands(config);
  try {
    await redisReady(config, redis, { waitMs: STORES_READY_MS_MAX, say: sayToPeople });
    await use({ redis, keys: makeKeys(config) }, config);
  } finally {
    redis.disconnect();
  }
}
