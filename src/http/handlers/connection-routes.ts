// Connections: products that send inference hooks, as resources (decision-points/inference-route.ts answers them).
import { Connection, ConnectionCreate, ConnectionPatch } from '../../../schemas/connection.ts';
import type { Route } from '../route.ts';
import { resourceRoutes } from './resource-routes.ts';

const connections = resourceRoutes(
  { one: 'connection', many: 'connections', bound: 'refused', schema: Connection },
  (registry) => registry.connections,
);

export const connectionRoutes: Route[] = [
  connections.create({
    body: ConnectionCreate,
    description:
      'Its address is `/v1/hooks/inference/{id}`. The product makes the secret; it is set here, at once or by a change.',
    bodyExample: { name: 'assistant', on_failure: 'deny', agents_by: 'application' },
  }),
  connections.list({ description: 'Newest first. Secrets are not shown.' }),
  connections.get({ description: 'Secrets are not shown.' }),
  connections.change({
    body: ConnectionPatch,
    description:
      'In force within a second. What is left out stays as it is. To rotate a secret set both, then the new one alone.',
    errors: ['name_taken'],
    bodyExample: { mode: 'watch' },
  }),
  connections.remove({ description: 'What is still sent to its address is denied. What was recorded stays.' }),
];
