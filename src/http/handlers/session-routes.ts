// Signing in and out of browsers (docs/keys.md): a key is exchanged for a cookie, which says nothing and is kept by the
// browser alone. What sessions are: registry/accounts/sessions.ts; which calls with a cookie are taken:
// browser-sessions.ts.
import { page as pageSchema } from '../../../schemas/common.ts';
import { ListedSession, Session, SessionCreate } from '../../../schemas/session.ts';
import { isId } from '../../common/ids.ts';
import { admit, authorize, rightsFor } from '../admission/authenticate.ts';
import { CLEARED_COOKIES, sessionCookie } from '../admission/browser-sessions.ts';
import { openPage } from '../answers/cursor.ts';
import { json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Reply, type Route, route } from '../route.ts';

const SIGNING_IN = rightsFor({ needs: 'any' });
const SIGNED_OUT: Reply = { ...NO_CONTENT, headers: { 'Set-Cookie': CLEARED_COOKIES } };

export const sessionRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/session',
    needs: null,
    body: jsonBody(SessionCreate, 'session'),
    operation: {
      id: 'signIn',
      tag: 'Sessions',
      summary: 'Sign a browser in',
      description:
        'Exchanges a key for a cookie that pages of this origin are then known by. Calls with the cookie may what the key may; those that change something must come from such a page and carry the header `Gatehouse-Client`, with any value. The session ends with its key, after 12 hours without a call, and after 7 days. A key has at most 10 sessions: one more ends its oldest. Signing in counts in the request limit of the key, and an address may do it 20 times a second.',
      answers: { 201: { description: 'The session; its cookie is in `Set-Cookie`', schema: Session } },
      errors: [
        'invalid_token',
        'account_suspended',
        'cross_site_request',
        'validation_failed',
        'rate_limited',
        'unavailable',
      ],
      bodyExample: { key: 'gth_6sGm8oY3kQzT1vBnX4hRdC7wLpF2jEaU9tKiN5yM' },
    },
    async handle(call, { authenticator, limiter, registry }) {
      const { body, isSecure } = call;
      const principal = await authenticator.principalOf(`Bearer ${body.key}`, Date.now());
      authorize(principal, SIGNING_IN, { needs: 'any' });
      await admit(limiter, principal);
      const { session, secret, expiresAt } = await registry.sessions.create(principal, call.actorAs(principal));
      const seconds = Math.max(1, Math.floor((Date.parse(expiresAt) - Date.now()) / 1000));
      return { ...json(201, session), headers: { 'Set-Cookie': sessionCookie(secret, seconds, isSecure) } };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/session',
    needs: 'any',
    bound: 'handler',
    operation: {
      id: 'getSession',
      tag: 'Sessions',
      summary: 'Get the session of this browser',
      description: 'Who is signed in, or whose key was sent, and what that may.',
      answers: { 200: { description: 'The session', schema: Session } },
    },
    async handle({ principal }, { registry }) {
      return json(200, await registry.sessions.of(principal));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/session',
    needs: 'any',
    bound: 'handler',
    operation: {
      id: 'signOut',
      tag: 'Sessions',
      summary: 'Sign this browser out',
      description:
        'The session is refused on every process within a second, and the cookie is taken away. A call with a key has no session to end.',
      answers: { 204: { description: 'Signed out' } },
    },
    async handle({ account, principal, actor }, { registry }) {
      if (principal.sessionId !== null) await registry.sessions.end(account, principal.sessionId, actor);
      return SIGNED_OUT;
    },
  }),
  route({
    method: 'GET',
    path: '/v1/sessions',
    needs: 'admin',
    bound: 'refused',
    query: paging(RESOURCE_PAGE),
    operation: {
      id: 'listSessions',
      tag: 'Sessions',
      summary: 'List sessions',
      description: 'Browsers that are signed in to the account, newest first.',
      answers: { 200: { description: 'Sessions, newest first', schema: pageSchema(ListedSession) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'sessions');
      return page(asked, await registry.sessions.list(call.account, asked));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/sessions/{id}',
    needs: 'admin',
    bound: 'refused',
    operation: {
      id: 'endSession',
      tag: 'Sessions',
      summary: 'End a session',
      description: 'Refused on every process within a second.',
      answers: { 204: { description: 'Ended; refused on every process within a second' } },
    },
    async handle({ account, params, actor }, { registry }) {
      const id = params[0]!;
      if (!isId('session', id) || !(await registry.sessions.end(account, id, actor))) throw notFound('session');
      return NO_CONTENT;
    },
  }),
];
