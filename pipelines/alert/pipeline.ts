// The alert pipeline (step 16 of the path: beside the store). Event streams, digests only, and signal streams.
// Events: pending ones open approvals; matches become signals. Signals meet the account's alerts and become deliveries.
import { decodeEntry, type EventDigest } from '../../schemas/entry.ts';
import { SIGNAL_FIELD, type Signal, type SignalEntry } from '../../schemas/signal.ts';
import type { ParkedEntry, StreamEntry } from '../../src/streams/consume.ts';
import { checkDigest } from '../digests.ts';
import type { Batch, Decoded, Work } from '../drain.ts';

export type EventAlertsOptions = {
  /** Opens the approvals of pending events. Idempotent; handed in, since approvals are another pipeline's business. */
  openApprovals: (events: readonly EventDigest[]) => Promise<void>;
};

export class EventAlerts implements Work<EventDigest[]> {
  readonly #options: EventAlertsOptions;

  constructor(options: EventAlertsOptions) {
    this.#options = options;
  }

  decode(entry: StreamEntry): Decoded<EventDigest[]> {
    const { digests } = decodeEntry(entry.fields);
    for (const digest of digests) checkDigest(digest);
    return { value: digests, rows: digests.length, oldestMs: digests[0]?.receivedAt ?? Date.now() };
  }

  hasEffect(values: readonly EventDigest[][]): boolean {
    return values.some((digests) => digests.some(isPending));
  }

  async plan(): Promise<null> {
    return null;
  }

  async apply(batch: Batch<EventDigest[]>): Promise<ParkedEntry[]> {
    const pending = batch.values.flat().filter(isPending);
    if (pending.length > 0) await this.#options.openApprovals(pending);
    return [];
  }

  settled(): void {}
}

function isPending({ approvalId }: EventDigest): boolean {
  return approvalId !== undefined;
}

export class SignalAlerts implements Work<Signal[]> {
  decode(entry: StreamEntry): Decoded<Signal[]> {
    const { signals } = JSON.parse(entry.fields.get(SIGNAL_FIELD)?.toString() ?? '{}') as SignalEntry;
    return { value: signals, rows: signals.length, oldestMs: signals[0]?.at ?? Date.now() };
  }

  hasEffect(): boolean {
    return false;
  }

  async plan(): Promise<null> {
    return null;
  }

  async apply(): Promise<ParkedEntry[]> {
    return [];
  }

  settled(): void {}
}
