// The tree of a trace: which event came of which span, whose parent that is, when it began and how long it took. What
// an event says of its span stands in its payload (`otel`, `duration_ms`), beside everything else, so the payload's
// members are passed over without laying them out.
// Invariant: each event is in one row, and each row under its parent if that is there; what names itself as its own
// ancestor is a root. Linear in the text, and in the events but for sorting.
import { endOfString, endOfValue, skipSpace } from './json.ts';
import { layOut, lineAt, meaningOf, valueAt } from './tokens.ts';

/** '' and 0: it does not say. `durationMs` of what the event describes, from its time on. */
export type SpanPlace = { span: string; parent: string; durationMs: number; name: string };
/** `events`: places in the trace. `startMs`, `endMs`: epoch ms. */
export type SpanRow = {
  events: number[];
  level: number;
  name: string;
  startMs: number;
  endMs: number;
  /** It has others under it. */
  isParent: boolean;
  /** Rows it stands in, the nearest last. */
  within: readonly SpanRow[];
};

const NAMES = ['tool', 'name', 'model'];
const NAME_CHARACTERS = 120;

export function spanPlaceOf(payload: string): SpanPlace {
  const found = new Map<string, string>();
  let at = skipSpace(payload, skipSpace(payload, 0) + 1);
  while (payload[at] === '"') {
    const keyEnd = endOfString(payload, at);
    const from = skipSpace(payload, skipSpace(payload, keyEnd) + 1);
    const to = endOfValue(payload, from);
    found.set(meaningOf(payload.slice(at, keyEnd)), payload.slice(from, to));
    const behind = skipSpace(payload, to);
    at = payload[behind] === ',' ? skipSpace(payload, behind + 1) : payload.length;
  }
  const otel = layOut(found.get('otel') ?? '{}');
  const of = (pointer: string) => {
    const line = lineAt(otel, pointer);
    return line < 0 ? '' : meaningOf(valueAt(otel, line));
  };
  const name = NAMES.map((one) => found.get(one)).find((one) => one?.[0] === '"');
  return {
    span: of('/span_id'),
    parent: of('/parent_span_id'),
    durationMs: Math.max(0, Number(found.get('duration_ms') ?? 0)) || 0,
    name: name === undefined ? '' : meaningOf(name).slice(0, NAME_CHARACTERS),
  };
}

type Timed = { atMs: number; type: string; place: SpanPlace };
type Node = { row: SpanRow; parent: string; span: string; under: Node[]; types: string[] };

/** Rows in the order in which they are shown. `events` in the order of time. */
export function spanRowsOf(events: readonly Timed[]): SpanRow[] {
  const bySpan = new Map<string, Node>();
  const nodes: Node[] = [];
  for (const [i, { atMs, type, place }] of events.entries()) {
    const known = place.span === '' ? undefined : bySpan.get(place.span);
    const node = known ?? nodeOf(place, atMs);
    if (known === undefined) nodes.push(node);
    if (place.span !== '') bySpan.set(place.span, node);
    node.row.events.push(i);
    node.row.endMs = Math.max(node.row.endMs, atMs + place.durationMs);
    if (!node.types.includes(type)) node.types.push(type);
    if (node.row.name === '') node.row.name = place.name;
  }
  const roots: Node[] = [];
  for (const node of nodes) {
    const parent = bySpan.get(node.parent);
    if (parent === undefined || isWithin(parent, node, bySpan)) roots.push(node);
    else parent.under.push(node);
  }
  return inOrder(roots);
}

function nodeOf({ span, parent, name }: SpanPlace, atMs: number): Node {
  const row = { events: [], level: 0, name, startMs: atMs, endMs: atMs, isParent: false, within: [] };
  return { row, parent, span, under: [], types: [] };
}

/** As deep as spans are nested by anyone; a longer chain ends there, and so does a circle. */
const LEVELS_MAX = 64;

/** Is `node` an ancestor of `parent`, or the chain above it too long? */
function isWithin(parent: Node, node: Node, bySpan: ReadonlyMap<string, Node>): boolean {
  let here: Node | undefined = parent;
  for (let level = 0; here !== undefined; level++) {
    if (here === node || level > LEVELS_MAX) return true;
    here = bySpan.get(here.parent);
  }
  return false;
}

function inOrder(roots: readonly Node[]): SpanRow[] {
  const rows: SpanRow[] = [];
  const add = (node: Node, within: readonly SpanRow[]) => {
    const { row, under, types } = node;
    row.within = within;
    row.level = within.length;
    row.isParent = under.length > 0;
    row.name = row.name === '' ? types.join(', ') : row.name;
    rows.push(row);
    for (const one of under.sort((a, b) => a.row.startMs - b.row.startMs)) add(one, [...within, row]);
  };
  for (const root of roots) add(root, []);
  return rows;
}
