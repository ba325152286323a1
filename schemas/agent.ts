// The agent: a registered record that represents one AI system.

import Type from 'typebox';
import { FRAMEWORKS, STATUSES } from './closed-sets.ts';
import { Description, Metadata, Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

export const AgentCreate = Type.Object(
  {
    name: about(Name, '1 to 200 characters; unique among the agents of the account.', 'support-bot'),
    description: Type.Optional(
      about(
        Description,
        'What the agent is for. At most 2,000 characters. Left out: there is none.',
        'Answers customers',
      ),
    ),
    framework: Type.Optional(
      about(Type.Enum([...FRAMEWORKS]), 'The framework that the agent is built with. Left out: not said.'),
    ),
    metadata: Type.Optional(
      about(
        Metadata,
        'Keys and values of your own, text only: at most 100, keys of 200 and values of 2,000 characters. `heartbeat_seconds` says how often the agent is heard. Left out: none.',
        { team: 'support' },
      ),
    ),
  },
  { additionalProperties: false },
);
export type AgentCreate = Type.Static<typeof AgentCreate>;

export const AgentPatch = Type.Object(
  {
    name: Type.Optional(about(Name, 'The new name, unique among the agents. Left out: as it is.', 'support-bot')),
    description: Type.Optional(about(Description, 'The new description. Left out: as it is.', 'Answers customers')),
    framework: Type.Optional(about(Type.Enum([...FRAMEWORKS]), 'The new framework. Left out: as it is.')),
    metadata: Type.Optional(about(Metadata, 'The new metadata, whole. Left out: as it is.', { team: 'support' })),
    status: Type.Optional(
      about(
        Type.Enum([...STATUSES]),
        '`inactive`: its events are recorded, each one blocked. Left out: as it is.',
        'inactive',
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AgentPatch = Type.Static<typeof AgentPatch>;

export const Agent = Type.Object({
  id: about(Type.String(), 'Id of the agent.', exampleId('agt')),
  name: about(Type.String(), 'Unique among the agents of the account.', 'support-bot'),
  description: Type.Optional(
    about(Type.String(), 'What the agent is for. Left out: there is none.', 'Answers customers'),
  ),
  framework: Type.Optional(
    about(Type.Enum([...FRAMEWORKS]), 'The framework that the agent is built with. Left out: not said.'),
  ),
  metadata: about(Metadata, 'Keys and values as they were given.', { team: 'support' }),
  status: about(Type.Enum([...STATUSES]), '`inactive`: its events are recorded, each one blocked.'),
  created_at: about(ResponseTime, 'When it was registered.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
  last_seen_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When its last event arrived. null: there was none yet.',
    '2026-11-20T17:28:00.000Z',
  ),
});
export type Agent = Type.Static<typeof Agent>;

const Count = Type.Integer({ minimum: 0 });

export const AgentActivity = Type.Object({
  events_24h: about(Count, 'Its events of the last 24 hours, by `timestamp`.', 42),
  blocked_24h: about(Count, 'Of them those that were blocked.', 2),
  hourly: about(
    Type.Array(Count, { minItems: 24, maxItems: 24 }),
    'Its events in each of these hours, the oldest first; the last hour ends now.',
    [0, 0, 0, 0, 0, 0, 0, 0, 3, 5, 2, 1, 0, 4, 6, 5, 3, 2, 1, 0, 0, 4, 5, 1],
  ),
});
export type AgentActivity = Type.Static<typeof AgentActivity>;

export const ListedAgent = Type.Object({
  ...Agent.properties,
  activity: Type.Optional(about(AgentActivity, 'What it did in the last day. Left out unless it is asked for.')),
});

/** Bounds of a heartbeat in seconds, an agent's own and the account's; a pause of a second or two is not silence. */
const HEARTBEAT_SECONDS = { min: 5, max: 604_800 } as const;

/**
 * The heartbeat that the agent's own `metadata.heartbeat_seconds` sets: 0 for no watch, else seconds within bounds;
 * undefined: nothing that counts.
 */
export function ownHeartbeat({ metadata }: Pick<Agent, 'metadata'>): number | undefined {
  const text = Object.hasOwn(metadata, 'heartbeat_seconds') ? metadata['heartbeat_seconds'] : undefined;
  const seconds = typeof text === 'string' && /^[0-9]{1,9}$/.test(text) ? Number(text) : Number.NaN;
  const { min, max } = HEARTBEAT_SECONDS;
  return seconds === 0 || (seconds >= min && seconds <= max) ? seconds : undefined;
}

/** The agent as the registry keeps it: `last_seen_at` lives beside it, since every event moves it. */
export type AgentRecord = Omit<Agent, 'last_seen_at'>;
