// Outgoing feeds as resources: what is sent to whom (schemas/outgoing-feed.ts), and how far each is. The sending is
// pipelines/outgoing.
// Invariant: names are unique in the account; what is sent begins at the place that was given with the creation, and
// an inactive one keeps its place. Secrets leave in the answer that made them and in no other, and the header
// `Authorization` goes to no other address than the one that it was set with. How far each is lies in Redis alone; now
// and then it goes into the record, which is in ClickHouse too (`note`): a Redis that lost it sends some rows again.
// Failure: Redis away is `unavailable`; nothing is half made.
import type { FeedPlace } from '../../../schemas/feed.ts';
import type {
  OutgoingFeed,
  OutgoingFeedCreate,
  OutgoingFeedCreated,
  OutgoingFeedPatch,
  OutgoingFeedRecord,
  OutgoingFeedState,
} from '../../../schemas/outgoing-feed.ts';
import { isoTime } from '../../../schemas/time.ts';
import { mintId } from '../../common/ids.ts';
import { OUTGOING_FEEDS_MAX } from '../../common/limits.ts';
import {
  isS3Address,
  isSyslogAddress,
  s3Target,
  syslogTarget,
  urlProblem,
  withoutQuery,
} from '../../egress/target-url.ts';
import type { Keys } from '../../redis/keys.ts';
import type { Actor } from '../accounts/principal.ts';
import { answering, type CommandArgs, commit, is, nowOf, type RegistryStore } from '../commit.ts';
import type { Created, Idempotency, Keeping } from '../idempotency.ts';
import type { Listed, NamedPage } from '../lists.ts';
import { cannotBeKept, NamedRecords } from '../named-records.ts';
import { newSecret, rotatedSecret } from './webhook-secret.ts';

/** `ID:SECRET`. */
const S3_KEYS = /^[^\s:]{1,128}:[!-~]{1,512}$/;
const NO_HOSTS: ReadonlySet<string> = new Set();

/** `allowedHosts`: names that the operator lets through (target-url.ts). */
type OutgoingStore = RegistryStore & { allowedHosts?: ReadonlySet<string> | undefined };

export class OutgoingFeeds {
  readonly #store: OutgoingStore;
  readonly #records: NamedRecords<OutgoingFeedRecord>;

  constructor(store: OutgoingStore) {
    this.#store = store;
    this.#records = new NamedRecords(store, {
      kind: 'outgoing_feed',
      hash: store.keys.outgoingFeeds,
      names: store.keys.outgoingFeedNames,
      read: readOutgoingFeed,
      max: OUTGOING_FEEDS_MAX,
    });
  }

  /**
   * `place`: it sends what is behind it. The answer holds the secret. Throws ServiceError validation_failed,
   * name_taken, idempotency_…, unavailable.
   */
  create(
    account: string,
    { body, place }: { body: OutgoingFeedCreate; place: FeedPlace },
    actor: Actor,
    idempotency?: Idempotency,
  ): Promise<Created> {
    return this.#records.once(account, idempotency, async (keeping) => {
      const atMs = nowOf(this.#store);
      return this.#add(account, newRecord(body, place, atMs), { keeping, atMs }, actor);
    });
  }

  get(account: string, id: string): Promise<OutgoingFeed | null> {
    return answering(async () => this.#shown(account, await this.#records.get(account, id)));
  }

  /** Newest first. */
  list(account: string, asked: NamedPage): Promise<Listed<OutgoingFeed>> {
    return answering(async () => {
      const states = await this.#store.redis.hgetall(this.#store.keys.outgoingFeedStates(account));
      return this.#records.list(account, asked, (record) => shown(record, states[record.id]));
    });
  }

  /** null: no such outgoing feed. */
  async patch(account: string, id: string, body: OutgoingFeedPatch, actor: Actor): Promise<OutgoingFeed | null> {
    const edited = (before: OutgoingFeedRecord): OutgoingFeedRecord => {
      const isMoved = body.url !== undefined && body.url !== before.url;
      if (isMoved && before.authorization !== null && body.authorization === undefined)
        throw invalid('/authorization', 'must be said again, or null, where the address changes');
      const after = { ...before, ...body };
      this.#keepSound(after);
      return after;
    };
    const { keys } = this.#store;
    const more = (_: OutgoingFeedRecord, after: OutgoingFeedRecord) => ({ writes: outgoingTurn(keys, account, after) });
    return answering(async () =>
      this.#shown(account, await this.#records.change(account, id, { edited, more }, actor)),
    );
  }

  /** A new secret; the one before signs beside it for a day. null: no such outgoing feed. */
  async rotateSecret(account: string, id: string, actor: Actor): Promise<OutgoingFeedCreated | null> {
    const at = nowOf(this.#store);
    const edited = (before: OutgoingFeedRecord): OutgoingFeedRecord => ({ ...before, ...rotatedSecret(before, at) });
    return answering(async () => {
      const record = await this.#records.change(account, id, { edited }, actor);
      return record === null ? null : { ...(await this.#shown(account, record))!, secret: record.secret };
    });
  }

  /** false: no such outgoing feed. */
  remove(account: string, id: string, actor: Actor): Promise<boolean> {
    const { keys } = this.#store;
    const writes: CommandArgs[] = [
      ['hdel', keys.outgoingFeedStates(account), id],
      ['zrem', keys.outgoingFeedTurns(keys.shardOf(account)), `${account}/${id}`],
      ['del', keys.outgoingFeedLease(account, id)],
      ['del', keys.outgoingFeedFence(account, id)],
    ];
    return this.#records.remove(account, id, { writes }, actor);
  }

  /** Puts how far it is into the record, without an entry in the audit log; not where the record was changed since. */
  async note(account: string, { text, place }: { text: string; place: FeedPlace }): Promise<void> {
    const { keys } = this.#store;
    const at = nowOf(this.#store);
    const record: OutgoingFeedRecord = { ...readOutgoingFeed(text), place, place_at: at };
    const { id } = record;
    await commit(this.#store, {
      ...{ account, at, audit: [], changes: [{ kind: 'outgoing_feed', id, record }], whenFull: true },
      guards: [is('record', ['hget', keys.outgoingFeeds(account), id], text)],
      writes: [['hset', keys.outgoingFeeds(account), id, JSON.stringify(record)]],
    });
  }

  async #add(
    account: string,
    record: OutgoingFeedRecord,
    { keeping, atMs }: { keeping: Keeping; atMs: number },
    actor: Actor,
  ): Promise<string> {
    this.#keepSound(record);
    const { url, topics, format, secret } = record;
    const answer = JSON.stringify({ ...shown(record), secret });
    const details = { url: withoutQuery(url), topics, format };
    const writes = outgoingTurn(this.#store.keys, account, record);
    return this.#records.add(account, record, { keeping, details, atMs, answer, writes }, actor);
  }

  async #shown(account: string, record: OutgoingFeedRecord | null): Promise<OutgoingFeed | null> {
    if (record === null) return null;
    const state = await this.#store.redis.hget(this.#store.keys.outgoingFeedStates(account), record.id);
    return shown(record, state ?? undefined);
  }

  /** Throws ServiceError validation_failed. */
  #keepSound({ url, authorization, body, format }: OutgoingFeedRecord): void {
    const { allowedHosts = NO_HOSTS } = this.#store;
    const problem = problemOf(url, allowedHosts);
    if (typeof problem === 'string') throw invalid('/url', problem);
    if (isSyslogAddress(url) && authorization !== null) throw invalid('/authorization', 'has no meaning for syslog');
    if (isS3Address(url) && !S3_KEYS.test(authorization ?? ''))
      throw invalid('/authorization', 'must be the id of an access key and its secret, with a colon between');
    if (body === 'parquet' && (!isS3Address(url) || format !== 'json'))
      throw invalid('/body', 'may be parquet for an address of s3+https and the format json');
  }
}

export function readOutgoingFeed(text: string): OutgoingFeedRecord {
  return JSON.parse(text) as OutgoingFeedRecord;
}

/** `text`: as it is kept; null: Redis has none. */
export function readOutgoingState(text: string | null, { place }: OutgoingFeedRecord): OutgoingFeedState {
  if (text !== null) return JSON.parse(text) as OutgoingFeedState;
  return {
    ...{ place, sentRows: 0, sentAt: null, caughtUpAt: null, failures: 0 },
    ...{ failingSince: null, error: null, statusCode: null, nextTryAt: null },
  };
}

/** Active ones are looked at, at once after each change. */
export function outgoingTurn(
  keys: Keys,
  account: string,
  { id, status }: Pick<OutgoingFeedRecord, 'id' | 'status'>,
): CommandArgs[] {
  const turns = keys.outgoingFeedTurns(keys.shardOf(account));
  return status === 'active' ? [['zadd', turns, 0, `${account}/${id}`]] : [['zrem', turns, `${account}/${id}`]];
}

function newRecord(body: OutgoingFeedCreate, place: FeedPlace, atMs: number): OutgoingFeedRecord {
  const { name, url, authorization = null, topics = ['audit_log'], submissions = true, payload = 'full' } = body;
  const { format = 'json', body: form = 'array', status = 'active' } = body;
  return {
    ...{ id: mintId('outgoing_feed', atMs), name, agent_id: null, url, authorization, topics, submissions, payload },
    ...{ format, body: form, status, secret: newSecret(), place, place_at: atMs },
    ...{ created_at: isoTime(atMs), updated_at: isoTime(atMs) },
  };
}

function shown(record: OutgoingFeedRecord, text: string | undefined = undefined): OutgoingFeed {
  const { agent_id: _a, secret: _s, retired: _r, place: _p, place_at: _at, authorization, url, ...rest } = record;
  const state = readOutgoingState(text ?? null, record);
  const time = (at: number | null) => (at === null ? null : isoTime(at));
  const progress: OutgoingFeed['progress'] = {
    sent_rows: state.sentRows,
    last_sent_at: time(state.sentAt),
    caught_up_at: time(state.caughtUpAt),
    failing_since: time(state.failingSince),
    error: state.error,
    status_code: state.statusCode,
    next_try_at: time(state.nextTryAt),
  };
  const { id, name, ...more } = rest;
  return { id, name, url: withoutQuery(url), authorization_set: authorization !== null, ...more, progress };
}

function problemOf(url: string, allowedHosts: ReadonlySet<string>): unknown {
  if (isSyslogAddress(url)) return syslogTarget(url, allowedHosts);
  return isS3Address(url) ? s3Target(url, allowedHosts) : urlProblem(url, allowedHosts);
}

const invalid = (path: string, message: string) => cannotBeKept('outgoing_feed', path, message);
