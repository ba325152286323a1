// Question: what do feeds and the usage by day cost what comes in?
// Method: batches over a closed loop, five policies, with nothing beside it; with an outgoing feed of events and their
// audit log to a receiver on this machine, which answers at once; with a reader of the same by GET /v1/feed; and with
// GET /v1/usage asked each second. In turns, medians over the turns; what counts is how many events a second are taken
// in, one against the other, and the processor time an event of pipelines and ClickHouse, which read for them. A feed
// is made when its turn begins, so that none has to catch up with a turn before. Receiver and reader share the cores.
import { authorityFile } from '../test/support/certificate.ts';
import { startReceiver } from '../test/support/https-receiver.ts';
import { gatehouse } from './contenders.ts';
import { whenEnded } from './ending.ts';
import { HttpClient } from './http-client.ts';
import { beginLine, hand } from './report.ts';
import { type Around, type Entrant, runRounds, turnCells } from './rounds.ts';
import { type BenchService, startBenchService } from './service.ts';
import { makeAgents, setPolicies } from './setup.ts';
import { BATCH_EVENTS, FIVE_POLICIES, requestsOf, sendersOf } from './workload.ts';

const AGENTS = 64;
const CONNECTIONS = 8;
const TOPICS = ['events', 'audit_log'];
const USAGE_EVERY_MS = 1_000;

export async function followers(options: { turns: number; seconds: number }): Promise<boolean> {
  const machine = beginLine('followers');
  const ends: (() => unknown)[] = [];
  const owner = {
    teardown: (end: () => unknown) =>
      void ends.push(
        end,
        whenEnded(async () => void (await end())),
      ),
  };
  const receiver = await startReceiver(owner as never);
  const service = await startBenchService({
    ...{ GATEHOUSE_FRONTS: '1', GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${receiver.port}` },
    NODE_EXTRA_CA_CERTS: await authorityFile(owner as never),
  });
  try {
    const agents = await makeAgents(service, AGENTS);
    await setPolicies(service, FIVE_POLICIES);
    const load = requestsOf(sendersOf(agents, service.key), { events: BATCH_EVENTS, connections: CONNECTIONS });
    let received = 0;
    receiver.answer = (_request, response) => {
      received++;
      receiver.received.length = 0;
      response.end();
    };
    const ways: Record<string, Around | undefined> = {
      'nothing beside it': undefined,
      'an outgoing feed': sentTo(service, receiver.url),
      'a reader of the feed': read(service),
      'usage asked each second': asked(service),
    };
    const entrants = Object.entries(ways).map(
      ([name, around]): Entrant => ({ name, contender: gatehouse(service), load, ...(around && { around }) }),
    );
    const results = await runRounds(entrants, { ...options, services: [service] });
    const alone = results.get('nothing beside it')!.eventsPerSecond;
    const rows = entrants.map(({ name }) => {
      const turn = results.get(name)!;
      return { '': name, ...turnCells(turn, { 'to nothing': turn.eventsPerSecond / alone }) };
    });
    const command = `npm run bench -- followers --turns ${options.turns} --seconds ${options.seconds}`;
    const question = 'what do feeds and the usage by day cost what comes in?';
    hand({ line: 'followers', question, command, rows }, machine);
    return received > 0;
  } finally {
    await service.stop();
    for (const end of ends) await end();
  }
}

function sentTo(service: BenchService, url: string): Around {
  return (load) =>
    withClient(service, async (client) => {
      const order = { name: 'bench', url: `${url}/feed`, topics: TOPICS, body: 'lines' };
      const { id } = await client.json<{ id: string }>('POST', '/v1/outgoing-feeds', order);
      try {
        return await load();
      } finally {
        await client.send('DELETE', `/v1/outgoing-feeds/${id}`);
      }
    });
}

function read(service: BenchService): Around {
  const path = `/v1/feed?topics=${TOPICS.join(',')}`;
  return (load) =>
    withClient(service, async (client) => {
      let { cursor } = await client.json<{ cursor: string }>('GET', path);
      return whileAsking(load, 0, async () => {
        ({ cursor } = await client.json<{ cursor: string }>('GET', `${path}&wait=1&limit=5000&after=${cursor}`));
      });
    });
}

function asked(service: BenchService): Around {
  return (load) =>
    withClient(service, (client) => whileAsking(load, USAGE_EVERY_MS, () => client.json('GET', '/v1/usage')));
}

/** One call after the other, each so long behind the one before, until the load is over. */
async function whileAsking<T>(load: () => Promise<T>, everyMs: number, call: () => Promise<unknown>): Promise<T> {
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      await call();
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  })();
  try {
    return await load();
  } finally {
    isOver = true;
    await asking;
  }
}

async function withClient<T>(service: BenchService, use: (client: HttpClient) => Promise<T>): Promise<T> {
  const client = new HttpClient({ ...service, connections: 1 });
  try {
    return await use(client);
  } finally {
    client.close();
  }
}
