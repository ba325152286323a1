// The backtest: a policy replayed over events that were recorded, and what would have become of them.
// Invariant: nothing of a payload is in a result but what the detail of a match holds, and the names of tools.

import Type from 'typebox';
import { BACKTEST_OUTCOMES, BACKTEST_STATUSES, EVENT_TYPES, OUTCOMES, UNKNOWN_REASONS } from './closed-sets.ts';
import { PAGE_FIELDS, RequestTime, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { CONDITIONS_SHOWN_MAX, ConditionUnmet, MatchDetail } from './match-detail.ts';
import { Policy, PolicyCreate } from './policy.ts';
import { PolicyDraft } from './policy-evaluation.ts';

/** So many samples are kept of each change of outcome. */
export const BACKTEST_SAMPLES_MAX = 10;
/** Lines by agent, and by tool: what changed most comes first. */
export const BACKTEST_LINES_MAX = 100;

export const TriedPolicy = Type.Object(
  { ...PolicyDraft.properties, agent_id: PolicyCreate.properties.agent_id },
  { additionalProperties: false },
);
export type TriedPolicy = Type.Static<typeof TriedPolicy>;

export const BacktestCreate = Type.Object(
  {
    policy: Type.Optional(
      about(
        TriedPolicy,
        'A policy that need not exist. With `policy_id` it is tried in place of that policy, else beside all others. Left out: `policy_id` says which.',
      ),
    ),
    policy_id: Type.Optional(
      about(
        Type.String(),
        'A policy of the account, also a deleted one. Left out: `policy` is tried.',
        exampleId('pol'),
      ),
    ),
    revision: Type.Optional(
      about(Type.Integer({ minimum: 1 }), 'The revision of `policy_id` that is tried. Left out: the present one.', 3),
    ),
    from: about(RequestTime, 'Events that arrived then or later.', '2026-11-01T00:00:00Z'),
    to: Type.Optional(
      about(RequestTime, 'Events that arrived before. Left out, or later than now: until now.', '2026-11-27T00:00:00Z'),
    ),
    agent_id: Type.Optional(
      about(Type.String(), 'Only events of this agent. Left out: of all agents.', exampleId('agt')),
    ),
  },
  { additionalProperties: false },
);
export type BacktestCreate = Type.Static<typeof BacktestCreate>;

const Events = (description: string, example = 12) => about(Type.Integer({ minimum: 0 }), description, example);
const Was = about(Type.Enum([...OUTCOMES]), 'The outcome that was answered when the event was submitted.', 'allowed');
const Now = about(
  Type.Enum([...BACKTEST_OUTCOMES]),
  'The outcome that it would have with the policy. `unknown`: what is stored does not say.',
  'blocked',
);

export const OutcomeChange = Type.Object({
  was: Was,
  now: Now,
  events: Events('Events of which this is so.'),
});
export type OutcomeChange = Type.Static<typeof OutcomeChange>;

const Outcomes = about(
  Type.Array(OutcomeChange),
  'Each outcome then with each outcome now; pairs without events are left out.',
  [
    { was: 'allowed', now: 'allowed', events: 90 },
    { was: 'allowed', now: 'blocked', events: 12 },
  ],
);

const BacktestUnknown = Type.Object({
  reason: about(
    Type.Enum([...UNKNOWN_REASONS]),
    'Why it is not known. `redacted_text`: a pattern or detector would have to see text that was redacted. `redacted_condition`: ' +
      'a condition, the expression, the schema or the counter of a rate limit depends on it. `past_retention`: the events are not kept any more. ' +
      '`not_asked`: the check of the policy was not asked about the same fields when the event came, and is not asked now.',
    'redacted_text',
  ),
  events: about(
    Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    'How many events; of `redacted_…` and `not_asked` those that count as `unknown`. null: not known, they are gone.',
    12,
  ),
  message: about(Type.String(), 'The same in a sentence for people.', 'A pattern would have to see redacted text.'),
});

export const BacktestSample = Type.Object({
  event_id: about(Type.String(), 'The event.', exampleId('evt')),
  agent_id: about(Type.String(), 'Its agent.', exampleId('agt')),
  type: about(Type.Enum([...EVENT_TYPES]), 'What kind of event it is.', 'tool_call'),
  tool: about(Type.Union([Type.String(), Type.Null()]), 'Its `payload.tool`. null: it has none.', 'send_money'),
  timestamp: about(ResponseTime, 'When it happened.'),
  received_at: about(ResponseTime, 'When it arrived.'),
  was: Was,
  now: Now,
  was_policy_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy that decided then. null: none did.',
    exampleId('pol'),
  ),
  matched: about(Type.Union([Type.Boolean(), Type.Null()]), 'Does the policy match? null: not known.', true),
  detail: Type.Optional(
    about(MatchDetail, 'Why the tried policy matches. Left out: it does not, or that is not known.'),
  ),
  unmet: Type.Optional(
    about(
      Type.Array(ConditionUnmet, { maxItems: CONDITIONS_SHOWN_MAX }),
      `Where it does not match: conditions that do not hold, at most ${CONDITIONS_SHOWN_MAX}. Left out elsewhere, and of a rate limit that is not over.`,
    ),
  ),
  unknown: Type.Optional(
    about(Type.Enum([...UNKNOWN_REASONS]), 'Why it is not known. Left out: it is known.', 'redacted_text'),
  ),
  behind_block: about(
    Type.Boolean(),
    'true: an earlier event of its trace would have been blocked, so it might not have happened.',
    false,
  ),
});
export type BacktestSample = Type.Static<typeof BacktestSample>;

export const BacktestResult = Type.Object({
  events: Events('Events that were replayed.', 102),
  matched: Events('Those that the policy matches, whatever comes of it.', 14),
  changed: Events('Those whose outcome would be another one; not those of which it is unknown.'),
  outcomes: Outcomes,
  by_day: about(
    Type.Array(Type.Object({ day: about(Type.String(), 'Day of arrival, UTC.', '2026-11-20'), outcomes: Outcomes })),
    'By the day on which they arrived, in order; days without events are left out.',
  ),
  by_agent: about(
    Type.Array(Type.Object({ agent_id: about(Type.String(), 'The agent.', exampleId('agt')), outcomes: Outcomes })),
    `By agent, at most ${BACKTEST_LINES_MAX}: those with the most changes first.`,
  ),
  by_tool: about(
    Type.Array(
      Type.Object({
        tool: about(
          Type.Union([Type.String(), Type.Null()]),
          '`payload.tool`, at most 200 characters. null: events without it.',
          'send_money',
        ),
        outcomes: Outcomes,
      }),
    ),
    `By tool, at most ${BACKTEST_LINES_MAX}: those with the most changes first.`,
  ),
  more: about(
    Type.Object({
      agents: Events('Agents of which there is no line.', 0),
      tools: Events('Tools of which there is no line.', 0),
    }),
    'What `by_agent` and `by_tool` leave out.',
  ),
  unknown: about(Type.Array(BacktestUnknown), 'What is not known, by reason. Empty: everything is.'),
  behind_first_block: Events(
    'Events behind the first of their trace that would now be blocked and was not: they might not have happened.',
    4,
  ),
  decided_before: Events(
    'Events that report what was decided by an earlier one: they keep their outcome, the earlier one is replayed.',
    0,
  ),
  after_the_fact: Events(
    'Events that were reported after the fact: no rate limit counts them, and who would have had to ask is `blocked`.',
    0,
  ),
  kept_from: about(
    Type.Union([ResponseTime, Type.Null()]),
    'Events that arrived before are not kept any more. null: the whole range is kept.',
    null,
  ),
  is_complete: about(
    Type.Boolean(),
    'false: events that had been acknowledged when it began were not stored in time, and are missing.',
    true,
  ),
  samples: about(
    Type.Array(BacktestSample),
    `Events whose outcome would be another one or is unknown, and some that match without that: of each pair at most ${BACKTEST_SAMPLES_MAX}, chosen by chance, in the order of arrival.`,
  ),
});
export type BacktestResult = Type.Static<typeof BacktestResult>;

export const BacktestPolicy = Type.Pick(Policy, ['name', 'type', 'agent_id', 'conditions', 'actions', 'severity']);

export const BacktestProgress = Type.Object({
  events: Events('Events that were replayed so far.', 102),
  of: about(
    Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    'Events to be replayed, counted when it was taken up. null: not yet.',
    102,
  ),
  until: about(
    Type.Union([ResponseTime, Type.Null()]),
    'Arrival of the last event that was replayed. null: none was.',
    '2026-11-26T23:59:58.120Z',
  ),
});

export const BacktestError = Type.Object({
  code: about(Type.String(), 'What went wrong, for programs.', 'too_many_counters'),
  message: about(Type.String(), 'One sentence for people.', 'The rate limit counts too many values apart.'),
});

const state = {
  id: about(Type.String(), 'Id of the backtest.', exampleId('bkt')),
  status: about(
    Type.Enum([...BACKTEST_STATUSES]),
    '`waiting`: no process has taken it up yet. `failed`: `error` says why.',
    'done',
  ),
  policy: about(BacktestPolicy, 'The policy that is tried, as it was when the backtest was made.'),
  policy_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy in whose place it is tried. null: it is tried beside all others.',
    exampleId('pol'),
  ),
  revision: about(
    Type.Union([Type.Integer({ minimum: 1 }), Type.Null()]),
    'The revision of `policy_id` that is tried. null: a draft.',
    3,
  ),
  from: about(ResponseTime, 'Events that arrived then or later.', '2026-11-01T00:00:00.000Z'),
  to: about(ResponseTime, 'Events that arrived before.', '2026-11-27T00:00:00.000Z'),
  agent_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The agent whose events are replayed. null: those of all agents.',
    null,
  ),
  created_at: about(ResponseTime, 'When it was made.'),
  started_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it was taken up. null: not yet.'),
  finished_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it was done or had failed. null: not yet.'),
  progress: about(
    BacktestProgress,
    'How far it is. Events before `from` that only fill a rate limit are not among them.',
  ),
  error: Type.Optional(about(BacktestError, 'Why it failed. Left out: it did not.')),
};

export const Backtest = Type.Object({
  ...state,
  result: about(Type.Union([BacktestResult, Type.Null()]), 'null: it is not done.'),
});
export type Backtest = Type.Static<typeof Backtest>;

/** As it is listed: without the result, which can be large. */
export const ListedBacktest = Type.Object(state);
export type ListedBacktest = Type.Static<typeof ListedBacktest>;

export const BacktestPage = Type.Object({
  items: about(Type.Array(ListedBacktest), 'The backtests of this page, without their results.'),
  ...PAGE_FIELDS,
});
