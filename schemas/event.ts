// The event: as a caller submits it, as it is answered, and as it is listed.
// Invariant: `payload` is free and comes back token by token as it was sent; everything beside it is checked.

import Type from 'typebox';
import {
  EVENT_SOURCES,
  EVENT_TYPES,
  OUTCOMES,
  POLICY_ACTIONS,
  POLICY_TYPES,
  REASONS,
  SEVERITIES,
  SHADOW_VERDICTS,
} from './closed-sets.ts';
import { FreeObject, NextCursor, RequestTime, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { ErrorDetail } from './error.ts';
import { AskedCheck, MatchDetail } from './match-detail.ts';

export const BATCH_EVENTS_MAX = 100;

export const Submission = Type.Object(
  {
    type: about(Type.Enum([...EVENT_TYPES]), 'What kind of event it is.'),
    payload: about(
      FreeObject,
      'Any JSON object; it comes back token by token. `model`, `prompt`, `response`, `token_count` and `tokens_used` are indexed.',
      { model: 'gpt-4o', prompt: 'Where is my order?' },
    ),
    trace_id: Type.Optional(
      about(
        Type.String({ minLength: 1, maxLength: 200 }),
        'What the events of one run share, 1 to 200 characters, not `.` or `..`; a UUID is a good form. Left out: it belongs to no trace.',
        'conversation-1',
      ),
    ),
    timestamp: Type.Optional(
      about(
        RequestTime,
        'When it happened, with an offset or `Z`, kept to the microsecond: from 2000 on, at most 24 h ahead. Left out: now.',
        '2026-11-20T17:28:00Z',
      ),
    ),
  },
  { additionalProperties: false },
);
export type Submission = Type.Static<typeof Submission>;

/** The reference form; a bare array of submissions is taken as well. Elements are checked one by one. */
export const Batch = Type.Object(
  {
    events: about(
      Type.Array(Submission, { minItems: 1, maxItems: BATCH_EVENTS_MAX }),
      'The events, 1 to 100. One that does not fit is refused by itself, the others stand.',
    ),
  },
  { additionalProperties: false },
);

export const PolicyMatch = Type.Object({
  policy_id: about(Type.String(), 'The policy that matched.', exampleId('pol')),
  revision: about(Type.Integer({ minimum: 1 }), 'The revision that the policy had then.', 3),
  name: about(Type.String(), 'The name that the policy had then.', 'no large payments'),
  type: about(Type.Enum([...POLICY_TYPES]), 'The type of the policy.'),
  actions: about(
    Type.Array(Type.Enum([...POLICY_ACTIONS])),
    'The actions of the policy. `log` alone never interrupts.',
    ['block', 'alert'],
  ),
  severity: about(
    Type.Union([Type.Enum([...SEVERITIES]), Type.Null()]),
    'The severity of the policy. null: it has none.',
    'high',
  ),
  detail: about(MatchDetail, 'What the match says beyond the policy itself.'),
  description: Type.Optional(
    about(
      Type.String(),
      'Of the policy that decided: the description that it had then, which tells the agent why and what to do instead. Left out: another decided, or it has none.',
      'Payments over 1,000 need an invoice: call request_invoice.',
    ),
  ),
});
export type PolicyMatch = Type.Static<typeof PolicyMatch>;

export const ShadowJudged = Type.Object({
  policy_id: about(Type.String(), 'The shadow.', exampleId('pol')),
  revision: about(Type.Integer({ minimum: 1 }), 'The revision that it had then.', 3),
  would: about(
    Type.Enum([...SHADOW_VERDICTS]),
    'What it would have made of the event by itself. `matched`: it would only have recorded or notified. `not_matched`: said where the policy that it copies matched. `skipped`: it was too much work, or its counters did not answer.',
  ),
});
export type ShadowJudged = Type.Static<typeof ShadowJudged>;

const Spent = (description: string, example: string) =>
  about(Type.Union([Type.String(), Type.Integer()]), description, example);

export const BudgetReserved = Type.Object({
  policy_id: about(Type.String(), 'The budget.', exampleId('pol')),
  reserved: Spent(
    'What is held for the call until it is settled: money with its currency, tokens, or events.',
    '0.40 USD',
  ),
  left: Spent('What is left beside it. Below 0: a budget that does not block is over.', '24.60 USD'),
  resets_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When the window ends, or the oldest part of a sliding one. null: nothing is spent in a sliding one.',
  ),
  max_tokens: Type.Optional(
    about(
      Type.Integer({ minimum: 0 }),
      'Output tokens that would fit into what was left. Left out: the call does not say how many it allows, or they do not matter.',
      9_840,
    ),
  ),
});
export type BudgetReserved = Type.Static<typeof BudgetReserved>;

export const PolicyResult = Type.Object({
  outcome: about(
    Type.Enum([...OUTCOMES]),
    'Whether the action may be carried out: the final outcome, where an approval was decided.',
    'blocked',
  ),
  reason: about(
    Type.Union([Type.Enum([...REASONS]), Type.Null()]),
    'What the outcome follows from. null: from nothing, it is allowed.',
    'policy',
  ),
  policy_id: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy that decided. null: none did.',
    exampleId('pol'),
  ),
  matches: about(Type.Array(PolicyMatch), 'All policies that matched, also those that only record. Empty: none did.'),
  checks: Type.Optional(
    about(
      Type.Array(AskedCheck),
      'The checks outside that were asked about it, also those that said nothing. Left out: none was.',
    ),
  ),
  approval_id: Type.Optional(about(Type.String(), 'The approval that the event waits or waited for. Left out: none.')),
  enforced: Type.Optional(
    about(
      Type.Literal(false),
      'false: it was reported after the fact, and what the policies say prevented nothing. Left out: it was judged before.',
    ),
  ),
  decision_id: Type.Optional(
    about(
      Type.String(),
      'The event that was judged before this one was done; its outcome is here, and no policy was asked again. Left out: none was.',
      exampleId('evt'),
    ),
  ),
  budgets: Type.Optional(
    about(
      Type.Array(BudgetReserved),
      'What budgets hold for the call that this prompt begins. Its `completion` settles it, an `error` releases it. Left out: none does.',
    ),
  ),
  source: Type.Optional(about(Type.Enum([...EVENT_SOURCES]), 'By which way it was reported. Left out: as an event.')),
  shadow: Type.Optional(
    about(
      Type.Array(ShadowJudged),
      'What policies with `mode: shadow` would have made of it; nothing came of that. In reads alone, never in the answer to a submission. Left out: nothing.',
    ),
  ),
});
export type PolicyResult = Type.Static<typeof PolicyResult>;

export const Event = Type.Object({
  id: about(Type.String(), 'Id of the event.', exampleId('evt')),
  agent_id: about(Type.String(), 'The agent that it is of.', exampleId('agt')),
  type: about(Type.Enum([...EVENT_TYPES]), 'What kind of event it is.', 'tool_call'),
  payload: about(
    FreeObject,
    'As it was submitted, token by token; in later reads with what a policy redacted replaced.',
    { tool: 'send_money', arguments: { amount: 5000 } },
  ),
  trace_id: Type.Optional(
    about(Type.String(), 'What the events of one run share. Left out: it belongs to no trace.', 'conversation-1'),
  ),
  timestamp: about(
    ResponseTime,
    "When it happened, by the caller's word, to the microsecond: with six digits where the last three are not zero.",
  ),
  received_at: about(ResponseTime, 'When it arrived, by our clock.'),
  policy_result: about(PolicyResult, 'What the policies made of it.'),
  cost: Type.Optional(
    about(
      Type.Union([Type.String(), Type.Null()]),
      'What its tokens cost, by the price table of the account when it arrived. In reads alone. null: it says tokens, and what they cost is unknown. Left out: it says none, or the account had no prices.',
      '0.012345 USD',
    ),
  ),
  price_revision: Type.Optional(
    about(Type.Integer(), 'Beside `cost`: the revision of the price table that was asked.', 3),
  ),
  redacted_payload: Type.Optional(
    about(
      FreeObject,
      'In the answer to a submission alone: the payload as it is kept, to be used in place of what was sent. Left out: no policy redacts anything of it.',
      { prompt: 'Call me at [redacted:phone]' },
    ),
  ),
});

export type Event = Type.Static<typeof Event>;

/** Characters of a payload's text that a preview has. */
export const PREVIEW_CHARACTERS = 256;

/** Characters that the summary of an event has at most. */
export const SUMMARY_CHARACTERS = 160;

/** An event in a list: with its payload, or as `payload` of the list says with a part of it or none. */
export const ListedEvent = Type.Object({
  ...Event.properties,
  payload: Type.Optional(Event.properties.payload),
  payload_preview: Type.Optional(
    about(
      Type.String(),
      `With \`payload=preview\`: the first ${PREVIEW_CHARACTERS} characters of the payload's JSON text. It may end anywhere.`,
      '{"model":"gpt-4o","prompt":"Where is my order?"}',
    ),
  ),
  payload_bytes: Type.Optional(
    about(Type.Integer({ minimum: 2 }), "With `payload=preview` and `none`: bytes of the payload's JSON text.", 48),
  ),
  model: Type.Optional(about(Type.String(), 'The model that its payload names (`model`). Left out: none.', 'gpt-4o')),
  tokens_used: Type.Optional(
    about(Type.Integer(), 'Tokens that it says were used, as a trace counts them. Left out: it says none.', 640),
  ),
  duration_ms: Type.Optional(
    about(
      Type.Number({ minimum: 0 }),
      'How long it took, in ms, where its payload says so (`duration_ms`, a number; spans have it). Looked for where `summary` is. Left out: it says none.',
      1_250,
    ),
  ),
  summary: about(
    Type.String(),
    `What it says on one line of at most ${SUMMARY_CHARACTERS} characters, for people: the tool and its arguments, the first words of a prompt or an answer, what an error says. Made of the beginning of the payload (and the end of a long one); empty where that says nothing.`,
    'send_money(amount: 5000)',
  ),
});

/** The summary of the event that a row of another list is about. */
export const SummaryOfEvent = Type.Optional(
  about(
    Type.Union([Type.String(), Type.Null()]),
    'With `expand=summary`: what its event says on one line. null: it is about none, or the event is not stored.',
    'send_money(amount: 5000)',
  ),
);

export const EventError = Type.Object({
  error: Type.Object(
    {
      code: about(Type.String(), 'What is wrong with the element, for programs.'),
      message: about(Type.String(), 'What is wrong, one sentence for people.', 'The event does not fit its schema.'),
      details: Type.Optional(
        about(Type.Array(ErrorDetail), 'What is wrong and where; left out where there is nothing to add.'),
      ),
    },
    { description: 'Why the element was refused.' },
  ),
});

export const BatchResult = Type.Object({
  results: about(
    Type.Array(Type.Union([Event, EventError])),
    'One for each element, in the order of submission: the event, or why it was refused.',
  ),
  total: about(Type.Integer({ minimum: 0 }), 'How many events were recorded.', 1),
});

export const Trace = Type.Object({
  trace_id: about(Type.String(), 'What its events share.', 'conversation-1'),
  started_at: about(ResponseTime, 'When its first event happened.'),
  ended_at: about(ResponseTime, 'When its last event happened.', '2026-11-20T17:28:05.200Z'),
  duration_ms: about(Type.Integer({ minimum: 0 }), 'From the first event to the last, in ms.', 5200),
  event_count: about(Type.Integer({ minimum: 1 }), 'How many events it has.', 3),
  counts: about(Type.Record(Type.String(), Type.Integer()), 'Events by type; a type without events is left out.', {
    prompt: 1,
    completion: 1,
    tool_call: 1,
  }),
  outcomes: about(
    Type.Record(Type.String(), Type.Integer()),
    'Events by outcome; an outcome without events is left out.',
    { allowed: 2, blocked: 1 },
  ),
  agents: about(Type.Array(Type.String()), 'Ids of the agents that took part.', [exampleId('agt')]),
  tokens_used: about(
    Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    "Tokens of all its events together: a payload's `tokens_used`, else what a provider's answer there says (`usage`, `usageMetadata` and the like). null: no event says any.",
    640,
  ),
  cost: about(
    Type.Union([Type.String(), Type.Null()]),
    'What the tokens of its events cost together, as far as that is known. null: of none it is.',
    '0.012345 USD',
  ),
  unpriced_events: about(
    Type.Integer({ minimum: 0 }),
    'Events that say tokens for which the account had no price: `cost` is without them.',
    0,
  ),
  asked: about(
    Type.String(),
    'What its first prompt says, or its first event where there is no prompt, as the `summary` of an event in a list. Empty: nothing.',
    'Where is my order?',
  ),
});
export type Trace = Type.Static<typeof Trace>;
/** One trace with a page of its events in time order; `event_count` says how many there are. */
export const TraceWithEvents = Type.Object({
  ...Trace.properties,
  events: about(Type.Array(ListedEvent), 'Its events in time order, from the first or from behind the cursor.'),
  next_cursor: NextCursor,
});
