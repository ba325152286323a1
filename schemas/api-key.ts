// The API key: a label, one scope, and a secret that is shown once (spec 5, decisions 3).
import Type from 'typebox';
import { Name, RequestTime, ResponseTime, SCOPES } from './common.ts';

export const ApiKeyCreate = Type.Object(
  { label: Name, scope: Type.Enum([...SCOPES]), expires_at: Type.Optional(Type.Union([RequestTime, Type.Null()])) },
  { additionalProperties: false },
);
export type ApiKeyCreate = Type.Static<typeof ApiKeyCreate>;

const fields = {
  id: Type.String(),
  label: Type.String(),
  scope: Type.Enum([...SCOPES]),
  created_at: ResponseTime,
  expires_at: Type.Union([ResponseTime, Type.Null()]),
};

export const ApiKeyCreated = Type.Object({ ...fields, key: Type.String() });
export type ApiKeyCreated = Type.Static<typeof ApiKeyCreated>;

export const ApiKey = Type.Object({
  ...fields,
  last_used_at: Type.Union([ResponseTime, Type.Null()]),
  /** The last four characters of the key, to tell keys apart. */
  hint: Type.String(),
});
export type ApiKey = Type.Static<typeof ApiKey>;
