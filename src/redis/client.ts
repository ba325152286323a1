// Connections to Redis, single or Cluster, and the one place that says what a failed command means.
// No client repeats a command by itself. ioredis by default sends an unanswered XADD again after a reconnect, which
// makes two entries of one; and where a repetition would do no harm, a refusal of it would be taken for one of the
// command, which may have been carried out the first time (seen in tests: a change answered as not recorded, and
// there).
// Invariant: every command settles, at the latest REDIS_TIMEOUT_MS after it was made; nothing waits for Redis to come
// back, so an unreachable Redis is noticed within milliseconds and admission answers 503.
// Connections come back by themselves, forever; a connection that says nothing for too long is made again.

import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, type ClusterOptions, type Command, Redis, type RedisOptions } from 'ioredis';
import { withTimeout } from '../common/async.ts';
import { REDIS_TIMEOUT_MS } from '../common/limits.ts';
import { isSentinelAddress, sentinelAddressOf } from '../common/sentinel-address.ts';
import { UserFacingError } from '../common/user-facing-error.ts';
import { reconnectMs } from './reconnect.ts';
import {
  askReplicas,
  holdUntilReplicated,
  NotReplicated,
  type ReplicasWanted,
  replicasInCluster,
  replicasReady,
} from './replicas.ts';
import { Sentinels } from './sentinel.ts';

/** PEM texts: who may have signed Redis's certificate, and what we show to it. */
type RedisTls = { ca?: string | undefined; cert?: string | undefined; key?: string | undefined };
/**
 * `url` may name several nodes of a Cluster, separated by commas, or Sentinels (sentinel.ts). `tls`: of `rediss://`
 * addresses. `replicas` that must have what is acknowledged; undefined: one where a Cluster's node has any, or
 * Sentinels know of one.
 */
export type RedisAddress = { url: string; cluster: boolean; tls?: RedisTls; replicas?: ReplicasWanted };
export type Commands = Redis | Cluster;

export function isCluster(client: Commands): client is Cluster {
  return client instanceof Cluster;
}

/** Where a connection goes, `host:port` or the path of its socket: without user and password. */
export function nameOf({ options }: Redis): string {
  return options.path ?? `${options.host ?? 'localhost'}:${options.port ?? 6379}`;
}

/** The connection to each master; of a single Redis the one there is. */
export function mastersOf(client: Commands): Redis[] {
  return isCluster(client) ? client.nodes('master') : [client];
}

type NodeOptions = RedisOptions & { replyMapping: 'legacy' };

const CONNECT_TIMEOUT_MS = 2_000;
/** A connection that owes an answer for longer is dead: cut cables send no close. */
const SILENT_MS_MAX = REDIS_TIMEOUT_MS + 1_000;
/** While Redis loads its file it is asked this often whether it is done. */
const LOADING_POLL_MS = 100;
/** A failover without a redirect is noticed within this time; where a node is in trouble, sooner. */
const SLOTS_REFRESH_MS = 2_000;
const SLOTS_REFRESH_MS_IN_TROUBLE = 250;
const READY_POLL_MS = 25;

/** Redis could not be asked, or would not do it. */
export class RedisUnavailable extends UserFacingError {
  override name = 'RedisUnavailable';
  /** The command may have been carried out: it is unknown. False: it was certainly not. */
  readonly sent: boolean;
  /** The same command may succeed later. */
  readonly canRetry: boolean;

  constructor(message: string, options: { sent: boolean; canRetry: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.sent = options.sent;
    this.canRetry = options.canRetry;
  }
}

/** For appends: a connection that carries nothing else, and answers a write once replicas have it. */
export function connectWriter(address: RedisAddress): Commands {
  return connect(address, { isAcknowledging: true });
}

/** For everything else. A caller that may repeat a command does so itself, and then knows that it did. */
export function connectCommands(address: RedisAddress): Commands {
  const client = connect(address, { isAcknowledging: false });
  if (!mayHaveReplicas(address)) return client;
  const acknowledging = connect(address, { isAcknowledging: true });
  siblings.set(client, acknowledging);
  onceClosed(client, () => acknowledging.disconnect());
  return client;
}

/**
 * Called once it is disconnected for good. Not at its event `end`: a Cluster's client that was never connected has
 * none, and one that follows Sentinels may have it in the middle of its life.
 */
function onceClosed(client: Commands, listener: () => void): void {
  const disconnect = client.disconnect.bind(client);
  client.disconnect = (reconnect = false) => {
    disconnect(reconnect);
    if (!reconnect) listener();
  };
}

/** The writing connection of a client for commands: others do not wait for replicas then. */
const siblings = new WeakMap<Commands, Commands>();

/**
 * The same Redis for writes that are acknowledged to a caller, or that another slot's progress depends on: their
 * answers mean that replicas have them (replicas.ts).
 */
export function acknowledging(client: Commands): Commands {
  return siblings.get(client) ?? client;
}

/** Whether acknowledgements may have to wait for one. */
export function mayHaveReplicas({ url, cluster, replicas }: RedisAddress): boolean {
  return replicas !== 0 && (cluster || isSentinelAddress(url) || replicas !== undefined);
}

/** Resolves once Redis (each master of a Cluster) answers. Throws RedisUnavailable after `timeoutMs`. */
export async function waitUntilReady(client: Commands, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      await askEveryNode(client);
      if (siblings.has(client)) await askEveryNode(siblings.get(client)!);
      return;
    } catch (cause) {
      if (performance.now() >= deadline) {
        throw new RedisUnavailable(`Redis was not ready within ${timeoutMs} ms`, {
          sent: false,
          canRetry: true,
          cause,
        });
      }
    }
    await sleep(READY_POLL_MS);
  }
}

/**
 * Commands that `send` makes leave in one write a connection. Each write is a system call, and on loopback does the
 * receiver's work, too: more than a small command costs otherwise.
 */
export function sendTogether<T>(client: Commands, send: () => T): T {
  // Streams of a node that is not connected, or not yet, are not there.
  const nodes = mastersOf(client);
  const streams = nodes.flatMap((node) => node.stream ?? []);
  for (const stream of streams) stream.cork();
  try {
    return send();
  } finally {
    for (const node of nodes) askReplicas(node);
    for (const stream of streams) stream.uncork();
  }
}

/** The errors of Redis about a disk on which its append-only file cannot grow (MISCONF). */
const DISK_FULL = /no space left on device|disk quota exceeded|ENOSPC|EDQUOT/i;

export function isDiskFull(cause: unknown): boolean {
  return DISK_FULL.test(messageOf(cause));
}

/** Why nothing can be done there, as the beginning of a sentence for callers and operators. */
export function troubleOf(cause: unknown): string {
  return isDiskFull(cause) ? 'The disk that Redis writes to is full' : 'Redis is out of reach';
}

/** The sentence for callers where it is not known whether their write was made, or will stay. */
export function unknownSentence(cause: unknown): string {
  const isNotReplicated =
    cause instanceof NotReplicated || (cause as Error | undefined)?.cause instanceof NotReplicated;
  return isNotReplicated
    ? 'No replica of Redis has confirmed it; whether it stays recorded is unknown.'
    : 'Redis did not answer; whether anything was recorded is unknown.';
}

/** The meaning of a command's failure, whatever it is: a refusal of a kind not known here counts as a refusal. */
export function toUnavailable(cause: unknown): RedisUnavailable {
  return classify(cause) ?? new RedisUnavailable(messageOf(cause), { sent: !isReply(cause), canRetry: false, cause });
}

/**
 * The same, but lets through what is no sign of Redis being away: an error of our own making, to be dealt with or seen.
 */
export function redisError(cause: unknown): unknown {
  return classify(cause) ?? cause;
}

/** Replies with which Redis refuses to do a thing for now: nothing was carried out. */
const REFUSALS_FOR_NOW = new Set([
  'OOM',
  'MISCONF',
  'LOADING',
  'READONLY',
  'CLUSTERDOWN',
  'MASTERDOWN',
  'NOREPLICAS',
  'TRYAGAIN',
  'BUSY',
  'MOVED',
  'ASK',
  'UNBLOCKED',
  'NOMASTERLINK',
]);
/** Replies that need an operator to change a setting. */
const REFUSALS = new Set(['NOAUTH', 'WRONGPASS', 'NOPERM', 'NOPROTO', 'DENIED']);
/** NOPERM of a command in a script. */
const SCRIPT_REFUSED = "ERR The user executing the script can't";
/**
 * ioredis has no codes for these: its own texts, of commands that never reached a socket or that every node refused.
 */
const NEVER_SENT = [
  'Too many Cluster redirections',
  "Stream isn't writeable",
  "Cluster isn't ready",
  'Cluster is ended',
  'None of startup nodes',
];

function classify(cause: unknown): RedisUnavailable | undefined {
  if (cause instanceof RedisUnavailable) return cause;
  const message = messageOf(cause);
  if (cause instanceof NotReplicated) return new RedisUnavailable(message, { sent: true, canRetry: true, cause });
  if (isReply(cause)) {
    // An error out of a script carries the code of the command that failed behind its own words, in some versions.
    const code = /^(?:ERR )?(?:-)?([A-Z]+)/.exec(message)?.[1] ?? '';
    if (REFUSALS_FOR_NOW.has(code)) return new RedisUnavailable(message, { sent: false, canRetry: true, cause });
    if (REFUSALS.has(code) || message.startsWith(SCRIPT_REFUSED))
      return new RedisUnavailable(message, { sent: false, canRetry: false, cause });
    return undefined;
  }
  if (!isOfTheConnection(cause, message)) return undefined;
  const sent = !NEVER_SENT.some((text) => message.startsWith(text)) && !isConnectError(cause);
  return new RedisUnavailable(message, { sent, canRetry: true, cause });
}

function isReply(cause: unknown): boolean {
  return cause instanceof Error && cause.name === 'ReplyError';
}

/** ioredis says it in words alone; this is the only place that reads them. */
function isOfTheConnection(cause: unknown, message: string): boolean {
  if (!(cause instanceof Error)) return false;
  if (
    cause.name === 'MaxRetriesPerRequestError' ||
    cause.name === 'AbortError' ||
    cause.name === 'ClusterAllFailedError'
  )
    return true;
  if (typeof (cause as NodeJS.ErrnoException).code === 'string') return true;
  return (
    NEVER_SENT.some((text) => message.startsWith(text)) ||
    /^(Connection is closed|Command timed out|Socket (closed|timeout)|connect |Cluster is)/.test(message)
  );
}

function isConnectError(cause: unknown): boolean {
  return ['ECONNREFUSED', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'].includes(
    (cause as NodeJS.ErrnoException).code ?? '',
  );
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** `isAcknowledging`: writes are answered once replicas have them. */
function connect(address: RedisAddress, { isAcknowledging }: { isAcknowledging: boolean }): Commands {
  const options: NodeOptions = {
    replyMapping: 'legacy',
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    commandTimeout: REDIS_TIMEOUT_MS,
    socketTimeout: SILENT_MS_MAX,
    connectTimeout: CONNECT_TIMEOUT_MS,
    maxLoadingRetryTime: LOADING_POLL_MS,
    retryStrategy: reconnectMs,
    disableClientInfo: true,
  };
  if (address.url.startsWith('rediss:')) options.tls = address.tls ?? {};
  const client = address.cluster ? connectCluster(address.url, options) : connectSingle(address.url, options);
  if (isAcknowledging && mayHaveReplicas(address)) {
    if (client instanceof Cluster)
      client.on('+node', (node: Redis) => holdUntilReplicated(node, address.replicas, replicasInCluster));
    else holdUntilReplicated(client, address.replicas, replicasBySentinels(client, address.url));
  }
  // Each command's own failure says what there is to say, but not why there is no connection; without a listener
  // ioredis prints to the console.
  client.on('error', (error: Error) => connectErrors.set(client, innermost(error)));
  client.on('node error', (error: Error) => connectErrors.set(client, error));
  client.on('ready', () => connectErrors.delete(client));
  return client;
}

/** The error of the last try to connect, as long as there is no connection. */
const connectErrors = new WeakMap<Commands, Error>();

/** Why there is no connection; undefined: there is one, or nothing has failed yet. */
export function connectErrorOf(client: Commands): Error | undefined {
  return connectErrors.get(client);
}

/** A Cluster that finds no node says so and keeps what the last node said. */
function innermost(error: Error & { lastNodeError?: Error | undefined }): Error {
  return error.lastNodeError ?? error;
}

/** Counts replicas. A client that is alone is asked nothing: then a number is wanted. */
function replicasBySentinels(client: Redis, url: string): () => Promise<number> {
  const address = sentinelAddressOf(url);
  if (address === undefined) return () => Promise.reject(new Error('no Sentinels'));
  const sentinels = new Sentinels(address);
  onceClosed(client, () => sentinels.close());
  return () => sentinels.replicas();
}

function connectSingle(url: string, options: NodeOptions): Redis {
  const address = sentinelAddressOf(url);
  if (address !== undefined) {
    const { hosts, name, username, password, database } = address;
    const client = new Redis({
      ...options,
      ...{ sentinels: hosts, name, role: 'master', db: database, failoverDetector: true },
      ...(username === '' ? {} : { username }),
      ...(password === '' ? {} : { password }),
      ...{ sentinelRetryStrategy: reconnectMs, sentinelCommandTimeout: CONNECT_TIMEOUT_MS },
      // A master that became a replica: ask the Sentinels again; the command is not sent again.
      reconnectOnError: (error) => error.message.startsWith('READONLY'),
    });
    neverEnd(client);
    return client;
  }
  return url.startsWith('unix:')
    ? new Redis({ ...options, path: url.replace(/^unix:(\/\/)?/, '') })
    : new Redis(url, options);
}

/**
 * ioredis ends a client for good where Sentinels name another master while it is asking them: it cuts the connection
 * that it is about to make, and takes that for the end. Then it is begun again.
 */
function neverEnd(client: Redis): void {
  let isClosed = false;
  onceClosed(client, () => {
    isClosed = true;
  });
  client.on('end', () => {
    if (isClosed) return;
    const again = () => {
      if (!isClosed && client.status === 'end') client.connect().catch(() => undefined);
    };
    setTimeout(again, reconnectMs(1)).unref();
  });
}

/**
 * ioredis rejects a command whose node is away with the text that it has for a connection that closes under one. What
 * it rejects before it returns was never sent: that is said of it here.
 */
class ClusterClient extends Cluster {
  override sendCommand(command: Command, ...rest: SendTo): unknown {
    const { reject } = command;
    let isUnsent = true;
    command.reject = (cause) => {
      if (IN_TROUBLE.test(cause.message)) this.#inTroubleUntil = performance.now() + TROUBLE_MS;
      reject.call(command, isUnsent ? unsent(cause) : cause);
    };
    const answer = super.sendCommand(command, ...rest);
    isUnsent = false;
    return answer;
  }

  /** A node was away or would not do it a moment ago: another one may have its slots by now. */
  get isInTrouble(): boolean {
    return performance.now() < this.#inTroubleUntil || this.nodes('master').some(({ status }) => status !== 'ready');
  }
  #inTroubleUntil = 0;
}
/** The errors of a node, or of its connection, when its slots may be another's. */
const IN_TROUBLE =
  /^(CLUSTERDOWN|READONLY|MASTERDOWN|LOADING|Connection is closed|Command timed out|\d+ of \d+ replicas)/;
const TROUBLE_MS = 2_000;
const NODE_ANSWERS_MS = 300;

type Learn = (node: Redis, done: (error?: Error) => void) => void;

/**
 * ioredis learns the slots from any node. One that is cut off from the others says so, and still has the slots that
 * they have given away: then, and where it does not answer soon, the next one is asked.
 */
function learnFromConnectedNodes(cluster: Cluster): void {
  const learning = cluster as unknown as { getInfoFromNode: Learn };
  const learn = learning.getInfoFromNode.bind(cluster);
  learning.getInfoFromNode = (node, done) => {
    // One that is not connected yet is asked on a connection of its own.
    if (node.status !== 'ready') return learn(node, done);
    const info = withTimeout(node.cluster('INFO'), NODE_ANSWERS_MS, () => '');
    info.then(
      (text) => {
        if (text.includes('cluster_state:ok')) learn(node, done);
        else done(new Error('CLUSTERDOWN the node is cut off from the others, or does not answer'));
      },
      (error: Error) => done(error),
    );
  };
}

type SendTo = Parameters<Cluster['sendCommand']> extends [Command, ...infer Rest] ? Rest : never;

function unsent(cause: Error): RedisUnavailable {
  const { message, canRetry } = toUnavailable(cause);
  return new RedisUnavailable(message, { sent: false, canRetry, cause });
}

function connectCluster(urls: string, redisOptions: NodeOptions): Cluster {
  const nodes = urls.split(',').map((url) => new URL(url.trim()));
  const first = nodes[0]!;
  const options: ClusterOptions & { redisOptions: NodeOptions } = {
    redisOptions: {
      ...redisOptions,
      ...(first.username ? { username: decodeURIComponent(first.username) } : {}),
      ...(first.password ? { password: decodeURIComponent(first.password) } : {}),
    },
    enableOfflineQueue: false,
    // A node that comes back under its address is found again without the slots having changed.
    clusterNodeRetryStrategy: reconnectMs,
    clusterRetryStrategy: reconnectMs,
    // Anything over 0 would send a command that was in flight on a broken connection a second time.
    retryDelayOnFailover: 0,
    // A Cluster that is down is 503 at once, like any Redis that is away.
    retryDelayOnClusterDown: 0,
    // A redirect is answered before anything is done: following it is no repetition.
    maxRedirections: 8,
    ...(redisOptions.tls === undefined ? {} : { dnsLookup: (host, done) => done(null, host) }),
  };
  const cluster = new ClusterClient(
    nodes.map((node) => ({ host: node.hostname.replace(/^\[|\]$/g, ''), port: Number(node.port || 6379) })),
    options,
  );
  cluster.on('+node', (node: Redis) => {
    // Of a command that waited for a connection in vain it would be unknown whether it was done.
    node.options.enableOfflineQueue = false;
    // Nodes connect at their first command and refuse others meanwhile: rather before it.
    void openNode(node);
  });
  learnFromConnectedNodes(cluster);
  followSlots(cluster);
  return cluster;
}

/**
 * As ioredis's own slotsRefreshInterval, which continues forever if it is refreshing when the client is disconnected.
 */
function followSlots(cluster: ClusterClient): void {
  let timer: NodeJS.Timeout | undefined;
  let lookedAt = 0;
  const look = () => {
    if (cluster.status !== 'ready') {
      clearInterval(timer);
      timer = undefined;
      return;
    }
    const everyMs = cluster.isInTrouble ? SLOTS_REFRESH_MS_IN_TROUBLE : SLOTS_REFRESH_MS;
    if (performance.now() - lookedAt < everyMs) return;
    lookedAt = performance.now();
    cluster.refreshSlotsCache();
  };
  cluster.on('ready', () => {
    timer ??= setInterval(look, SLOTS_REFRESH_MS_IN_TROUBLE).unref();
  });
}

/** Only to be called with a node that a Cluster has made. */
async function openNode(node: Redis): Promise<void> {
  if (node.status === 'wait') await node.connect().catch(() => undefined);
}

async function askEveryNode(client: Commands): Promise<void> {
  if (!(client instanceof Cluster)) {
    await client.ping();
    await replicasReady(client);
    return;
  }
  const nodes = client.nodes('master');
  if (client.status !== 'ready' || nodes.length === 0) throw new Error(`the Cluster's client is ${client.status}`);
  await Promise.all(
    nodes.map(async (node) => {
      await openNode(node);
      if (!(await node.cluster('INFO')).includes('cluster_state:ok')) throw new Error('the Cluster is down');
      if (node.status !== 'ready') throw new Error(`node is ${node.status}`);
      await replicasReady(node);
    }),
  );
}
