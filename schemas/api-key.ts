// The API key: a label, one scope, and a secret that is shown once (spec 5, decisions 3).
import Type from 'typebox';
import { Name, RequestTime, ResponseTime, SCOPES } from './common.ts';
import { about, exampleId } from './described.ts';

export const ApiKeyCreate = Type.Object(
  {
    label: about(Name, '1 to 200 characters: whose key it is.', 'analyst'),
    scope: about(Type.Enum([...SCOPES]), 'What it may do. Fixed: other permissions need another key.'),
    expires_at: Type.Optional(
      about(Type.Union([RequestTime, Type.Null()]), 'When it stops being taken. null or left out: never.', null),
    ),
  },
  { additionalProperties: false },
);
export type ApiKeyCreate = Type.Static<typeof ApiKeyCreate>;

const fields = {
  id: about(Type.String(), 'Id of the key. It is not the key itself.', exampleId('key')),
  label: about(Type.String(), 'Whose key it is.', 'analyst'),
  scope: about(Type.Enum([...SCOPES]), 'What it may do.'),
  created_at: about(ResponseTime, 'When it was made.'),
  expires_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it stops being taken. null: never.', null),
};

export const ApiKeyCreated = Type.Object({
  ...fields,
  key: about(
    Type.String(),
    'The key itself: `gth_` and 40 letters and digits. It is in this answer and nowhere else.',
    'gth_6sGm8oY3kQzT1vBnX4hRdC7wLpF2jEaU9tKiN5yM',
  ),
});
export type ApiKeyCreated = Type.Static<typeof ApiKeyCreated>;

export const ApiKey = Type.Object({
  ...fields,
  last_used_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When it was last used, to some seconds. null: never.',
    null,
  ),
  /** The last four characters of the key, to tell keys apart. */
  hint: about(Type.String(), 'The last four characters of the key, to tell keys apart.', '5yMa'),
});
export type ApiKey = Type.Static<typeof ApiKey>;
