// Reads whose keys Redis watches for us: it says by itself when one of them changes (before the registry's cache).
// node-redis's server-assisted caching, without its store: what is read is compiled and kept by the reader, so a
// second copy would be waste; and that store keeps the name of every key ever read, forgets nothing about those it
// evicted, and lets a load that was in flight while everything was dropped be kept.
// Invariant: after a value has been read, `onInvalidate` is called with its key (or null: with everything) before any
// later value can be read here. Whatever may have cost us a notice - a connection that broke or stalled, slots that
// moved - says null. Redis away: reads reject at once; connections come back by themselves. A Cluster's client asks for
// the slots again only when it is redirected or loses a connection: a master that is cut off from its peers does
// neither, it answers CLUSTERDOWN. So a read that fails there has another client made, which asks for the slots. With
// Sentinels the client is of the master that they name; they are asked again each second and when a read fails.
import { setTimeout as sleep } from 'node:timers/promises';
import { BasicPooledClientSideCache, createClient, createCluster } from 'redis';
import { Periodic, withTimeout } from '../common/async.ts';
import { given } from '../common/given.ts';
import { isSentinelAddress, sentinelAddressOf } from '../common/sentinel-address.ts';
import type { RedisAddress } from './client.ts';
import { reconnectMs } from './reconnect.ts';
import { Sentinels } from './sentinel.ts';

const CONNECT_TIMEOUT_MS = 2_000;
/** A ping a second, and no answer for three: the connection is dead, whatever the socket says. */
const PING_MS = 1_000;
const SILENT_MS_MAX = 3_000;
/** While reads fail, the client is replaced this often: a promotion is followed well within 2 s. */
const RENEW_MS = 500;
/** A client that takes another's place has so long to connect: it keeps trying, perhaps at a node that is gone. */
const RENEW_CONNECT_MS = 1_000;
/** A master that was cut off is read no longer than this after a promotion. */
const MASTER_LOOK_MS = 1_000;

type Reads = {
  get(key: string): Promise<string | null>;
  hGet(key: string, field: string): Promise<string | null | undefined>;
  hVals(key: string): Promise<string[]>;
  connect(): Promise<unknown>;
  destroy(): void;
  on(event: string, listener: (...args: unknown[]) => void): unknown;
};

/** Lets every read through, and passes on what Redis says of its keys. */
class Notices extends BasicPooledClientSideCache {
  readonly #onInvalidate: (key: string | null) => void;

  constructor(onInvalidate: (key: string | null) => void) {
    super({ maxEntries: 1, recordStats: false });
    this.#onInvalidate = onInvalidate;
  }

  override async handleCache(...args: Parameters<BasicPooledClientSideCache['handleCache']>): Promise<unknown> {
    const [, parser, send, transformReply, typeMapping] = args;
    const reply = await send();
    return transformReply ? transformReply(reply, parser.preserve, typeMapping) : reply;
  }

  override invalidate(key: string | Buffer | null): void {
    this.#onInvalidate(key === null ? null : key.toString());
  }

  /** Called when connections break and when slots may have moved. */
  override clear(): void {
    this.#onInvalidate(null);
  }

  override onError(): void {
    this.#onInvalidate(null);
  }

  override onClose(): void {
    this.#onInvalidate(null);
  }
}

export class TrackedReads {
  readonly #address: RedisAddress;
  readonly #onInvalidate: (key: string | null) => void;
  readonly #sentinels: Sentinels | undefined;
  readonly #looks = new Periodic(MASTER_LOOK_MS, () => this.#lookForMaster());
  /** The URL of the master that Sentinels named: `redis://host:port`. */
  #master: string | undefined;
  /** undefined: no Sentinel has named a master yet. */
  #client: Reads | undefined;
  #connected: Promise<void> | undefined;
  #isOpen = false;
  #renewing = false;
  #renewedAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(address: RedisAddress, onInvalidate: (key: string | null) => void) {
    this.#address = address;
    this.#onInvalidate = onInvalidate;
    if (isSentinelAddress(address.url)) this.#sentinels = new Sentinels(sentinelAddressOf(address.url)!);
    else this.#client = this.#make(address);
  }

  /** Resolves with whether it is connected within `timeoutMs`; keeps trying after that. */
  async connect(timeoutMs: number): Promise<boolean> {
    this.#connected ??= this.#connect();
    return withTimeout(
      this.#connected.then(() => true),
      timeoutMs,
      () => false,
    );
  }

  get(key: string): Promise<string | null> {
    return this.#read((client) => client.get(key));
  }

  async hget(key: string, field: string): Promise<string | null> {
    return (await this.#read((client) => client.hGet(key, field))) ?? null;
  }

  hvals(key: string): Promise<string[]> {
    return this.#read((client) => client.hVals(key));
  }

  close(): void {
    this.#closed = true;
    void this.#looks.stop();
    this.#sentinels?.close();
    destroy(this.#client);
  }

  async #read<T>(read: (client: Reads) => Promise<T>): Promise<T> {
    const client = this.#client;
    try {
      if (client === undefined) throw new Error('no Sentinel has named a master yet');
      return await read(client);
    } catch (error) {
      const isFollowing = this.#address.cluster || this.#sentinels !== undefined;
      if (isFollowing && client === this.#client) void this.#renew();
      throw error;
    }
  }

  /**
   * Another client in the place of this one, once it has found the slots. Reads go on through the old one until then.
   */
  async #renew(): Promise<void> {
    const now = performance.now();
    if (!this.#isOpen || this.#renewing || this.#closed || now - this.#renewedAt < RENEW_MS) return;
    this.#renewing = true;
    this.#renewedAt = now;
    let fresh: Reads | undefined;
    try {
      const address = await this.#current();
      fresh = this.#make(address);
      await withTimeout(fresh.connect(), RENEW_CONNECT_MS, () => {
        throw new Error('no connection in time');
      });
      const old = this.#client;
      this.#client = this.#closed ? old : fresh;
      if (!this.#closed) this.#master = address.url;
      destroy(this.#closed ? fresh : old);
      this.#onInvalidate(null);
    } catch {
      destroy(fresh); // No node answers: the next read that fails tries again.
    } finally {
      this.#renewing = false;
    }
  }

  async #lookForMaster(): Promise<void> {
    const address = await this.#current().catch(() => undefined);
    if (address !== undefined && address.url !== this.#master) await this.#renew();
  }

  /** The address of what is read: with Sentinels that of the master that they name. */
  async #current(): Promise<RedisAddress> {
    if (this.#sentinels === undefined) return this.#address;
    const { username, password, database } = sentinelAddressOf(this.#address.url)!;
    const { host, port } = await this.#sentinels.master();
    const user = password === '' ? '' : `${encodeURIComponent(username)}:${encodeURIComponent(password)}@`;
    return { ...this.#address, url: `redis://${user}${host.includes(':') ? `[${host}]` : host}:${port}/${database}` };
  }

  #make(address: RedisAddress): Reads {
    const notices = new Notices(this.#onInvalidate);
    const client = address.cluster ? cluster(address, notices) : single(address, notices);
    // Each read's own failure says what there is to say.
    client.on('error', () => undefined);
    for (const event of ['ready', 'node-ready', 'reconnecting', 'node-reconnecting'])
      client.on(event, () => this.#onInvalidate(null));
    return client;
  }

  /** A Cluster's client gives up where a single one keeps trying. */
  async #connect(): Promise<void> {
    for (let attempt = 1; !this.#closed; attempt++) {
      try {
        if (this.#client === undefined) {
          const address = await this.#current();
          this.#client = this.#make(address);
          this.#master = address.url;
        }
        await this.#client.connect();
        this.#isOpen = true;
        if (this.#sentinels !== undefined) this.#looks.start();
        return;
      } catch {
        await sleep(reconnectMs(attempt));
      }
    }
  }
}

function destroy(client: Reads | undefined): void {
  try {
    client?.destroy();
  } catch {
    // It was not open.
  }
}

const SOCKET = { connectTimeout: CONNECT_TIMEOUT_MS, socketTimeout: SILENT_MS_MAX, reconnectStrategy: reconnectMs };

function single({ url, tls }: RedisAddress, clientSideCache: Notices): Reads {
  const path = url.startsWith('unix:') ? url.replace(/^unix:(\/\/)?/, '') : undefined;
  const socket = url.startsWith('rediss:') ? { ...SOCKET, ...given({ ...tls }), tls: true as const } : SOCKET;
  return createClient({
    RESP: 3,
    ...(path === undefined ? { url, socket } : { socket: { ...socket, path, tls: false } }),
    clientSideCache,
    disableOfflineQueue: true,
    pingInterval: PING_MS,
    maintNotifications: 'disabled',
  }) as unknown as Reads;
}

function cluster({ url: urls, tls }: RedisAddress, clientSideCache: Notices): Reads {
  const nodes = urls.split(',').map((url) => new URL(url.trim()));
  const { username, password, protocol } = nodes[0]!;
  return createCluster({
    RESP: 3,
    rootNodes: nodes.map((node) => ({ url: `${node.protocol}//${node.host}` })),
    clientSideCache,
    defaults: {
      ...(username ? { username: decodeURIComponent(username) } : {}),
      ...(password ? { password: decodeURIComponent(password) } : {}),
      socket: protocol === 'rediss:' ? { ...SOCKET, ...given({ ...tls }), tls: true } : SOCKET,
      disableOfflineQueue: true,
      pingInterval: PING_MS,
      maintNotifications: 'disabled',
    },
  } as Parameters<typeof createCluster>[0]) as unknown as Reads;
}
