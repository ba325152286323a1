// What an account used, by UTC day and by agent (GET /v1/usage).
import Type from 'typebox';
import { about, exampleId } from './described.ts';

/** A year with its leap day. */
export const USAGE_DAYS_MAX = 366;
export const USAGE_AGENTS_MAX = 1_000;

const Used = {
  events: about(Type.Integer(), 'Recorded events.', 1200),
  bytes: about(Type.Integer(), 'Bytes of their payloads, as they are stored.', 540_000),
  tokens: about(Type.Integer(), 'Tokens that they say were used.', 81_000),
};

/** Sums of some events. */
export const UsedSums = Type.Object(Used);

export const AccountUsage = Type.Object({
  from: about(Type.String(), 'First day, UTC.', '2026-11-01'),
  to: about(Type.String(), 'Last day, UTC; today is not over yet.', '2026-11-30'),
  total: about(UsedSums, 'Of all days together.'),
  days: Type.Array(Type.Object({ date: about(Type.String(), 'The day of arrival, UTC.', '2026-11-20'), ...Used }), {
    description: 'Every day of the range, the first one first.',
  }),
  agents: Type.Array(Type.Object({ agent_id: about(Type.String(), 'The agent.', exampleId('agt')), ...Used }), {
    description: `Those with the most events first, at most ${USAGE_AGENTS_MAX}.`,
  }),
  other_agents: about(UsedSums, 'Of all other agents together.'),
});
export type AccountUsage = Type.Static<typeof AccountUsage>;
