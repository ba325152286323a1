// What is known of things by their ids, for screens that show ids: read as they come on screen, many at once, behind the
// lists that they stand in, and kept for a while.
// Invariant: nothing of one session is shown in another; no id is asked for again while what is known of it is fresh.
// Failure: an ApiError in the place of the thing, and it is asked for again while it is on screen.
import { effect, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ApiError, query, read } from './api.ts';
import { goBehind } from './queries.ts';
import { session } from './session.ts';
import type { AuditLog, Policy } from './types.ts';

/** As many values as a filter takes. */
const AT_ONCE = 20;
const FRESH_MS = 60_000;
const AGAIN_MS = 5_000;

/** undefined: it is being read. null: there is none, or this session may not see it. */
export type Known<T> = T | ApiError | null | undefined;
type Ids = readonly (string | null | undefined)[];

type ById<T> = {
  /** Gives what is known of these ids. An id that is not known is read. */
  use: (ids: Ids) => (id: string) => Known<T>;
  read: (id: string) => Promise<Known<T>>;
};

function byId<T>(readAll: (ids: readonly string[]) => Promise<ReadonlyMap<string, T>>): ById<T> {
  const known = new Map<string, { value: Known<T>; atMs: number }>();
  const drawn = signal(0);
  /** The ids that are wanted in one turn, which are asked for together. */
  let turn: { ids: string[]; done: Promise<unknown> } | undefined;
  effect(() => {
    session.value;
    known.clear();
  });
  const ask = async (ids: readonly string[]) => {
    const asking = session.value;
    const found = await goBehind(() => readAll(ids)).catch((error: ApiError) => error);
    if (asking !== session.value) return;
    for (const id of ids) {
      const value = found instanceof Map ? (found.get(id) ?? null) : (known.get(id)?.value ?? (found as ApiError));
      known.set(id, { value, atMs: performance.now() });
    }
    drawn.value++;
    if (!(found instanceof Map)) setTimeout(() => drawn.value++, AGAIN_MS);
  };
  const isDue = (id: string) => {
    const { value, atMs } = known.get(id) ?? { value: undefined, atMs: Number.NEGATIVE_INFINITY };
    return performance.now() - atMs >= (value instanceof ApiError ? AGAIN_MS : FRESH_MS);
  };
  const begin = () => {
    const ids: string[] = [];
    const done = Promise.resolve().then(() => {
      turn = undefined;
      return Promise.all(chunksOf(ids).map(ask));
    });
    return { ids, done };
  };
  const want = async (ids: readonly string[]) => {
    for (const id of ids.filter(isDue)) {
      known.set(id, { value: known.get(id)?.value, atMs: performance.now() });
      turn ??= begin();
      turn.ids.push(id);
    }
    await turn?.done;
  };
  return {
    use(ids) {
      const shown = ids.filter((id) => typeof id === 'string' && id !== '') as string[];
      useEffect(() => void want(shown), [shown.join(), drawn.value]);
      return (id) => known.get(id)?.value;
    },
    async read(id) {
      await want([id]);
      return known.get(id)?.value;
    },
  };
}

function chunksOf(ids: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, i) => ids.slice(i * AT_ONCE, (i + 1) * AT_ONCE));
}

type Named = { id: string; name: string };
/** The kinds of resources with a list of their own that takes ids and parts of names. */
export type Kind = 'agents' | 'policies' | 'alerts';
/** The fields whose values are ids. */
export const KINDS: Record<string, Kind> = { agent_id: 'agents', policy_id: 'policies', alert_id: 'alerts' };

async function readList<T extends { id: string }>(kind: Kind, ids: readonly string[], more: object = {}) {
  const { value } = await read<{ items: T[] }>(`v1/${kind}${query({ id: ids, limit: AT_ONCE, ...more })}`);
  return new Map(value.items.map((item) => [item.id, item]));
}

const NAMES: Record<Kind, ById<Named>> = {
  agents: byId((ids) => readList('agents', ids)),
  policies: byId((ids) => readList('policies', ids)),
  alerts: byId((ids) => readList('alerts', ids)),
};

/** The name, or the id where it is not known. */
export function useNames(kind: Kind, ids: Ids): (id: string) => string {
  const known = NAMES[kind].use(ids);
  return (id) => nameOf(known(id)) ?? id;
}

function nameOf(known: Known<Named>): string | undefined {
  return known instanceof ApiError ? undefined : known?.name;
}

const ACTIVITY = byId((ids) => readList<Policy>('policies', ids, { activity: true }));

/** How many events of the last 24 hours each policy matched. */
export function useMatches(ids: Ids): (id: string) => Known<number> {
  const known = ACTIVITY.use(ids);
  return (id) => {
    const one = known(id);
    return one instanceof ApiError ? one : one?.activity?.events_24h;
  };
}

/** The log keeps what a key was called, also when it is revoked, and everyone may read it. */
const KEYS = byId(async (ids) => {
  const asked = query({ action: 'api_key.created', resource_id: ids, limit: AT_ONCE });
  const { value } = await read<{ logs: AuditLog[] }>(`v1/audit-logs${asked}`);
  return new Map(
    value.logs.map(({ resource_id: id, details }): [string, Named] => [id, { id, name: String(details['label']) }]),
  );
});

const ACTOR = /^(key|agent):(.+)$/;

/** Who did something, for people: the label of a key, the name of an agent. */
export function useActor(actor: string | null): string {
  const [, kind, id] = ACTOR.exec(actor ?? '') ?? [];
  const keys = KEYS.use([kind === 'key' ? id : null]);
  const agents = NAMES.agents.use([kind === 'agent' ? id : null]);
  const known = kind === 'key' ? keys(id!) : kind === 'agent' ? agents(id!) : undefined;
  return nameOf(known) ?? actor ?? '';
}

/** The same for a sentence. */
export async function actorName(actor: string | null): Promise<string> {
  const [, kind, id] = ACTOR.exec(actor ?? '') ?? [];
  if (id === undefined) return actor ?? '';
  return nameOf(await (kind === 'key' ? KEYS : NAMES.agents).read(id)) ?? actor!;
}
