// The approval: a person's decision that a pending event waits for.
// Invariant: it is decided once, by a person or by its timeout; `outcome` is then the event's final outcome.

import Type from 'typebox';
import { APPROVAL_STATUSES, ON_TIMEOUT, OUTCOMES } from './closed-sets.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { ListedEvent } from './event.ts';

export const ApprovalDecision = Type.Object(
  {
    decision: about(
      Type.Enum(['approve', 'deny']),
      '`approve`: the event becomes `allowed`. `deny`: it becomes `blocked`.',
    ),
    comment: Type.Optional(
      about(
        Type.String({ maxLength: 2000 }),
        'Why, for later readers. At most 2,000 characters. Left out: none.',
        'checked with the customer',
      ),
    ),
  },
  { additionalProperties: false },
);
export type ApprovalDecision = Type.Static<typeof ApprovalDecision>;

export const Approval = Type.Object({
  id: about(Type.String(), 'Id of the approval.', exampleId('apr')),
  agent_id: about(Type.String(), 'The agent that waits.', exampleId('agt')),
  event_id: about(Type.String(), 'The event that waits.', exampleId('evt')),
  policy_id: about(
    Type.String({ description: 'The policy that asked for it' }),
    'The policy that asked for it.',
    exampleId('pol'),
  ),
  policy_name: about(Type.String(), 'The name that the policy had then.', 'refunds need a person'),
  status: about(Type.Enum([...APPROVAL_STATUSES]), 'Whether it was decided, and how.'),
  outcome: about(
    Type.Enum([...OUTCOMES], { description: 'What the event ends as; pending until decided' }),
    'What the event ends as; `pending` until it is decided. Act on this, not on `status`.',
    'pending',
  ),
  on_timeout: about(
    Type.Enum([...ON_TIMEOUT]),
    'What becomes of the event if there is no decision until `expires_at`.',
    'deny',
  ),
  created_at: about(ResponseTime, 'When the event arrived.'),
  expires_at: about(ResponseTime, 'Until when it can be decided.'),
  decided_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it was decided. null: it was not yet.', null),
  decided_by: about(
    Type.Union([Type.String({ description: '`key:<key_id>`, or `system` for a timeout' }), Type.Null()]),
    '`key:<key_id>`, or `system` for a timeout. null: it was not decided yet.',
    null,
  ),
  reason: about(
    Type.Union([Type.Enum(['approval', 'agent_inactive', 'policy']), Type.Null()]),
    'Why the event ends so. `approval`: it was decided, or the time was over. `agent_inactive`: its agent was switched off before. `policy`: a policy made since blocks it. null: it was not decided yet.',
    null,
  ),
  blocked_by: about(
    Type.Union([Type.String(), Type.Null()]),
    'The policy that blocks the event although it was approved. null: none.',
    null,
  ),
  comment: about(Type.Union([Type.String(), Type.Null()]), 'What was said with the decision. null: nothing.', null),
});
export type Approval = Type.Static<typeof Approval>;

export const ListedApproval = Type.Object({
  ...Approval.properties,
  event: Type.Optional(
    about(
      Type.Union([ListedEvent, Type.Null()]),
      'The event that waits, or waited. Left out unless it is asked for; null: it is not stored yet, or its agent was deleted.',
      null,
    ),
  ),
});
