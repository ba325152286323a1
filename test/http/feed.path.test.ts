// The feed against the whole service: its rows are those of the lists, a place is refused where it cannot be honoured,
// and while two fronts take events and the pipelines are killed, followers get all that was committed.
import { writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import t from 'tap';
import { ClickHouse } from '../../clickhouse/client.ts';
import { packId } from '../../src/audit/hash.ts';
import { FEED_RESUME_MS_MAX } from '../../src/common/limits.ts';
import { keyOfNewAccount } from '../support/accounts.ts';
import { type Answer, Api } from '../support/api.ts';
import { folderOf } from '../support/folder.ts';
import { pause } from '../support/raw-http.ts';
import { killPipelines, runCli, startService } from '../support/service.ts';

type Item = { topic: string; data: Record<string, unknown> };

const NEVER = { type: 'block_action', conditions: { tool: 'never' }, actions: ['log'] };

const WAIT_MS = 120_000;
const ALL = 'audit_log,events,anomalies,approvals,deliveries';
/** The pipelines are killed so often while writers write; test/faults has hundreds. */
const KILLS = 4;
const WRITERS = 2;
/** Between a writer's batches of 100: by hand it was tried without any, with 98,000 events. */
const PAUSE_MS = 100;
/** Each writer has so many agents: they lie in all partitions together. */
const AGENTS = 4;

/** Reads what comes behind a place, over whatever happens to the service. */
abstract class Reader {
  readonly items: Item[] = [];
  readonly topics: string;
  cursor: string;
  readonly #newest = new Map<string, Map<string, Record<string, unknown>>>();
  #running: Promise<void> | undefined;
  #isOver = false;

  constructor(cursor: string) {
    this.cursor = cursor;
    const mask = Number.parseInt(cursor.split('.')[3]!, 36);
    this.topics = ALL.split(',')
      .filter((_, i) => (mask >> i) % 2 === 1)
      .join();
  }

  abstract read(seconds: number): Promise<void>;

  take(item: Item): void {
    this.items.push(item);
    const rows = this.of(item.topic);
    this.#newest.set(item.topic, rows);
    rows.set(String(item.data['id']), item.data);
  }

  /** The newest of each row, by its id. */
  of(topic: string): Map<string, Record<string, unknown>> {
    return this.#newest.get(topic) ?? new Map();
  }

  /** The actions that the audit log has of a resource. */
  actions(of: string): Set<unknown> {
    const entries = this.items.filter(({ topic, data }) => topic === 'audit_log' && data['resource_id'] === of);
    return new Set(entries.map(({ data }) => data['action']));
  }

  start(): void {
    this.#running = (async () => {
      while (!this.#isOver) await this.read(5);
    })();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async until(isSo: () => boolean, mustBe = true): Promise<void> {
    for (const deadline = performance.now() + WAIT_MS; !isSo(); ) {
      if (performance.now() > deadline) {
        if (mustBe) throw new Error('it did not come');
        return;
      }
      await (this.#running === undefined ? this.read(1) : pause(500));
    }
  }
}

class Follower extends Reader {
  readonly #query: string;

  constructor(cursor: string, query = '') {
    super(cursor);
    this.#query = query;
  }

  async read(seconds: number): Promise<void> {
    const { status, json } = await api.get(`/v1/feed?after=${this.cursor}&wait=${seconds}${this.#query}`);
    if (status !== 200) throw new Error(JSON.stringify(json));
    for (const item of json.items) this.take(item);
    this.cursor = json.cursor;
  }
}

/** By server-sent events; leaves in the middle every now and then. */
class Streamed extends Reader {
  read(seconds: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${service.key}`, 'last-event-id': this.cursor };
      const request = http.get(`${service.url}/v1/feed/stream`, { headers, agent: false });
      request
        .on('error', () => resolve())
        .on('response', (response) => {
          if (response.statusCode !== 200) reject(new Error(`the stream was answered with ${response.statusCode}`));
          let text = '';
          response.setEncoding('utf8').on('data', (chunk: string) => {
            const blocks = (text + chunk).split('\n\n');
            text = blocks.pop()!;
            for (const block of blocks) this.#takeBlock(block);
          });
          setTimeout(() => response.destroy(), seconds * 1000);
          response.on('close', () => resolve());
        });
    });
  }

  #takeBlock(block: string): void {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1] ?? '';
    const topic = field('event');
    if (topic !== '' && topic !== 'ready') this.take({ topic, data: JSON.parse(field('data')) });
    if (field('id') !== '') this.cursor = field('id');
  }
}

const service = await startService(t, { env: { GATEHOUSE_FRONTS: '2' } });
const api = await Api.described(t, service);
const agent = (await api.post('/v1/agents', { name: 'fed' })).json.id as string;
await api.post('/v1/policies', {
  ...{ name: 'no payments', type: 'block_action', conditions: { tool: 'pay' }, actions: ['block', 'alert'] },
});
await api.post('/v1/policies', {
  ...{ name: 'ask first', type: 'require_approval', conditions: { tool: 'ask' }, actions: ['block'] },
});
await api.post('/v1/alerts', {
  ...{ name: 'told', trigger: 'policy_violation', channel: 'email', target: 'a@example.com' },
});
const call = (tool: string) => ({ type: 'tool_call', payload: { tool } });
const send = (tool: string) => api.post(`/v1/agents/${agent}/events`, call(tool));
for (const [tool, outcome] of [
  ['pay', 'blocked'],
  ['ask', 'pending'],
] as const)
  await api.untilOutcome(outcome, () => send(tool));

t.test('rows of each topic, as the lists have them', async (t) => {
  const follower = new Follower(await beginning(ALL));
  const blocked = (await send('pay')).json.id as string;
  const pending = (await send('ask')).json;
  const approval = pending.policy_result.approval_id as string;
  await api.post(`/v1/approvals/${approval}`, { decision: 'deny' });
  const policy = await api.post('/v1/policies', { name: 'new', ...NEVER });
  await follower.until(() =>
    ['audit_log', 'events', 'anomalies', 'approvals', 'deliveries'].every((topic) => follower.of(topic).size > 0),
  );
  await follower.until(() => [...follower.of('approvals').values()].some(({ status }) => status === 'denied'));
  await follower.until(() => follower.actions(policy.json.id).has('policy.created'));
  t.same(follower.of('events').get(blocked)?.['payload'], { tool: 'pay' });
  for (const list of ['events', 'anomalies', 'approvals', 'deliveries', 'audit-logs']) {
    const topic = list === 'audit-logs' ? 'audit_log' : list;
    let [rows, listed]: [object[], object[]] = [[], []];
    for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await follower.read(1)) {
      const { items, logs } = (await api.get(`/v1/${list}?limit=500`)).json;
      const known = follower.of(topic);
      listed = (items ?? logs).filter(({ id }: { id: string }) => known.has(id));
      rows = listed.map((row) => known.get((row as { id: string }).id)!);
      if (list !== 'deliveries' || JSON.stringify(rows) === JSON.stringify(listed)) break; // it is being sent
    }
    t.ok(listed.length > 0, list);
    if (list === 'events') for (const row of [...rows, ...listed]) delete (row as Item['data'])['policy_result'];
    t.same(rows, listed, list);
  }
  t.same([...follower.actions(blocked)], ['event.submitted', 'event.blocked']);
  t.equal(follower.of('gap').size, 0);
});

t.test('a wait ends with what comes, or without it', async (t) => {
  const { json } = await api.get('/v1/feed?topics=events');
  t.same([json.items, json.has_more], [[], false], 'from now on');
  const none = await api.get(`/v1/feed?after=${json.cursor}&wait=1`);
  t.same([none.status, none.json.items], [200, []]);
  const waiting = api.get(`/v1/feed?after=${none.json.cursor}&wait=45&payload=none`);
  const sent = (await send('none')).json.id as string;
  const [item] = (await waiting).json.items as Item[];
  t.match(item, { topic: 'events', data: { id: sent, payload_bytes: 15 } });
  t.notOk(item!.data['payload'], 'without the payload');
  const quiet = new Follower((await api.get('/v1/feed')).json.cursor, '&submissions=false');
  await send('none');
  await send('pay');
  await quiet.until(() => quiet.items.length > 0);
  t.same(
    quiet.items.map(({ data }) => data['action']),
    ['event.blocked'],
    'the audit log, without submissions',
  );
});

t.test('a place that cannot be honoured is refused', async (t) => {
  const cursor = (await api.get('/v1/feed')).json.cursor as string;
  const other = api.as(await keyOfNewAccount(service, 'another'));
  const fields = cursor.split('.');
  const changed = (at: number, by: (n: number) => number) =>
    fields.map((text, i) => (i === at ? by(Number.parseInt(text, 36)).toString(36) : text)).join('.');
  const refused: [string, Promise<Answer>, RegExp][] = [
    ['of another account', other.get(`/v1/feed?after=${cursor}`), /another account/],
    ['no cursor', api.get('/v1/feed?after=abc'), /not a cursor/],
    ['older than kept', api.get(`/v1/feed?after=${changed(2, (ms) => ms - FEED_RESUME_MS_MAX)}`), /seven days/],
    ['other topics', api.get(`/v1/feed?topics=events&after=${cursor}`), /topics audit_log/],
    ['partitions', api.get(`/v1/feed?after=${cursor}.0`), /partitions/],
    ['of a later state', api.get(`/v1/feed?after=${changed(6, (n) => n + 1_000)}`), /ahead/],
    ['by the stream', api.get(`/v1/feed/stream?after=${changed(2, (ms) => ms - FEED_RESUME_MS_MAX)}`), /seven days/],
  ];
  for (const [what, asked, message] of refused) {
    const { status, json } = await asked;
    t.match({ status, json }, { status: 400, json: { error: { details: [{ path: 'after', message }] } } }, what);
  }
  const { json } = await api.get('/v1/feed?topics=weather');
  t.match(json, { error: { details: [{ path: 'topics' }] } });
  t.equal((await api.get(`/v1/feed?after=${changed(2, (ms) => ms - FEED_RESUME_MS_MAX + 60_000)}`)).status, 200);
});

t.test('the command prints what came since it was last run', async (t) => {
  const folder = folderOf(t);
  const file = path.join(folder, 'cursor');
  const env = { GATEHOUSE_URL: service.url, GATEHOUSE_API_KEY: service.key };
  const run = (...more: string[]) => runCli(['feed', '--once', '--cursor', file, ...more], env);
  t.match(await run('--topics', 'events'), { code: 0, stdout: '' }, 'from now on');
  const sent = (await send('none')).json.id as string;
  let printed = '';
  for (const deadline = performance.now() + WAIT_MS; printed === '' && performance.now() < deadline; ) {
    await pause(500);
    printed = (await run()).stdout;
  }
  t.match(JSON.parse(printed), { topic: 'events', data: { id: sent, payload: { tool: 'none' } } });
  t.match(await run(), { code: 0, stdout: '' }, 'once');
  await writeFile(file, 'no cursor');
  t.match(await run(), { code: 1, stderr: /after: is not a cursor/ });
  t.match(await runCli(['feed'], env), { code: 2, stderr: /--cursor FILE is missing/ });
});

t.test('nothing is missing while writers write and the pipelines are killed', async (t) => {
  const lists = ['events', 'audit-logs', 'anomalies', 'approvals', 'deliveries'] as const;
  const before = new Map(await Promise.all(lists.map(async (list) => [list, new Set(await everyId(list))] as const)));
  const all = new Follower(await beginning(ALL), '&limit=5000&payload=none');
  const log = new Follower(await beginning('audit_log'), '&limit=300');
  const streamed = new Streamed(await beginning('events,audit_log'));
  const followers = [all, log, streamed];
  for (const one of followers) one.start();
  let isWriting = true;
  const acknowledged: string[] = [];
  const writing = Array.from({ length: WRITERS }, async (_, writer) => {
    const agents: string[] = [];
    for (let n = 0; isWriting; n++) {
      if (n < AGENTS) agents.push((await api.post('/v1/agents', { name: `${writer} ${n}` })).json.id);
      const batch = Array.from({ length: 100 }, (_, i) => (i === 7 ? call('pay') : { type: 'custom', payload: { n } }));
      const sent = await api.post(`/v1/agents/${agents[n % agents.length]}/events/batch`, batch).catch(() => undefined);
      for (const { id } of sent?.json?.results ?? []) acknowledged.push(id);
      await pause(PAUSE_MS);
      if (n % 5 === 0) await api.post('/v1/policies', { name: `policy ${writer} ${n}`, ...NEVER });
    }
  });
  await killPipelines(service, KILLS, 1_000);
  isWriting = false;
  await Promise.all(writing);
  t.comment(`${acknowledged.length} events, pipelines killed ${KILLS} times`);
  for (const list of lists) {
    const topic = list === 'audit-logs' ? 'audit_log' : list;
    const ids = (await everyId(list)).filter((id) => !before.get(list)!.has(id));
    for (const one of followers.filter((one) => one.topics.includes(topic))) {
      await one.until(() => missing(one, topic, ids).length === 0, false);
      t.same(missing(one, topic, ids), [], `${ids.length} of ${list}: none is missing`);
    }
  }
  t.same(missing(all, 'events', acknowledged), [], 'each event that was acknowledged');
  for (const one of followers) {
    t.comment(`${one.items.length} items, ${one.items.length - new Set(one.items.map(named)).size} of them again`);
    t.equal(one.of('gap').size, 0);
    await one.stop();
  }
});

t.test('a hole in the chain is said, and passed', async (t) => {
  const follower = new Follower(await beginning('events'));
  const ids = [(await send('none')).json.id as string, (await send('none')).json.id as string];
  await follower.until(() => missing(follower, 'events', ids).length === 0);
  const { clickhouseUrl, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = new ClickHouse({ url: clickhouseUrl, database, queryTimeoutSeconds: 60 });
  t.teardown(() => clickhouse.close());
  const account = (await api.get('/v1/account')).json.id as string;
  const place = new Follower(await beginning('events'));
  const lost = (await send('none')).json.id as string;
  await follower.until(() => follower.of('events').has(lost));
  const has = `account_id = {account:String} AND arrayExists(id -> id = unhex({id:String}), ids)`;
  const params = { account, id: packId(lost).toString('hex') };
  const [block] = await clickhouse.query<{ chain: string; first: number; last: number }>(
    `SELECT chain, toInt64(first_n) AS first, toInt64(first_n + count - 1) AS last FROM audit_chain FINAL WHERE ${has}`,
    params,
  );
  await clickhouse.command(`ALTER TABLE audit_chain DELETE WHERE ${has}`, params, { mutations_sync: '2' });
  const later = (await send('none')).json.id as string;
  await place.until(() => place.of('events').has(later));
  const gaps = place.items.filter(({ topic }) => topic === 'gap').map(({ data }) => data);
  t.same(gaps, [{ chain: block!.chain, from: block!.first, to: block!.last }]);
});

/** The place of now, once all that was acknowledged is committed. */
async function beginning(topics: string): Promise<string> {
  return (await api.get(`/v1/feed?topics=${topics}`)).json.cursor as string;
}

/** Ids of all rows of a list. */
async function everyId(list: string): Promise<string[]> {
  if (list !== 'approvals') {
    const { text } = await api.get(`/v1/${list}/export`);
    return text.split('\n').flatMap((line) => /"id":"([^"]+)"/.exec(line)?.[1] ?? []);
  }
  return (await api.get('/v1/approvals?limit=500')).json.items.map(({ id }: { id: string }) => id);
}

function missing(follower: Reader, topic: string, ids: readonly string[]): string[] {
  const known = follower.of(topic);
  return ids.filter((id) => !known.has(id));
}

function named({ topic, data }: Item): string {
  return `${topic} ${data['id']} ${data['status']} ${data['updated_at']}`;
}
