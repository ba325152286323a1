// The routes that resources with a name have alike: create, list, get, change, a new secret and delete, over a class of
// the registry.
// A file of a resource says its words, schemas and descriptions, and adds the routes that only it has.
// Invariant: one kind of resource cannot differ from another in needs, statuses, idempotency or paging by accident:
// what a resource does otherwise stands in its own file.
import type Type from 'typebox';
import type { Permission } from '../../../schemas/closed-sets.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import type { ErrorCode } from '../../common/errors.ts';
import type { Actor } from '../../registry/accounts/principal.ts';
import type { Created, Idempotency } from '../../registry/idempotency.ts';
import type { Listed, NamedPage } from '../../registry/lists.ts';
import { openPage } from '../answers/cursor.ts';
import { found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { namedFilters, paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Owned, type Parts, type Route, route } from '../route.ts';

/** `C`, `P`: the bodies of a create and of a change. */
type Records<C, P> = {
  create(account: string, body: C, actor: Actor, idempotency?: Idempotency): Promise<Created>;
  list(account: string, asked: NamedPage): Promise<Listed<unknown>>;
  get?(account: string, id: string): Promise<unknown>;
  patch?(account: string, id: string, body: P, actor: Actor): Promise<unknown>;
  rotateSecret?(account: string, id: string, actor: Actor): Promise<unknown>;
  remove(account: string, id: string, actor: Actor): Promise<boolean>;
};

type Resource = {
  /** In words, as in "outgoing feed" and "outgoing feeds". */
  one: string;
  many: string;
  /** It is the whole account's: bound keys are refused. Or each may be an agent's. */
  bound: 'refused' | Owned;
  /** The permission that creating and changing needs besides `configure`. */
  besides?: Permission;
  schema: Type.TSchema;
};

type Said = { description: string; summary?: string; errors?: ErrorCode[] };
/** `S` describes a `B`. */
type Sent<S extends Type.TSchema, B> = { body: Type.Static<S> extends B ? S : never; bodyExample: unknown };
/** The answer to a create where it is more than the resource. */
type Answer = { answer?: { schema: Type.TSchema; description: string } };

/** `records`: its class in the registry. One that cannot be changed has no `patch`, and no route of it. */
export function resourceRoutes<C, P = never>(
  { one, many, bound, besides, schema }: Resource,
  records: (registry: Parts['registry']) => Records<C, P>,
) {
  const path = `/v1/${many.replaceAll(' ', '-')}`;
  const [tag, a] = [capital(many), /^[aeio]/.test(one) ? 'an' : 'a'];
  const base = { bound: bound === 'refused' ? bound : ('handler' as const) };
  const single = { path: `${path}/{id}`, bound };
  const of = ({ registry }: Parts) => records(registry);
  return {
    create: <S extends Type.TSchema>({ body, answer, errors = [], ...said }: Said & Sent<S, C> & Answer): Route =>
      route({
        ...{ method: 'POST', path, needs: 'configure', ...base, ...(besides && { besides }) },
        body: jsonBody(body, one),
        idempotency: 'heeded',
        operation: {
          ...{ id: `create${camel(one)}`, tag, summary: `Create ${a} ${one}`, ...said },
          answers: { 201: answer ?? { description: `The new ${one}`, schema } },
          errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress', ...errors],
        },
        async handle({ account, body, actor, idempotency }, parts) {
          const { answer } = await of(parts).create(account, body as C, actor, idempotency);
          return { status: 201, body: answer };
        },
      }),
    list: (said: Said): Route =>
      route({
        ...{ method: 'GET', path, needs: 'read', ...base },
        query: { ...paging(RESOURCE_PAGE), ...namedFilters(one, many) },
        operation: {
          ...{ id: `list${camel(many)}`, tag, summary: `List ${many}`, ...said },
          answers: { 200: { description: `${tag}, newest first`, schema: pageSchema(schema) } },
        },
        async handle(call, parts) {
          const asked = openPage(call, path.slice('/v1/'.length));
          const agent_id = call.principal.agentId ?? undefined;
          return page(asked, await of(parts).list(call.account, { ...call.query, ...asked, agent_id }));
        },
      }),
    get: (said: Said): Route =>
      route({
        ...{ method: 'GET', ...single, needs: 'read' },
        operation: {
          ...{ id: `get${camel(one)}`, tag, summary: `Get ${a} ${one}`, ...said },
          answers: { 200: { description: `The ${one}`, schema } },
        },
        async handle({ account, params }, parts) {
          return json(200, found(await of(parts).get!(account, params[0]!), one));
        },
      }),
    change: <S extends Type.TSchema>({ body, ...said }: Said & Sent<S, P>): Route =>
      route({
        ...{ method: 'PATCH', ...single, needs: 'configure', ...(besides && { besides }) },
        body: jsonBody(body, 'change'),
        operation: {
          ...{ id: `update${camel(one)}`, tag, summary: `Change ${a} ${one}`, ...said },
          answers: { 200: { description: `The ${one} as it is now`, schema } },
        },
        async handle({ account, params, body, actor }, parts) {
          return json(200, found(await of(parts).patch!(account, params[0]!, body as P, actor), one));
        },
      }),
    rotateSecret: ({ schema, ...said }: Said & { schema: Type.TSchema }): Route =>
      route({
        ...{ method: 'POST', path: `${single.path}/rotate-secret`, bound, needs: 'configure', idempotency: 'refused' },
        operation: {
          ...{ id: `rotate${camel(one)}Secret`, tag, summary: `Make a new signing secret for ${a} ${one}`, ...said },
          answers: { 200: { description: `The ${one}, with its new secret`, schema } },
        },
        async handle({ account, params, actor }, parts) {
          return json(200, found(await of(parts).rotateSecret!(account, params[0]!, actor), one));
        },
      }),
    remove: (said: Said): Route =>
      route({
        ...{ method: 'DELETE', ...single, needs: 'configure' },
        operation: {
          ...{ id: `delete${camel(one)}`, tag, summary: `Delete ${a} ${one}`, ...said },
          answers: { 204: { description: 'Deleted' } },
        },
        async handle({ account, params, actor }, parts) {
          if (!(await of(parts).remove(account, params[0]!, actor))) throw notFound(one);
          return NO_CONTENT;
        },
      }),
  };
}

function camel(words: string): string {
  return words.split(' ').map(capital).join('');
}

function capital(words: string): string {
  return `${words[0]!.toUpperCase()}${words.slice(1)}`;
}
