// The agent: a registered record that stands for one AI system (spec 2.2, decisions 4).
import Type from 'typebox';
import { Description, FRAMEWORKS, Metadata, Name, ResponseTime, STATUSES } from './common.ts';

export const AgentCreate = Type.Object(
  {
    name: Name,
    description: Type.Optional(Description),
    framework: Type.Optional(Type.Enum([...FRAMEWORKS])),
    metadata: Type.Optional(Metadata),
  },
  { additionalProperties: false },
);
export type AgentCreate = Type.Static<typeof AgentCreate>;

export const AgentPatch = Type.Object(
  {
    name: Type.Optional(Name),
    description: Type.Optional(Description),
    framework: Type.Optional(Type.Enum([...FRAMEWORKS])),
    metadata: Type.Optional(Metadata),
    status: Type.Optional(Type.Enum([...STATUSES])),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AgentPatch = Type.Static<typeof AgentPatch>;

export const Agent = Type.Object({
  id: Type.String(),
  name: Type.String(),
  description: Type.Optional(Type.String()),
  framework: Type.Optional(Type.Enum([...FRAMEWORKS])),
  metadata: Metadata,
  status: Type.Enum([...STATUSES]),
  created_at: ResponseTime,
  updated_at: ResponseTime,
  last_seen_at: Type.Union([ResponseTime, Type.Null()]),
});
export type Agent = Type.Static<typeof Agent>;

/** The agent as the registry keeps it: `last_seen_at` lives beside it, since every event moves it. */
export type AgentRecord = Omit<Agent, 'last_seen_at'>;
