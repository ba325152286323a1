// The approval: a person's decision that a pending event waits for (decisions 6.3).
// Invariant: it is decided once, by a person or by its timeout; `outcome` is then the event's final outcome.
import Type from 'typebox';
import { OUTCOMES, ResponseTime } from './common.ts';

export const APPROVAL_STATUSES = ['pending', 'approved', 'denied', 'expired'] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];
export const ON_TIMEOUT = ['deny', 'approve'] as const;

export const ApprovalDecision = Type.Object(
  {
    decision: Type.Enum(['approve', 'deny']),
    comment: Type.Optional(Type.String({ maxLength: 2000 })),
  },
  { additionalProperties: false },
);
export type ApprovalDecision = Type.Static<typeof ApprovalDecision>;

export const Approval = Type.Object({
  id: Type.String(),
  agent_id: Type.String(),
  event_id: Type.String(),
  policy_id: Type.String({ description: 'The policy that asked for it' }),
  policy_name: Type.String(),
  status: Type.Enum([...APPROVAL_STATUSES]),
  outcome: Type.Enum([...OUTCOMES], { description: 'What the event ends as; pending until decided' }),
  on_timeout: Type.Enum([...ON_TIMEOUT]),
  created_at: ResponseTime,
  expires_at: ResponseTime,
  decided_at: Type.Union([ResponseTime, Type.Null()]),
  decided_by: Type.Union([Type.String({ description: '`key:<key_id>`, or `system` for a timeout' }), Type.Null()]),
  comment: Type.Union([Type.String(), Type.Null()]),
});
export type Approval = Type.Static<typeof Approval>;
