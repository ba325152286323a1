// What a user of Redis's access control lists must be allowed to do for Gatehouse (asked at every start, before
// anything else is done there): the list that docs/own-stores.md has, and the question which of it is refused.
// The question has no effect: Redis checks the rights to a command when it is queued in a transaction, and the
// transaction is discarded. All of a master's questions go in one write.
// Invariant: what the service sends to Redis is in this list. Every whole-service test on a Redis Cluster has a user
// with these rights alone.
// Failure: where MULTI is refused nothing can be asked, and that is what is said.
import type { Redis } from 'ioredis';
import { type Commands, mastersOf, mayHaveReplicas, nameOf, type RedisAddress } from './client.ts';

/** Commands with a form in which each could be sent; `k` stands for a key. */
const OF_KEYS = [
  ...['get k', 'set k 0', 'setnx k 0', 'del k', 'exists k', 'incr k', 'mget k', 'pexpire k 1', 'strlen k'],
  ...['hget k f', 'hset k f 0', 'hsetnx k f 0', 'hdel k f', 'hmget k f', 'hgetall k', 'hvals k', 'hkeys k', 'hlen k'],
  ...['hscan k 0', 'hincrby k f 1', 'rpush k 0', 'lpop k', 'llen k', 'lindex k 0'],
  ...['pttl k', 'type k', 'hexists k f', 'lrange k 0 1', 'lset k 0 0', 'lpush k 0', 'ltrim k 0 1', 'srandmember k 1'],
  ...['sadd k m', 'srem k m', 'sismember k m', 'smismember k m', 'smembers k', 'scard k'],
  ...['zadd k 0 m', 'zrem k m', 'zcard k', 'zcount k 0 1', 'zrange k 0 1', 'zrangebyscore k 0 1'],
  ...['zrevrangebylex k + -', 'zscore k m', 'zmscore k m', 'zremrangebyscore k 0 1', 'zremrangebyrank k 0 1'],
  ...['xadd k * f 0', 'xlen k', 'xrange k - +', 'xrevrange k + -', 'xtrim k maxlen 0', 'xdel k 0-1', 'xack k g 0-1'],
  ...['xpending k g', 'xinfo|stream k', 'xinfo|groups k', 'xgroup|create k g 0', 'xgroup|setid k g 0'],
  ...['eval s 1 k', 'evalsha 0 1 k', 'memory|usage k', 'publish k 0'],
];
const OF_CONNECTIONS = ['ping', 'time', 'select 0', 'multi', 'discard', 'client|tracking off'];
const OF_CLUSTERS = [
  'client|setname n',
  'readonly',
  'readwrite',
  'cluster|slots',
  'cluster|info',
  'cluster|nodes',
  'cluster|keyslot k',
];
const OF_REPLICAS = ['wait 0 0'];
/** Without these it works, with less: docs/own-stores.md says what. */
const OPTIONAL = ['info', 'config|get appendonly', 'bgrewriteaof', 'subscribe k'];

/** The rules of such a user, as ACL SETUSER takes them, but for its password. */
export function aclRules(prefix: string): string[] {
  const forms = [...OF_KEYS, ...OF_CONNECTIONS, ...OF_CLUSTERS, ...OF_REPLICAS, ...OPTIONAL];
  return [`~{${prefix}*`, `&{${prefix}*`, ...forms.map((form) => `+${commandOf(form)}`)];
}

/**
 * Sentences, one a master, that name the commands which the connection's user may not send, or the keys that it may not
 * touch; empty: all is allowed. Throws where Redis cannot be reached.
 */
export async function refusedAccess(client: Commands, address: RedisAddress, prefix: string): Promise<string[]> {
  const forms = [
    ...[...OF_KEYS, ...OF_CONNECTIONS.filter((form) => !TRANSACTION.has(form))],
    ...(address.cluster ? OF_CLUSTERS : []),
    ...(mayHaveReplicas(address) ? OF_REPLICAS : []),
  ];
  const found = await Promise.all(mastersOf(client).map((node) => refusedBy(node, forms, prefix)));
  return found.flat();
}

const TRANSACTION: ReadonlySet<string> = new Set(['multi', 'discard']);

async function refusedBy(node: Redis, forms: readonly string[], prefix: string): Promise<string[]> {
  const name = `Redis at ${nameOf(node)}`;
  // Without a transaction what follows would be carried out.
  const opened = await send(node, [['multi'], ['discard']]);
  if (opened.some(isRefusal)) return [`${name} refuses MULTI and DISCARD, so nothing is known of other commands`];
  const key = `{${prefix}g}:access`;
  const answers = await send(node, [['multi'], ...forms.map((form) => wordsOf(form, key)), ['discard']]);
  const refused = forms.filter((_, i) => isRefusal(answers[i + 1]));
  if (refused.length === 0) return [];
  const isOfTheKey = refused.every((form) => OF_KEYS.includes(form)) && /\bkeys?\b/i.test(answers[1]?.message ?? '');
  if (isOfTheKey) return [`${name} does not let this user touch keys that begin with "{${prefix}"`];
  return [
    `${name} does not let this user send ${refused.map(commandOf).join(', ').toUpperCase().replaceAll('|', ' ')}`,
  ];
}

/** Errors of the commands, or null. */
async function send(node: Redis, commands: string[][]): Promise<(Error | null)[]> {
  const pipeline = node.pipeline(commands.map(([command, ...args]) => ['call', command!, ...args]));
  return ((await pipeline.exec()) ?? []).map(([error]) => error);
}

/** A command that was renamed or switched off is as good as one that is not allowed. */
function isRefusal(error: Error | null | undefined): boolean {
  return /^(NOPERM|ERR unknown (sub)?command)/i.test(error?.message ?? '');
}

function commandOf(form: string): string {
  return form.split(' ')[0]!;
}

function wordsOf(form: string, key: string): string[] {
  const [command, ...args] = form.split(' ');
  return [...command!.split('|'), ...args.map((word) => (word === 'k' ? key : word))];
}
