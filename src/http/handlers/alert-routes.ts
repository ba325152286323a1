// Alerts: the users' rules of when to be notified, as resources.
import { Alert, AlertCreate, AlertCreated, AlertPatch } from '../../../schemas/alert.ts';
import { Delivery } from '../../../schemas/delivery.ts';
import { isId } from '../../common/ids.ts';
import { found, json, notFound } from '../answers/reply.ts';
import { type Owned, type Route, route } from '../route.ts';
import { resourceRoutes } from './resource-routes.ts';

const ofAlert: Owned = {
  what: 'alert',
  async agentOf({ account, params }, { registry }) {
    return found(await registry.alerts.get(account, params[0]!), 'alert').agent_id;
  },
};

const alerts = resourceRoutes(
  { one: 'alert', many: 'alerts', bound: ofAlert, schema: Alert },
  (registry) => registry.alerts,
);

export const alertRoutes: Route[] = [
  alerts.create({
    body: AlertCreate,
    description: 'Active at once. For a webhook the answer holds its signing secret, which is shown here only.',
    answer: { description: 'The new alert', schema: AlertCreated },
    bodyExample: {
      name: 'violations to the team',
      trigger: 'policy_violation',
      channel: 'email',
      target: 'oncall@example.com',
      conditions: { severity: 'high' },
    },
  }),
  alerts.list({ description: 'Newest first. The signing secrets of webhooks are not shown.' }),
  alerts.get({ description: 'The signing secret of a webhook is not shown.' }),
  alerts.change({
    body: AlertPatch,
    description:
      'In force within a second. What is left out stays as it is; a change of the channel or the target is checked like a new one.',
    errors: ['name_taken'],
    bodyExample: { status: 'inactive' },
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
  alerts.rotateSecret({
    summary: 'Make a new signing secret for a webhook',
    description:
      'For 24 hours notifications are signed with the new secret and with the one before, two signatures in one header. The secret is in this answer and nowhere else: if the answer is lost, rotate again; the last three replaced ones still sign for their day.',
    schema: AlertCreated,
  }),
  alerts.remove({ description: 'It sends nothing from now on; deliveries that wait are cancelled.' }),
];

function alertId(text: string): string {
  if (!isId('alert', text)) throw notFound('alert');
  return text;
}
