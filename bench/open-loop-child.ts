// The process that makes an open-loop load: keep-alive connections over node:net (node:tls for https), one request at a
// time on each. Takes one order (OpenLoad) by message, answers with the samples. It sleeps between ticks of a
// millisecond: a loop without sleep would take a processor from the server that it measures. So half a millisecond of
// every latency is its own. Bounds: samples are allotted once from the schedule's count; what is still due or open
// GRACE_MS after the end is given up.
import net from 'node:net';
import tls from 'node:tls';
import { GIVEN_UP, NO_ANSWER, type OpenLoad, SAMPLES_MAX, type Samples, Schedule } from './open-loop.ts';

const TICK_MS = 1;
/** Longer than any caller waits. */
const GRACE_MS = 10_000;
const CONNECT_AGAIN_MS = 50;
const IDLE_MS_MAX = 8_000;
/** For all connections to be made before the first request is due. */
const CONNECT_MS = 300;
/**
 * One for all: what is read is inspected before the next read. A buffer for each read had cost an eighth of the
 * generator's time.
 */
const READ_BUFFER = Buffer.allocUnsafeSlow(65_536);
const HEAD_END = Buffer.from('\r\n\r\n');

class Recorder {
  readonly #samples: Omit<Samples, 'unsent' | 'cpuSeconds'>;
  count = 0;

  constructor(most: number) {
    if (most > SAMPLES_MAX) throw new Error(`${most} requests are more than a run may have (${SAMPLES_MAX})`);
    this.#samples = {
      dueMs: new Float64Array(most),
      latencyMs: new Float64Array(most),
      status: new Uint16Array(most),
    };
  }

  add(dueMs: number, latencyMs: number, status: number): void {
    const i = this.count++;
    this.#samples.dueMs[i] = dueMs;
    this.#samples.latencyMs[i] = latencyMs;
    this.#samples.status[i] = status;
  }

  take(unsent: number): Samples {
    const { dueMs, latencyMs, status } = this.#samples;
    const end = this.count;
    const { user, system } = process.cpuUsage();
    return {
      dueMs: dueMs.slice(0, end),
      latencyMs: latencyMs.slice(0, end),
      status: status.slice(0, end),
      unsent,
      cpuSeconds: (user + system) / 1e6,
    };
  }
}

type Address = { host: string; port: number; isSecure: boolean };

type ConnectionEvents = {
  idle(connection: Connection): void;
  /** It is being connected again, and `idle` once it is. */
  gone(connection: Connection): void;
  answer(status: number, dueMs: number): void;
};

/** One keep-alive connection; knows nothing of HTTP but status and Content-Length, which every answer here has. */
class Connection {
  readonly #address: Address;
  readonly #events: ConnectionEvents;
  #socket!: net.Socket;
  #head: Buffer | undefined;
  #status = 0;
  #left = 0;
  #busy = false;
  #closed = false;
  #dueMs = 0;
  #idleMs = 0;

  constructor(address: Address, events: ConnectionEvents) {
    this.#address = address;
    this.#events = events;
    this.#connect();
  }

  send(request: Buffer, dueMs: number): void {
    this.#busy = true;
    this.#dueMs = dueMs;
    this.#socket.write(request);
  }

  /** Servers close what is idle for some ten seconds; a sound client uses no connection that may be closing. */
  isStale(nowMs: number): boolean {
    return nowMs - this.#idleMs > IDLE_MS_MAX;
  }

  /** Connects again; `idle` follows. */
  renew(): void {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
    this.#connect();
  }

  close(): void {
    this.#closed = true;
    this.#socket.destroy();
  }

  #connect(): void {
    const { isSecure, ...address } = this.#address;
    this.#socket = isSecure ? this.#openSecure(address) : this.#open(address);
    this.#head = undefined;
    this.#left = 0;
    this.#socket.on(isSecure ? 'secureConnect' : 'connect', () => this.#isIdle());
    this.#socket.on('error', () => undefined); // 'close' follows
    this.#socket.on('close', () => {
      if (this.#closed) return;
      if (this.#busy) this.#finish(NO_ANSWER);
      this.#events.gone(this);
      setTimeout(() => this.#connect(), CONNECT_AGAIN_MS);
    });
  }

  #open(address: { host: string; port: number }): net.Socket {
    return net.connect({
      ...address,
      noDelay: true,
      onread: {
        buffer: READ_BUFFER,
        callback: (length) => {
          this.#read(READ_BUFFER.subarray(0, length));
          return true;
        },
      },
    });
  }

  #openSecure(address: { host: string; port: number }): net.Socket {
    const servername = net.isIP(address.host) === 0 ? { servername: address.host } : {};
    const socket = tls.connect({ ...address, ...servername });
    socket.setNoDelay(true);
    return socket.on('data', (chunk: Buffer) => this.#read(chunk));
  }

  #read(chunk: Buffer): void {
    if (this.#left > 0) {
      this.#left -= chunk.length;
    } else {
      const bytes = this.#head === undefined ? chunk : Buffer.concat([this.#head, chunk]);
      const end = bytes.indexOf(HEAD_END);
      if (end < 0) {
        this.#head = Buffer.from(bytes); // the buffer is the next reader's
        return;
      }
      this.#head = undefined;
      const head = bytes.toString('latin1', 0, end);
      this.#status = Number(head.slice(9, 12));
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      this.#left = length - (bytes.length - end - HEAD_END.length);
    }
    if (this.#left > 0) return;
    this.#left = 0;
    this.#finish(this.#status);
    this.#isIdle();
  }

  #isIdle(): void {
    this.#idleMs = performance.now();
    this.#events.idle(this);
  }

  #finish(status: number): void {
    this.#busy = false;
    this.#events.answer(status, this.#dueMs);
  }
}

function run(load: OpenLoad): Promise<Samples> {
  const startMs = performance.now() + CONNECT_MS;
  const schedule = new Schedule(load.phases, startMs);
  const recorder = new Recorder(schedule.count);
  const requests = load.requests.map(({ path, key, body }) => requestBytes(load.url, path, key, load.bodies[body]!));
  const { giveUpMs = Number.POSITIVE_INFINITY } = load;
  const idle: Connection[] = [];
  const pump = () => {
    while (idle.length > 0) {
      const nowMs = performance.now();
      while (idle.at(-1)?.isStale(nowMs)) idle.pop()!.renew();
      if (idle.length === 0) return;
      const dueMs = schedule.take(nowMs);
      if (dueMs === undefined) return;
      if (nowMs - dueMs > giveUpMs) {
        recorder.add(dueMs - startMs, nowMs - dueMs, GIVEN_UP);
        continue;
      }
      const request = requests[schedule.taken % requests.length]!;
      idle.pop()!.send(request, dueMs);
    }
  };
  const events: ConnectionEvents = {
    idle(connection) {
      idle.push(connection);
      pump();
    },
    gone(connection) {
      const at = idle.indexOf(connection);
      if (at >= 0) idle.splice(at, 1);
    },
    answer: (status, dueMs) => recorder.add(dueMs - startMs, performance.now() - dueMs, status),
  };
  const address = addressOf(load.url);
  const connections = Array.from({ length: load.connections }, () => new Connection(address, events));
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      pump();
      const isDone = recorder.count === schedule.count || performance.now() > schedule.endMs + GRACE_MS;
      if (!isDone) return;
      clearInterval(timer);
      for (const connection of connections) connection.close();
      resolve(recorder.take(schedule.count - recorder.count));
    }, TICK_MS);
  });
}

function addressOf(url: string): Address {
  const { protocol, hostname, port } = new URL(url);
  const isSecure = protocol === 'https:';
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (isSecure ? 443 : 80)), isSecure };
}

function requestBytes(url: string, path: string, key: string, body: string): Buffer {
  const head = `POST ${path} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

process.once('message', async (load) => {
  const samples = await run(load as OpenLoad);
  process.send!(samples, () => process.disconnect());
});
