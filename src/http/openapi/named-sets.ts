// The closed sets that have a name in the API's description, and how a schema is given one (beside schemas.ts).
import Type, { type TProperties, type TSchema } from 'typebox';
import {
  ANOMALY_KINDS,
  APPROVAL_STATUSES,
  AUDIT_ACTIONS,
  CHANNELS,
  DELIVERY_STATUSES,
  DETECTOR_NAMES,
  EVALUATION_RESULTS,
  EVENT_TYPES,
  FAULT_KINDS,
  FEED_FORMATS,
  FRAMEWORKS,
  ORDERS,
  OUTCOMES,
  POLICY_ACTIONS,
  POLICY_TYPES,
  REASONS,
  RESOURCE_TYPES,
  SCOPES,
  SEVERITIES,
  STATUSES,
  TRIGGERS,
} from '../../../schemas/closed-sets.ts';
import { OPERATORS } from '../../../schemas/condition.ts';
import { about } from '../../../schemas/described.ts';
import { ERRORS } from '../../common/errors.ts';
import { takesNull } from '../../common/optional-nulls.ts';

/** `shown` in the place of `schema`, where the description says more than the form that validates. */
export type NamedSchema = { schema: TSchema; shown: TSchema };

export const of = (description: string, schema: TSchema, shown = schema): NamedSchema => ({
  schema,
  shown: about(shown, description),
});
/** The schema of a body: optional fields take null as well, which is the same as leaving them out. */
export const taken = (description: string, schema: TSchema, shown = schema): NamedSchema =>
  of(description, schema, withOptionalNulls(shown));
export const set = (values: readonly string[], description: string): NamedSchema =>
  of(description, Type.Enum([...values]));

export const SETS: Record<string, NamedSchema> = {
  EventType: set(
    EVENT_TYPES,
    '`prompt`: input from a user or upstream system. `completion`: output. `tool_call`: an external tool, function or API is called. `error`: an exception or failure. `custom`: anything else.',
  ),
  Framework: set(FRAMEWORKS, 'The framework that an agent is built with.'),
  Status: set(STATUSES, 'Whether it is in force.'),
  Severity: set(SEVERITIES, 'From the lowest to the highest.'),
  Outcome: set(
    OUTCOMES,
    '`allowed`: go on. `blocked`: the action must not be carried out. `pending`: wait for the decision of the approval.',
  ),
  Order: set(ORDERS, '`desc`: newest first. `asc`: oldest first.'),
  Scope: set(SCOPES, 'What a key may do; each includes what the ones before it may.'),
  PolicyType: set(POLICY_TYPES, 'The kind of a policy: says which form `conditions` and `detail` have.'),
  PolicyReason: set(
    REASONS,
    '`policy`: a policy decided, `policy_id` says which. `agent_inactive`: the agent is switched off. `approval`: a person decided, or the time was over.',
  ),
  PolicyAction: set(
    POLICY_ACTIONS,
    '`block`: the event is blocked. `alert`: raises the signal `policy_violation`. `log`: the match is recorded; alone it is a dry run.',
  ),
  EvaluationResult: set(EVALUATION_RESULTS, 'What an evaluation says of a policy.'),
  Trigger: set(TRIGGERS, 'The kind of signal that an alert tells of.'),
  Channel: set(
    CHANNELS,
    '`webhook`: a signed POST. `chat_app`: an incoming webhook of a team chat. `email`: a mail by SMTP.',
  ),
  AnomalyKind: set(
    ANOMALY_KINDS,
    '`token_spike`: far more tokens than usual. `error_rate`: far more errors than usual. `volume_spike`: far more events than usual. `blocked_event`: a policy blocked an event.',
  ),
  Operator: set(OPERATORS, 'How a condition compares a field.'),
  Detector: set(DETECTOR_NAMES, 'A kind of personal data or secret that a `data_filter` policy finds.'),
  ApprovalStatus: set(
    APPROVAL_STATUSES,
    '`pending`: no decision yet. `approved`, `denied`: decided by a person. `expired`: its time was over; `outcome` says what came of the event.',
  ),
  DeliveryStatus: set(
    DELIVERY_STATUSES,
    '`pending`: waits for an attempt. `delivered`: the target took it. `failed`: given up. `cancelled`: its alert was deleted or became inactive before.',
  ),
  FeedFormat: set(FEED_FORMATS, 'In which form rows of an outgoing feed are sent.'),
  AuditAction: set(AUDIT_ACTIONS, 'What was done.'),
  ResourceType: set(RESOURCE_TYPES, 'The kind of resource that something was done to.'),
  AuditFaultKind: set(
    FAULT_KINDS,
    '`changed`: the content is another one. `missing`: it is gone. `added`: it was never chained. `moved`: it stands in another place. `chain_broken`: a link does not follow from the one before. `head_mismatch`: the end is not the one that is kept.',
  ),
  ErrorCode: set(Object.keys(ERRORS), 'What went wrong, for programs. The set is closed within `/v1`.'),
};

/** An object whose optional members take null, too; what is said of them stays beside the union. */
function withOptionalNulls(schema: TSchema): TSchema {
  const {
    properties,
    required = [],
    ...others
  } = schema as TSchema & {
    properties?: TProperties;
    required?: readonly string[];
  };
  if (properties === undefined) return schema;
  const taking = Object.entries(properties).map(([name, member]) => {
    if (required.includes(name) || takesNull(member)) return [name, member];
    const { description, examples, ...form } = member as TSchema & Record<string, unknown>;
    const said = { ...(description !== undefined && { description }), ...(examples !== undefined && { examples }) };
    return [name, Type.Optional(Type.Unsafe({ anyOf: [form, { type: 'null' }], ...said }))];
  });
  return Type.Object(Object.fromEntries(taking) as TProperties, others);
}
