// The caller's own account: what it is, and what its admins may set. There is no other account to a key, so
// the path names none. Request limits are shown here and set by the command line alone: a key does not raise its own
// limit.
import { type Account, AccountInForce, AccountPatch } from '../../../schemas/account.ts';
import type { RequestLimit } from '../../registry/principal.ts';
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
    async handle({ account, principal }, { registry, requestLimit }) {
      return inForce(await registry.accounts.get(account), principal.requestLimit ?? requestLimit);
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
        '`agent_down_seconds`: for how long an agent may be silent before `agent_down`, unless its `metadata.heartbeat_seconds` says otherwise; null: 300. In force within a minute.',
      answers: { 200: { description: 'The account as it is now', schema: AccountInForce } },
      bodyExample: { agent_down_seconds: 600 },
    },
    async handle({ account, body, principal, actor }, { registry, requestLimit }) {
      return inForce(await registry.accounts.patch(account, body, actor), principal.requestLimit ?? requestLimit);
    },
  }),
];

function inForce(account: Account | null, { perSecond, burst }: RequestLimit): Reply {
  return json(200, { ...found(account, 'account'), request_limit: { per_second: perSecond, burst } });
}
