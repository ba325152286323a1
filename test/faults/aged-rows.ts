// Retention and a legal hold while everything is killed (mixed-kills.ts): an account of its own gets rows that arrived
// long ago, of an agent that is held and of one that is not; a shorter retention is set and taken back all the time.
// While it is in force no read shows what is past; what is held is always there; and in the end the tables hold what is
// held, and nothing else that is past.
import { setTimeout as sleep } from 'node:timers/promises';
import { HttpClient } from '../../bench/http-client.ts';
import { ClickHouse } from '../../clickhouse/client.ts';
import { eventually } from '../streams/harness.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { encodeStored, plainEvent } from '../support/clickhouse.ts';

type Addresses = { redisUrl: string; clickhouseUrl: string; clickhouseDatabase: string };

const DAY_MS = 86_400_000;
const [AGE_DAYS, SHORT_DAYS] = [60, 30];
const ROWS = 20;
const PAUSE_MS = 3_000;
const SETTLED_MS_MAX = 300_000;

export class AgedRows {
  readonly #url: string;
  readonly #addresses: () => Addresses | undefined;
  readonly #wrong: string[] = [];
  #client!: HttpClient;
  #account = '';
  #held = '';
  #plain = '';
  /** Rows of the agent that is held. Those of the other are as many. */
  #rows = 0;
  #rounds = 0;

  constructor(url: string, addresses: () => Addresses | undefined) {
    this.#url = url;
    this.#addresses = addresses;
  }

  async prepare(): Promise<void> {
    const { redisUrl } = this.#addresses()!;
    const addresses = async () => ({ ...this.#addresses()!, redisUrl, redisCluster: false });
    const key = await keyOfNewAccount({ addresses }, 'aged');
    this.#client = new HttpClient({ url: this.#url, key, connections: 2 });
    const idOf = async (path: string, body?: object) =>
      (await this.#client.json<{ id: string }>(body === undefined ? 'GET' : 'POST', path, body)).id;
    this.#account = await idOf('/v1/account');
    this.#held = await idOf('/v1/agents', { name: 'held' });
    this.#plain = await idOf('/v1/agents', { name: 'plain' });
    await idOf('/v1/holds', { reason: 'kills', agent_id: this.#held });
  }

  async run(isOver: () => boolean): Promise<void> {
    for (; !isOver(); await sleep(PAUSE_MS)) {
      await this.#age();
      await this.#retention({ days: SHORT_DAYS });
      // Another front knows it within a second.
      await eventually(async () => (await this.#seen()).plain === 0);
      const { held, plain } = await this.#seen();
      if (held < this.#rows) this.#wrong.push(`${held} of ${this.#rows} held rows are read`);
      if (plain > 0) this.#wrong.push(`${plain} rows that are past are read`);
      this.#rounds++;
      if (!isOver()) await this.#retention(null);
    }
    await this.#retention({ days: SHORT_DAYS });
  }

  async verify(): Promise<{ aged: number; retentions: number; wrong: string[] }> {
    const counts = async () => ({
      held: await this.#stored(this.#held).catch(() => -1),
      plain: await this.#stored(this.#plain).catch(() => -1),
    });
    await eventually(async () => (await counts()).plain === 0, SETTLED_MS_MAX);
    const { held, plain } = await counts();
    if (held !== this.#rows || plain !== 0)
      this.#wrong.push(`of ${this.#rows} rows ${held} are stored that are held, and ${plain} that are not`);
    this.#client.close();
    return { aged: this.#rows, retentions: this.#rounds, wrong: this.#wrong };
  }

  /** Puts rows in that arrived long ago, of both agents. Tried again with the same rows until they are stored. */
  async #age(): Promise<void> {
    const received_at = Date.now() - AGE_DAYS * DAY_MS;
    const rows = [this.#held, this.#plain].flatMap((agent_id) =>
      Array.from({ length: ROWS }, () => plainEvent({ account_id: this.#account, agent_id, received_at })),
    );
    const store = () =>
      this.#withTables((clickhouse) => clickhouse.insertEvents(rows.map(encodeStored), rows[0]!.id)).then(
        () => true,
        () => false,
      );
    if (await eventually(store)) this.#rows += ROWS;
    else this.#wrong.push('rows could not be stored');
  }

  /** Until it is in force. */
  async #retention(retention: object | null): Promise<void> {
    const body = JSON.stringify({ retention });
    const set = () =>
      this.#client.send('PATCH', '/v1/account', body).then(
        ({ status }) => status === 200,
        () => false,
      );
    if (!(await eventually(set))) this.#wrong.push(`${body} could not be set`);
  }

  async #seen(): Promise<{ held: number; plain: number }> {
    const totalOf = async (agent: string) => {
      let total = -1;
      const ask = async () => {
        const answer = await this.#client.send('GET', `/v1/events?agent_id=${agent}&limit=1`).catch(() => undefined);
        if (answer?.status === 200) total = (JSON.parse(answer.body) as { total: number }).total;
        return total >= 0;
      };
      await eventually(ask);
      return total;
    };
    return { held: await totalOf(this.#held), plain: await totalOf(this.#plain) };
  }

  #stored(agent: string): Promise<number> {
    return this.#withTables(async (clickhouse) => {
      const rows = await clickhouse.query<{ n: number }>(
        'SELECT count() AS n FROM events WHERE account_id = {account:String} AND agent_id = {agent:String}',
        { account: this.#account, agent },
      );
      return Number(rows[0]!.n);
    });
  }

  async #withTables<T>(use: (clickhouse: ClickHouse) => Promise<T>): Promise<T> {
    const now = this.#addresses();
    if (now === undefined) throw new Error('it does not run');
    const { clickhouseUrl: url, clickhouseDatabase: database } = now;
    const clickhouse = new ClickHouse({ url, database, queryTimeoutSeconds: 30 });
    try {
      return await use(clickhouse);
    } finally {
      await clickhouse.close();
    }
  }
}
