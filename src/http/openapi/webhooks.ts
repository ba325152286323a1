// The `webhooks` of the API's description: what alerts of the channel `webhook` send, by trigger (docs/channels.md).
// The forms: schemas/notification.ts.

import { TRIGGERS, type Trigger } from '../../../schemas/closed-sets.ts';
import { exampleId } from '../../../schemas/described.ts';
import { WEBHOOK_NOTIFICATIONS } from '../../../schemas/notification.ts';
import { exampleOf } from './examples.ts';
import { describedSchema } from './schemas.ts';

const text = (name: string, description: string, example: string) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
  example,
});

/** As Standard Webhooks 1.0.0 lays down. */
const HEADERS = [
  text(
    'webhook-id',
    'Id of the delivery, the same in every attempt: keep those that you have dealt with.',
    exampleId('dlv'),
  ),
  text(
    'webhook-timestamp',
    'Time of the attempt, in seconds since 1970. Refuse what is older than 5 minutes.',
    '1795195680',
  ),
  text(
    'webhook-signature',
    '`v1,` and the Base64 of the HMAC-SHA256 of `id.timestamp.body` with the `secret` of the alert. Several are separated by spaces: one that fits is enough.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
];

const ANSWERS = {
  '2XX': { description: 'Delivered. Only the status is read.' },
  '410': { description: 'The alert becomes `inactive`.' },
  default: { description: 'Tried again: nine times within about 75 hours, no earlier than `Retry-After` says.' },
};

export function describeWebhooks(): Record<string, { post: object }> {
  return Object.fromEntries(TRIGGERS.map((trigger) => [trigger, { post: webhook(trigger) }]));
}

function webhook(trigger: Trigger): object {
  const { [trigger]: notification } = WEBHOOK_NOTIFICATIONS;
  const { description } = notification as { description?: string };
  const schema = describedSchema(notification);
  return {
    operationId: `on_${trigger}`.replace(/_(\w)/g, (_all, letter: string) => letter.toUpperCase()),
    tags: ['Alerts'],
    summary: `The webhook of an alert with the trigger \`${trigger}\``,
    description: `${description} At least once; the body is under 20 KB and holds nothing of a payload.`,
    security: [],
    parameters: HEADERS,
    requestBody: {
      required: true,
      description: 'What happened.',
      content: { 'application/json': { schema, example: exampleOf(schema) } },
    },
    responses: ANSWERS,
  };
}
