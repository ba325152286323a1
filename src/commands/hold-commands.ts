// `gatehouse hold …`: what is kept of an account whatever its age, for an operator who has no key of it.
// Invariant: each is one audited change by the actor `system`, the same as through the API.
import { HOLDS_MAX } from '../common/limits.ts';
import { DEFAULT_NAME } from '../registry/accounts/accounts.ts';
import { Holds } from '../registry/accounts/holds.ts';
import { accountOf, asUsage, system } from './account-commands.ts';
import { type Command, type Context, UsageError } from './context.ts';
import { withRedis } from './with-redis.ts';

export const holdCreate: Command = async (context) => {
  const { reason, agent, trace } = context.options;
  if (typeof reason !== 'string' || reason === '') throw new UsageError('say why with --reason');
  const wanted = {
    reason,
    ...(agent === undefined ? {} : { agent_id: String(agent) }),
    ...(trace === undefined ? {} : { trace_id: String(trace) }),
  };
  await withAccount(context, async (holds, account) => {
    const made = await holds.create(account.id, wanted, system()).catch((error: unknown) => {
      throw asUsage(error);
    });
    context.print(JSON.stringify(made));
  });
};

export const holdList: Command = async (context) => {
  await withAccount(context, async (holds, account) => {
    const { items } = await holds.list(account.id, { limit: HOLDS_MAX, offset: 0 });
    for (const hold of items) context.print(JSON.stringify(hold));
  });
};

export const holdRelease: Command = async (context) => {
  const [id] = context.args as [string];
  await withAccount(context, async (holds, account) => {
    if (!(await holds.release(account.id, id, system())))
      throw new UsageError(
        `the account ${account.name} has no hold ${id}; "gatehouse hold list" shows those that it has`,
      );
    context.print(`released ${id}`);
  });
};

function withAccount(
  context: Context,
  use: (holds: Holds, account: { id: string; name: string }) => Promise<void>,
): Promise<void> {
  return withRedis(context, async (given) => {
    const account = await accountOf(given, String(context.options['account'] ?? DEFAULT_NAME));
    await use(new Holds(given), account);
  });
}
