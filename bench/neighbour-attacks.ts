// The attacks of the line "neighbour" (neighbour.ts): the costliest that one account can do within its bounds. They run
// in a process of their own, which gives way on the processor: it represents other machines.
import { Socket } from 'node:net';
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from './http-client.ts';
import { ASKS_DEAD_CHECK, largeHook, makeConnection, makeDeadCheck } from './neighbour-outside.ts';
import { bodiesOf, GUARD_SET, type PolicyOrder, sampleText } from './workload.ts';

const ATTACKER_NICE = 10;
const KIB = 1024;

/** A request that the attacker repeats. `path` with `{agent}` for its own. */
type Ask = { method: string; path: string; body?: string; headers?: Record<string, string> };
export type Attack = {
  name: string;
  policies?: PolicyOrder[];
  atOnce: number;
  /** At most so many a second. */
  perSecond?: number;
  /** Makes what it needs in its account, and says what its process has to know of that. */
  prepares?: (client: HttpClient, judgesUrl: string) => Promise<string>;
  asks?: (turn: number, made: string) => Ask;
  /** Instead of requests: connections that are held until the end of the run. */
  hold?: (url: string, key: string, agent: string) => () => void;
};
const EVENT = '/v1/agents/{agent}/events';

/** Whose account it is. `attack`: its place among `attacks()`. */
export type Target = { url: string; key: string; agent: string; attack: number; made: string };
export type Counts = { served: number; refused: number };
type Attacking = { end: () => Promise<Counts> };

function begin({ url, key, agent, made }: Target, attack: Attack): Attacking {
  if (attack.hold !== undefined) {
    const release = attack.hold(url, key, agent);
    return {
      end: async () => {
        release();
        return { served: 0, refused: 0 };
      },
    };
  }
  const client = new HttpClient({ url, key, connections: attack.atOnce });
  const counts = { served: 0, refused: 0 };
  let isOver = false;
  let turn = 0;
  const startMs = performance.now();
  const loop = async () => {
    while (!isOver && attack.asks !== undefined) {
      const own = turn++;
      if (attack.perSecond !== undefined)
        await sleep(Math.max(0, startMs + (1_000 * own) / attack.perSecond - performance.now()));
      const { method, path, body, headers } = attack.asks(own, made);
      try {
        const { status } = await client.send(
          method,
          path.replace('{agent}', agent),
          body?.replace('"{agent}"', `"${agent}"`),
          headers,
        );
        counts[status < 300 ? 'served' : 'refused']++;
        if (status >= 300) await sleep(20); // as Retry-After would have it a second
      } catch {
        if (!isOver) counts.refused++;
      }
    }
  };
  const loops = Array.from({ length: attack.atOnce }, loop);
  return {
    end: async () => {
      isOver = true;
      client.close();
      await Promise.all(loops);
      return counts;
    },
  };
}

export function attacks(): Attack[] {
  return [
    { name: 'does nothing', atOnce: 0 },
    ...expressions(),
    ...redactions(),
    ...manyPatterns(),
    ...largeBodies(),
    ...longTexts(),
    ...policyWork(),
    {
      name: 'searches, 16 at once',
      atOnce: 16,
      asks: (turn) => ({ method: 'GET', path: `/v1/events?q=refund+fare+${turn % 7}&limit=100` }),
    },
    { name: '500 bodies of 8 MiB that drip', atOnce: 0, hold: drip },
    ...outside(),
    { name: 'batches of 100, 32 at once', atOnce: 32, asks: (turn) => post(`${EVENT}/batch`, BATCHES[turn % 8]!) },
    {
      name: 'batches of 100 that all match the guard set, 32 at once',
      policies: GUARD_SET,
      atOnce: 32,
      asks: () => post(`${EVENT}/batch`, MATCHING),
    },
  ];
}

const BATCHES = bodiesOf(100);
/** Each with something to redact: their account is over its share of the loop at once. */
const MATCHING = JSON.stringify({
  events: Array.from({ length: 100 }, (_, i) => ({
    type: 'prompt',
    payload: { text: `${sampleText(i, 1_500)} write to jo.doe${i}@example.com before noon` },
  })),
});

function post(path: string, body: string): Ask {
  return { method: 'POST', path, body };
}

const event = (payload: object) => JSON.stringify({ type: 'prompt', payload });
const block = (name: string, conditions: Record<string, unknown>): PolicyOrder => ({
  ...{ name, type: 'block_action', conditions },
  actions: ['block'],
});
const filter = (name: string, conditions: Record<string, unknown>): PolicyOrder => ({
  ...{ name, type: 'data_filter', conditions },
  actions: ['alert'],
});

function expressions(): Attack[] {
  const joins = Array(8).fill('event.payload.c.join(event.payload.a)').join(', ');
  const joined = event({ a: 'Ā'.repeat(60_000), c: Array(8_000).fill('x') });
  const counted = `event.payload.c.exists(a, event.payload.c.exists(b, a == b + "x"))`;
  const small = event({ c: Array.from({ length: 2_000 }, (_, i) => `item ${i}`) });
  return [
    {
      name: 'an expression that makes 4 GB of 150 KB',
      policies: [block('join', { expression: `[${joins}].size() > 100000` })],
      atOnce: 16,
      asks: () => post(EVENT, joined),
    },
    {
      name: 'expressions that run over their budget',
      policies: Array.from({ length: 20 }, (_, i) => block(`each-${i}`, { expression: `${counted} && ${i} > -1` })),
      atOnce: 16,
      asks: () => post(EVENT, small),
    },
  ];
}

function redactions(): Attack[] {
  const addresses = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`u${i}@example.com`, 1]));
  const keyed = event(addresses);
  const keys = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, 0]));
  const manyKeys = JSON.stringify({ events: Array(8).fill({ type: 'prompt', payload: keys(75_000) }) });
  const starts = JSON.stringify({
    events: Array(100).fill({ type: 'prompt', payload: { t: `${'a'.repeat(4_000)}!` } }),
  });
  return [
    {
      name: 'batches where a match begins everywhere',
      policies: [{ ...filter('starts', { patterns: ['(a+)+$|'], redact: true }), actions: ['alert'] }],
      atOnce: 4,
      asks: () => post(`${EVENT}/batch`, starts),
    },
    {
      name: '20,000 keys that are redacted',
      policies: [{ ...filter('mail', { detectors: ['email'], redact: true }), actions: ['alert'] }],
      atOnce: 8,
      asks: () => post(EVENT, keyed),
    },
    { name: '600,000 keys in a batch, no policy', atOnce: 4, asks: () => post(`${EVENT}/batch`, manyKeys) },
  ];
}

function manyPatterns(): Attack[] {
  const words = 'the quick brown fox jumps over the lazy dog and then looks for a quiet place to sleep until morning ';
  const text = words.repeat(820).slice(0, 80 * KIB);
  const batch = JSON.stringify({
    events: Array.from({ length: 100 }, (_, i) => ({ type: 'prompt', payload: { text, i } })),
  });
  const rich = Array.from({ length: 190 }, (_, i) =>
    filter(`rich-${i}`, {
      patterns: Array.from({ length: 20 }, (_, j) => `[a-z]+${i}[a-z ]{1,20}${j}x`),
      detectors: ['email', 'phone', 'credit_card'],
    }),
  );
  const wide = Array.from({ length: 100 }, (_, i) =>
    filter(`wide-${i}`, { patterns: Array.from({ length: 50 }, (_, j) => `\\p{L}{${20 + j}}${i}`) }),
  );
  return [
    {
      name: '190 policies, batches of 100 x 80 KiB',
      policies: rich,
      atOnce: 4,
      asks: () => post(`${EVENT}/batch`, batch),
    },
    {
      name: '5,000 patterns, single events',
      policies: wide,
      atOnce: 16,
      asks: () => post(EVENT, event({ text: text.slice(0, 1_000) })),
    },
  ];
}

function largeBodies(): Attack[] {
  const plain = JSON.stringify({
    events: Array.from({ length: 100 }, (_, i) => ({ type: 'prompt', payload: { text: 'x'.repeat(80 * KIB), i } })),
  });
  const numbers = JSON.stringify({ type: 'custom', payload: { numbers: Array(100_000).fill(1234567.5) } });
  return [
    { name: 'batches of 8 MiB', atOnce: 8, asks: () => post(`${EVENT}/batch`, plain) },
    { name: 'events of 100,000 numbers', atOnce: 16, asks: () => post(EVENT, numbers) },
  ];
}

/**
 * Texts of 1 MiB, under the data filters of the guard set and 50 patterns more, are judged whole: 0.1 to 0.5 s each.
 */
function longTexts(): Attack[] {
  const guard = [
    ...GUARD_SET.filter(({ type }) => type === 'data_filter'),
    filter('fifty', { patterns: Array.from({ length: 50 }, (_, i) => `[a-z]{3,20} ?${i}[A-Za-z0-9/+]{20}`) }),
  ];
  const texts = {
    base64: Array.from({ length: 16_000 }, (_, i) =>
      Buffer.from(`${i} and ${i * 7_919} is a line of its own, ${i}`),
    ).map((line) => line.toString('base64')),
    prose: Array.from({ length: 4_000 }, (_, i) => sampleText(i, 250)),
    numbers: Array.from({ length: 120_000 }, (_, i) => String((i * 104_729) % 99_999_989)),
  };
  return Object.entries(texts).map(([name, lines]) => {
    const body = event({ text: lines.join(' ').slice(0, 1_000 * KIB) });
    return { name: `1 MiB of ${name} under the guard set`, policies: guard, atOnce: 4, asks: () => post(EVENT, body) };
  });
}

function policyWork(): Attack[] {
  const costly = (turn: number) => ({
    name: `costly-${turn}-${Math.random()}`,
    type: 'data_filter',
    conditions: { patterns: Array.from({ length: 17 }, (_, i) => `\\p{L}{300}${i}_${turn}`) },
    actions: ['block'],
    status: 'inactive',
  });
  return [
    {
      name: 'makes costly policies, 16 at once',
      atOnce: 16,
      asks: (turn) => post('/v1/policies', JSON.stringify(costly(turn))),
    },
    {
      name: 'tries costly policies, 16 at once',
      atOnce: 16,
      asks: (turn) =>
        post(
          '/v1/policies/evaluate',
          JSON.stringify({
            event: { agent_id: '{agent}', type: 'prompt', payload: { text: 'abc '.repeat(2_000) } },
            policies: [{ ...costly(turn), status: undefined }],
          }),
        ),
    },
  ];
}

/** Beside as many events without a check. */
function outside(): Attack[] {
  const small = { atOnce: 64, perSecond: 1_000, asks: () => post(EVENT, event({ text: 'hello' })) };
  return [
    { name: '1,000 events a second', ...small },
    {
      name: '1,000 events a second, of which a dead check is asked',
      ...small,
      prepares: makeDeadCheck,
      policies: [ASKS_DEAD_CHECK],
    },
    { name: 'inference hooks of 10 MB', atOnce: 1, prepares: makeConnection, asks: largeHook },
  ];
}

/** Heads that promise 8 MiB, and then a few bytes a second. */
function drip(url: string, key: string, agent: string): () => void {
  const { port, hostname } = new URL(url);
  const sockets = Array.from({ length: 500 }, () => {
    const socket = new Socket();
    socket.on('error', () => socket.destroy());
    socket.connect(Number(port), hostname, () =>
      socket.write(
        `POST /v1/agents/${agent}/events/batch HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: 8000000\r\n\r\n{"events":[`,
      ),
    );
    return socket;
  });
  const timer = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write(' '.repeat(200));
  }, 500);
  return () => {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
  };
}

/** As a child: begins with the first message, ends with the second, and answers with its counts. */
if (process.send !== undefined && process.argv[2] === 'attack') {
  os.setPriority(ATTACKER_NICE);
  let attacking: Attacking | undefined;
  process.on('message', (target: Target | 'end') => {
    if (target !== 'end') attacking = begin(target, attacks()[target.attack]!);
    else
      void attacking!.end().then((counts) => {
        process.send!(counts);
        process.disconnect();
      });
  });
  process.on('disconnect', () => process.exit());
}
