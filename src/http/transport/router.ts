// Finds the handler of a verb and a path among patterns such as `/v1/agents/{id}` (inside node-http.ts; uWebSockets.js
// has its own). By its rules, so that both servers answer alike: paths are compared as they were sent, case-sensitive
// and not decoded; a segment that is written out wins over a parameter, and a parameter takes any segment but an empty
// one.
// Failure: a path that no pattern takes has no handler; the caller knows what to do then.

export const VERBS = ['GET', 'POST', 'PATCH', 'DELETE', 'HEAD', 'PUT', 'OPTIONS'] as const;
export type Verb = (typeof VERBS)[number];

type Node<T> = { named: Map<string, Node<T>>; parameter: Node<T> | undefined; value: T | undefined };
type RouteMatch<T> = { value: T; parameters: string[] };

/** Patterns of one verb. */
export class Router<T> {
  readonly #root: Node<T> = emptyNode();

  add(pattern: string, value: T): void {
    let node = this.#root;
    for (const segment of segmentsOf(pattern)) {
      if (/^\{\w+\}$/.test(segment)) {
        node.parameter ??= emptyNode();
        node = node.parameter;
      } else {
        const next = node.named.get(segment) ?? emptyNode();
        node.named.set(segment, next);
        node = next;
      }
    }
    node.value = value;
  }

  find(path: string): RouteMatch<T> | undefined {
    const parameters: string[] = [];
    const value = walk(this.#root, segmentsOf(path), 0, parameters);
    return value === undefined ? undefined : { value, parameters };
  }
}

/** Goes back to the parameter where a named segment leads nowhere. As deep as the longest pattern. */
function walk<T>(node: Node<T>, segments: readonly string[], at: number, parameters: string[]): T | undefined {
  if (at === segments.length) return node.value;
  const segment = segments[at]!;
  const named = node.named.get(segment);
  const found = named === undefined ? undefined : walk(named, segments, at + 1, parameters);
  if (found !== undefined || node.parameter === undefined || segment === '') return found;
  parameters.push(segment);
  const taken = walk(node.parameter, segments, at + 1, parameters);
  if (taken === undefined) parameters.pop();
  return taken;
}

function segmentsOf(path: string): string[] {
  return path.split('/').slice(1);
}

function emptyNode<T>(): Node<T> {
  return { named: new Map(), parameter: undefined, value: undefined };
}
