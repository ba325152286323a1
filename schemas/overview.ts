// The overview: what a window of time had, beside the same time a day and a week before, and what needs a person.
// A part that could not be counted is null, so that one slow query takes no other part away.
import Type from 'typebox';
import { BACKUP_STATES, STATUSES } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const Count = Type.Integer({ minimum: 0 });
const orNull = <S extends Type.TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

export const OverviewWindow = Type.Object({
  from: about(ResponseTime, 'Its beginning, inclusive.'),
  to: about(ResponseTime, 'Its end, inclusive.'),
});

export const Compared = Type.Object({
  now: about(Count, 'In the window.', 42),
  day_before: about(Count, 'In the window a day before.', 40),
  week_before: about(Count, 'In the window a week before.', 30),
});
export type Compared = Type.Static<typeof Compared>;

const Figures = Type.Object({
  events: about(Compared, 'Events, by `timestamp`.'),
  blocked: about(Compared, 'Of them those that were blocked, the final outcome where an approval was decided.'),
  errors: about(Compared, 'Of them those of the type `error`.'),
});

export const TokenCounts = Type.Object({
  values: about(
    Type.Array(
      Type.Object({
        value: about(Type.String(), "The model, or the id of the agent. '' of `model`: events without one.", 'gpt-4o'),
        name: Type.Optional(about(Type.String(), 'What the agent is called. Left out: it has no name any more.')),
        tokens: about(Type.Integer(), 'Tokens of its events.', 1_834),
      }),
    ),
    'Those with the most tokens first, at most 5.',
  ),
  other: about(Type.Integer(), 'Tokens of all others together.', 0),
});

const Tokens = Type.Object({
  total: about(
    Type.Object({
      now: about(Type.Integer(), 'In the window.', 1_834),
      day_before: about(Type.Integer(), 'In the window a day before.', 1_200),
      week_before: about(Type.Integer(), 'In the window a week before.', 900),
    }),
    'Sums of `tokens_used`, as it was drawn from each payload.',
  ),
  model: about(TokenCounts, 'Of the window, by model.'),
  agent_id: about(TokenCounts, 'Of the window, by agent.'),
});
export type OverviewTokens = Type.Static<typeof Tokens>;

const AmountOrNull = orNull(Type.String());

export const CostSums = Type.Object({
  values: about(
    Type.Array(
      Type.Object({
        value: about(Type.String(), "The model, or the id of the agent. '' of `model`: events without one.", 'gpt-4o'),
        name: Type.Optional(about(Type.String(), 'What the agent is called. Left out: it has no name any more.')),
        cost: about(Type.String(), 'What its events cost.', '1.25 USD'),
      }),
    ),
    'Those that cost most first, at most 5.',
  ),
  other: about(Type.String(), 'What all others cost together.', '0.00 USD'),
});

const Costs = Type.Object({
  total: about(
    Type.Object({
      now: about(AmountOrNull, 'In the window. null: of no event it is known.', '1.25 USD'),
      day_before: about(AmountOrNull, 'In the window a day before.', '0.80 USD'),
      week_before: about(AmountOrNull, 'In the window a week before.', '0.60 USD'),
    }),
    'What events cost, as far as that is known.',
  ),
  unpriced_events: about(Compared, 'Events that say tokens whose cost is unknown: no sum has them.'),
  model: about(CostSums, 'Of the window, by model.'),
  agent_id: about(CostSums, 'Of the window, by agent.'),
});
export type OverviewCost = Type.Static<typeof Costs>;

const Approvals = Type.Object({
  pending: about(Count, 'Approvals that wait now, whenever they were opened.', 1),
  oldest: about(
    orNull(
      Type.Object({
        id: about(Type.String(), 'Id of the approval.', exampleId('apr')),
        agent_id: about(Type.String(), 'Its agent.', exampleId('agt')),
        created_at: about(ResponseTime, 'When it was opened.'),
        expires_at: about(ResponseTime, 'When its time is over.'),
      }),
    ),
    'The one that waits longest. null: none waits.',
  ),
});

const Agents = Type.Object({
  total: about(Count, 'How many agents there are.', 1),
  items: about(
    Type.Array(
      Type.Object({
        id: about(Type.String(), 'Id of the agent.', exampleId('agt')),
        name: about(Type.String(), 'What it is called.', 'support-bot'),
        status: about(Type.Enum([...STATUSES]), '`inactive`: it is switched off.'),
        last_seen_at: about(orNull(ResponseTime), 'When its last event arrived. null: there was none yet.'),
        events: about(Count, 'Its events in the window.', 42),
        blocked: about(Count, 'Of them those that were blocked.', 2),
        errors: about(Count, 'Of them those of type `error`.', 0),
        anomalies: about(Count, 'Its anomalies in the window.', 0),
        parts: about(
          Type.Array(Count, { minItems: 24, maxItems: 24 }),
          'Its events in each of 24 equal parts of the window, the first one first.',
          [0, 0, 0, 0, 0, 0, 0, 0, 3, 5, 2, 1, 0, 4, 6, 5, 3, 2, 1, 0, 0, 4, 5, 1],
        ),
      }),
    ),
    'With most blocked and failed events and anomalies first, then the newest sign of life. At most 20: all agents, or of more those of the window with most blocked and failed events.',
  ),
});
export type OverviewAgents = Type.Static<typeof Agents>;

const Policies = Type.Object({
  in_force: about(Count, 'Policies in force for these agents.', 12),
  matched: about(
    Type.Array(
      Type.Object({
        id: about(Type.String(), 'Id of the policy.', exampleId('pol')),
        name: Type.Optional(about(Type.String(), 'What it is called. Left out: it was deleted.', 'no large payments')),
        events: about(Count, 'Events of the window that it matched.', 7),
      }),
    ),
    'Those that matched most events, the most first, at most 5.',
  ),
  never_matched: about(
    Type.Object({
      total: about(Count, 'How many there are.', 3),
      items: about(
        Type.Array(
          Type.Object({
            id: about(Type.String(), 'Id of the policy.', exampleId('pol')),
            name: about(Type.String(), 'What it is called.', 'no shell'),
          }),
        ),
        'The newest first, at most 10.',
      ),
    }),
    'Policies in force that matched no event of the window.',
  ),
});
export type OverviewPolicies = Type.Static<typeof Policies>;

const Deliveries = Type.Object({
  failed: about(Count, 'Deliveries that were given up in the window.', 0),
  kept_mails: about(Count, 'Mails of the window that went to the outbox folder, since no SMTP server is set.', 0),
});

/** The faults and tasks of the service as a whole. */
const ServiceCare = Type.Object({
  faults: about(
    Type.Array(Type.String()),
    'What `/readyz` finds amiss, beginning with the part: a store that does not answer, a disk without room. Empty: nothing.',
    ['clickhouse: reachability: no answer within 2 s'],
  ),
  dead_entries: about(
    Count,
    'Entries that could not be processed and were put aside: `gatehouse dead list` has them.',
    0,
  ),
  store_behind_seconds: about(Count, 'How old the oldest event is that was taken and not stored yet. 0: none is.', 0),
  backup: about(
    orNull(Type.Enum([...BACKUP_STATES])),
    '`old`: the last one that ended well is older than 36 hours. `never`: there was none in the first day. null: nothing is to be said of it.',
    null,
  ),
  last_backup_at: about(orNull(ResponseTime), 'The moment that the last backup holds. null: there was none.', null),
  is_audit_invalid: about(
    Type.Boolean(),
    'The last daily verification found the audit chain of the account broken.',
    false,
  ),
});
export type ServiceCare = Type.Static<typeof ServiceCare>;

const Attention = Type.Object({
  agents_down: about(Count, 'Agents that were reported as silent and have not been heard since.', 0),
  untold_policies: about(
    Count,
    'Policies in force that ask for an alert while no active alert tells of `policy_violation`. 0 for a key that is bound to an agent.',
    0,
  ),
  service: Type.Optional(
    about(
      orNull(ServiceCare),
      'What is amiss in the service itself. null: not known now. Left out: the key is no `admin`, or is bound to an agent.',
    ),
  ),
});
export type OverviewAttention = Type.Static<typeof Attention>;

export const Overview = Type.Object({
  zone: about(Type.String(), 'The zone whose clock the windows go by.', 'UTC'),
  window: about(OverviewWindow, 'What is counted.'),
  day_before: about(OverviewWindow, 'The same time of the clock a day before.'),
  week_before: about(OverviewWindow, 'The same time of the clock a week before.'),
  figures: about(orNull(Figures), 'How many events. null: not known now.'),
  anomalies: about(orNull(Compared), 'Anomalies, by `timestamp`. null: not known now.'),
  tokens: about(orNull(Tokens), 'How many tokens. null: not known now.'),
  cost: Type.Optional(
    about(orNull(Costs), 'What they cost. null: not known now. Left out: the account has no prices.'),
  ),
  approvals: about(orNull(Approvals), 'What waits for a person. null: not known now.'),
  agents: about(orNull(Agents), 'What agents did. null: not known now.'),
  policies: about(orNull(Policies), 'Which policies matched. null: not known now.'),
  deliveries: about(orNull(Deliveries), 'Notifications that did not arrive. null: not known now.'),
  attention: about(Attention, 'What is amiss in the registry.'),
});
export type Overview = Type.Static<typeof Overview>;
