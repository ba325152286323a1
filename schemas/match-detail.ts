// The `detail` of a match: which condition held, at which path of the payload and with
// which operator; of a data filter the detector or pattern and where it found something; of a rate limit its counter.
// Invariant: never the text that was matched or searched for. Keys of a payload are in a path as they were sent,
// unless they hold what a filter or operator searches for: then `[redacted]`.

import Type from 'typebox';
import { BUDGET_UNKNOWN, CHECK_FAILURES, DETECTOR_NAMES } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { OPERATORS } from './condition.ts';
import { about, exampleId } from './described.ts';

const held = {
  condition: about(
    Type.String(),
    'Key in `conditions` as the policy writes it, cut at 200 characters; `expression` and `payload_schema` among them.',
    'payload.arguments.amount',
  ),
  path: Type.Optional(
    about(
      Type.String(),
      'JSON Pointer into the payload: where it held; of `payload_schema` what does not satisfy it. Left out for `type`, ' +
        '`trace_id`, `agent_id` and `expression`, and where finding the place is too much work.',
      '/arguments/amount',
    ),
  ),
  operator: Type.Optional(
    about(Type.Enum([...OPERATORS]), 'The operator that held. Left out for `payload_schema` and `expression`.', 'gt'),
  ),
  entry: Type.Optional(
    about(
      Type.Integer({ minimum: 0 }),
      'Place in the list of `shell` or `sql`, from 0, of the entry that was met. Left out for other operators, and where there is no list.',
      3,
    ),
  ),
  keyword: Type.Optional(
    about(
      Type.String(),
      'Keyword of JSON Schema that is not satisfied. Left out unless the condition is `payload_schema`.',
      'maximum',
    ),
  ),
  absent: Type.Optional(
    about(Type.Literal(true), 'It held because no value is there. Left out: it held for a value.', true),
  ),
};

const HELD_EXAMPLE = { condition: 'payload.arguments.amount', operator: 'gt', path: '/arguments/amount' } as const;

/** One condition that held, with one of its operators. */
export const ConditionHeld = Type.Object(held, {
  description: 'A condition of the policy that held, with one of its operators.',
  examples: [HELD_EXAMPLE],
});
export type ConditionHeld = Type.Static<typeof ConditionHeld>;

/** One condition that did not hold. */
export const ConditionUnmet = Type.Object(
  {
    condition: about(
      Type.String(),
      'Key in `conditions` as the policy writes it, cut at 200 characters. `expression`: it is not true. `payload_schema`: ' +
        'the payload satisfies it. `patterns`, `detectors`: none of them found anything.',
      'payload.arguments.amount',
    ),
    operator: Type.Optional(
      about(
        Type.Enum([...OPERATORS]),
        'The operator that does not hold. Left out where the condition has none, and where each of several holds for another value.',
        'gt',
      ),
    ),
    absent: Type.Optional(about(Type.Literal(true), 'No value is there. Left out: there is one.', true)),
  },
  { description: 'A condition of the policy that did not hold.' },
);
export type ConditionUnmet = Type.Static<typeof ConditionUnmet>;

/** Conditions that a match names, and those that all matches of an event name: they must fit into its row. */
export const CONDITIONS_SHOWN_MAX = 20;
export const CONDITIONS_OF_EVENT_MAX = 4_000;

const conditions = (description: string) =>
  Type.Optional(about(Type.Array(ConditionHeld, { maxItems: CONDITIONS_SHOWN_MAX }), description));
const UNEVALUATED = ['budget', 'expression_error', 'not_a_number', 'not_json', 'error'] as const;
const reason = Type.Optional(
  about(
    Type.Enum([...UNEVALUATED]),
    'Why the policy counts as matched although it could not be evaluated: the work that one event may cost was used up, its ' +
      'expression failed on the event, a condition compares numbers and the event has something else there, it leads into a text ' +
      'that begins like JSON and cannot be read, or a mistake of ours. ' +
      'Left out: it was evaluated.',
  ),
);

/** The detail of `block_action` and `require_approval`. */
export const ConditionsDetail = Type.Object(
  {
    ...held,
    condition: Type.Optional(held.condition),
    every_event: Type.Optional(
      about(Type.Literal(true), 'The policy has no conditions and matches every event. Left out: it has some.', true),
    ),
    conditions: conditions(
      'All conditions that held, one entry an operator, at most 20. Left out where there is one alone, and of the matches behind those that name 4,000 together. Above them stands the ' +
        'last that has a place in the payload.',
    ),
    reason,
  },
  {
    description:
      'What a match says beyond its policy, where the conditions alone decide. With `reason`, `condition` is what could not be evaluated.',
    examples: [HELD_EXAMPLE],
  },
);
export type ConditionsDetail = Type.Static<typeof ConditionsDetail>;

/** The detail of `data_filter`. */
export const DataFilterDetail = Type.Object(
  {
    detector: Type.Optional(
      about(Type.Enum([...DETECTOR_NAMES]), 'The detector that found something. Left out where a pattern did.'),
    ),
    pattern: Type.Optional(
      about(
        Type.Integer({ minimum: 0 }),
        'Place in `patterns`, from 0, of the pattern that matched. Left out where a detector found something.',
      ),
    ),
    path: Type.Optional(
      about(
        Type.String(),
        'JSON Pointer into the payload to the string in which it was found. What was found is never repeated.',
        '/messages/0/content',
      ),
    ),
    field: Type.Optional(
      about(Type.Literal('trace_id'), 'It was found in `trace_id`, and there is no `path`. Left out: in the payload.'),
    ),
    key: Type.Optional(about(Type.Literal(true), 'It was found in the name of a key. Left out: in a value.', true)),
    condition: Type.Optional(
      about(Type.String(), 'The condition that could not be evaluated. Left out unless that is so.', 'expression'),
    ),
    conditions: conditions('The other conditions of the policy, all of which held, at most 20. Left out: it has none.'),
    reason,
  },
  {
    description: 'What a match of a `data_filter` policy says beyond the policy itself: the first finding.',
    examples: [{ detector: 'email', path: '/prompt' }],
  },
);
export type DataFilterDetail = Type.Static<typeof DataFilterDetail>;

/** The detail of `rate_limit`. */
export const RateLimitDetail = Type.Object(
  {
    threshold: about(Type.Integer(), 'Events that may come in one window.', 100),
    window_seconds: about(Type.Integer(), 'Length of the window in seconds.', 3600),
    per: about(Type.String(), '`agent`, `account`, or the path that is counted apart.', 'payload.tool'),
    retry_after_seconds: about(Type.Integer(), 'Until the next event is within the limit, if none comes before.', 42),
    value: Type.Optional(
      about(
        Type.Union([Type.String(), Type.Null()]),
        'The value at the path `per` whose counter is over, cut at 100 characters. null: events without it, which are counted together. Left out where `per` is no path, or a data filter found a secret in the event.',
        'send_money',
      ),
    ),
    condition: Type.Optional(
      about(Type.String(), 'The condition that could not be evaluated. Left out unless that is so.', 'expression'),
    ),
    conditions: conditions(
      'The conditions by which the event is counted, at most 20. Left out: every event is, or one could not be evaluated.',
    ),
    reason,
  },
  {
    description: 'What a match of a `rate_limit` policy says beyond the policy itself.',
    examples: [
      { threshold: 100, window_seconds: 3600, per: 'payload.tool', retry_after_seconds: 42, value: 'send_money' },
    ],
  },
);
export type RateLimitDetail = Type.Static<typeof RateLimitDetail>;

const Occurred = Type.Object(
  {
    event_id: Type.Optional(
      about(Type.String(), 'The event that was the step. Left out: its agent was erased.', exampleId('evt')),
    ),
    at: about(Type.String({ format: 'date-time' }), 'When it was counted.', '2026-11-29T12:00:00.000Z'),
    path: Type.Optional(
      about(
        Type.String(),
        'JSON Pointer into its payload: where a condition of the step held. Left out where that is not known.',
        '/arguments/path',
      ),
    ),
  },
  { description: 'A step of a sequence that occurred.' },
);

/** The detail of `sequence`. */
export const SequenceDetail = Type.Object(
  {
    after: about(
      Type.Array(Occurred, { maxItems: 3 }),
      'The steps that occurred, in their order; of one that must occur several times the last. Empty: the policy has none, or it is not known.',
    ),
    condition: Type.Optional(
      about(Type.String(), 'The condition that could not be evaluated. Left out unless that is so.', 'expression'),
    ),
    conditions: conditions('The conditions of the event itself, all of which held, at most 20. Left out: it has none.'),
    reason: Type.Optional(
      about(
        Type.Enum([...UNEVALUATED, 'state_unknown', 'not_finished']),
        'Why the policy counts as matched although it could not be evaluated. `state_unknown`: what occurred before is being read, which takes seconds after the policy was made or changed. ' +
          '`budget`: more values or scopes occurred than are kept. `not_finished`: the event of `unless` waits for its approval, or is being recorded. The others: as of other types. ' +
          'Left out: it was evaluated.',
      ),
    ),
    waits_for: Type.Optional(
      about(Type.String(), 'With `not_finished`: the event that is waited for.', exampleId('evt')),
    ),
  },
  {
    description: 'What a match of a `sequence` policy says beyond the policy itself: what was before.',
    examples: [{ after: [{ event_id: exampleId('evt'), at: '2026-11-29T12:00:00.000Z', path: '/arguments/path' }] }],
  },
);
export type SequenceDetail = Type.Static<typeof SequenceDetail>;

const SAID = {
  score: Type.Optional(
    about(Type.Number({ minimum: 0, maximum: 1 }), 'The score that the check gave. Left out: none.', 0.93),
  ),
  labels: Type.Optional(about(Type.Array(Type.String()), 'The labels that it gave. Left out: none.', ['S1'])),
};

/** The detail of `external_check`. */
export const ExternalCheckDetail = Type.Object(
  {
    check: Type.Optional(
      about(Type.String(), 'The check that was asked. Left out where a condition could not be evaluated.', 'guard'),
    ),
    ...SAID,
    ms: Type.Optional(about(Type.Integer({ minimum: 0 }), 'How long it took, in ms. Left out with `check`.', 42)),
    reason: Type.Optional(
      about(
        Type.Enum([...CHECK_FAILURES, ...UNEVALUATED]),
        'Why the check said nothing, and the policy counts as matched by its own word: `timeout`, `error` (also an answer ' +
          'that does not fit), `overload` (no room, or its breaker is open), `too_large` (over 64 KiB, `on_error` decides); or why ' +
          'a condition could not be evaluated. Left out: the check matched.',
      ),
    ),
    redacted: Type.Optional(
      about(Type.Literal(true), 'What it found is redacted in what is kept. Left out: it is not.', true),
    ),
    pending: Type.Optional(
      about(Type.Literal(true), 'By that word the event waits for a person. Left out: it does not.', true),
    ),
    condition: Type.Optional(
      about(Type.String(), 'The condition that could not be evaluated. Left out unless that is so.', 'expression'),
    ),
    conditions: conditions('The other conditions of the policy, all of which held, at most 20. Left out: it has none.'),
  },
  {
    description: 'What a match of an `external_check` policy says beyond the policy itself: the verdict.',
    examples: [{ check: 'guard', score: 0.93, labels: ['S1'], ms: 42 }],
  },
);
export type ExternalCheckDetail = Type.Static<typeof ExternalCheckDetail>;

/** A check that was asked about an event, whatever came of it. */
export const AskedCheck = Type.Object(
  {
    check: about(Type.String(), 'The name of the check.', 'guard'),
    fields: Type.Optional(
      about(Type.Array(Type.String()), 'The fields that it was asked about. Left out: all text of the payload.', [
        'payload.text',
      ]),
    ),
    match: Type.Optional(about(Type.Boolean(), 'Its own word. Left out: it gave none.', true)),
    ...SAID,
    reason: Type.Optional(
      about(
        Type.Enum([...CHECK_FAILURES]),
        'Why it said nothing; then each policy that asked did what it says for that. Left out: it answered.',
      ),
    ),
    ms: about(Type.Integer({ minimum: 0 }), 'How long it took, in ms.', 42),
  },
  { description: 'A check outside that was asked about the event, and what it said.' },
);
export type AskedCheck = Type.Static<typeof AskedCheck>;

const Spent = (description: string, example: string | number) =>
  about(Type.Union([Type.String(), Type.Integer()]), description, example);

/** The detail of `budget`. */
export const BudgetDetail = Type.Object(
  {
    limit: Spent(
      'What may be used up in one window: an amount with its currency, or a number of tokens or events.',
      '25.00 USD',
    ),
    window: about(Type.String(), 'The window: `day`, `week`, `month`, or its seconds.', 'day'),
    per: about(Type.String(), '`agent`, `account`, `trace`, or the path that has a budget of its own.', 'agent'),
    needed: Type.Optional(Spent('What the call would have taken. Left out: it is not known.', '0.40 USD')),
    left: Type.Optional(Spent('What was left of the limit before it. Left out: it was not asked.', '0.12 USD')),
    max_tokens: Type.Optional(
      about(
        Type.Integer({ minimum: 0 }),
        'Output tokens with which the call would still fit. Left out: it does not depend on them.',
        310,
      ),
    ),
    resets_at: Type.Optional(
      about(ResponseTime, 'When the window ends, or the oldest part of a sliding one. Left out: nothing is spent.'),
    ),
    unknown: Type.Optional(
      about(
        Type.Enum([...BUDGET_UNKNOWN]),
        'Why it counts as over: the model has no price in the currency of the limit (`unpriced`); the call does not say how much output it allows, and the price table no `max_output` (`no_ceiling`); what was spent before is still being read (`state_unknown`). Left out: all was known.',
      ),
    ),
    condition: Type.Optional(
      about(Type.String(), 'The condition that could not be evaluated. Left out unless that is so.', 'expression'),
    ),
    conditions: conditions('The conditions by which the call is charged, at most 20. Left out: every call is.'),
    reason,
  },
  {
    description: 'What a match of a `budget` policy says beyond the policy itself.',
    examples: [{ limit: '25.00 USD', window: 'day', per: 'agent', needed: '0.40 USD', left: '0.12 USD' }],
  },
);
export type BudgetDetail = Type.Static<typeof BudgetDetail>;

export const MatchDetail = Type.Union([
  ConditionsDetail,
  DataFilterDetail,
  RateLimitDetail,
  SequenceDetail,
  ExternalCheckDetail,
  BudgetDetail,
]);
export type MatchDetail = Type.Static<typeof MatchDetail>;
