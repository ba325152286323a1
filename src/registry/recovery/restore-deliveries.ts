// Puts deliveries that were pending back into an empty Redis (`gatehouse registry restore`, after the registry itself;
// restore.ts). They keep their ids, their attempts and the time of their next one, and get the full time again in which
// to end. One whose alert is gone is put back, too: the worker finds that out, and it ends as cancelled. Those of
// deleted agents are not.
import type { AlertRecord } from '../../../schemas/alert.ts';
import { redisTime } from '../../redis/time.ts';
import {
  addressed,
  DELIVERY_ENDS_MS,
  type DeliveryRecord,
  enqueueWrites,
  type KeptDelivery,
  laneOf,
} from '../alerts/deliveries.ts';
import { answering, type RegistryStore } from '../commit.ts';

type PendingDelivery = KeptDelivery & { account: string };

/** Ten attempts are made; whatever came before, one is left. */
const TRIES_MAX = 9;

/** Returns how many were put back. */
export function restoreDeliveries(
  store: RegistryStore,
  pending: AsyncIterable<PendingDelivery> | Iterable<PendingDelivery>,
  isLost: (account: string) => boolean,
): Promise<number> {
  const { redis, keys } = store;
  return answering(async () => {
    const now = store.now?.() ?? (await redisTime(redis));
    let restored = 0;
    for await (const { account, delivery, signal } of pending) {
      if (!isLost(account)) continue;
      if (signal.agent !== null && (await redis.exists(keys.agent(account, signal.agent))) === 0) continue;
      const { id, alert_id, alert_name, channel, target, count, test, attempts, transport } = delivery;
      const text = await redis.hget(keys.alerts(account), alert_id);
      const record: DeliveryRecord = {
        ...{ id, account, alert: { id: alert_id, name: alert_name } },
        ...(text === null
          ? { channel, target, lane: laneOf(channel, target) }
          : addressed(JSON.parse(text) as AlertRecord)),
        ...{ signal, count, test, attempts, transport },
        tries: Math.min(attempts.length, TRIES_MAX),
        createdAt: Date.parse(delivery.created_at),
        endsAt: now + DELIVERY_ENDS_MS,
      };
      const due = delivery.next_attempt_at === null ? now : Date.parse(delivery.next_attempt_at);
      for (const [command, key, ...args] of enqueueWrites(keys, record, due)) await redis.call(command, key, ...args);
      restored++;
    }
    return restored;
  });
}
