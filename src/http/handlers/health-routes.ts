// For those who run the service: alive, all well, traffic, metrics. None needs a key; none shows anything about an
// account. `/metrics` is left out here where it has a port of its own.
import Type from 'typebox';
import { Readiness, ServiceStatus } from '../../../schemas/service-status.ts';
import { ServiceError } from '../../common/errors.ts';
import { METRICS_CONTENT_TYPE } from '../../metrics/metrics.ts';
import { json } from '../answers/reply.ts';
import { type Route, route } from '../route.ts';

export const healthRoutes: Route[] = [
  route({
    method: 'GET',
    path: '/healthz',
    needs: null,
    operation: {
      id: 'getHealth',
      tag: 'Operations',
      summary: 'Does the process live?',
      description: 'Answers as long as the process does: restart one that does not. Needs no key.',
      answers: { 200: { description: 'It does', schema: ServiceStatus, example: { status: 'ok' } } },
    },
    handle: () => json(200, { status: 'ok' }),
  }),
  route({
    method: 'GET',
    path: '/readyz',
    needs: null,
    operation: {
      id: 'getReadiness',
      tag: 'Operations',
      summary: 'Is all well? Writes to every part of Redis, and asks ClickHouse for its tables',
      description:
        'For people and alarms; a load balancer asks /readyz/traffic. Answers within 2 seconds. What is at fault stands in `details`: the store, and reachability, credentials, schema, ' +
        'registry (there is no account), refusal (it answers and takes no writes), registry_missing (Redis was emptied), ' +
        'recovering (Redis was put back to an earlier state), other_installation or redis_not_durable.',
      answers: { 200: { description: 'It can', schema: Readiness, example: { status: 'ready' } } },
      errors: ['unavailable'],
    },
    async handle(_call, { health }) {
      const { faults: details, degraded } = await health();
      if (details.length === 0) return json(200, { status: 'ready', ...(degraded === undefined ? {} : { degraded }) });
      throw new ServiceError('unavailable', 'Not ready.', { details, retryAfterSeconds: 1 });
    },
  }),
  route({
    method: 'GET',
    path: '/readyz/traffic',
    needs: null,
    operation: {
      id: 'getTraffic',
      tag: 'Operations',
      summary: 'May this front have traffic?',
      description:
        'For load balancers. 503 from the moment that the process is asked to end; 200 otherwise, also while Redis or ' +
        'ClickHouse is away: no other front has them, and events are taken without ClickHouse.',
      answers: { 200: { description: 'It may', schema: ServiceStatus, example: { status: 'ok' } } },
      errors: ['unavailable'],
    },
    handle(_call, { leaving }) {
      if (!leaving.aborted) return json(200, { status: 'ok' });
      throw new ServiceError('unavailable', 'This process was asked to end: send traffic elsewhere.');
    },
  }),
];

export const metricsRoute: Route = route({
  method: 'GET',
  path: '/metrics',
  needs: null,
  operation: {
    id: 'getMetrics',
    tag: 'Operations',
    summary: 'Metrics of all processes, for Prometheus',
    description:
      'In the text form of Prometheus. Needs no key; left out here where the setting GATEHOUSE_METRICS_PORT gives them a port of their own.',
    answers: { 200: { description: 'Prometheus text', schema: Type.String(), contentType: 'text/plain' } },
  },
  async handle(_call, { metrics }) {
    return { status: 200, body: await metrics.text(), contentType: METRICS_CONTENT_TYPE };
  },
});
