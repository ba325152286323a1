// What a process says of itself (GET /healthz, GET /readyz, GET /readyz/traffic).
import Type from 'typebox';
import { about } from './described.ts';

export const ServiceStatus = Type.Object({
  status: about(Type.String(), '`ok`: the process lives, or may have traffic.', 'ok'),
});

export const Readiness = Type.Object({
  status: about(Type.String(), '`ready`: Redis and ClickHouse answer, and calls can succeed.', 'ready'),
  degraded: Type.Optional(
    about(
      Type.String(),
      '`redis_not_durable`: Redis would lose what it acknowledges, and the settings allow that. `history_missing`: ClickHouse was found empty within the last day; what was stored before is gone.',
      'redis_not_durable',
    ),
  ),
});
