// Alerts: the users' rules of when to be notified, as resources.
import { Alert, AlertCreate, AlertCreated, AlertPatch } from '../../../schemas/alert.ts';
import { page as pageSchema } from '../../../schemas/common.ts';
import { Delivery } from '../../../schemas/delivery.ts';
import { isId } from '../../common/ids.ts';
import { openPage } from '../answers/cursor.ts';
import { found, json, NO_CONTENT, notFound, page } from '../answers/reply.ts';
import { namedFilters, paging, RESOURCE_PAGE } from '../reading/query.ts';
import { jsonBody, type Owned, type Route, route } from '../route.ts';

const ofAlert: Owned = {
  what: 'alert',
  async agentOf({ account, params }, { registry }) {
    return found(await registry.alerts.get(account, params[0]!), 'alert').agent_id;
  },
};

export const alertRoutes: Route[] = [
  route({
    method: 'POST',
    path: '/v1/alerts',
    needs: 'configure',
    bound: 'handler',
    body: jsonBody(AlertCreate, 'alert'),
    idempotency: 'heeded',
    operation: {
      id: 'createAlert',
      tag: 'Alerts',
      summary: 'Create an alert',
      description: 'Active at once. For a webhook the answer holds its signing secret, which is shown here only.',
      answers: { 201: { description: 'The new alert', schema: AlertCreated } },
      errors: ['name_taken', 'idempotency_conflict', 'idempotency_in_progress'],
      bodyExample: {
        name: 'violations to the team',
        trigger: 'policy_violation',
        channel: 'email',
        target: 'oncall@example.com',
        conditions: { severity: 'high' },
      },
    },
    async handle({ account, body, actor, idempotency }, { registry }) {
      const { answer } = await registry.alerts.create(account, body, actor, idempotency);
      return { status: 201, body: answer };
    },
  }),
  route({
    method: 'GET',
    path: '/v1/alerts',
    needs: 'read',
    bound: 'handler',
    query: { ...paging(RESOURCE_PAGE), ...namedFilters('alert', 'alerts') },
    operation: {
      id: 'listAlerts',
      tag: 'Alerts',
      summary: 'List alerts',
      description: 'Newest first. The signing secrets of webhooks are not shown.',
      answers: { 200: { description: 'Alerts, newest first', schema: pageSchema(Alert) } },
    },
    async handle(call, { registry }) {
      const asked = openPage(call, 'alerts');
      const agent_id = call.principal.agentId ?? undefined;
      return page(asked, await registry.alerts.list(call.account, { ...call.query, ...asked, agent_id }));
    },
  }),
  route({
    method: 'GET',
    path: '/v1/alerts/{id}',
    needs: 'read',
    bound: ofAlert,
    operation: {
      id: 'getAlert',
      tag: 'Alerts',
      summary: 'Get an alert',
      description: 'The signing secret of a webhook is not shown.',
      answers: { 200: { description: 'The alert', schema: Alert } },
    },
    async handle({ account, params }, { registry }) {
      return json(200, found(await registry.alerts.get(account, alertId(params[0]!)), 'alert'));
    },
  }),
  route({
    method: 'PATCH',
    path: '/v1/alerts/{id}',
    needs: 'configure',
    bound: ofAlert,
    body: jsonBody(AlertPatch, 'change'),
    operation: {
      id: 'updateAlert',
      tag: 'Alerts',
      summary: 'Change an alert',
      description:
        'In force within a second. What is left out stays as it is; a change of the channel or the target is checked like a new one.',
      answers: { 200: { description: 'The alert as it is now', schema: Alert } },
      errors: ['name_taken'],
      bodyExample: { status: 'inactive' },
    },
    async handle({ account, params, body, actor }, { registry }) {
      return json(200, found(await registry.alerts.patch(account, alertId(params[0]!), body, actor), 'alert'));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/alerts/{id}/test',
    needs: 'configure',
    bound: ofAlert,
    operation: {
      id: 'testAlert',
      tag: 'Alerts',
      summary: 'Send a test notification',
      description: 'At once, whatever the throttle and the status of the alert. The delivery shows what became of it.',
      answers: { 201: { description: 'The delivery of the test notification', schema: Delivery } },
    },
    async handle({ account, params }, { registry }) {
      return json(201, found(await registry.deliveries.test(account, alertId(params[0]!)), 'alert'));
    },
  }),
  route({
    method: 'POST',
    path: '/v1/alerts/{id}/rotate-secret',
    needs: 'configure',
    bound: ofAlert,
    idempotency: 'refused',
    operation: {
      id: 'rotateAlertSecret',
      tag: 'Alerts',
      summary: 'Make a new signing secret for a webhook',
      description:
        'For 24 hours notifications are signed with the new secret and with the one before, two signatures in one header. The secret is in this answer and nowhere else: if the answer is lost, rotate again; the last three replaced ones still sign for their day.',
      answers: { 200: { description: 'The alert, with its new secret', schema: AlertCreated } },
    },
    async handle({ account, params, actor }, { registry }) {
      return json(200, found(await registry.alerts.rotateSecret(account, alertId(params[0]!), actor), 'alert'));
    },
  }),
  route({
    method: 'DELETE',
    path: '/v1/alerts/{id}',
    needs: 'configure',
    bound: ofAlert,
    operation: {
      id: 'deleteAlert',
      tag: 'Alerts',
      summary: 'Delete an alert',
      description: 'It sends nothing from now on; deliveries that wait are cancelled.',
      answers: { 204: { description: 'Deleted; it does not fire any more' } },
    },
    async handle({ account, params, actor }, { registry }) {
      if (!(await registry.alerts.remove(account, alertId(params[0]!), actor))) throw notFound('alert');
      return NO_CONTENT;
    },
  }),
];

function alertId(text: string): string {
  if (!isId('alert', text)) throw notFound('alert');
  return text;
}
