// What crosses a process border on the event streams: one entry per partition and tick, versioned.
// Before it: ingest encodes. After it: the store pipeline moves `rows` into ClickHouse unparsed, and every other
// pipeline reads summaries.
// Invariant: the concatenated RowBinary rows lie in the order of the summaries, and each summary says how many bytes
// its row has, so a pipeline can cut, drop or bisect rows without parsing one.
// An entry of another version, or one whose lengths do not add up, throws EntryFormatError: the pipeline dead-letters
// it.
import type { EventType, Outcome, PolicyAction, PolicyType, Reason, Severity, ShadowVerdict } from './closed-sets.ts';
import type { ShadowJudged } from './event.ts';

export const ENTRY_VERSION = 2;
/** The same with summaries and rows packed, each by itself (src/streams/packing.ts). */
export const PACKED_ENTRY_VERSION = 3;
/**
 * Field names inside a stream entry: version, summaries (JSON array, see SummaryElement), rows (RowBinary).
 * `group` stands only in an entry that was dead-lettered and re-queued: the one group that processes it again.
 */
export const ENTRY_FIELD = { version: 'v', summaries: 'd', rows: 'r', group: 'g' } as const;

export type MatchSummary = {
  policy_id: string;
  /** Left out in entries that were written before policies had revisions. */
  revision?: number;
  name: string;
  type: PolicyType;
  actions: PolicyAction[];
  severity: Severity | null;
  /**
   * The limit that is over: its counter (hash of policy and value) and its window, so that it is notified once a
   * window.
   */
  limit?: { counter: string; windowMs: number };
};

/**
 * The summary of an event that pipelines other than store need. Times are epoch ms; `occurredAt` may have a fraction,
 * of whole microseconds. Optional fields are left out when null or empty.
 */
export type EventSummary = {
  account: string;
  agent: string;
  id: string;
  type: EventType;
  occurredAt: number;
  receivedAt: number;
  outcome: Outcome;
  reason?: Reason;
  policyId?: string;
  /** The id and the terms with which the approval of a pending event is opened. */
  approvalId?: string;
  approval?: { timeoutSeconds: number; onTimeout: 'deny' | 'approve' };
  traceId?: string;
  tokensUsed?: number;
  /** It was reported after the fact: nothing was prevented, and its time is the one at which it happened. */
  observed?: true;
  matches?: MatchSummary[];
  /** The verdicts of shadows on it: stored beside the row, which says nothing of them. */
  shadow?: readonly ShadowJudged[];
  /** The cost of an event that says tokens, where its account has prices: beside the row, too. */
  cost?: EventCost;
  /** The amounts that it has used of budgets: beside the row, too. */
  settled?: EventSettled[];
  rowBytes: number;
};

/** The budget that is charged, as it was then. `unit`, `form`: what names its counters (spend-form.ts). */
export type SettledHead = {
  policy: string;
  unit: string;
  form: string;
  window: { ms: number } | { calendar: 'day' | 'week' | 'month'; zone: string };
  limit: number;
  warn: readonly number[];
  life: number;
};
/** `amount`: in the unit of the limit, money in millionths. `target`: the reservation that it settles, or ''. */
export type EventSettled = { by: SettledHead; scope: string; shown: string; amount: number; target: string };

/** `by`: currency and revision of the price table; `millionths` of the currency's unit, null: unknown. */
export type EventCost = { by: string; millionths: number | null };

/**
 * An element of the array of summaries. Most events are allowed without a match, and of those a summary with names for
 * its fields was a third of an entry: they are tuples, and whose they are is said once, before the first of a request.
 */
type SummaryElement = SummaryOwner | AllowedTuple | EventSummary | ShadowElement | CostElement | SettledElement;
/**
 * The verdicts of shadows on events before it: an element of its own, so that codecs, which write summaries, need know
 * nothing of shadows. `of`: how many events back, from 1, and which of `shadows`, by place, would have made what of it.
 */
export type ShadowElement = {
  shadows: (readonly [policyId: string, revision: number])[];
  of: (readonly [back: number, ...said: (readonly [shadow: number, would: ShadowVerdict])[]])[];
};
/** The costs of events before it, an element of its own as well. `of`: how many events back, from 1, and the cost. */
export type CostElement = { priced_by: string; of: (readonly [back: number, millionths: number | null])[] };
/** The use of budgets by events before it. `of`: how many events back, from 1, and the place in `settled_by`. */
export type SettledElement = {
  settled_by: SettledHead[];
  of: (readonly [back: number, head: number, scope: string, shown: string, amount: number, target: string])[];
};
/** Whose tuples follow. */
type SummaryOwner = readonly [account: string, agent: string];
type AllowedTuple = readonly [
  id: string,
  type: EventType,
  occurredAt: number,
  receivedAt: number,
  rowBytes: number,
  traceId?: string | null,
  tokensUsed?: number,
];

/** A row as bytes, and what is known of it. */
export type SummarizedRow = { summary: EventSummary; bytes: Buffer };

export type EventEntry = { summaries: EventSummary[]; rows: Buffer };

export class EntryFormatError extends Error {
  override name = 'EntryFormatError';
}

/** Splits an entry's rows along its summaries. Throws EntryFormatError if the lengths do not add up. */
export function rowsOf(entry: EventEntry): Buffer[] {
  let at = 0;
  const rows = entry.summaries.map((summary) => {
    const row = entry.rows.subarray(at, at + summary.rowBytes);
    at += summary.rowBytes;
    return row;
  });
  if (at !== entry.rows.length) throw new EntryFormatError(`rows hold ${entry.rows.length} bytes, summaries say ${at}`);
  return rows;
}

/** Reads an entry from its stream fields, unpacked. `rows` may be absent where the reader asked for summaries only. */
export function decodeEntry(fields: ReadonlyMap<string, Buffer>): EventEntry {
  const version = fields.get(ENTRY_FIELD.version)?.toString();
  if (version === String(PACKED_ENTRY_VERSION)) throw new EntryFormatError('packed entry that cannot be unpacked');
  if (version !== String(ENTRY_VERSION))
    throw new EntryFormatError(`entry of version ${version ?? 'none'}, expected ${ENTRY_VERSION}`);
  const text = fields.get(ENTRY_FIELD.summaries);
  if (text === undefined) throw new EntryFormatError('entry without summaries');
  return { summaries: decodeSummaries(text.toString()), rows: fields.get(ENTRY_FIELD.rows) ?? Buffer.alloc(0) };
}

/** The summaries of an entry's field. Throws EntryFormatError. What is inside a summary is not inspected. */
export function decodeSummaries(text: string): EventSummary[] {
  let elements: unknown;
  try {
    elements = JSON.parse(text);
  } catch (cause) {
    throw new EntryFormatError('summaries are not JSON', { cause });
  }
  if (!Array.isArray(elements)) throw new EntryFormatError('summaries are not an array');
  const summaries: EventSummary[] = [];
  let owner: SummaryOwner | undefined;
  for (const element of elements as SummaryElement[]) {
    if (isOfShadows(element)) addShadows(summaries, element);
    else if (isOfCosts(element)) addCosts(summaries, element);
    else if (isOfBudgets(element)) addSettled(summaries, element);
    else if (!Array.isArray(element)) summaries.push(element as EventSummary);
    else if (isOwner(element)) owner = element;
    else if (owner === undefined) throw new EntryFormatError('it is not said whose event a tuple is');
    else summaries.push(allowedDigest(owner, element as unknown as AllowedTuple));
  }
  return summaries;
}

function isOfShadows(element: SummaryElement): element is ShadowElement {
  return typeof element === 'object' && element !== null && 'shadows' in element;
}

/** Throws EntryFormatError where it speaks of an event or a shadow that is not there. */
function addShadows(summaries: readonly EventSummary[], { shadows, of }: ShadowElement): void {
  if (!Array.isArray(shadows) || !Array.isArray(of)) throw new EntryFormatError('what shadows said is no list');
  for (const each of of) {
    const [back, ...said] = Array.isArray(each) ? each : [];
    const summary = summaries[summaries.length - Number(back)];
    if (summary === undefined) throw new EntryFormatError('it is not said whose event a shadow judged');
    summary.shadow = said.map((one) => {
      const known = Array.isArray(one) ? shadows[one[0]] : undefined;
      if (!Array.isArray(known)) throw new EntryFormatError('it is not said which shadow judged an event');
      return { policy_id: String(known[0]), revision: Number(known[1]), would: one[1] };
    });
  }
}

function isOfCosts(element: SummaryElement): element is CostElement {
  return typeof element === 'object' && element !== null && 'priced_by' in element;
}

/** Throws EntryFormatError where it speaks of an event that is not there. */
function addCosts(summaries: readonly EventSummary[], { priced_by: by, of }: CostElement): void {
  if (typeof by !== 'string' || !Array.isArray(of)) throw new EntryFormatError('what events cost is no list');
  for (const each of of) {
    const [back, millionths] = Array.isArray(each) ? each : [];
    const summary = summaries[summaries.length - Number(back)];
    if (summary === undefined || (millionths !== null && !Number.isSafeInteger(millionths)))
      throw new EntryFormatError('it is not said which event cost what');
    summary.cost = { by, millionths: millionths as number | null };
  }
}

function isOfBudgets(element: SummaryElement): element is SettledElement {
  return typeof element === 'object' && element !== null && 'settled_by' in element;
}

/** Throws EntryFormatError where it speaks of an event or a budget that is not there. */
function addSettled(summaries: readonly EventSummary[], { settled_by: heads, of }: SettledElement): void {
  if (!Array.isArray(heads) || !Array.isArray(of)) throw new EntryFormatError('what budgets are charged is no list');
  for (const each of of) {
    const [back, place, scope, shown, amount, target] = Array.isArray(each) ? each : [];
    const summary = summaries[summaries.length - Number(back)];
    const by = heads[Number(place)];
    if (summary === undefined || by === undefined || amount === undefined || !Number.isSafeInteger(amount))
      throw new EntryFormatError('it is not said which event is charged to which budget');
    summary.settled ??= [];
    summary.settled.push({ by, scope: String(scope), shown: String(shown), amount, target: String(target) });
  }
}

function isOwner(element: readonly unknown[]): element is SummaryOwner {
  return element.length === 2;
}

function allowedDigest(
  [account, agent]: SummaryOwner,
  [id, type, occurredAt, receivedAt, rowBytes, traceId, tokensUsed]: AllowedTuple,
): EventSummary {
  const summary: EventSummary = { account, agent, id, type, occurredAt, receivedAt, outcome: 'allowed', rowBytes };
  if (traceId !== undefined && traceId !== null) summary.traceId = traceId;
  if (tokensUsed !== undefined) summary.tokensUsed = tokensUsed;
  return summary;
}
