// What an account may use, over all its keys: rates, and how much there may be of what is kept. Set by the command line
// alone: a key does not raise its own limits.
import Type from 'typebox';
import { about } from './described.ts';

const OrNone = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Rate = (what: string) =>
  OrNone(
    Type.Object({
      per_second: about(Type.Integer({ minimum: 1 }), `${what} a second.`, 500),
      burst: about(Type.Integer({ minimum: 1 }), `${what} at once.`, 1000),
    }),
  );
const Count = OrNone(Type.Integer({ minimum: 1 }));

export const Quotas = Type.Object({
  requests: about(Rate('Requests'), 'Requests of all keys together. null: no bound but that of each key.'),
  events: about(Rate('Events'), 'Recorded events of all keys together. null: no bound.'),
  bytes: about(Rate('Bytes'), 'Bytes of the bodies in which recorded events came, inflated. null: no bound.'),
  stored_rows: about(Count, 'Stored events, as of half a minute ago. null: no bound.', 1_000_000),
  keys: about(Count, 'API keys. null: 1,000.', 20),
  agents: about(Count, 'Agents. null: no bound.', 100),
});
export type Quotas = Type.Static<typeof Quotas>;

export const NO_QUOTAS: Quotas = {
  requests: null,
  events: null,
  bytes: null,
  stored_rows: null,
  keys: null,
  agents: null,
};
export const RATE_QUOTAS = ['requests', 'events', 'bytes'] as const;
export type RateQuota = (typeof RATE_QUOTAS)[number];
