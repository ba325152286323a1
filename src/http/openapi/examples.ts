// Puts examples of whole bodies and answers together from those of their members, so that a field that is added is in
// them at once (beside schemas.ts). What has an example of its own is taken as it is; of alternatives the
// first.
// Invariant: the example of a sound schema fits it, which a test checks for every one. undefined: nothing can be made
// up.
import { componentSchemas } from './schemas.ts';

type Node = Record<string, unknown>;

const TIME = '2026-11-20T17:28:00.000Z';

/** `schema` as the description shows it. */
export function exampleOf(schema: unknown): unknown {
  const node = schema as Node;
  if (Array.isArray(node['examples'])) return node['examples'][0];
  if (typeof node['$ref'] === 'string') {
    return exampleOf(componentSchemas()[node['$ref'].split('/').at(-1)!]);
  }
  if ('const' in node) return node['const'];
  if (Array.isArray(node['enum'])) return node['enum'][0];
  const alternatives = (node['anyOf'] ?? node['oneOf']) as Node[] | undefined;
  if (alternatives !== undefined) return exampleOf(alternatives[0]);
  return ofType(node);
}

function ofType(node: Node): unknown {
  switch (node['type']) {
    case 'string':
      return node['format'] === 'date-time' ? TIME : undefined;
    case 'boolean':
      return false;
    case 'integer':
    case 'number':
      return node['minimum'] ?? 0;
    case 'null':
      return null;
    case 'array': {
      const item = exampleOf(node['items']);
      return item === undefined ? undefined : [item];
    }
    case 'object':
      return ofObject(node);
    default:
      return undefined;
  }
}

/** With the members that must be there, and those that have an example of their own. */
function ofObject(node: Node): Node {
  const required = (node['required'] ?? []) as string[];
  const members = Object.entries((node['properties'] ?? {}) as Record<string, Node>).filter(
    ([key, member]) => required.includes(key) || 'examples' in member,
  );
  return Object.fromEntries(members.map(([key, member]) => [key, exampleOf(member)]));
}
