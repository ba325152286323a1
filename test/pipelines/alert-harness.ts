// What tests of alerts share: a driven clock, alerts of the real registry, signals of one's own making, and a channel
// whose other side answers as the test sets and records what it got.
import type { Test } from 'tap';
import type { Attempt, AttemptResult, ChannelSender, Notification, Target } from '../../pipelines/alert/channel.ts';
import { Dispatcher, type PlacedSignal } from '../../pipelines/alert/dispatch.ts';
import { DeliveryWorker, type WorkerOptions } from '../../pipelines/alert/worker.ts';
import type { AlertCreate, AlertRecord } from '../../schemas/alert.ts';
import { CHANNELS, type Channel } from '../../schemas/closed-sets.ts';
import type { Signal } from '../../schemas/signal.ts';
import { mintId } from '../../src/common/ids.ts';
import { Metrics } from '../../src/metrics/metrics.ts';
import { Alerts } from '../../src/registry/alerts/alerts.ts';
import type { RegistryStore } from '../../src/registry/commit.ts';
import { actor, connectStore, journalOf, newAccount } from '../registry/harness.ts';
import { silent } from '../streams/harness.ts';
import type { TestRedis } from '../support/redis.ts';

export const DELIVERED: AttemptResult = { outcome: 'delivered', statusCode: 200, error: null };
export const FAILS: AttemptResult = { outcome: 'retry', statusCode: 500, error: 'status' };
export const GONE: AttemptResult = { outcome: 'gone', statusCode: 410, error: 'status' };

type Got = { target: string; notification: Notification; attempt: Attempt };
type Answer = AttemptResult | Promise<AttemptResult>;

/** One for each channel. */
export function sendersOf(sender: ChannelSender): Record<Channel, ChannelSender> {
  return Object.fromEntries(CHANNELS.map((channel) => [channel, sender])) as Record<Channel, ChannelSender>;
}

/** The other side of all channels. */
class Targets implements ChannelSender {
  readonly transport = 'https';
  readonly got: Got[] = [];
  /** By target; everything else is taken. */
  readonly answers = new Map<string, (got: Got) => Answer>();
  running = 0;
  mostRunning = 0;

  async send(to: Target, notification: Notification, attempt: Attempt): Promise<AttemptResult> {
    const target = 'url' in to ? to.url : to.address;
    const got = { target, notification, attempt };
    this.got.push(got);
    this.mostRunning = Math.max(this.mostRunning, ++this.running);
    try {
      return await (this.answers.get(target)?.(got) ?? DELIVERED);
    } finally {
      this.running--;
    }
  }

  ids(target?: string): string[] {
    return this.got.filter((one) => target === undefined || one.target === target).map((one) => one.notification.id);
  }
}

export type AlertWorld = RegistryStore & {
  account: string;
  alerts: Alerts;
  targets: Targets;
  clock: { now: number };
  dispatcher: Dispatcher;
  worker: DeliveryWorker;
  /** Looks and waits until nothing is running, as often as something was sent. */
  settle(): Promise<void>;
  settleAfter(ms: number): Promise<void>;
  alert(body: Partial<AlertCreate>, owner?: string): Promise<AlertRecord>;
  /** Dispatches signals as one entry of a stream. */
  dispatch(
    signals: readonly Signal[],
    options?: { stream?: string; remember?: boolean; entry?: string },
  ): Promise<number>;
  another(options?: Partial<WorkerOptions>): DeliveryWorker;
  statuses(): Promise<Record<string, string>>;
};

let names = 0;
let entries = 0;

export async function makeAlertWorld(t: Test, redis: TestRedis): Promise<AlertWorld> {
  const base = await connectStore(t, redis.address);
  const clock = { now: Date.parse('2026-11-20T12:00:00Z') };
  const store: RegistryStore = { ...base, now: () => clock.now };
  const account = newAccount();
  const alerts = new Alerts(store);
  const targets = new Targets();
  const senders = sendersOf(targets);
  const metrics = new Metrics({ processName: 'test' });
  const another = (options: Partial<WorkerOptions> = {}) => {
    const worker = new DeliveryWorker({
      ...store,
      senders,
      metrics,
      log: silent,
      random: () => 0.5,
      stopMs: 0,
      ...options,
    });
    t.teardown(() => worker.stop());
    return worker;
  };
  const dispatcher = new Dispatcher(store);
  const worker = another();
  const settle = async () => {
    for (let sent = -1; sent !== targets.got.length; ) {
      sent = targets.got.length;
      await worker.look();
      await worker.idle();
    }
  };
  return {
    ...store,
    ...{ account, alerts, targets, clock, dispatcher, worker, another },
    settle,
    settleAfter(ms) {
      clock.now += ms;
      return settle();
    },
    async alert(body, owner = account) {
      const { answer } = await alerts.create(
        owner,
        {
          name: `alert ${++names}`,
          trigger: 'policy_violation',
          channel: 'webhook',
          target: `https://host-${names}.example.com/hook`,
          throttle_seconds: 0,
          ...body,
        },
        actor,
      );
      return JSON.parse(answer) as AlertRecord;
    },
    dispatch(signals, { stream = 'stream', remember = false, entry = `${++entries}-0` } = {}) {
      const placed = signals.map((signal, i): PlacedSignal => ({ signal, place: `${entry}/${i}` }));
      return dispatcher.dispatch({ stream, remember, ensureHeld: async () => undefined }, placed);
    },
    async statuses() {
      const rows = (await journalOf(base, account)).flatMap((entry) => entry.rows ?? []);
      return Object.fromEntries(rows.map(({ row }) => [row['id'], row['status']])) as Record<string, string>;
    },
  };
}

let signals = 0;

export function makeSignal(account: string, part: Partial<Signal> = {}): Signal {
  return {
    id: `policy_violation/test-${++signals}`,
    trigger: 'policy_violation',
    account,
    agent: null,
    severity: 'high',
    at: Date.parse('2026-11-20T12:00:00Z'),
    message: 'Something happened.',
    event: { id: mintId('event', 1_763_640_000_000), type: 'tool_call', occurredAt: 1_763_640_000_000 },
    ...part,
  };
}

/** A promise to be settled from outside. */
export function later<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
