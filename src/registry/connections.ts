// Connections as resources: who may send inference hooks, signed with which secrets, and what is answered where they
// cannot be judged (schemas/connection.ts). The request names the connection and no account, so an index says whose it
// is; ids are minted until one falls into the account's own shard, and with it index and record are one commit.
// Invariant: names are unique in the account; secrets leave in no answer and no audit entry; an agent that is named
// exists when it is set. With its agent's deletion a connection becomes inactive (agents.ts).
// Failure: Redis away is `unavailable`; nothing is half made.
import type { Connection, ConnectionCreate, ConnectionPatch, ConnectionRecord } from '../../schemas/connection.ts';
import { isoTime } from '../../schemas/time.ts';
import { mintId } from '../common/ids.ts';
import { CONNECTIONS_MAX } from '../common/limits.ts';
import type { Keys } from '../redis/keys.ts';
import type { Actor } from './accounts/principal.ts';
import { answering, type CommandArgs, nowOf, type RegistryStore } from './commit.ts';
import type { Created, Idempotency, Keeping } from './idempotency.ts';
import type { Listed, NamedPage } from './lists.ts';
import { NamedRecords } from './named-records.ts';

/** Below the 5 s that products wait by default. */
const TIMEOUT_MS = 4_000;

export class Connections {
  readonly #store: RegistryStore;
  readonly #records: NamedRecords<ConnectionRecord>;

  constructor(store: RegistryStore) {
    this.#store = store;
    this.#records = new NamedRecords(store, {
      kind: 'connection',
      hash: store.keys.connections,
      names: store.keys.connectionNames,
      max: CONNECTIONS_MAX,
    });
  }

  /** Throws ServiceError validation_failed, name_taken, idempotency_…, unavailable. */
  create(account: string, body: ConnectionCreate, actor: Actor, idempotency?: Idempotency): Promise<Created> {
    return this.#records.once(account, idempotency, (keeping) => this.#create(account, body, actor, keeping));
  }

  get(account: string, id: string): Promise<Connection | null> {
    return answering(async () => {
      const [record, uses] = await Promise.all([this.#records.get(account, id), this.#uses(account)]);
      return record === null ? null : shown(record, uses);
    });
  }

  /** Newest first. */
  list(account: string, asked: NamedPage): Promise<Listed<Connection>> {
    return answering(async () => {
      const records = this.#records.list(account, asked, (record) => record);
      const [{ items, ...listed }, uses] = await Promise.all([records, this.#uses(account)]);
      return { ...listed, items: items.map((record) => shown(record, uses)) };
    });
  }

  /** null: no such connection. */
  async patch(account: string, id: string, body: ConnectionPatch, actor: Actor): Promise<Connection | null> {
    const edited = (before: ConnectionRecord): ConnectionRecord => ({ ...before, ...body });
    const uses = await answering(() => this.#uses(account));
    const record = await this.#records.change(account, id, { edited }, actor);
    return record === null ? null : shown(record, uses);
  }

  /** false: no such connection. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    const { keys } = this.#store;
    const writes: CommandArgs[] = [
      ['hdel', keys.connectionAccounts(keys.shardOf(id)), id],
      ['hdel', keys.connectionUses(account), id],
    ];
    return this.#records.remove(account, id, { writes }, actor);
  }

  /** Writes down last requests: connection -> epoch ms. */
  touch(account: string, uses: ReadonlyMap<string, number>): Promise<void> {
    return answering(async () => {
      if (uses.size > 0) await this.#store.redis.hset(this.#store.keys.connectionUses(account), new Map(uses));
    });
  }

  #uses(account: string): Promise<Record<string, string>> {
    return this.#store.redis.hgetall(this.#store.keys.connectionUses(account));
  }

  async #create(account: string, body: ConnectionCreate, actor: Actor, keeping: Keeping): Promise<string> {
    const { keys } = this.#store;
    const atMs = nowOf(this.#store);
    const record = newRecord(body, idInShardOf(keys, account, atMs), atMs);
    const { on_failure, mode } = record;
    const answer = JSON.stringify(shown(record));
    const writes: CommandArgs[] = [['hset', keys.connectionAccounts(keys.shardOf(account)), record.id, account]];
    const addition = { keeping, details: { on_failure, mode }, atMs, answer, writes };
    return this.#records.add(account, record, addition, actor);
  }
}

/** One in 16 does. */
function idInShardOf(keys: Keys, account: string, atMs: number): string {
  for (;;) {
    const id = mintId('connection', atMs);
    if (keys.shardOf(id) === keys.shardOf(account)) return id;
  }
}

function newRecord(body: ConnectionCreate, id: string, atMs: number): ConnectionRecord {
  return {
    id,
    name: body.name,
    secrets: body.secrets ?? [],
    on_failure: body.on_failure ?? 'deny',
    mode: body.mode ?? 'enforce',
    agent_id: body.agent_id ?? null,
    agents_by: body.agents_by ?? 'application',
    timeout_ms: body.timeout_ms ?? TIMEOUT_MS,
    status: body.status ?? 'active',
    created_at: isoTime(atMs),
    updated_at: isoTime(atMs),
  };
}

function shown({ id, name, secrets, ...rest }: ConnectionRecord, uses: Record<string, string> = {}): Connection {
  const usedAt = uses[id];
  return {
    id,
    name,
    secrets_set: secrets.length,
    ...rest,
    last_request_at: usedAt === undefined ? null : isoTime(Number(usedAt)),
  };
}
