// `gatehouse account create` and `gatehouse key create`: what the API cannot do for a caller who has no key yet.
// A key is printed once and kept nowhere; only its hash is in the registry.
// Invariant: each is one audited change by the actor `system`, the same as through the API.
import { randomUUID } from 'node:crypto';
import { SCOPES, type Scope } from '../../schemas/common.ts';
import { type Commands, waitUntilReady } from '../redis/client.ts';
import type { Keys } from '../redis/keys.ts';
import { Accounts } from '../registry/accounts.ts';
import { ApiKeys } from '../registry/api-keys.ts';
import { makeCommands, makeKeys, STORES_READY_MS_MAX } from '../stores.ts';
import { type Command, type Context, exactly, UsageError, withAddresses } from './context.ts';

export const accountCreate: Command = async (context) => {
  exactly(context.args, 1, 'NAME');
  const name = context.args[0]!;
  await withRegistry(context, async (given) => {
    const { account, firstKey } = await new Accounts(given).create(name, system());
    context.print(`account ${account.id}`);
    context.print(`key ${firstKey}`);
  });
};

export const keyCreate: Command = async (context) => {
  exactly(context.args, 0, '');
  const { account: name = 'default', scope = 'admin', label = 'made by the command line' } = context.options;
  if (!SCOPES.includes(scope as Scope)) throw new UsageError(`--scope is one of ${SCOPES.join(', ')}`);
  await withRegistry(context, async (given) => {
    const account = await new Accounts(given).byName(String(name));
    if (account === null) throw new UsageError(`there is no account "${name}"`);
    const created = await new ApiKeys(given).create(
      account.id,
      { label: String(label), scope: scope as Scope },
      system(),
    );
    context.print(`id ${created.id}`);
    context.print(`key ${created.key}`);
  });
};

function system(): { actor: string; requestId: string } {
  return { actor: 'system', requestId: `cli-${randomUUID()}` };
}

async function withRegistry(
  context: Context,
  use: (given: { redis: Commands; keys: Keys }) => Promise<void>,
): Promise<void> {
  const config = withAddresses(context.config);
  const redis = makeCommands(config);
  try {
    await waitUntilReady(redis, STORES_READY_MS_MAX);
    await use({ redis, keys: makeKeys(config) });
  } finally {
    redis.disconnect();
  }
}
