// The connection: a product that sends each prompt and call of a tool to be judged, and cannot be changed itself. What
// its requests say is src/hooks/inference-hook.ts's business.
import Type from 'typebox';
import { AGENTS_BY, CONNECTION_MODES, ON_FAILURE, STATUSES } from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

/** 24 to 64 bytes, as Standard Webhooks has them. */
const Secret = Type.String({ pattern: '^whsec_[A-Za-z0-9+/]{32,86}={0,2}$' });
const Secrets = Type.Array(Secret, { maxItems: 2, uniqueItems: true });
const SECRETS =
  'By which its requests are signed, each `whsec_` and Base64: two while one takes the place of the other. Never shown again.';
/** Below the 10 s that such a product waits at most. */
const TimeoutMs = Type.Integer({ minimum: 100, maximum: 9_500 });
const NullableAgent = Type.Union([Type.String(), Type.Null()]);

export const ConnectionCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the connections of the account.', 'assistant'),
    secrets: Type.Optional(
      about(Secrets, `${SECRETS} Left out: none yet; nothing is judged before there is one.`, [
        'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      ]),
    ),
    on_failure: Type.Optional(
      about(Type.Enum([...ON_FAILURE]), 'What is answered where a request cannot be judged. Left out: `deny`.', 'deny'),
    ),
    mode: Type.Optional(
      about(
        Type.Enum([...CONNECTION_MODES]),
        '`watch`: all is judged and recorded, and everything allowed. Left out: `enforce`.',
        'enforce',
      ),
    ),
    agent_id: Type.Optional(
      about(NullableAgent, 'The agent of all its events. null or left out: `agents_by` says whose they are.'),
    ),
    agents_by: Type.Optional(
      about(
        Type.Enum([...AGENTS_BY]),
        'Without `agent_id`: an agent for each application or for each actor, by its name; a new one is registered. Left out: `application`.',
        'application',
      ),
    ),
    timeout_ms: Type.Optional(
      about(
        TimeoutMs,
        'The answer comes within so many ms, as `on_failure` says where nothing is decided by then: less than the product waits. Left out: 4,000.',
        4_000,
      ),
    ),
    status: Type.Optional(
      about(Type.Enum([...STATUSES]), '`inactive`: nothing is judged, and `on_failure` answered. Left out: `active`.'),
    ),
  },
  { additionalProperties: false },
);
export type ConnectionCreate = Type.Static<typeof ConnectionCreate>;

export const ConnectionPatch = Type.Object(
  {
    name: Type.Optional(about(Name, 'The new name, unique among the connections. Left out: as it is.')),
    secrets: Type.Optional(
      about(Secrets, `The new ones, whole. ${SECRETS} Left out: as they are.`, [
        'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      ]),
    ),
    on_failure: Type.Optional(
      about(Type.Enum([...ON_FAILURE]), 'What is answered where a request cannot be judged. Left out: as it is.'),
    ),
    mode: Type.Optional(about(Type.Enum([...CONNECTION_MODES]), '`watch`: everything is allowed. Left out: as it is.')),
    agent_id: Type.Optional(about(NullableAgent, 'The new agent; null: by `agents_by`. Left out: as it is.')),
    agents_by: Type.Optional(about(Type.Enum([...AGENTS_BY]), 'By what agents are told apart. Left out: as it is.')),
    timeout_ms: Type.Optional(about(TimeoutMs, 'Ms until the answer, at most. Left out: as it is.', 4_000)),
    status: Type.Optional(about(Type.Enum([...STATUSES]), '`inactive`: nothing is judged. Left out: as it is.')),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type ConnectionPatch = Type.Static<typeof ConnectionPatch>;

export const Connection = Type.Object({
  id: about(Type.String(), 'Id of the connection: what its address ends with.', exampleId('con')),
  name: about(Type.String(), 'Unique among the connections of the account.', 'assistant'),
  secrets_set: about(
    Type.Integer({ minimum: 0, maximum: 2 }),
    'How many secrets sign its requests. 0: nothing is judged before there is one.',
    1,
  ),
  on_failure: about(Type.Enum([...ON_FAILURE]), 'What is answered where a request cannot be judged.', 'deny'),
  mode: about(Type.Enum([...CONNECTION_MODES]), '`watch`: everything is allowed.', 'enforce'),
  agent_id: about(NullableAgent, 'The agent of all its events. null: `agents_by` says whose they are.', null),
  agents_by: about(Type.Enum([...AGENTS_BY]), 'By what agents are told apart where `agent_id` is null.', 'application'),
  timeout_ms: about(TimeoutMs, 'Ms until the answer, at most.', 4_000),
  status: about(Type.Enum([...STATUSES]), '`inactive`: nothing is judged.'),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
  last_request_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When the last request came to its address, signed or not, some seconds late. null: there was none yet.',
    null,
  ),
});
export type Connection = Type.Static<typeof Connection>;

/** As it is kept. */
export type ConnectionRecord = Omit<Connection, 'secrets_set' | 'last_request_at'> & { secrets: string[] };
