// What a policy can be made of that is made of an event: its type, and single values of its payload. A person picks on
// the event's view (parts/policy-of-event.tsx); the editor (screens/policies.tsx) reads the values of what was picked.
// Invariant: each value has the very characters that it was sent with.
import { payloadValue, type Value } from './payload-values.ts';
import { PLAIN_KEY } from './recorded-fields.ts';
import type { WholeEvent } from './types.ts';

/** `value`: JSON text. */
export type EventField = { field: string; value: string };

export const TOOL = 'payload.tool';

/** More are not picked from, and a longer value is not compared as a whole. */
const FIELDS_MAX = 40;
const VALUE_CHARACTERS_MAX = 300;

/** Its type, then single values of the payload and of the arguments of a call. */
export function fieldsOfEvent({ type, payload }: Pick<WholeEvent, 'type' | 'payload'>): EventField[] {
  const root = payloadValue(payload.text);
  const args = root.get('arguments')?.opened;
  const found = [
    { field: 'type', value: JSON.stringify(type) },
    ...scalarsOf(root, 'payload'),
    ...(args === undefined ? [] : scalarsOf(args, 'payload.arguments')),
  ];
  return found.slice(0, FIELDS_MAX);
}

function scalarsOf(value: Value, path: string): EventField[] {
  return [...value.members()].flatMap(([key, member]) => {
    const isPlain = PLAIN_KEY.test(key) && !['object', 'list'].includes(member.kind);
    return isPlain && member.sent.length <= VALUE_CHARACTERS_MAX
      ? [{ field: `${path}.${key}`, value: member.sent }]
      : [];
  });
}

/** Does the field say which action it is? These fields are chosen at first. */
export function isOfAction({ field }: EventField): boolean {
  return field === 'type' || field === TOOL;
}
