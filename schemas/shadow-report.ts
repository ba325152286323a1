// What a shadow would have changed, as its report says it (GET /v1/policies/{id}/shadow-report).

import Type from 'typebox';
import { OUTCOMES, SHADOW_CHANGES, SHADOW_VERDICTS } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

/** Agents, tools and samples of a report, each. */
export const SHADOW_REPORT_ROWS_MAX = 100;

const Count = Type.Integer({ minimum: 0 });
const Verdict = Type.Enum(SHADOW_VERDICTS.filter((verdict) => verdict !== 'skipped'));

const counts = {
  newly_blocked: about(Count, 'Events that it would block, and the policy that it copies did not.', 12),
  no_longer_blocked: about(Count, 'Events that the policy that it copies blocked, and it would not.', 3),
  newly_pending: about(Count, 'Events for which it would ask for approval, and the other did not.', 0),
  no_longer_pending: about(Count, 'Events for which the other asked for approval, and it would not.', 0),
  newly_matched: about(Count, 'Events that it would only record or notify of, and the other did not match.', 0),
  no_longer_matched: about(Count, 'Events that the other only recorded or notified of, and it would not match.', 0),
  same: about(Count, 'Events that both match, with the same result.', 40),
  skipped: about(Count, 'Events on which it was not judged: too much work, or counters that did not answer.', 0),
  same_outcome: about(
    Count,
    'Of all that is new or no longer so: events whose outcome would have stayed as it was, since other policies decide it.',
    2,
  ),
};

export const ShadowCounts = Type.Object(counts);
export type ShadowCounts = Type.Static<typeof ShadowCounts>;

const Sample = Type.Object({
  event_id: about(Type.String(), 'The event.', exampleId('evt')),
  agent_id: about(Type.String(), 'Its agent.', exampleId('agt')),
  timestamp: about(ResponseTime, 'When it happened.'),
  tool: about(
    Type.Union([Type.String(), Type.Null()]),
    'Its `tool`, the first 200 characters. null: it has none.',
    'send_money',
  ),
  did: about(Verdict, 'What the policy that it copies made of the event. `not_matched` where it copies none.'),
  would: about(Verdict, 'What the shadow would have made of it.'),
  change: about(Type.Enum([...SHADOW_CHANGES]), 'Under which of the counts it is.'),
  outcome: about(Type.Enum([...OUTCOMES]), 'What all policies made of it then.'),
});

export const ShadowReport = Type.Object({
  policy_id: about(Type.String(), 'The shadow.', exampleId('pol')),
  revision: about(Type.Integer({ minimum: 1 }), 'The revision that it is at.', 3),
  since_revision: about(
    Type.Integer({ minimum: 1 }),
    'The revision that gave it its present conditions and actions. What earlier ones said is not counted.',
    2,
  ),
  shadow_of: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy that it copies. null: none.',
    exampleId('pol'),
  ),
  from: about(
    ResponseTime,
    'From when on events are counted, by their arrival: what was asked for; of a rate limit not before its counters, which began with none, had counted for one window.',
  ),
  to: about(ResponseTime, 'Until when.'),
  counts: about(ShadowCounts, 'All of them.'),
  by_day: about(
    Type.Array(Type.Object({ day: about(Type.String(), 'The day, UTC.', '2026-11-20'), ...counts })),
    'By the day on which the events arrived, in order.',
  ),
  by_agent: about(
    Type.Array(Type.Object({ agent_id: about(Type.String(), 'The agent.', exampleId('agt')), ...counts })),
    `By agent, those with the most changes first, at most ${SHADOW_REPORT_ROWS_MAX}.`,
  ),
  by_tool: about(
    Type.Array(
      Type.Object({
        tool: about(
          Type.Union([Type.String(), Type.Null()]),
          "The payload's `tool`, the first 200 characters. null: it has none.",
          'send_money',
        ),
        ...counts,
      }),
    ),
    `By tool, those with the most changes first, at most ${SHADOW_REPORT_ROWS_MAX}.`,
  ),
  samples: about(Type.Array(Sample), `The newest events on which the two differ, at most ${SHADOW_REPORT_ROWS_MAX}.`),
});
export type ShadowReport = Type.Static<typeof ShadowReport>;
