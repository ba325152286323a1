// What Redis Sentinels say of a master and its replicas (for clients of a `redis+sentinel://` address; commands follow
// a promotion by ioredis itself). Sentinels keep no rule that one alone could not break: so a replica is taken to be
// dead where most of them hold it so, as a Redis Cluster's nodes do among themselves (replicas.ts).
// Failure: no Sentinel answers: rejects; each question is one of its own, and their connections come back by
// themselves.
import { Redis } from 'ioredis';
import { REDIS_TIMEOUT_MS } from '../common/limits.ts';
import type { SentinelAddress } from '../common/sentinel-address.ts';
import { reconnectMs } from './reconnect.ts';

export class Sentinels {
  readonly #name: string;
  readonly #clients: Redis[];

  constructor({ hosts, name }: SentinelAddress) {
    this.#name = name;
    this.#clients = hosts.map(({ host, port }) => {
      const client = new Redis({
        ...{ host, port, replyMapping: 'legacy', maxRetriesPerRequest: 0, enableOfflineQueue: false },
        ...{ commandTimeout: REDIS_TIMEOUT_MS / 2, retryStrategy: reconnectMs, disableClientInfo: true },
      });
      // Each question's own failure says what there is to say.
      client.on('error', () => undefined);
      return client;
    });
  }

  /** Where the master is, by the first Sentinel that answers; a new one is said by all within a moment. */
  async master(): Promise<{ host: string; port: number }> {
    const [host, port] = await Promise.any(
      this.#clients.map(async (client) => {
        const found = (await client.call('SENTINEL', 'get-master-addr-by-name', this.#name)) as [string, string] | null;
        if (found === null) throw new Error(`no master is known as ${this.#name}`);
        return found;
      }),
    );
    return { host, port: Number(port) };
  }

  /** Replicas of the master but those that most Sentinels hold to be away, or have not heard of since a promotion. */
  async replicas(): Promise<number> {
    const answers = await Promise.allSettled(
      this.#clients.map((client) => client.call('SENTINEL', 'replicas', this.#name) as Promise<string[][]>),
    );
    const said = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    if (said.length === 0) throw new Error('no Sentinel answers');
    const votesAgainst = new Map<string, number>();
    for (const replica of said.flat().map(toMap)) {
      const name = `${replica.get('ip')}:${replica.get('port')}`;
      const isAway = /s_down|o_down/.test(replica.get('flags') ?? '') || replica.get('master-host') === '?';
      votesAgainst.set(name, (votesAgainst.get(name) ?? 0) + (isAway ? 1 : 0));
    }
    return [...votesAgainst.values()].filter((votes) => votes <= this.#clients.length / 2).length;
  }

  close(): void {
    for (const client of this.#clients) client.disconnect();
  }
}

function toMap(flat: readonly string[]): Map<string, string> {
  const map = new Map<string, string>();
  for (let i = 0; i + 1 < flat.length; i += 2) map.set(flat[i]!, flat[i + 1]!);
  return map;
}
