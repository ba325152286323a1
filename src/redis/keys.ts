// Every key name in Redis, with its type and its life. No other module builds a key.
// Each key carries a hash tag, so that Redis Cluster keeps together what one command or script touches:
//   {<prefix>p<N>}  one event partition: its stream, leases, manifests, watermarks, counters of its agents, idempotency
//                   records
//   {<prefix>r<N>}  one registry shard: everything of an account's registry, its journal stream, its account-wide
//                   counters
//   {<prefix>g}     the few keys that are global: account names, pipeline members, migration notes
// No command or script may name keys of two tags.
import { createHash } from 'node:crypto';

/** Registry shards. Fixed: an account's shard must never move. 16 spreads over any cluster worth having. */
export const REGISTRY_SHARDS = 16;

/**
 * FNV-1a, 32 bit: stable over versions and processes, since it decides where things live. `before`: the hash of what
 * is before.
 */
function stableHash(text: string, before = 0x811c9dc5): number {
  let hash = before;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

export class Keys {
  readonly prefix: string;
  readonly partitions: number;

  constructor(options: { prefix: string; partitions: number }) {
    this.prefix = options.prefix;
    this.partitions = options.partitions;
  }

  // -- event partitions

  /** The partition of an agent's events: all of one agent's events are in one stream, in order. */
  partitionOf(account: string, agent: string): number {
    return stableHash(agent, stableHash('/', stableHash(account))) % this.partitions;
  }
  /** Stream. Entries leave it when every group has acknowledged them. */
  events = (partition: number) => this.#p(partition, 'events');
  /** Stream, bounded: entries that could not be processed, with their reason. */
  dead = (partition: number) => this.#p(partition, 'dead');
  /** Stream: signals of this partition's agents (and of keys that hash to it) on their way to the alerts. */
  signals = (partition: number) => this.#p(partition, 'signals');
  /** Stream, bounded: signal entries that could not be processed. */
  signalsDead = (partition: number) => this.#p(partition, 'signals:dead');
  /** Hash agent id -> `<epoch ms of its last accepted event>/<account id>`, the front's clock. */
  lastSeen = (partition: number) => this.#p(partition, 'last-seen');
  /**
   * Hash `since`, `at` (epoch ms, Redis's clock: watched without a gap from when to when), `cursor` over the last-seen
   * hash.
   */
  watch = (partition: number) => this.#p(partition, 'watch');
  /** Sorted set agent id -> epoch ms, Redis's clock, at which the watch inspects it next. */
  watchDue = (partition: number) => this.#p(partition, 'watch:due');
  /** Hash agent id -> what the watch remembers of it between two polls; only where there is something. */
  watchNotes = (partition: number) => this.#p(partition, 'watch:notes');
  /** String, PEXPIRE 2 minutes: this key's signal of this minute lies in the signal stream. */
  limitSignalled = (partition: number, apiKey: string, minute: number) =>
    this.#p(partition, `limit-signalled:${apiKey}:${minute}`);
  /**
   * String, binary, PEXPIRE 14 d: what the anomaly pipeline has learnt of an agent; '-' for an hour after its erasure.
   */
  baseline = (partition: number, agent: string) => this.#p(partition, `baseline:${agent}`);
  /** String, PEXPIRE: kept request outcome under an Idempotency-Key, 24 h; while running, 10 s. */
  idempotency = (partition: number, account: string, key: string) =>
    this.idempotencyNamed(partition, account, digest(key));
  /** By how its name ends. */
  idempotencyNamed = (partition: number, account: string, end: string) => this.#p(partition, `idem:${account}:${end}`);
  /**
   * List `<expiry, epoch ms>/<bytes>/<end of a record's name>`, oldest first: what is kept of an account under
   * Idempotency-Keys.
   */
  idempotencyOrder = (partition: number, account: string) => this.#p(partition, `idem-order:${account}`);
  /**
   * The account of notes about spans, traces and decisions (streams/span-notes.ts): they count as answers of an account
   * of its own, so that they take no place of the account's answers.
   */
  spanNotesOf = (account: string) => `${account}/spans`;
  /** Hash account id -> bytes of what is kept of it under Idempotency-Keys; '' -> of all. */
  idempotencyBytes = (partition: number) => this.#p(partition, 'idem-bytes');
  /** Stream: requests of spans whose owners are not known yet. Entries leave it when they are recorded. */
  heldSpans = (partition: number) => this.#p(partition, 'held-spans');
  /** Hash account id -> bytes of what is held of it; '' -> of all. */
  heldSpansBytes = (partition: number) => this.#p(partition, 'held-spans:bytes');
  /** String: the body of one, as it came. */
  heldSpansBody = (partition: number, id: string) => this.#p(partition, `held-spans:body:${id}`);
  /** String, PEXPIRE 30 s: a front records it. */
  heldSpansTaken = (partition: number, id: string) => this.#p(partition, `held-spans:taken:${id}`);
  /** How the name of such a record ends. */
  idempotencyEnd = (key: string) => digest(key);
  /** Hash, PEXPIRE one window: sub-buckets of a rate_limit policy counted per agent. */
  agentCounter = (partition: number, policy: string, agent: string) => this.#p(partition, `rate:${policy}:${agent}`);

  // -- any stream: per consumer group
  // `stream` is the key of an events or journal stream; what belongs to it shares its tag.

  /** String `<owner>:<fence>`, PEXPIRE: who reads this stream for this group. */
  lease = (stream: string, group: string) => `${stream}:lease:${group}`;
  /** Integer: rises with every change of owner. */
  fence = (stream: string, group: string) => `${stream}:fence:${group}`;
  /**
   * String, JSON: the batch that is being written (first and last entry id, attempts), so that a new owner writes the
   * very same.
   */
  manifest = (stream: string, group: string) => `${stream}:manifest:${group}`;
  /** String: id of the last entry whose effects are durable for this group. */
  watermark = (stream: string, group: string) => `${stream}:watermark:${group}`;
  /** String: the run of Redis in which the group has worked last (redis-run.lua). */
  run = (stream: string, group: string) => `${stream}:run:${group}`;
  comparedFrom = (stream: string, group: string) => `${stream}:compared-from:${group}`;

  /** Hash account id -> `<n>:<hash>`: where the account's audit chain of this stream stands. Stays. */
  chainHeads = (stream: string) => `${stream}:chain:heads`;
  /** Stream: blocks of the audit chain on their way to ClickHouse. */
  chainPending = (stream: string) => `${stream}:chain:pending`;
  /** Name of the chain that this stream's entries are part of: `events-<partition>` or `registry`. */
  chainOf(stream: string): string {
    const partition = /p([0-9]+)\}:events$/.exec(stream)?.[1];
    return partition === undefined ? 'registry' : `events-${partition}`;
  }

  /** One thing of each partition. */
  ofPartitions<T>(of: (partition: number) => T): T[] {
    return Array.from({ length: this.partitions }, (_, partition) => of(partition));
  }

  // -- registry shards

  /** One key of each registry shard. */
  ofShards(keyOf: (shard: number) => string): string[] {
    return Array.from({ length: REGISTRY_SHARDS }, (_, shard) => keyOf(shard));
  }

  shardOf(account: string): number {
    return stableHash(account) % REGISTRY_SHARDS;
  }
  /** Stream: registry changes on their way to ClickHouse. */
  journal = (shard: number) => this.#r(shard, 'journal');
  /** Stream, bounded: journal entries that could not be processed. */
  journalDead = (shard: number) => this.#r(shard, 'journal:dead');
  /**
   * Integer: rises with every change in the shard. There from the founding of the registry on (presence.ts): without it
   * the shard was lost.
   */
  revision = (shard: number) => this.#r(shard, 'revision');
  /** String, PEXPIRE: revision that a commit made, so that a commit sent again is recognised. */
  commitMarker = (shard: number, token: string) => this.#r(shard, `commit:${token}`);
  /** Hash account id -> JSON AccountRecord. */
  accounts = (shard: number) => this.#r(shard, 'accounts');
  /** String, JSON AgentRecord. */
  agent = (account: string, agent: string) => this.#a(account, `agent:${agent}`);
  /** Sorted sets, all scores 0, so that they sort by id, which is by creation. */
  agentIds = (account: string, status: 'all' | 'active' | 'inactive') => this.#a(account, `agents:${status}`);
  /** Hash name -> agent id. */
  agentNames = (account: string) => this.#a(account, 'agent-names');
  /**
   * Set of the ids of policies and alerts that are scoped to the agent, and of keys that are bound to it: what its
   * deletion changes.
   */
  agentScope = (account: string, agent: string) => this.#a(account, `agent-scope:${agent}`);
  /** Set of agent ids that were deleted; stays forever, an id is never used again. */
  tombstones = (account: string) => this.#a(account, 'tombstones');
  /** Hash agent id -> JSON of an erasure that is still to be finished. */
  erasures = (shard: number) => this.#r(shard, 'erasures');
  /** Hash agent id -> what became of its erasure; kept for 90 days. */
  erased = (shard: number) => this.#r(shard, 'erased');
  /** Hash policy id -> JSON Policy. */
  policies = (account: string) => this.#a(account, 'policies');
  policyNames = (account: string) => this.#a(account, 'policy-names');
  /** Sets of the ids of policies in force and of active shadows: how many there are is inspected with each change. */
  activePolicies = (account: string) => this.#a(account, 'policies:active');
  activeShadows = (account: string) => this.#a(account, 'policies:shadows');
  /** Sorted set `<account>/<policy id>` by epoch ms: when active shadows expire. */
  shadowExpiries = (shard: number) => this.#r(shard, 'shadow-expiries');
  /** Hash alert id -> JSON AlertRecord. */
  alerts = (account: string) => this.#a(account, 'alerts');
  alertNames = (account: string) => this.#a(account, 'alert-names');
  /** Hash view id -> JSON SavedView. */
  views = (account: string) => this.#a(account, 'views');
  viewNames = (account: string) => this.#a(account, 'view-names');
  /** Hash connection id -> JSON ConnectionRecord. */
  connections = (account: string) => this.#a(account, 'connections');
  /** Hash connection id -> epoch ms of the last request to its address. */
  connectionUses = (account: string) => this.#a(account, 'connection-uses');
  connectionNames = (account: string) => this.#a(account, 'connection-names');
  /** Hash connection id -> account id. A connection's id hashes to the shard of its account. */
  connectionAccounts = (shard: number) => this.#r(shard, 'connection-accounts');
  /** Hash check id -> JSON CheckRecord. */
  checks = (account: string) => this.#a(account, 'checks');
  checkNames = (account: string) => this.#a(account, 'check-names');
  /** Hash outgoing feed id -> JSON OutgoingFeedRecord. */
  outgoingFeeds = (account: string) => this.#a(account, 'outgoing-feeds');
  outgoingFeedNames = (account: string) => this.#a(account, 'outgoing-feed-names');
  /** Hash outgoing feed id -> JSON OutgoingFeedState: how far it is. Lost, it goes on from its record's place. */
  outgoingFeedStates = (account: string) => this.#a(account, 'outgoing-feed-states');
  /** Sorted set `<account>/<outgoing feed id>` by epoch ms: the active ones, by when they are looked at next. */
  outgoingFeedTurns = (shard: number) => this.#r(shard, 'outgoing-feed-turns');
  /** String `<owner>:<fence>`, PEXPIRE: who sends it; and an integer that rises with every change of owner. */
  outgoingFeedLease = (account: string, id: string) => this.#a(account, `outgoing-feed:${id}:lease`);
  outgoingFeedFence = (account: string, id: string) => this.#a(account, `outgoing-feed:${id}:fence`);
  /** List, newest first, PEXPIRE 1 day: `<epoch ms> <result> <ms>` of the last calls of a check. */
  checkCalls = (id: string) => this.#r(this.shardOf(id), `check-calls:${id}`);
  /** Hash process -> epoch ms, PEXPIRE 15 s: until when it does not ask the check, unless it says so again. */
  checkBreakers = (id: string) => this.#r(this.shardOf(id), `check-breakers:${id}`);
  /** Sorted set of how the names of the account's conversations end, by epoch ms of their last turn, PEXPIRE 1 day. */
  conversations = (account: string) => this.#a(account, 'conversations');
  /** Sorted set message hash -> epoch ms, PEXPIRE 1 day: messages that were let through. */
  seenMessages = (account: string, end: string) => this.#a(account, `messages-seen:${end}`);
  /** Hash message hash -> who asks about it, PEXPIRE 1 day. */
  askedMessages = (account: string, end: string) => this.#a(account, `messages-asked:${end}`);
  conversationEnd = (name: string) => digest(name);
  /** String, JSON PriceTableRecord; not there: no prices were ever set. */
  prices = (account: string) => this.#a(account, 'prices');
  /** Hash delivery id -> JSON DeliveryRecord, from its enqueueing to its end: what waits to be sent. */
  deliveries = (account: string) => this.#a(account, 'deliveries');
  /**
   * Sorted set delivery id -> due time, epoch ms by Redis's clock: what waits for one host. A claimed one is due when
   * its claim ends.
   */
  deliveryLane = (account: string, lane: string) => this.#a(account, `deliveries:lane:${lane}`);
  /** Sorted set `<account>/<lane>` -> a time at or before the earliest due one in it. */
  deliveryLanes = (shard: number) => this.#r(shard, 'deliveries:lanes');
  /** Hash alert id -> JSON Window: its open throttle window. Goes with the alert. */
  throttles = (account: string) => this.#a(account, 'throttles');
  /** Sorted set `<account>/<alert id>` -> end of a throttle window inside which signals were counted. */
  throttleEnds = (shard: number) => this.#r(shard, 'throttle-ends');
  /** Hash stream key -> position of its last signal that was dispatched to the account's alerts. */
  signalMarks = (account: string) => this.#a(account, 'signals:marks');
  /** Sorted set signal id -> epoch ms, PEXPIRE, bounded: signals dispatched lately. */
  dispatchedSignals = (account: string) => this.#a(account, 'signals:dispatched');
  /** String, PX one window: id of the signal that notified of this rate counter. */
  rateLimitSignalled = (account: string, counter: string) => this.#a(account, `signals:rate:${digest(counter)}`);
  /** Hash approval id -> JSON Approval: the pending ones, at most APPROVALS_PENDING_MAX. */
  approvals = (account: string) => this.#a(account, 'approvals');
  /** Hash approval id -> JSON Approval: those decided within the last APPROVAL_KEPT_MS, or not yet in ClickHouse. */
  decidedApprovals = (account: string) => this.#a(account, 'approvals:decided');
  /** Sorted set `<account>/<approval id>` by epoch ms: when pending ones are decided by timeout. */
  approvalDeadlines = (shard: number) => this.#r(shard, 'approval-deadlines');
  /** Sorted set `<account>/<approval id>` by epoch ms: when decided ones were decided. */
  approvalDecisions = (shard: number) => this.#r(shard, 'approval-decisions');
  /** Pub/sub channel: `<account>/<approval id>` of a decision, `<account>/<agent id>` of a deleted agent. */
  approvalNews = (shard: number) => this.#r(shard, 'approval-news');
  /** Hash API key id -> JSON ApiKeyRecord: the truth about a key. */
  apiKeys = (account: string) => this.#a(account, 'api-keys');
  /** Hash API key id -> epoch ms of last use. */
  apiKeyUses = (account: string) => this.#a(account, 'api-key-uses');
  /** Hash session id -> JSON SessionRecord: the truth about a browser that is signed in. */
  sessions = (account: string) => this.#a(account, 'sessions');
  /** Hash session id -> epoch ms of last use. */
  sessionUses = (account: string) => this.#a(account, 'session-uses');
  /** String, PEXPIRE: GCRA state of a key's request limit. */
  requestLimit = (account: string, apiKey: string) => this.#a(account, `limit:${apiKey}`);
  /** String, PEXPIRE: GCRA state of a quota of the account. */
  quota = (account: string, kind: string) => this.#a(account, `quota:${kind}`);
  /** String, PEXPIRE: GCRA state of the agents that are registered because calls name them. */
  newAgents = (account: string) => this.#a(account, 'new-agents');
  /** String, PEXPIRE: kept answer of a registry write under an Idempotency-Key. */
  registryIdempotency = (account: string, key: string) => this.#a(account, `idem:${digest(key)}`);
  /** List of such records' names, oldest first. */
  registryIdempotencyOrder = (account: string) => this.#a(account, 'idem-order');
  /** Hash, PEXPIRE one window: sub-buckets of a rate_limit policy counted per account or per value of a path. */
  accountCounter = (account: string, policy: string, value: string) =>
    this.#a(account, `rate:${policy}:${digest(value)}`);
  /** Beginning of the keys of a budget policy, PEXPIRE: spend.lua says what they hold. `form`: what it counts. */
  budget = (account: string, policy: string, form: string) => this.#a(account, `budget:${policy}:${form}`);
  /** Set, PEXPIRE: what budgets hold for an event that may wait for an approval (spend.lua). */
  budgetsWaiting = (account: string, event: string) => this.#a(account, `budgets-waiting:${event}`);

  /**
   * Hash: memories of sequence policies (sequences/sequence-part.ts) that are known, until when scopes are missing, and
   * what their logs have lost.
   */
  sequences = (account: string) => this.#a(account, 'sequences');
  /** Hash, PEXPIRE a little over the window: what occurred in a scope, by the value of `same`. */
  sequenceScope = (account: string, memory: string, scope: string) =>
    this.#a(account, `sequence:${memory}:${digest(scope)}`);
  /** Sorted set, PEXPIRE the same: those scopes by the epoch ms at which nothing of them counts any longer. */
  sequenceScopes = (account: string, memory: string) => this.#a(account, `sequence-scopes:${memory}`);
  /** List `<epoch ms> <key of its steps>`: events that were approved, until the next event of a sequence is counted. */
  sequencesApproved = (account: string) => this.#a(account, 'sequences:approved');
  /** List: what occurred while a memory is not known (sequences.lua). */
  sequenceLog = (account: string, memory: string) => this.#a(account, `sequence-log:${memory}`);
  /** String, PEXPIRE: a random token of who makes a memory known. */
  sequenceLease = (account: string, memory: string) => this.#a(account, `sequence-lease:${memory}`);
  /** Set: ids of the active sequences. */
  activeSequences = (account: string) => this.#a(account, 'policies:sequences');
  /** Set `<account>/<policy id>`: active sequences whose memory is not known yet. */
  sequencesWanted = (shard: number) => this.#r(shard, 'sequences-wanted');
  /** Hash, PEXPIRE: JSON of the steps that a pending event is once it is approved, by who has written it. */
  sequenceLater = (account: string, event: string) => this.#a(account, `sequence-later:${event}`);

  /** Hash backtest id -> JSON BacktestRecord: how each stands, without its result. */
  backtests = (account: string) => this.#a(account, 'backtests');
  /** String: id of the one that waits or runs. */
  backtestRunning = (account: string) => this.#a(account, 'backtest-running');
  /** String, JSON: what has come of it up to the event that it names, to go on from there; until it is finished. */
  backtestState = (account: string, id: string) => this.#a(account, `backtest:${id}:state`);
  /** String, JSON BacktestResult. */
  backtestResult = (account: string, id: string) => this.#a(account, `backtest:${id}:result`);
  /** String `<owner>:<fence>`, PEXPIRE: which process runs it; and an integer that rises with every change of owner. */
  backtestLease = (account: string, id: string) => this.#a(account, `backtest:${id}:lease`);
  backtestFence = (account: string, id: string) => this.#a(account, `backtest:${id}:fence`);
  /** Sorted set `<account>/<backtest id>` by epoch ms: those that wait or run, by when they last had a turn. */
  backtestTurns = (shard: number) => this.#r(shard, 'backtest-turns');
  /** Sorted set `<account>/<backtest id>` by epoch ms: when finished ones are removed. */
  backtestExpiries = (shard: number) => this.#r(shard, 'backtest-expiries');

  /**
   * String, base64url: by which ids of traces are made tokens where a filter finds something in them. Lost, it is made
   * again.
   */
  traceKey = (account: string) => this.#a(account, 'trace-key');

  /**
   * String `<account>/<api key id>`: where the truth about a key with this SHA-256 (hex) lies. Written before the
   * truth; worthless alone.
   */
  apiKeyIndex = (sha256: string) => `{${this.prefix}k${stableHash(sha256) % REGISTRY_SHARDS}}:api-key:${sha256}`;

  /**
   * String `<account>/<session id>`, PEXPIRE the session's longest life: where the truth about a session with this
   * SHA-256 (hex) lies.
   */
  sessionIndex = (sha256: string) => `{${this.prefix}k${stableHash(sha256) % REGISTRY_SHARDS}}:session:${sha256}`;

  /** String: the shard of the index that this hash lies in was founded. */
  apiKeyMark = (sha256: string) => this.#indexMark(stableHash(sha256) % REGISTRY_SHARDS);
  /** The marks of every shard of the index. */
  apiKeyMarks = () => this.ofShards((shard) => this.#indexMark(shard));

  // -- global

  /** String, a token, PEXPIRE 1 minute: who brings the registry forward. */
  recoveryLock = () => `{${this.prefix}g}:registry:recovery`;
  /** String, ISO time, PEXPIRE 1 day: ClickHouse was found without anything that Redis belongs to. */
  historyMissing = () => `{${this.prefix}g}:history-missing`;
  /** String, epoch ms: when Redis last got the command to rewrite its append-only file, for erasures. */
  fileRewrite = () => `{${this.prefix}g}:file-rewrite`;
  /** String, epoch ms: when nothing that is past the retention was left. */
  retentionApplied = () => `{${this.prefix}g}:retention-applied`;
  /** String, JSON: id and partitions of the installation that this Redis belongs to. */
  installation = () => `{${this.prefix}g}:installation`;
  /** String, ISO time: the registry was founded, whole. Written last. */
  registryMark = () => `{${this.prefix}g}:registry`;

  /** String, JSON: how far the daily verification of the audit chains is, and what the last one found. */
  auditVerification = () => `{${this.prefix}g}:audit-verification`;
  /** String `<owner>:<fence>`, PEXPIRE: who is at it; and an integer that rises with every change of owner. */
  auditVerificationLease = () => `{${this.prefix}g}:audit-verification:lease`;
  auditVerificationFence = () => `{${this.prefix}g}:audit-verification:fence`;
  /** String, JSON KeptJob: the verification that the account has ordered. */
  verificationJob = (account: string) => this.#a(account, 'verification');
  /** String `<owner>:<fence>`, PEXPIRE: who is at it; and an integer that rises with every change of owner. */
  verificationLease = (account: string) => this.#a(account, 'verification:lease');
  verificationFence = (account: string) => this.#a(account, 'verification:fence');
  /** Set of accounts whose job is not finished. */
  verificationsWanted = (shard: number) => this.#r(shard, 'verifications-wanted');
  /** String, epoch ms: the moment of the last backup that ended well. */
  backupNote = () => `{${this.prefix}g}:backup`;

  /** String, PEXPIRE: a check of all budgets runs, or how many scopes the last one found that differ. */
  budgetCheck = () => `{${this.prefix}g}:budget-check`;

  /** Hash account name -> account id. */
  accountNames = () => `{${this.prefix}g}:account-names`;
  /** Hash process name -> epoch ms of its last sign of life (Redis's clock): who shares the partitions. */
  members = () => `{${this.prefix}g}:members`;

  /** Hash `since`, `at` (epoch ms, Redis's clock): events were accepted without a gap from `since` to `at`. */
  ingestHeartbeat = () => `{${this.prefix}g}:ingest-heartbeat`;

  /** Hash front -> `<since> <at>` (epoch ms, Redis's clock): since when at least it has its submissions in hand. */
  submissionsInHand = () => `{${this.prefix}g}:in-hand`;

  /** Pub/sub channel of cache invalidations, beside the tracking of keys. */
  changes = () => `${this.prefix}changes`;

  /** String, epoch ms, PEXPIRE 1 minute, one beside the keys of each partition and shard: `/readyz` writes them. */
  probes = (): string[] => [
    ...this.ofPartitions((partition) => this.#p(partition, 'probe')),
    ...this.ofShards((shard) => this.#r(shard, 'probe')),
  ];

  #indexMark(shard: number) {
    return `{${this.prefix}k${shard}}:registry`;
  }
  #p(partition: number, name: string) {
    return `{${this.prefix}p${partition}}:${name}`;
  }
  #r(shard: number, name: string) {
    return `{${this.prefix}r${shard}}:${name}`;
  }
  #a(account: string, name: string) {
    return `{${this.prefix}r${this.shardOf(account)}}:${account}:${name}`;
  }
}

/** Callers' text never becomes part of a key as it is: its length and its bytes are theirs. */
function digest(text: string): string {
  return text === '' ? NOTHING : hashed(text);
}

function hashed(text: string): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 27);
}

/** Counters of a whole account have no value; every event counts at them. */
const NOTHING = hashed('');
