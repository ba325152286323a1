// A ready policy: one of the files in policies/, as a body that creates it (GET /v1/policies/ready).

import Type from 'typebox';
import { about } from './described.ts';
import { PolicyCreate } from './policy.ts';

export const ReadyPolicy = Type.Object({
  file: about(Type.String(), 'The file in `policies/` that it is from.', 'large-payments.yaml'),
  name: about(Type.String(), 'Its name.', 'large payments need approval'),
  description: about(Type.String(), 'What it is for.', 'Money over the limit moves when a person has said yes.'),
  policy: about(
    PolicyCreate,
    'What creates it, for `POST /v1/policies`. With `mode: shadow` beside it nothing comes of it.',
  ),
});
export type ReadyPolicy = Type.Static<typeof ReadyPolicy>;

export const ReadyPolicies = Type.Object({ items: about(Type.Array(ReadyPolicy), 'By file, as they stand there.') });
