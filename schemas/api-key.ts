// The API key: a label, one scope, what of it the key may use, the agent that it is bound to, and a secret that is
// shown once (docs/keys.md).

import Type from 'typebox';
import { PERMISSIONS, type Permission, SCOPES } from './closed-sets.ts';
import { Name, RequestTime, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const Permissions = {
  items: { type: 'string', enum: [...PERMISSIONS] },
  minItems: 1,
  maxItems: PERMISSIONS.length,
  uniqueItems: true,
} as const;

export const ApiKeyCreate = Type.Object(
  {
    label: about(Name, '1 to 200 characters: whose key it is.', 'analyst'),
    scope: about(Type.Enum([...SCOPES]), 'What it may do at most. Fixed: other permissions need another key.'),
    agent_id: Type.Optional(
      about(
        Type.Union([Type.String(), Type.Null()]),
        'Binds the key to this agent: it submits and reads for that agent alone, and what is of another is unknown to it (404). Not with the scope `admin`. null or left out: bound to none.',
        null,
      ),
    ),
    // Not a union of an array and null: an error in an array would be reported for the null, too.
    permissions: Type.Optional(
      about(
        Type.Unsafe<Permission[] | null>({ type: ['array', 'null'], ...Permissions }),
        'What of its scope the key may use: `submit` (events), `read` (every GET), `decide` (approvals), `configure` (agents, policies, alerts, views, connections, checks, outgoing feeds). The scope `read` has `read` alone, `write` all four; not with the scope `admin`, which has all. null or left out: all that the scope has.',
        null,
      ),
    ),
    registers_agents: Type.Optional(
      about(
        Type.Boolean(),
        'false: the key is kept to agents that are there. What names another, at decision points, in spans or at `POST /v1/agents`, is refused. Not with the scope `admin`. Left out: true.',
        true,
      ),
    ),
    expires_at: Type.Optional(
      about(Type.Union([RequestTime, Type.Null()]), 'When it stops being taken. null or left out: never.', null),
    ),
  },
  { additionalProperties: false },
);
export type ApiKeyCreate = Type.Static<typeof ApiKeyCreate>;

const fields = {
  id: about(Type.String(), 'Id of the key. It is not the key itself.', exampleId('key')),
  label: about(Type.String(), 'Whose key it is.', 'analyst'),
  scope: about(Type.Enum([...SCOPES]), 'What it may do at most.'),
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The agent that the key is bound to. null: to none.',
    exampleId('agt'),
  ),
  permissions: about(
    Type.Unsafe<Permission[]>({ type: 'array', ...Permissions }),
    'What of its scope the key may use: as it was made, or all that the scope has.',
    ['read'],
  ),
  registers_agents: Type.Optional(
    about(
      Type.Boolean(),
      'false: it is kept to agents that are there, and registers none. Left out: it is not.',
      false,
    ),
  ),
  created_at: about(ResponseTime, 'When it was made.'),
  expires_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it stops being taken. null: never.', null),
};

export const ApiKeyCreated = Type.Object({
  ...fields,
  key: about(
    Type.String(),
    'The key itself: `gth_` and 40 letters and digits. It is in this answer and nowhere else.',
    'gth_6sGm8oY3kQzT1vBnX4hRdC7wLpF2jEaU9tKiN5yM',
  ),
});
export type ApiKeyCreated = Type.Static<typeof ApiKeyCreated>;

export const ApiKey = Type.Object({
  ...fields,
  last_used_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When it was last used, to some seconds. null: never.',
    null,
  ),
  /** The last four characters of the key, to distinguish keys. */
  hint: about(Type.String(), 'The last four characters of the key, to tell keys apart.', '5yMa'),
});
export type ApiKey = Type.Static<typeof ApiKey>;
