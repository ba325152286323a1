// The legal hold: what is kept whatever its age until it is released, of the account, of one agent or of one trace.
import Type from 'typebox';
import { ResponseTime } from './common.ts';
import { about, exampleId } from './described.ts';

const OrNone = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const HoldCreate = Type.Object(
  {
    reason: about(
      Type.String({ minLength: 1, maxLength: 500 }),
      'Why, 1 to 500 characters: a case, who asked.',
      'case 2026-118',
    ),
    agent_id: Type.Optional(
      about(
        OrNone(Type.String()),
        'Hold what is stored of this agent alone. Left out or null: not of one agent.',
        exampleId('agt'),
      ),
    ),
    trace_id: Type.Optional(
      about(
        OrNone(Type.String({ minLength: 1, maxLength: 200 })),
        'Hold the events of this trace alone. Left out or null: not of one trace.',
        '8f3c7deb-0804-5ad0-977b-30b4395650a1',
      ),
    ),
  },
  { additionalProperties: false },
);
export type HoldCreate = Type.Static<typeof HoldCreate>;

export const Hold = Type.Object({
  id: about(Type.String(), 'Id of the hold.', exampleId('hld')),
  reason: about(Type.String(), 'Why.', 'case 2026-118'),
  agent_id: about(OrNone(Type.String()), 'The agent that is held. null: not one agent alone.', exampleId('agt')),
  trace_id: about(
    OrNone(Type.String()),
    'The trace that is held. null: not one trace alone; both null: the whole account.',
    null,
  ),
  created_at: about(ResponseTime, 'When it was made.'),
  created_by: about(
    Type.String(),
    'Who made it: `key:<key_id>`, or `system` for the command line.',
    `key:${exampleId('key')}`,
  ),
});
export type Hold = Type.Static<typeof Hold>;
