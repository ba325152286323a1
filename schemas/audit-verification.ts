// What a verification of the audit chain answers (GET /v1/audit-logs/verify, `gatehouse audit verify`; decisions 8).
import Type from 'typebox';
import { ResponseTime } from './common.ts';

export const FAULT_KINDS = ['changed', 'missing', 'added', 'moved', 'chain_broken', 'head_mismatch'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

const Nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const AuditFault = Type.Object({
  chain: Type.String({ description: '`registry`, or `events-<partition>`' }),
  position: Nullable(Type.Integer({ description: 'Number of the entry in its chain, from 1; null: it has none' })),
  entry_id: Nullable(Type.String({ description: 'Id of the audit log entry, where it is known' })),
  kind: Type.Enum([...FAULT_KINDS]),
  at: ResponseTime,
});

export const AuditChainHead = Type.Object({
  chain: Type.String(),
  entries: Type.Integer({ description: 'Number of the last entry' }),
  head: Type.String({ description: 'Hash there, hex' }),
});

export const AuditVerification = Type.Object({
  valid: Type.Boolean({ description: 'Nothing was found to be changed, moved, added or removed' }),
  chained: Type.Integer({
    description:
      'Length of all chains together: the sum of `chains[].entries`, and of `entries`, `markers` and `not_checked`',
  }),
  markers: Type.Integer({
    description:
      "Entries of the chains' own, which tell of no event and no change: the first of each chain, and one wherever a chain went on after a loss",
  }),
  not_checked: Type.Integer({
    description: 'Chained entries outside `from` and `to`, chained while this ran, or left when it was cut off',
  }),
  entries: Type.Integer({
    description:
      'Chained entries that were checked, events and registry changes: the sum of `intact`, `erased` and `expired` where there are no faults and nothing is unsettled',
  }),
  intact: Type.Integer({ description: 'Entries whose rows are there, as they were chained' }),
  erased: Type.Integer({ description: 'Entries of agents whose deletion is on record: the hash alone is left' }),
  expired: Type.Integer({ description: 'Entries past the retention: their rows need not be there' }),
  unchained: Type.Integer({
    description: 'Rows from before the chains, or from a time that a marker in the chain excepts',
  }),
  unsettled: Type.Integer({ description: 'Rows that were still on their way into the chain' }),
  faults: Type.Integer({ description: 'How many faults were found' }),
  first_invalid: Nullable(AuditFault),
  chains: Type.Array(AuditChainHead),
  truncated: Type.Boolean({ description: 'It took too long: the rest is to be asked for, from `continue_from`' }),
  continue_from: Nullable(ResponseTime),
});
export type AuditVerification = Type.Static<typeof AuditVerification>;
