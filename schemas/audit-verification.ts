// What a verification of the audit chain answers (GET /v1/audit-logs/verify, `gatehouse audit verify`).

import Type from 'typebox';
import { FAULT_KINDS, JOB_STATUSES } from './closed-sets.ts';
import { RequestTime, ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const Nullable = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const AuditFault = Type.Object({
  chain: about(
    Type.String({ description: '`registry`, or `events-<partition>`' }),
    '`registry`, or `events-<partition>`.',
    'events-3',
  ),
  position: about(
    Nullable(Type.Integer({ description: 'Number of the entry in its chain, from 1; null: it has none' })),
    'Number of the entry in its chain, from 1. null: it has none.',
    118,
  ),
  entry_id: about(
    Nullable(Type.String({ description: 'Id of the audit log entry, where it is known' })),
    'Id of the audit log entry. null: it is not known.',
    exampleId('log'),
  ),
  kind: about(Type.Enum([...FAULT_KINDS]), 'What is wrong.'),
  at: about(ResponseTime, 'About when the entry was chained.'),
});

export const AuditChainHead = Type.Object({
  chain: about(Type.String(), '`registry`, or `events-<partition>`.', 'registry'),
  entries: about(
    Type.Integer({ description: 'Number of the last entry' }),
    'Number of the last entry; 0: the chain is empty.',
    42,
  ),
  head: about(
    Type.String({ description: 'Hash there, hex' }),
    'Hash of the last entry, hex.',
    '9f2c4e7a1b3d5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8',
  ),
});

export const AuditVerification = Type.Object({
  valid: about(
    Nullable(
      Type.Boolean({
        description:
          'Nothing was found to be changed, moved, added or removed; null: nothing so far, and it was cut off',
      }),
    ),
    'true: nothing was found to be changed, moved, added or removed. null: nothing so far, but it was cut off.',
    true,
  ),
  chained: Type.Integer({
    description:
      'Length of all chains together: the sum of `chains[].entries`, and of `entries`, `markers` and `not_checked`',
  }),
  markers: Type.Integer({
    description:
      "Entries of the chains' own, which tell of no event and no change: one wherever a chain went on after a loss",
  }),
  not_checked: Type.Integer({
    description: 'Chained entries outside `from` and `to`, chained while this ran, or left when it was cut off',
  }),
  entries: about(
    Type.Integer({
      description:
        'Chained entries that were checked, events and registry changes: the sum of `intact`, `erased`, `expired` and `restored` where there are no faults and nothing is unsettled',
    }),
    'Chained entries that were checked: registry changes and events.',
    42,
  ),
  intact: Type.Integer({ description: 'Entries whose rows are there, as they were chained' }),
  erased: about(
    Type.Integer({ description: 'Entries of agents whose deletion is on record: the hash alone is left' }),
    'Entries of agents whose deletion is on record: the hash alone is left.',
    0,
  ),
  expired: about(
    Type.Integer({ description: 'Entries past the retention: their rows need not be there' }),
    'Entries past the retention: their rows need not be there.',
    0,
  ),
  unchained: about(
    Type.Integer({
      description: 'Rows from a time that a marker in the chain excepts',
    }),
    'Rows from a time that a marker in the chain excepts.',
    0,
  ),
  unsettled: about(
    Type.Integer({ description: 'Rows that were still on their way into the chain' }),
    'Rows that were still on their way into the chain.',
    0,
  ),
  faults: about(Type.Integer({ description: 'How many faults were found' }), 'How many faults were found.', 0),
  first_invalid: about(Nullable(AuditFault), 'The earliest fault. null: there is none.', null),
  faults_by_kind: about(
    Type.Array(
      Type.Object({
        kind: about(Type.Enum([...FAULT_KINDS]), 'What is wrong.'),
        count: about(Type.Integer(), 'How many of this kind.', 1),
        first: about(AuditFault, 'The earliest of them.'),
      }),
    ),
    'The faults by their kind.',
    [],
  ),
  recovered: about(
    Type.Integer({
      description:
        'Of `intact`: entries that were chained later than they were stored, after Redis had gone back (`chain.recovered` in the audit log)',
    }),
    'Of `intact`: entries that were chained later than they were stored, after Redis had gone back.',
    0,
  ),
  first_recovered: about(
    Nullable(
      Type.Object({
        chain: about(Type.String(), '`registry`, or `events-<partition>`.', 'events-3'),
        entries: about(Type.Integer(), 'How many.', 12),
        at: about(ResponseTime, 'When they were chained.'),
      }),
    ),
    'The earliest such recovery. null: there was none.',
    null,
  ),
  restored: about(
    Type.Integer({
      description:
        'Entries whose rows are gone, as a signed note says (`chain.gap_closed` in the audit log): after a restore of a copy that lacked them. No faults; none of `intact`',
    }),
    'Entries whose rows are gone, as a signed note in the audit log says. They are no faults.',
    0,
  ),
  closed_gaps: about(
    Type.Array(
      Type.Object({
        entry_id: about(Type.String(), 'The entry of the audit log that is the note.', exampleId('log')),
        at: about(ResponseTime, 'When it was made.'),
        by: about(Type.String(), 'Who made it.', 'Ada Example'),
        reason: about(Type.String(), 'Why.', 'restored from the copy of 2026-11-20'),
        from: about(ResponseTime, 'The rows had arrived from then on.'),
        to: about(ResponseTime, 'The rows had arrived up to then.'),
        entries: about(Type.Integer(), 'How many were missing.', 12),
        public_key: about(Type.String(), 'Of the ed25519 key that signed it: DER, base64.', 'MCowBQYDK2VwAyEA…'),
      }),
    ),
    'The notes, as far as their signatures are right and they are in the chain.',
    [],
  ),
  chains: about(Type.Array(AuditChainHead), 'The chains and where they end.'),
  truncated: about(
    Type.Boolean({ description: 'It took too long: the rest is to be asked for, from `continue_from`' }),
    'true: it took too long, and the rest is to be asked for, from `continue_from`.',
    false,
  ),
  continue_from: about(Nullable(ResponseTime), 'The `from` of the next request. null: all was verified.', null),
});
export type AuditVerification = Type.Static<typeof AuditVerification>;

export const VerificationJob = Type.Object({
  status: about(
    Type.Enum([...JOB_STATUSES]),
    '`waiting`: nobody has begun yet. `running`: some of it is done. `done`: `valid` and `found` say what came of it. `failed`: the store did not answer again and again; order it anew.',
  ),
  from: about(Nullable(ResponseTime), 'Events that arrived from then on. null: from the first.', null),
  to: about(Nullable(ResponseTime), 'Up to then. null: all that there was when it came to its end.', null),
  against_checkpoint: about(Type.Boolean(), 'Whether it is verified against a checkpoint, too.', false),
  verified_until: about(Nullable(ResponseTime), 'Events that arrived before are done. null: none yet.'),
  share: about(Type.Number({ minimum: 0, maximum: 1 }), 'How much of the time is done.', 0.42),
  entries: about(Type.Integer({ minimum: 0 }), 'Entries of the chains that were verified so far.', 42),
  valid: about(Nullable(Type.Boolean()), 'true: nothing was found. null: it is not done.', true),
  found: about(
    Nullable(AuditVerification),
    'Once it is done: of the part that is not valid, else of the last one. The registry is whole in each. null: it is not done.',
    null,
  ),
  created_at: about(ResponseTime, 'When it was ordered.'),
  finished_at: about(Nullable(ResponseTime), 'When it came to its end. null: it has not.', null),
});
export type VerificationJob = Type.Static<typeof VerificationJob>;

export const AuditCheckpoint = Type.Object({
  version: about(Type.Literal(1), 'Form of the checkpoint.'),
  account: about(Type.String(), 'The account whose chains these are.', exampleId('acc')),
  name: about(Type.String(), 'Its name.', 'default'),
  at: about(ResponseTime, 'When it was taken.'),
  chains: about(Type.Array(AuditChainHead), 'Where each chain stood.'),
  public_key: about(Type.String(), 'Of the ed25519 key that signed it: DER, base64.', 'MCowBQYDK2VwAyEA…'),
  signature: about(Type.String(), 'Base64.', 'K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN…'),
});

const TrustedKey = Type.Optional(
  about(
    Type.String({ minLength: 1, maxLength: 1_000 }),
    'The public key to trust, PEM or base64, which was kept elsewhere as well. Left out: that of this service.',
    'MCowBQYDK2VwAyEA…',
  ),
);

export const AuditComparison = Type.Object(
  {
    checkpoint: about(AuditCheckpoint, 'A checkpoint that was kept elsewhere, as it was downloaded.'),
    public_key: TrustedKey,
  },
  { additionalProperties: false },
);

export const VerificationOrder = Type.Object(
  {
    from: Type.Optional(
      about(
        RequestTime,
        'Events that arrived at or after this time. Left out: from the first. Registry changes are always verified whole.',
      ),
    ),
    to: Type.Optional(about(RequestTime, 'Events that arrived at or before this time. Left out: all.')),
    checkpoint: Type.Optional(
      about(AuditCheckpoint, 'A checkpoint that was kept elsewhere, as it was downloaded. Left out: against none.'),
    ),
    public_key: TrustedKey,
  },
  { additionalProperties: false },
);
