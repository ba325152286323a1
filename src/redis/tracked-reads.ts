// Reads whose keys Redis watches for us: it says by itself when one of them changes (before the registry's cache).
// node-redis's server-assisted caching, without its store: what is read is compiled and kept by the reader, so a
// second copy would be waste; and that store keeps the name of every key ever read, forgets nothing about those it
// evicted, and lets a load that was in flight while everything was dropped be kept.
// Invariant: after a value has been read, `onInvalidate` is called with its key (or null: with everything) before any
// later value can be read here. Whatever may have cost us a notice - a connection that broke or stalled, slots that
// moved - says null. Redis away: reads reject at once; connections come back by themselves.
import { setTimeout as sleep } from 'node:timers/promises';
import { BasicPooledClientSideCache, createClient, createCluster } from 'redis';
import { withTimeout } from '../common/async.ts';
import { type RedisAddress, reconnectMs } from './client.ts';

const CONNECT_TIMEOUT_MS = 2_000;
/** A ping a second, and no answer for three: the connection is dead, whatever the socket says. */
const PING_MS = 1_000;
const SILENT_MS_MAX = 3_000;

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
  readonly #client: Reads;
  #connected: Promise<void> | undefined;
  #closed = false;

  constructor(address: RedisAddress, onInvalidate: (key: string | null) => void) {
    const notices = new Notices(onInvalidate);
    this.#client = address.cluster ? cluster(address.url, notices) : single(address.url, notices);
    // Each read's own failure says what there is to say.
    this.#client.on('error', () => undefined);
    for (const event of ['ready', 'node-ready', 'reconnecting', 'node-reconnecting']) {
      this.#client.on(event, () => onInvalidate(null));
    }
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
    return this.#client.get(key);
  }

  async hget(key: string, field: string): Promise<string | null> {
    return (await this.#client.hGet(key, field)) ?? null;
  }

  hvals(key: string): Promise<string[]> {
    return this.#client.hVals(key);
  }

  close(): void {
    this.#closed = true;
    try {
      this.#client.destroy();
    } catch {
      // It was not open.
    }
  }

  /** A Cluster's client gives up where a single one keeps trying. */
  async #connect(): Promise<void> {
    for (let attempt = 1; !this.#closed; attempt++) {
      try {
        await this.#client.connect();
        return;
      } catch {
        await sleep(reconnectMs(attempt));
      }
    }
  }
}

function single(url: string, clientSideCache: Notices): Reads {
  const socket = { connectTimeout: CONNECT_TIMEOUT_MS, socketTimeout: SILENT_MS_MAX, reconnectStrategy: reconnectMs };
  const path = url.startsWith('unix:') ? url.replace(/^unix:(\/\/)?/, '') : undefined;
  return createClient({
    RESP: 3,
    ...(path === undefined ? { url, socket } : { socket: { ...socket, path, tls: false } }),
    clientSideCache,
    disableOfflineQueue: true,
    pingInterval: PING_MS,
    maintNotifications: 'disabled',
  }) as unknown as Reads;
}

function cluster(urls: string, clientSideCache: Notices): Reads {
  const nodes = urls.split(',').map((url) => new URL(url.trim()));
  const { username, password, protocol } = nodes[0]!;
  return createCluster({
    RESP: 3,
    rootNodes: nodes.map((node) => ({ url: `${node.protocol}//${node.host}` })),
    clientSideCache,
    defaults: {
      ...(username ? { username: decodeURIComponent(username) } : {}),
      ...(password ? { password: decodeURIComponent(password) } : {}),
      socket: {
        connectTimeout: CONNECT_TIMEOUT_MS,
        socketTimeout: SILENT_MS_MAX,
        reconnectStrategy: reconnectMs,
        ...(protocol === 'rediss:' ? { tls: true } : {}),
      },
      disableOfflineQueue: true,
      pingInterval: PING_MS,
      maintNotifications: 'disabled',
    },
  } as Parameters<typeof createCluster>[0]) as unknown as Reads;
}
