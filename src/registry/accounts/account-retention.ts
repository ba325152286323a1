// How long an account's rows are kept: what the account has set, within what the operator allows, as times of arrival
// (asked by reads, by the pipelines that delete, and by the verification of the audit chain).
// What is kept is whole days of UTC: a row is past when the day on which it arrived is. So there is work once a day,
// and for the rest of it nothing that is stored is past.
// Invariant: what is past for one who asks is past for all who ask later, unless the account keeps longer from then on,
// or holds it. So a hold keeps all that could be read when it was made.
import { EVENT_TYPES, type EventType } from '../../../schemas/closed-sets.ts';
import type { KeptTimes, OwnRetention, RetentionInForce } from '../../../schemas/retention.ts';
import { validationFailed } from '../../common/validation.ts';
import { answering, type RegistryStore } from '../commit.ts';
import type { AccountRecord } from './accounts.ts';

/** As the operator's settings say it. */
export type RetentionSettings = {
  retentionDays: number;
  retentionMinDays: number;
  retentionMaxDays?: number | undefined;
};

type Keeping = Partial<Pick<AccountRecord, 'retention' | 'holds'>>;
/** The times from which each account's data is kept: for most accounts the same. */
export type KeptOfAll = { others: KeptTimes; own: ReadonlyMap<string, KeptTimes> };

const DAY_MS = 86_400_000;

/** The retention in force: the days that an account has set, as far as the operator allows them now. */
export function retentionOf({ retention }: Keeping, settings: RetentionSettings): RetentionInForce {
  const { retentionDays, retentionMinDays: least_days, retentionMaxDays: most_days = retentionDays } = settings;
  const own: OwnRetention = retention ?? { days: null, days_by_type: {} };
  const within = (days: number) => Math.min(most_days, Math.max(least_days, days));
  const days = own.days === null ? retentionDays : within(own.days);
  const ofType = (type: EventType) => within(own.days_by_type[type] ?? days);
  const days_by_type = Object.fromEntries(EVENT_TYPES.map((type) => [type, ofType(type)]));
  return { days, days_by_type: days_by_type as RetentionInForce['days_by_type'], least_days, most_days };
}

/** Throws ServiceError validation_failed for days that an account may not set. */
export function refuseOutside(
  own: { days?: number | null; days_by_type?: Partial<Record<EventType, number>> },
  settings: RetentionSettings,
): void {
  const { least_days: least, most_days: most } = retentionOf({}, settings);
  const given = [
    ['days', own.days ?? null] as const,
    ...Object.entries(own.days_by_type ?? {}).map(([type, days]) => [`days_by_type/${type}`, days] as const),
  ];
  const outside = given.filter(([, days]) => days !== null && (days < least || days > most));
  if (outside.length === 0) return;
  const message = `must be from ${least} to ${most}, which the operator allows`;
  throw validationFailed(
    'The account cannot keep for so long.',
    outside.map(([name]) => ({ path: `/retention/${name}`, message })),
  );
}

export function keptOf(record: Keeping, settings: RetentionSettings, nowMs: number): KeptTimes {
  const { days, days_by_type } = retentionOf(record, settings);
  const since = (kept: number) => Math.floor(nowMs / DAY_MS - kept) * DAY_MS;
  const all = Object.values(days_by_type);
  const holds = record.holds ?? [];
  const held = {
    all: holds.some(({ agent_id, trace_id }) => agent_id === null && trace_id === null),
    agents: holds.flatMap(({ agent_id }) => agent_id ?? []),
    traces: holds.flatMap(({ trace_id }) => trace_id ?? []),
  };
  return {
    fromMs: since(days),
    byType: EVENT_TYPES.flatMap((type) =>
      days_by_type[type] === days ? [] : [[type, since(days_by_type[type])] as const],
    ),
    othersFromMs: since(Math.max(...all)),
    wholeFromMs: since(Math.min(...all)),
    held,
  };
}

/** Asks for the account's record each time. Rejects with ServiceError unavailable. */
export function keptNow(
  { redis, keys }: RegistryStore,
  settings: RetentionSettings,
): (account: string) => Promise<KeptTimes> {
  return (account) =>
    answering(async () => {
      const text = await redis.hget(keys.accounts(keys.shardOf(account)), account);
      return keptOf(text === null ? {} : (JSON.parse(text) as AccountRecord), settings, Date.now());
    });
}

/** Throws ServiceError unavailable. */
export function keptOfAll(
  { redis, keys }: RegistryStore,
  settings: RetentionSettings,
  nowMs: number,
): Promise<KeptOfAll> {
  return answering(async () => {
    const own = new Map<string, KeptTimes>();
    const shards = await Promise.all(keys.ofShards(keys.accounts).map((hash) => redis.hvals(hash)));
    for (const text of shards.flat()) {
      const record = JSON.parse(text) as AccountRecord;
      if (hasOwn(record)) own.set(record.id, keptOf(record, settings, nowMs));
    }
    return { others: keptOf({}, settings, nowMs), own };
  });
}

function hasOwn({ retention, holds }: Keeping): boolean {
  return (retention ?? null) !== null || (holds ?? []).length > 0;
}
