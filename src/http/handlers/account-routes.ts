// The caller's own account: what it is, and what its admins may set. There is no other account to a key, so
// the path names none. Request limits are shown here and set by the command line alone: a key does not raise its own
// limit.
import { type Account, AccountInForce, AccountPatch } from '../../../schemas/account.ts';
import { type RetentionSettings, refuseOutside, retentionOf } from '../../registry/accounts/account-retention.ts';
import type { RequestLimit } from '../../registry/accounts/principal.ts';
import { found, json } from '../answers/reply.ts';
import { jsonBody, type Reply, type Route, route } from '../route.ts';

export const accountRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/v1/account',
    needs: 'read',
    bound: 'refused',
    operation: {
      id: 'getAccount',
      tag: 'Account',
      summary: 'Get the account of the key',
      description: 'The account that the key belongs to, with its settings. There is no other account to a key.',
      answers: { 200: { description: 'The account and its settings', schema: AccountInForce } },
    },
    async handle({ account, principal }, { registry, requestLimit, retention }) {
      return inForce(await registry.accounts.get(account), principal.requestLimit ?? requestLimit, retention);
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/account',
    needs: 'admin',
    bound: 'refused',
    body: jsonBody(AccountPatch, 'change'),
    operation: {
      id: 'updateAccount',
      tag: 'Account',
      summary: "Change the account's settings",
      description:
        '`agent_down_seconds`: for how long an agent may be silent before `agent_down`, unless its `metadata.heartbeat_seconds` says otherwise; null: 300. In force within a minute. `retention`: for how many days events are kept, all or by type, within what the operator allows. Lists show nothing older within a second; it is deleted within a day.',
      answers: { 200: { description: 'The account as it is now', schema: AccountInForce } },
      bodyExample: { agent_down_seconds: 600 },
    },
    async handle({ account, body, principal, actor }, { registry, requestLimit, retention }) {
      if (body.retention) refuseOutside(body.retention, retention);
      const changed = await registry.accounts.patch(account, body, actor);
      return inForce(changed, principal.requestLimit ?? requestLimit, retention);
    },
  }),
];

function inForce(account: Account | null, { perSecond, burst }: RequestLimit, settings: RetentionSettings): Reply {
  const known = found(account, 'account');
  const retention_in_force = retentionOf(known, settings);
  return json(200, { ...known, retention_in_force, request_limit: { per_second: perSecond, burst } });
}
