// The account: whose everything is, and what its admins may set.
// Request limits and quotas are shown to them and not set: a key must not raise its own limit. They are the operators',
// by the command line or with a key of theirs (AdminAccountPatch).
import Type from 'typebox';
import { ACCOUNT_STATUSES } from './closed-sets.ts';
import { Name, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';
import { Quotas, QuotasPatch } from './quota.ts';
import { type OwnRetention, RetentionInForce, RetentionPatch } from './retention.ts';

/**
 * Seconds for which an agent may be silent. Under 5 s the watch itself, which looks once a second, would be most of
 * what it measures; no one waits over a week for an alert.
 */
export const AGENT_DOWN_SECONDS = { min: 5, max: 7 * 86_400, default: 300 } as const;

/** The bounds of the settings that are in for it. */
export const REQUEST_LIMIT = { perSecondMax: 1_000_000, burstMax: 10_000_000 } as const;

const AgentDownSeconds = Type.Union([
  Type.Integer({ minimum: AGENT_DOWN_SECONDS.min, maximum: AGENT_DOWN_SECONDS.max }),
  Type.Null(),
]);

export const AccountPatch = Type.Object(
  {
    agent_down_seconds: Type.Optional(
      about(
        AgentDownSeconds,
        'Seconds for which an agent may be silent before the signal `agent_down`, from 5 to 604,800 (7 days). An agent with `metadata.heartbeat_seconds` goes by that. null: 300.',
        600,
      ),
    ),
    retention: Type.Optional(
      about(
        Type.Union([RetentionPatch, Type.Null()]),
        'How long what is stored of the account is kept, within what the operator allows. What is set before is replaced whole. null: as the operator says.',
        { days: 90, days_by_type: { prompt: 30 } },
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AccountPatch = Type.Static<typeof AccountPatch>;

const OrDefault = Type.Union([Type.Number(), Type.Null()]);

export const Account = Type.Object({
  id: about(Type.String(), 'Id of the account.', exampleId('acc')),
  name: about(Type.String(), 'Name of the account, as the operators gave it.', 'default'),
  status: about(
    Type.Enum([...ACCOUNT_STATUSES]),
    '`suspended`: an operator has shut it; every call with a key of it is 403 `account_suspended`.',
  ),
  /** For agents without `heartbeat_seconds` of their own; null: 300. */
  agent_down_seconds: about(
    AgentDownSeconds,
    'Seconds for which an agent may be silent before the signal `agent_down`, from 5 to 604,800 (7 days). An agent with `metadata.heartbeat_seconds` goes by that. null: 300.',
    600,
  ),
  /** The limit of each of its keys; null: as the service's settings say. */
  requests_per_second: about(
    OrDefault,
    'Requests that each key may make in a second. null: as the setting GATEHOUSE_REQUESTS_PER_SECOND says.',
    1000,
  ),
  requests_burst: about(
    OrDefault,
    'Requests that each key may make at once. null: as the setting GATEHOUSE_REQUESTS_BURST says.',
    2000,
  ),
  quotas: about(Quotas, 'What all keys of the account together may use, as the operators have set it.'),
  retention: about(
    Type.Union([Type.Unsafe<OwnRetention>(RetentionPatch), Type.Null()]),
    'How long the account itself has set that its events are kept. null: as the operator says.',
    { days: 90, days_by_type: { prompt: 30 } },
  ),
  created_at: about(ResponseTime, 'When it was made.'),
  updated_at: about(ResponseTime, 'When it was last changed.'),
});
export type Account = Type.Static<typeof Account>;

export const RequestLimit = Type.Object(
  {
    per_second: about(
      Type.Integer({ minimum: 1, maximum: REQUEST_LIMIT.perSecondMax }),
      'Requests that each key may make in a second.',
      1000,
    ),
    burst: about(
      Type.Integer({ minimum: 1, maximum: REQUEST_LIMIT.burstMax }),
      'Requests that each key may make at once.',
      2000,
    ),
  },
  { additionalProperties: false },
);

export const AccountInForce = Type.Object({
  ...Account.properties,
  retention_in_force: about(
    RetentionInForce,
    'For how long events are kept: what the account has set, as far as the operator allows it.',
  ),
  request_limit: about(RequestLimit, "In force for each key: the account's own, or that of the settings."),
});

export const AdminAccountCreate = Type.Object(
  { name: about(Name, '1 to 200 characters, of one account alone.', 'acme') },
  { additionalProperties: false },
);
export type AdminAccountCreate = Type.Static<typeof AdminAccountCreate>;

/** The fields of an account that operators may set. */
export const AdminAccountPatch = Type.Object(
  {
    ...AccountPatch.properties,
    status: Type.Optional(
      about(
        Type.Enum([...ACCOUNT_STATUSES]),
        '`suspended`: every call with a key, a session or a connection of it is refused; what is stored stays. `active`: all of them are as they were. Left out: as it is.',
        'suspended',
      ),
    ),
    request_limit: Type.Optional(
      about(
        Type.Union([RequestLimit, Type.Null()]),
        'What each of its keys may request. null: as the settings GATEHOUSE_REQUESTS_PER_SECOND and GATEHOUSE_REQUESTS_BURST say.',
        { per_second: 50, burst: 100 },
      ),
    ),
    quotas: Type.Optional(
      about(
        Type.Union([QuotasPatch, Type.Null()]),
        'What all keys of the account together may use. A quota that is left out stays as it is. null: none at all.',
        { events: { per_second: 500, burst: 1000 }, keys: 20 },
      ),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);
export type AdminAccountPatch = Type.Static<typeof AdminAccountPatch>;

export const AdminAccount = Type.Object({
  ...AccountInForce.properties,
  keys: about(Type.Integer(), 'How many API keys it has.', 3),
  agents: about(Type.Integer(), 'How many agents it has.', 12),
});
