// A session: a browser that is signed in with a key (docs/keys.md). It may what its key may, and ends with it.
import Type from 'typebox';
import { ApiKey } from './api-key.ts';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

export const SessionCreate = Type.Object(
  {
    key: about(
      Type.String({ minLength: 1, maxLength: 300 }),
      'An API key of the account.',
      'gth_6sGm8oY3kQzT1vBnX4hRdC7wLpF2jEaU9tKiN5yM',
    ),
  },
  { additionalProperties: false },
);
export type SessionCreate = Type.Static<typeof SessionCreate>;

const { scope, permissions, agent_id: agentId, label } = ApiKey.properties;

export const Session = Type.Object({
  id: about(
    Type.Union([Type.String(), Type.Null()]),
    'Id of the session. It is not what the cookie holds. null: a key was sent, and no cookie.',
    exampleId('ses'),
  ),
  account_id: about(Type.String(), 'The account that is signed in to.', exampleId('acc')),
  account_name: about(Type.String(), 'Its name.', 'default'),
  key_id: about(Type.String(), 'The key that was signed in with: what is done is done in its name.', exampleId('key')),
  key_label: label,
  scope,
  permissions,
  agent_id: agentId,
  created_at: about(Type.Union([ResponseTime, Type.Null()]), 'When it was signed in. null: no session.'),
  expires_at: about(
    Type.Union([ResponseTime, Type.Null()]),
    'When it ends at the latest; earlier after 12 hours without a call, or with its key. Without a session when the key ends; null: never.',
  ),
});
export type Session = Type.Static<typeof Session>;

export const ListedSession = Type.Object({
  id: about(Type.String(), 'Id of the session.', exampleId('ses')),
  key_id: Session.properties.key_id,
  key_label: label,
  scope,
  created_at: about(ResponseTime, 'When it was signed in.'),
  last_used_at: about(ResponseTime, 'When it was last used, to some seconds.'),
  expires_at: about(ResponseTime, 'When it ends at the latest.'),
  ip: about(Type.String(), "The address that was signed in from. '': not known.", '192.0.2.7'),
  user_agent: about(Type.String(), "The browser, as it calls itself. '': not known.", 'Mozilla/5.0'),
});
export type ListedSession = Type.Static<typeof ListedSession>;
