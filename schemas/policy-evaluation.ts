// Judging an event without recording it (POST /v1/policies/evaluate): what is asked, and what is answered.

import Type from 'typebox';
import { EVALUATION_RESULTS } from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { PolicyResult, Submission } from './event.ts';
import { CONDITIONS_SHOWN_MAX, ConditionUnmet } from './match-detail.ts';
import { PolicyCreate } from './policy.ts';

/** Policies that one evaluation may bring: each is compiled for it. */
const EVALUATED_POLICIES_MAX = 20;
/** More than a sequence has steps, so that others may lie between. */
const BEFORE_MAX = 20;

const { type, conditions, actions, severity } = PolicyCreate.properties;

export const PolicyDraft = Type.Object(
  {
    name: Type.Optional(about(Name, 'Told again in `matches` and `judged`. Left out: its place, `/policies/0`.')),
    ...{ type, conditions, actions, severity },
  },
  { additionalProperties: false },
);
export type PolicyDraft = Type.Static<typeof PolicyDraft>;

const MadeUp = Submission.properties;

export const EvaluatedEvent = Type.Object(
  {
    agent_id: about(Type.String(), 'The agent whose event it is.', exampleId('agt')),
    id: Type.Optional(
      about(
        Type.String(),
        'An event of the agent that was recorded; what was redacted in it stays so. Left out: the event is made up.',
        exampleId('evt'),
      ),
    ),
    type: Type.Optional(about(MadeUp.type, 'Of a made-up event, which needs it.')),
    payload: Type.Optional(about(MadeUp.payload, 'Of a made-up event, which needs it.')),
    trace_id: Type.Optional(about(MadeUp.trace_id, 'Of a made-up event. Left out: it belongs to no trace.')),
    timestamp: Type.Optional(about(MadeUp.timestamp, 'Of a made-up event. Left out: now.')),
  },
  { additionalProperties: false },
);
export type EvaluatedEvent = Type.Static<typeof EvaluatedEvent>;

/** Made up as it is. */
const BeforeEvent = Type.Object(
  {
    type: about(MadeUp.type, 'Its type.'),
    payload: about(MadeUp.payload, 'Its payload.'),
    trace_id: Type.Optional(about(MadeUp.trace_id, 'Left out: it belongs to no trace.')),
    timestamp: Type.Optional(about(MadeUp.timestamp, 'Left out: now. Not before that of the one in front of it.')),
  },
  { additionalProperties: false },
);

export const PolicyEvaluation = Type.Object(
  {
    event: about(EvaluatedEvent, 'What is judged.'),
    before: Type.Optional(
      about(
        Type.Array(BeforeEvent, { minItems: 1, maxItems: BEFORE_MAX }),
        `Events of the agent that are judged before it, in this order, for policies of the type \`sequence\`: 1 to ${BEFORE_MAX}. Left out: nothing occurred before.`,
      ),
    ),
    policies: Type.Optional(
      about(
        Type.Array(PolicyDraft, { minItems: 1, maxItems: EVALUATED_POLICIES_MAX }),
        `What to judge it by: 1 to ${EVALUATED_POLICIES_MAX} policies that need not exist. Left out: the policies in force.`,
      ),
    ),
  },
  { additionalProperties: false },
);
export type PolicyEvaluation = Type.Static<typeof PolicyEvaluation>;

export const JudgedPolicy = Type.Object({
  policy_id: about(
    Type.String(),
    'The policy; one that came with the request has its place there, `/policies/0`.',
    exampleId('pol'),
  ),
  name: about(Type.String(), 'Its name.', 'no large payments'),
  result: about(
    Type.Enum([...EVALUATION_RESULTS]),
    'Whether it matched. `counted`: a rate limit that would count the event; how full it is was not asked. `asked`: a check outside would be asked about the event; an evaluation asks none. `not_started`: it is not in force yet, and was not judged.',
  ),
  starts_at: Type.Optional(
    about(ResponseTime, 'Of one that is not in force yet: when it will be. Left out of the others.'),
  ),
  unmet: Type.Optional(
    about(
      Type.Array(ConditionUnmet, { maxItems: CONDITIONS_SHOWN_MAX }),
      `Of one that did not match: the conditions that did not hold, at most ${CONDITIONS_SHOWN_MAX}. Left out of the others.`,
    ),
  ),
});

export const PolicyEvaluated = Type.Object({
  policy_result: about(PolicyResult, 'What the event would get, as long as no rate limit is over.'),
  judged: about(
    Type.Array(JudgedPolicy),
    'Each policy that concerns the agent, also those that are not in force yet. Empty: there is none.',
  ),
});
export type PolicyEvaluated = Type.Static<typeof PolicyEvaluated>;
