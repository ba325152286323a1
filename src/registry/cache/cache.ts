// What a front knows of the registry without asking: keys, agents, compiled rules.
// Redis says when something changes, and what was made of it is dropped; the next event reads it again. So a change is
// in force on every front a network hop after it was made. Behind that stands a check that trusts no notice: every
// CHECK_MS the revision of each shard in use is read over another connection; if it is ahead of what the notices have
// received, notices were lost and the whole shard is dropped. Together: in force within a second, whatever is lost.
// Invariant: what is answered was true at most a second ago. A front that cannot check any more knows nothing any more.
// Redis unreachable, or emptied: ServiceError `unavailable`, answered as 503: no key and no event is accepted by stale
// records.

import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentRecord } from '../../../schemas/agent.ts';
import type { ConnectionRecord } from '../../../schemas/connection.ts';
import type { CheckRecord } from '../../../schemas/external-check.ts';
import type { Policy } from '../../../schemas/policy.ts';
import { Periodic } from '../../common/async.ts';
import { notRecorded } from '../../common/errors.ts';
import { isId } from '../../common/ids.ts';
import { AGENT_CACHE_MAX, KEY_CACHE_MAX, POLICY_TEXTS_MAX, RULE_CACHE_MAX } from '../../common/limits.ts';
import { remember } from '../../common/maps.ts';
import type { PriceTableRecord } from '../../common/prices/price-list.ts';
import type { RuleSet, RuleSetOptions } from '../../policy/engine.ts';
import { prepareRules } from '../../policy/prepare-rules.ts';
import { type Commands, connectCommands, type RedisAddress, troubleOf } from '../../redis/client.ts';
import type { Keys } from '../../redis/keys.ts';
import { TrackedReads } from '../../redis/tracked-reads.ts';
import { quotasOf } from '../accounts/account-quota.ts';
import type { AccountRecord } from '../accounts/accounts.ts';
import type { ApiKeyRecord } from '../accounts/api-keys.ts';
import { PERMISSIONS_OF, type Principal, rightsOf } from '../accounts/principal.ts';
import type { SessionRecord } from '../accounts/sessions.ts';
import { traceKeyOf } from '../accounts/trace-key.ts';
import { hasBegun, isInForce } from '../policies/policy-record.ts';
import { registryMissing } from '../recovery/registry-missing.ts';
import { type DependsOn, KeyedCache } from './keyed-cache.ts';
import { PolicyTexts } from './policy-texts.ts';
import { Upcoming } from './upcoming.ts';

/** `usedMs`: when the session was last used, as far as is known here; the request that uses it writes it. */
type SignedIn = { principal: Principal; usedMs: number };
/** A connection, the request limit of its account, and whose it is. */
export type CachedConnection = { record: ConnectionRecord; principal: Principal };
type CachedAgent = { record: AgentRecord; account: string };

const CHECK_MS = 500;
/** A front that starts while Redis is away has 503 to give, so it does not wait for long. */
const START_MS_MAX = 2_000;
/** Time for a notice that is on its way to arrive before it counts as lost. With CHECK_MS well under a second. */
const GRACE_MS = 100;

/** The keys of an account's policies and prices, and all that comes before the id in the names of its agents. */
type Names = { policies: string; prices: string; agentPrefix: string };

export class RegistryCache {
  readonly #keys: Keys;
  readonly #redis: Commands;
  readonly #reads: TrackedReads;
  /** By the key's SHA-256 instead of the index's name: it need not be made up at each request. */
  readonly #principals = new KeyedCache<Principal>(KEY_CACHE_MAX);
  /** By the SHA-256 of what the cookie holds. */
  readonly #sessions = new KeyedCache<SignedIn>(KEY_CACHE_MAX);
  readonly #accounts = new KeyedCache<AccountRecord>(KEY_CACHE_MAX);
  readonly #agents = new KeyedCache<CachedAgent>(AGENT_CACHE_MAX);
  readonly #rules = new KeyedCache<RuleSet>(RULE_CACHE_MAX);
  readonly #connections = new KeyedCache<CachedConnection>(KEY_CACHE_MAX);
  /** By the key of an account's checks; by their names. */
  readonly #outside = new KeyedCache<ReadonlyMap<string, CheckRecord>>(RULE_CACHE_MAX);
  readonly #names = new Map<string, Names>();
  /** An account's last set, in force or not. */
  readonly #former = new Map<string, RuleSet>();
  readonly #policyTexts = new PolicyTexts(POLICY_TEXTS_MAX);
  /** By account: when the next of its policies begins. */
  readonly #starts = new Upcoming({
    max: RULE_CACHE_MAX,
    isNeeded: (account) => this.#rules.get(this.#keys.policies(account)) !== undefined,
    onDue: (account) => this.#begun(account),
  });
  readonly #ruleOptions: RuleSetOptions;
  readonly #onPolicies: (account: string, policies: readonly Policy[]) => void;
  /** Shards in use -> their revision by the notices received; undefined while it is being asked for. */
  readonly #revisions = new Map<number, number | undefined>();
  readonly #shardOfRevisionKey = new Map<string, number>();
  readonly #checks = new Periodic(CHECK_MS, () => this.#check());

  /**
   * Makes two connections of its own, one for reads and notices, one for checks. `onPolicies`: called with those in
   * force.
   */
  constructor(
    options: {
      address: RedisAddress;
      keys: Keys;
      onPolicies?: (account: string, policies: readonly Policy[]) => void;
    } & Pick<RuleSetOptions, 'onRuleError'>,
  ) {
    this.#keys = options.keys;
    this.#onPolicies = options.onPolicies ?? (() => undefined);
    this.#ruleOptions = options.onRuleError === undefined ? {} : { onRuleError: options.onRuleError };
    this.#redis = connectCommands({ ...options.address, replicas: 0 });
    this.#reads = new TrackedReads(options.address, (key) => this.#invalidated(key));
  }

  /** Resolves once Redis is there, or after `timeoutMs`: a cache that starts without it keeps trying. */
  async start(timeoutMs = START_MS_MAX): Promise<void> {
    this.#checks.start();
    await this.#reads.connect(timeoutMs);
  }

  /** Drops all values: those of a registry that has been made again meanwhile are of no use. */
  forgetAll(): void {
    this.#dropAll();
  }

  async close(): Promise<void> {
    await this.#checks.stop();
    this.#starts.close();
    this.#reads.close();
    this.#redis.disconnect();
  }

  /** By the key's SHA-256 in hex. null: unknown, revoked or expired. */
  principal(sha256: string): Principal | null | Promise<Principal | null> {
    const known = this.#principals.get(sha256);
    if (known !== undefined) return unexpired(known);
    return this.#principals.load(sha256, (dependsOn) => this.#readPrincipal(sha256, dependsOn)).then(unexpired);
  }

  /** By the SHA-256 in hex of what a cookie holds. null: there is no such session, or its key is revoked. */
  session(sha256: string): SignedIn | null | Promise<SignedIn | null> {
    const known = this.#sessions.get(sha256);
    if (known !== undefined) return known;
    return this.#sessions.load(sha256, (dependsOn) => this.#readSession(sha256, dependsOn));
  }

  /** Epoch ms of a session's last use on any front; 0: unknown. */
  async sessionUse(account: string, id: string): Promise<number> {
    return Number((await this.#read(() => this.#redis.hget(this.#keys.sessionUses(account), id))) ?? 0);
  }

  /** null: there is no such account (any more). */
  account(id: string): AccountRecord | null | Promise<AccountRecord | null> {
    const known = this.#accounts.get(id);
    if (known !== undefined) return known;
    return this.#accounts.load(id, async (dependsOn) => {
      const accounts = this.#keys.accounts(this.#keys.shardOf(id));
      dependsOn(accounts);
      this.#use(id);
      const text = await this.#read(() => this.#reads.hget(accounts, id));
      if (text === null) await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(id)));
      return text === null ? null : (JSON.parse(text) as AccountRecord);
    });
  }

  /** null: no such agent in this account. */
  agent(account: string, id: string): CachedAgent | null | Promise<CachedAgent | null> {
    if (!isId('agent', id)) return null;
    const key = this.#namesOf(account).agentPrefix + id;
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    return this.#agents.load(key, async () => {
      this.#use(account);
      const text = await this.#read(() => this.#reads.get(key));
      if (text === null) await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(account)));
      return text === null ? null : { record: JSON.parse(text) as AgentRecord, account };
    });
  }

  /** null: there is no such connection. */
  connection(id: string): CachedConnection | null | Promise<CachedConnection | null> {
    if (!isId('connection', id)) return null;
    const known = this.#connections.get(id);
    if (known !== undefined) return known;
    return this.#connections.load(id, (dependsOn) => this.#readConnection(id, dependsOn));
  }

  /** The account's checks by their names. Asked for by accounts whose policies name some. */
  checks(account: string): ReadonlyMap<string, CheckRecord> | Promise<ReadonlyMap<string, CheckRecord>> {
    const key = this.#keys.checks(account);
    const known = this.#outside.get(key);
    if (known) return known;
    return this.#outside.load(key, async () => {
      this.#use(account);
      const texts = await this.#read(() => this.#reads.hvals(key));
      await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(account)));
      const records = texts.map((text) => JSON.parse(text) as CheckRecord);
      return new Map(records.map((record) => [record.name, record]));
    }) as Promise<ReadonlyMap<string, CheckRecord>>;
  }

  /** The account's policies in force, compiled, its shadows, and its prices. */
  rules(account: string): RuleSet | Promise<RuleSet> {
    const { policies: key, prices: pricesKey } = this.#namesOf(account);
    const known = this.#rules.get(key);
    if (known) return known;
    return this.#rules.load(key, async (dependsOn) => {
      this.#use(account);
      dependsOn(pricesKey);
      const [texts, priced] = await this.#read(() => Promise.all([this.#reads.hvals(key), this.#reads.get(pricesKey)]));
      // Asked behind it, so that rules which were lost before are not taken for none.
      await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(account)));
      const active = await this.#policyTexts.activeOf(key, texts);
      const nowMs = Date.now();
      const policies = active.filter((policy) => hasBegun(policy, nowMs));
      this.#starts.add(account, nextStart(active, nowMs));
      const inForce = policies.filter((policy) => isInForce(policy, nowMs));
      this.#onPolicies(account, inForce);
      const isHashed = inForce.some(
        ({ conditions }) => conditions['redact'] === true || conditions['same'] !== undefined,
      );
      const prices = priced === null ? undefined : (JSON.parse(priced) as PriceTableRecord);
      return this.#compile(key, policies, { prices, traceKey: isHashed ? await this.#traceKey(account) : undefined });
    }) as Promise<RuleSet>;
  }

  /** The set that was compiled before is no longer in force; the next is compiled before an event asks for it. */
  #begun(account: string): void {
    const key = this.#keys.policies(account);
    const isUsed = this.#rules.get(key) !== undefined;
    this.#rules.invalidate(key);
    if (isUsed) Promise.resolve(this.rules(account)).catch(() => undefined);
  }

  /** Made once: each event asks by them. */
  #namesOf(account: string): Names {
    let names = this.#names.get(account);
    if (names === undefined) {
      const [policies, prices] = [this.#keys.policies(account), this.#keys.prices(account)];
      names = { policies, prices, agentPrefix: this.#keys.agent(account, '') };
      remember(this.#names, account, names, KEY_CACHE_MAX);
    }
    return names;
  }

  /** Compiles the rules of an account. A policy that has not changed since its last set is not compiled again. */
  async #compile(
    key: string,
    policies: readonly Policy[],
    options: Pick<RuleSetOptions, 'traceKey'> & { prices: PriceTableRecord | undefined },
  ): Promise<RuleSet> {
    const rules = await prepareRules(policies, this.#former.get(key), { ...this.#ruleOptions, ...options });
    this.#former.delete(key);
    this.#former.set(key, rules);
    if (this.#former.size > RULE_CACHE_MAX) this.#former.delete(this.#former.keys().next().value!);
    return rules;
  }

  #traceKey(account: string): Promise<string> {
    return this.#read(() => traceKeyOf({ redis: this.#redis, keys: this.#keys }, account));
  }

  async #readPrincipal(sha256: string, dependsOn: DependsOn): Promise<Principal | null> {
    const place = await this.#read(() => this.#reads.get(this.#keys.apiKeyIndex(sha256)));
    if (place === null) {
      await this.#refuseLost(this.#keys.apiKeyMark(sha256));
      return null;
    }
    const [account, keyId] = place.split('/') as [string, string];
    const [apiKeys, accounts] = [this.#keys.apiKeys(account), this.#keys.accounts(this.#keys.shardOf(account))];
    dependsOn(apiKeys);
    dependsOn(accounts);
    this.#use(account);
    const read = await this.#readKey(account, keyId);
    return read?.record.sha256 === sha256 ? read.principal : null;
  }

  async #readSession(sha256: string, dependsOn: DependsOn): Promise<SignedIn | null> {
    const place = await this.#read(() => this.#reads.get(this.#keys.sessionIndex(sha256)));
    if (place === null) {
      await this.#refuseLost(this.#keys.apiKeyMark(sha256));
      return null;
    }
    const [account, id] = place.split('/') as [string, string];
    const sessions = this.#keys.sessions(account);
    for (const key of [sessions, this.#keys.apiKeys(account), this.#keys.accounts(this.#keys.shardOf(account))])
      dependsOn(key);
    this.#use(account);
    const text = await this.#read(() => this.#reads.hget(sessions, id));
    if (text === null) {
      await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(account)));
      return null;
    }
    const session = JSON.parse(text) as SessionRecord;
    const read = session.sha256 === sha256 ? await this.#readKey(account, session.key_id) : null;
    if (read === null) return null;
    const endsMs = Date.parse(session.expires_at);
    const expiresAtMs = Math.min(endsMs, read.principal.expiresAtMs ?? endsMs);
    const usedMs = Math.max(await this.sessionUse(account, id), Date.parse(session.created_at));
    return { principal: { ...read.principal, expiresAtMs, sessionId: id }, usedMs };
  }

  /** The connection, and its principal, which may only submit events of its account. null: there is none. */
  async #readConnection(id: string, dependsOn: DependsOn): Promise<CachedConnection | null> {
    const shard = this.#keys.shardOf(id);
    const account = await this.#read(() => this.#reads.hget(this.#keys.connectionAccounts(shard), id));
    if (account === null) {
      await this.#refuseLost(this.#keys.revision(shard));
      return null;
    }
    const [connections, accounts] = [this.#keys.connections(account), this.#keys.accounts(shard)];
    dependsOn(connections);
    dependsOn(accounts);
    this.#use(account);
    const [text, accountText] = await this.#read(() =>
      Promise.all([this.#reads.hget(connections, id), this.#reads.hget(accounts, account)]),
    );
    if (text === null || accountText === null) return null;
    const { status, request_limit: limit, quotas } = JSON.parse(accountText) as AccountRecord;
    const rights = { scope: 'write', permissions: ['submit'], agentId: null } as const;
    const principal: Principal = {
      ...{ account, keyId: id, ...rights, registersAgents: true, rights: rightsOf(rights, status) },
      requestLimit: limit === null ? null : { perSecond: limit.per_second, burst: limit.burst },
      ...{ quotas: quotasOf(quotas), expiresAtMs: null, sessionId: null },
    };
    return { record: JSON.parse(text) as ConnectionRecord, principal };
  }

  /** null: the key is revoked, or was never finished. */
  async #readKey(account: string, keyId: string): Promise<{ record: ApiKeyRecord; principal: Principal } | null> {
    const [apiKeys, accounts] = [this.#keys.apiKeys(account), this.#keys.accounts(this.#keys.shardOf(account))];
    const [keyText, accountText] = await this.#read(() =>
      Promise.all([this.#reads.hget(apiKeys, keyId), this.#reads.hget(accounts, account)]),
    );
    if (keyText === null || accountText === null) {
      await this.#refuseLost(this.#keys.revision(this.#keys.shardOf(account)));
      return null;
    }
    const record = JSON.parse(keyText) as ApiKeyRecord;
    const { status, request_limit: limit, quotas } = JSON.parse(accountText) as AccountRecord;
    const { scope } = record;
    const permissions = record.permissions ?? PERMISSIONS_OF[scope];
    const agentId = record.agent_id ?? null;
    const principal: Principal = {
      account,
      keyId,
      scope,
      permissions,
      agentId,
      registersAgents: record.registers_agents ?? true,
      rights: rightsOf({ scope, permissions, agentId }, status),
      expiresAtMs: record.expires_at === null ? null : Date.parse(record.expires_at),
      requestLimit: limit === null ? null : { perSecond: limit.per_second, burst: limit.burst },
      quotas: quotasOf(quotas),
      sessionId: null,
    };
    return { record, principal };
  }

  /** Nothing is unknown in a Redis that was emptied: without this mark what is not there was lost. */
  async #refuseLost(mark: string): Promise<void> {
    if ((await this.#read(() => this.#reads.get(mark))) === null) throw registryMissing();
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      throw notRecorded(troubleOf(cause), cause);
    }
  }

  /** Begins to follow the account's shard, before anything of it is read. */
  #use(account: string): void {
    const shard = this.#keys.shardOf(account);
    if (!this.#revisions.has(shard)) this.#follow(shard);
  }

  /** Reads the revision where notices come from: all earlier notices have arrived before it. */
  #follow(shard: number): void {
    const key = this.#keys.revision(shard);
    this.#shardOfRevisionKey.set(key, shard);
    this.#revisions.set(shard, undefined);
    this.#reads.get(key).then(
      (revision) => {
        if (this.#revisions.has(shard)) this.#revisions.set(shard, Number(revision ?? 0));
      },
      () => this.#dropShard(shard),
    );
  }

  #invalidated(key: string | null): void {
    if (key === null) {
      this.#dropAll();
      return;
    }
    const shard = this.#shardOfRevisionKey.get(key);
    if (shard !== undefined) {
      if (this.#revisions.has(shard)) this.#follow(shard);
      return;
    }
    const end = key.slice(key.lastIndexOf(':') + 1);
    this.#principals.invalidate(this.#keys.apiKeyIndex(end) === key ? end : key);
    this.#sessions.invalidate(this.#keys.sessionIndex(end) === key ? end : key);
    this.#accounts.invalidate(key);
    this.#connections.invalidate(key);
    this.#agents.invalidate(key);
    this.#rules.invalidate(key);
    this.#outside.invalidate(key);
  }

  async #check(): Promise<void> {
    const shards = [...this.#revisions.keys()];
    try {
      const texts = await Promise.all(shards.map((shard) => this.#redis.get(this.#keys.revision(shard))));
      // Without a revision the shard was lost, and what is known of it with it.
      const actual = new Map(shards.map((shard, i) => [shard, Number(texts[i] ?? Number.POSITIVE_INFINITY)]));
      if (!shards.some((shard) => this.#isBehind(shard, actual.get(shard)!))) return;
      await sleep(GRACE_MS);
      // A process that was given no time meanwhile has its notices waiting behind this timer: they are read first.
      await new Promise((resolve) => setImmediate(resolve));
      for (const shard of shards) if (this.#isBehind(shard, actual.get(shard)!)) this.#dropShard(shard);
    } catch {
      this.#dropAll();
    }
  }

  #isBehind(shard: number, revision: number): boolean {
    return this.#revisions.has(shard) && (this.#revisions.get(shard) ?? -1) < revision;
  }

  #dropShard(shard: number): void {
    const revision = this.#keys.revision(shard);
    const tag = revision.slice(0, revision.indexOf('}') + 1);
    this.#revisions.delete(shard);
    this.#principals.invalidate(this.#keys.accounts(shard));
    this.#sessions.invalidate(this.#keys.accounts(shard));
    this.#accounts.invalidate(this.#keys.accounts(shard));
    this.#connections.invalidate(this.#keys.accounts(shard));
    this.#agents.invalidatePrefix(tag);
    this.#rules.invalidatePrefix(tag);
    this.#outside.invalidatePrefix(tag);
  }

  #dropAll(): void {
    this.#revisions.clear();
    this.#principals.clear();
    this.#sessions.clear();
    this.#accounts.clear();
    this.#connections.clear();
    this.#agents.clear();
    this.#rules.clear();
    this.#outside.clear();
  }
}

function unexpired(principal: Principal | null): Principal | null {
  if (principal === null || principal.expiresAtMs === null) return principal;
  return Date.now() < principal.expiresAtMs ? principal : null;
}

/** When the next of those begins that have not; undefined: all have. */
function nextStart(policies: readonly Policy[], nowMs: number): number | undefined {
  let next: number | undefined;
  for (const { starts_at: startsAt } of policies) {
    const atMs = startsAt === undefined ? 0 : Date.parse(startsAt);
    if (atMs > nowMs && (next === undefined || atMs < next)) next = atMs;
  }
  return next;
}
