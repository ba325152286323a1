// What a process says of itself (GET /healthz, GET /readyz; decisions 9).
import Type from 'typebox';

export const ServiceStatus = Type.Object({ status: Type.String() });
