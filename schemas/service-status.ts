// What a process says of itself (GET /healthz, GET /readyz; decisions 9).
import Type from 'typebox';
import { about } from './described.ts';

export const ServiceStatus = Type.Object({
  status: about(Type.String(), '`ok`: the process lives. `ready`: Redis and ClickHouse answer as well.', 'ready'),
});
