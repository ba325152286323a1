// Accounts by API, for those who run the service (docs/operators.md): what `gatehouse account` and `gatehouse key` do.
// The caller is an operator, known by a key of the settings and no account's; the account is named by the path, and
// each change is an entry of that account's audit log with the operator's name.
// An account is made without a key, so making it again does nothing: an answer that was lost is asked for once more.
import { type Account, AdminAccount, AdminAccountCreate, AdminAccountPatch } from '../../../schemas/account.ts';
import { ApiKey, ApiKeyCreate, ApiKeyCreated } from '../../../schemas/api-key.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { refuseOutside, retentionOf } from '../../registry/accounts/account-retention.ts';
import { openPage } from '../answers/cursor.ts';
import { found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Parts, type Route, route } from '../route.ts';

export const adminAccountRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/admin/accounts',
    needs: 'operator',
    body: jsonBody(AdminAccountCreate, 'account'),
    operation: {
      id: 'ensureAccount',
      tag: 'Admin',
      summary: 'Make an account',
      description:
        'Idempotent by name: the account of this name, made by this call (201) or there already (200). It is made without a key; make its first one beside it. Limits, quotas and retention are set by a change.',
      answers: {
        201: { description: 'The new account', schema: AdminAccount },
        200: { description: 'The account of this name, which was there', schema: AdminAccount },
      },
      bodyExample: { name: 'acme' },
    },
    async handle({ body, actor }, parts) {
      const { account, made } = await parts.registry.accounts.ensure(body.name, actor);
      return json(made ? 201 : 200, await wholeOf(account.id, parts));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/admin/accounts',
    needs: 'operator',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listAccounts',
      tag: 'Admin',
      summary: 'List accounts',
      description: 'Newest first.',
      answers: { 200: { description: 'Accounts, newest first', schema: pageSchema(AdminAccount) } },
    },
    async handle(call, parts) {
      const asked = openPage(call, 'accounts');
      const listed = await parts.registry.accounts.page(asked);
      const items = await Promise.all(listed.items.map((account) => withMore(account, parts)));
      return page(asked, { ...listed, items });
    },
  }),
  route({
    method: 'GET',
    path: '/v1/admin/accounts/{id}',
    needs: 'operator',
    operation: {
      id: 'getAnyAccount',
      tag: 'Admin',
      summary: 'Get an account',
      description: 'With its settings, what of them is in force, and how many keys and agents it has.',
      answers: { 200: { description: 'The account and its settings', schema: AdminAccount } },
    },
    handle: async ({ params }, parts) => json(200, await wholeOf(params[0]!, parts)),
  }),
  route({
    method: 'PATCH',
    path: '/v1/admin/accounts/{id}',
    needs: 'operator',
    body: jsonBody(AdminAccountPatch, 'change'),
    operation: {
      id: 'updateAnyAccount',
      tag: 'Admin',
      summary: 'Change an account',
      description:
        'Sets its status, request limit, quotas, retention and `agent_down_seconds`; what is left out stays. Status, limits and quotas are in force on every process within a second. While it is `suspended`, every call with a key of it is 403 `account_suspended`, an inference hook has the word of its connection (`on_failure`), and what is stored stays.',
      answers: { 200: { description: 'The account as it is now', schema: AdminAccount } },
      bodyExample: { request_limit: { per_second: 50, burst: 100 }, quotas: { keys: 20, stored_rows: 1_000_000 } },
    },
    async handle({ params, body, actor }, parts) {
      if (body.retention) refuseOutside(body.retention, parts.retention);
      const changed = found(await parts.registry.accounts.patch(params[0]!, body, actor), 'account');
      return json(200, await withMore(changed, parts));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/admin/accounts/{id}',
    needs: 'operator',
    operation: {
      id: 'deleteAccount',
      tag: 'Admin',
      summary: 'Delete an account',
      description:
        'Deletes it for ever with its keys, agents, policies, alerts and all that is kept of its agents; its audit log stays. It begins with the keys. Of an account with thousands of agents the answer may be 503 before it is done: ask again until it is 404. The account `default` stays, and one that is on hold.',
      answers: { 204: { description: 'Deleted' } },
      errors: ['on_hold'],
    },
    async handle({ params, actor }, { registry }) {
      if (!(await registry.removeAccount(params[0]!, actor))) throw notFound('account');
      return NO_CONTENT;
    },
  }),
  route({
    method: 'POST',
    path: '/v1/admin/accounts/{id}/api-keys',
    needs: 'operator',
    body: jsonBody(ApiKeyCreate, 'API key'),
    idempotency: 'refused',
    operation: {
      id: 'createKeyOfAccount',
      tag: 'Admin',
      summary: 'Create an API key of an account',
      description:
        'Its first admin key, or one for an account that has lost all. The full key is in this answer and nowhere else. `Idempotency-Key` is refused here: an answer that holds a key is not kept.',
      answers: { 201: { description: 'The new key', schema: ApiKeyCreated } },
      bodyExample: { label: 'first admin key', scope: 'admin' },
    },
    async handle({ params, body, actor }, { registry }) {
      const { id } = found(await registry.accounts.get(params[0]!), 'account');
      return json(201, await registry.apiKeys.create(id, body, actor));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/admin/accounts/{id}/api-keys',
    needs: 'operator',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listKeysOfAccount',
      tag: 'Admin',
      summary: 'List API keys of an account',
      description: 'Newest first, by label and last four characters. The keys themselves are nowhere kept.',
      answers: { 200: { description: 'Keys, newest first', schema: pageSchema(ApiKey) } },
    },
    async handle(call, { registry }) {
      const { id } = found(await registry.accounts.get(call.params[0]!), 'account');
      const asked = openPage(call, 'api-keys');
      return page(asked, await registry.apiKeys.list(id, asked));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/admin/accounts/{id}/api-keys/{key_id}',
    needs: 'operator',
    operation: {
      id: 'revokeKeyOfAccount',
      tag: 'Admin',
      summary: 'Revoke an API key of an account',
      description: 'Refused on every process within a second, the last admin key as well. It cannot be taken back.',
      answers: { 204: { description: 'Revoked; refused on every process within a second' } },
    },
    async handle({ params, actor }, { registry }) {
      const { id } = found(await registry.accounts.get(params[0]!), 'account');
      if (!(await registry.apiKeys.revoke(id, params[1]!, actor, { mayBeLast: true }))) throw notFound('API key');
      return NO_CONTENT;
    },
  }),
];

async function wholeOf(id: string, parts: Parts): Promise<object> {
  return withMore(found(await parts.registry.accounts.get(id), 'account'), parts);
}

async function withMore(account: Account, { registry, requestLimit, retention }: Parts): Promise<object> {
  const { requests_per_second: own, requests_burst: ownBurst } = account;
  return {
    ...account,
    retention_in_force: retentionOf(account, retention),
    request_limit: { per_second: own ?? requestLimit.perSecond, burst: ownBurst ?? requestLimit.burst },
    ...(await registry.accounts.counts(account.id)),
  };
}
