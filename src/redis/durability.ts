// Does this Redis keep what it acknowledges? (Asked at a start, after each reconnect and now and then, of every
// master.) `appendonly no` loses every acknowledged event with the process, an evicting policy loses them while it
// runs: both are unsafe. `appendfsync no` loses up to half a minute at a power cut: a warning. The embedded Redis has
// it, and is synced from outside. Where CONFIG is forbidden (managed services, users of an ACL) INFO is read instead,
// which has no `appendfsync`.
// Failure: where neither may be asked, nothing is known of that master, and `unknown` says so: no answer is not
// "unsafe".
import type { Redis } from 'ioredis';
import { type Commands, mastersOf, nameOf } from './client.ts';

/** The settings of one master. null: not to be learnt. */
type NodeSettings = {
  node: string;
  source: 'config' | 'info' | 'none';
  appendonly: boolean | null;
  appendfsync: string | null;
  maxmemoryPolicy: string | null;
  maxmemory: number | null;
};

type Durability = {
  nodes: NodeSettings[];
  /** Sentences, each naming a setting and the master: acknowledged events would be lost. */
  unsafe: string[];
  /** Sentences about what is merely less than it could be. */
  weak: string[];
  /** Masters of which not all could be read from CONFIG. */
  unread: string[];
};

/** Throws where Redis cannot be reached. */
export async function readDurability(client: Commands): Promise<Durability> {
  const nodes = await Promise.all(mastersOf(client).map(settingsOf));
  return { nodes, ...judge(nodes) };
}

function judge(nodes: readonly NodeSettings[]): Pick<Durability, 'unsafe' | 'weak' | 'unread'> {
  const [unsafe, weak, unread]: [string[], string[], string[]] = [[], [], []];
  for (const { node, source, appendonly, appendfsync, maxmemoryPolicy } of nodes) {
    if (appendonly === false)
      unsafe.push(
        `Redis at ${node} has "appendonly no": acknowledged events are lost when it ends (set "appendonly yes")`,
      );
    if (maxmemoryPolicy !== null && maxmemoryPolicy !== 'noeviction')
      unsafe.push(
        `Redis at ${node} has "maxmemory-policy ${maxmemoryPolicy}": when it is full it throws acknowledged events and rules away ` +
          '(set "maxmemory-policy noeviction")',
      );
    if (appendfsync === 'no')
      weak.push(`Redis at ${node} has "appendfsync no": a power cut loses up to half a minute of acknowledged events`);
    if (source === 'info')
      unread.push(`Redis at ${node} does not allow CONFIG GET: INFO was read, which does not show appendfsync`);
    if (source === 'none' || (source === 'info' && (appendonly === null || maxmemoryPolicy === null)))
      unread.push(
        `Redis at ${node} does not show whether it keeps what it acknowledges: it allows neither CONFIG GET nor INFO. ` +
          'The backlog is bounded by the bytes of its streams alone, and a Redis that went back is not noticed by its run',
      );
  }
  return { unsafe, weak, unread };
}

/**
 * By their own words: a replica that is connected and has caught up. One that does not say (INFO is not allowed) is
 * taken to have any.
 */
export async function mastersWithoutReplica(client: Commands): Promise<number> {
  const said = await Promise.all(mastersOf(client).map((node) => allowed(() => node.info('replication'))));
  return said.filter((info) => info !== undefined && !/^slave\d+:.*\bstate=online\b/m.test(info)).length;
}

async function settingsOf(node: Redis): Promise<NodeSettings> {
  const name = nameOf(node);
  const config = await allowed(() => Promise.all(['append*', 'maxmemory*'].map((glob) => node.config('GET', glob))));
  const found = (config ?? []).flat() as string[];
  if (found.length > 0) return { node: name, ...fromConfig(found) };
  const info = await allowed(() => node.info());
  if (info !== undefined) return { node: name, ...fromInfo(info) };
  return { node: name, source: 'none', appendonly: null, appendfsync: null, maxmemoryPolicy: null, maxmemory: null };
}

/** undefined: this user, or this service, may not. What is no refusal of the command itself is thrown. */
async function allowed<T>(ask: () => Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (
      /^(NOPERM|ERR unknown (sub)?command|ERR .*(not allowed|disabled|not supported))/i.test((error as Error).message)
    )
      return undefined;
    throw error;
  }
}

function fromConfig(reply: readonly string[]): Omit<NodeSettings, 'node'> {
  const found = new Map<string, string>();
  for (let i = 0; i + 1 < reply.length; i += 2) found.set(reply[i]!, reply[i + 1]!);
  const appendonly = found.get('appendonly');
  return {
    source: 'config',
    appendonly: appendonly === undefined ? null : appendonly === 'yes',
    appendfsync: found.get('appendfsync') ?? null,
    maxmemoryPolicy: found.get('maxmemory-policy') ?? null,
    maxmemory: found.has('maxmemory') ? Number(found.get('maxmemory')) : null,
  };
}

function fromInfo(info: string): Omit<NodeSettings, 'node'> {
  const field = (name: string) => new RegExp(`^${name}:([^\\r\\n]*)`, 'm').exec(info)?.[1];
  const aof = field('aof_enabled');
  const maxmemory = field('maxmemory');
  return {
    source: 'info',
    appendonly: aof === undefined ? null : aof === '1',
    appendfsync: null,
    maxmemoryPolicy: field('maxmemory_policy') ?? null,
    maxmemory: maxmemory === undefined ? null : Number(maxmemory),
  };
}
