// The alert pipeline (beside the store). Event streams, summaries only, and signal streams.
// Events: pending ones open approvals; budgets are charged (../budgets); matches become signals. Signals meet the
// account's alerts and become deliveries (dispatch.ts). Idempotent by these, whatever of a batch is replayed. An entry
// of another version, or one that cannot be read, is dead-lettered.
// Failure: Redis away, the batch waits in its stream and is tried again. ClickHouse is needed for old pending events
// alone (open.ts).
import { EntryFormatError, type EventSummary } from '../../schemas/entry.ts';
import { SIGNAL_FIELD, SIGNAL_VERSION, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import type { Metrics } from '../../src/metrics/metrics.ts';
import type { StreamEntry } from '../../src/streams/window.ts';
import type { Batch } from '../batch.ts';
import type { Applied, Committed, DeadLettered, Decoded, Work } from '../drain.ts';
import { readEntry } from '../event-summaries.ts';
import { comparePlaces, type Dispatcher, type PlacedSignal } from './dispatch.ts';
import { raisesSignals, signalsOf } from './signals-of.ts';

/** `dispatcher`: one for all streams of a process. */
type AlertOptions = { dispatcher: Dispatcher; metrics: Metrics };

type EventAlertsOptions = AlertOptions & {
  /** Opens the approvals of pending events. Idempotent; handed in, since approvals are another pipeline's business. */
  openApprovals: (events: readonly EventSummary[]) => Promise<void>;
  /** Charges budgets; answers what is to be notified of it. Idempotent. */
  settle: (stream: string, entries: readonly Batched<EventSummary>[]) => Promise<PlacedSignal[]>;
};

/** The signals or other items of one entry, with its id: the order in which signals are dispatched. */
type Batched<T> = { id: string; held: T[] };

export class EventAlerts implements Work<Batched<EventSummary>, null> {
  readonly #options: EventAlertsOptions;

  constructor(options: EventAlertsOptions) {
    this.#options = options;
  }

  decode(entry: StreamEntry): Decoded<Batched<EventSummary>> {
    const { summaries } = readEntry(entry.fields);
    return {
      value: { id: entry.id, held: summaries },
      rows: summaries.length,
      oldestMs: summaries[0]?.receivedAt ?? Date.now(),
    };
  }

  prepare(values: readonly Batched<EventSummary>[]): boolean {
    return values.some(({ held }) =>
      held.some((summary) => isPending(summary) || raisesSignals(summary) || charges(summary)),
    );
  }

  async plan(): Promise<null> {
    return null;
  }

  async apply(batch: Batch<Batched<EventSummary>, null>): Promise<Applied> {
    const pending = batch.values.flatMap(({ held }) => held.filter(isPending));
    if (pending.length > 0) await this.#options.openApprovals(pending);
    const signals = batch.values.flatMap(({ id, held }) =>
      held.flatMap(signalsOf).map((raised, i): PlacedSignal => ({ ...raised, place: `${id}/${i}` })),
    );
    if (batch.values.some(({ held }) => held.some(charges))) {
      signals.push(...(await this.#options.settle(batch.stream, batch.values)));
      signals.sort((a, b) => comparePlaces(a.place, b.place));
    }
    const ensureHeld = () => batch.ensureHeld();
    await this.#options.dispatcher.dispatch({ stream: batch.stream, remember: false, ensureHeld }, signals);
    return { deadLetters: [], writes: [] };
  }

  committed({ values, deadLettered }: Committed<Batched<EventSummary>, null>): void {
    const { metrics } = this.#options;
    for (const { held } of values) {
      for (const { signal } of held.flatMap(signalsOf))
        metrics.inc('gatehouse_signals_total', { trigger: signal.trigger });
    }
    countBatch(metrics, deadLettered);
  }
}

export class SignalAlerts implements Work<Batched<Signal>, null> {
  readonly #metrics: Metrics;
  readonly #dispatcher: Dispatcher;

  constructor({ metrics, dispatcher }: AlertOptions) {
    this.#metrics = metrics;
    this.#dispatcher = dispatcher;
  }

  decode(entry: StreamEntry): Decoded<Batched<Signal>> {
    const read = JSON.parse(entry.fields.get(SIGNAL_FIELD)?.toString() ?? 'null') as SignalEntry | null;
    if (read?.version !== SIGNAL_VERSION || !Array.isArray(read.signals))
      throw new EntryFormatError(`signal entry of version ${read?.version ?? 'none'}, expected ${SIGNAL_VERSION}`);
    for (const signal of read.signals) checkSignal(signal);
    return {
      value: { id: entry.id, held: read.signals },
      rows: read.signals.length,
      oldestMs: read.signals[0]?.at ?? Date.now(),
    };
  }

  prepare(values: readonly Batched<Signal>[]): boolean {
    return values.some(({ held }) => held.length > 0);
  }

  async plan(): Promise<null> {
    return null;
  }

  async apply(batch: Batch<Batched<Signal>, null>): Promise<Applied> {
    const signals = batch.values.flatMap(({ id, held }) =>
      held.map((signal, i): PlacedSignal => ({ signal, place: `${id}/${i}` })),
    );
    const ensureHeld = () => batch.ensureHeld();
    await this.#dispatcher.dispatch({ stream: batch.stream, remember: true, ensureHeld }, signals);
    return { deadLetters: [], writes: [] };
  }

  committed({ values, deadLettered }: Committed<Batched<Signal>, null>): void {
    for (const { held } of values) {
      for (const { trigger } of held) this.#metrics.inc('gatehouse_signals_total', { trigger });
    }
    countBatch(this.#metrics, deadLettered);
  }
}

function charges({ settled }: EventSummary): boolean {
  return settled !== undefined;
}

function isPending({ approvalId }: EventSummary): boolean {
  return approvalId !== undefined;
}

/** Checks the fields that dispatch.ts relies on. Throws EntryFormatError. */
function checkSignal(signal: Signal): void {
  const sound =
    typeof signal?.id === 'string' &&
    typeof signal.account === 'string' &&
    (signal.agent === null || typeof signal.agent === 'string') &&
    Number.isSafeInteger(signal.at);
  if (!sound) throw new EntryFormatError('a signal lacks its id, its account or its time');
}

function countBatch(metrics: Metrics, deadLetters: DeadLettered): void {
  metrics.inc('gatehouse_batches_total', { pipeline: 'alert' });
  if (deadLetters.unreadable > 0)
    metrics.inc('gatehouse_dead_letter_rows_total', { table: 'deliveries' }, deadLetters.unreadable);
}
