// Appending: one entry per partition and tick, what callers get when Redis refuses or does not answer, and keys
// that make a request idempotent. Needs redis-server.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep, setImmediate as tick } from 'node:timers/promises';
import t from 'tap';
import { decodeEntry, rowsOf } from '../../schemas/entry.ts';
import { ServiceError } from '../../src/common/errors.ts';
import { ENTRY_BYTES_MAX } from '../../src/common/limits.ts';
import { type Commands, connectWriter, waitUntilReady } from '../../src/redis/client.ts';
import type { Keys } from '../../src/redis/keys.ts';
import { Appender } from '../../src/streams/append.ts';
import { AppendOnce } from '../../src/streams/append-once.ts';
import { Backlog } from '../../src/streams/backlog.ts';
import { PACKED_BYTES_MIN, unpackFields } from '../../src/streams/packing.ts';
import { opened, startRedis } from '../support/redis.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { appendOf, connect, eventually, freshAgent, freshKeys, makeEvent } from './harness.ts';

const server = await startRedis(t);

/** Reads the fields of every entry as they lie in Redis. */
async function fieldsIn(redis: Commands, keys: Keys): Promise<Map<string, Buffer>[]> {
  const entries: Map<string, Buffer>[] = [];
  for (let partition = 0; partition < keys.partitions; partition++) {
    for (const [, fields] of await redis.xrangeBuffer(keys.events(partition), '-', '+')) {
      const map = new Map<string, Buffer>();
      for (let i = 0; i < fields.length; i += 2) map.set(fields[i]!.toString(), fields[i + 1]!);
      entries.push(map);
    }
  }
  return entries;
}

async function idsIn(redis: Commands, keys: Keys): Promise<string[][]> {
  return (await fieldsIn(redis, keys)).map((fields) => {
    const entry = decodeEntry(unpackFields(fields));
    rowsOf(entry);
    return entry.summaries.map((summary) => summary.id);
  });
}

async function refusal(promise: Promise<unknown>): Promise<ServiceError> {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (!(error instanceof ServiceError)) throw new Error(`expected a ServiceError, got ${String(error)}`);
  return error;
}

t.test(
  'everything that comes in one tick for one partition is one entry, in order, and every caller gets its outcome',
  async (t) => {
    const redis = await connect(t, server.address);
    const keys = freshKeys(4);
    const appender = new Appender({ redis, keys });
    const agents = Array.from({ length: 12 }, freshAgent);
    const made = agents.map((agent) => [makeEvent(agent), makeEvent(agent)]);
    await Promise.all(agents.map((agent, i) => appender.append(appendOf(agent, made[i]!))));
    const ids = await idsIn(redis, keys);
    const partitions = new Set(agents.map(({ account, agent }) => keys.partitionOf(account, agent)));
    t.equal(ids.length, partitions.size, 'one entry for each partition');
    t.same(
      ids.flat().sort(),
      made
        .flat()
        .map(({ id }) => id)
        .sort(),
      'each event once',
    );
    for (const [first, second] of made) {
      const entry = ids.find((some) => some.includes(first!.id))!;
      t.equal(entry.indexOf(second!.id), entry.indexOf(first!.id) + 1, 'a request stays together, in its order');
    }
    const { account, agent } = agents[0]!;
    const seen = await redis.hget(keys.lastSeen(keys.partitionOf(account, agent)), agent);
    t.match(seen, new RegExp(`^\\d{13}/${account}$`), 'the agent was seen');
    t.equal(appender.unackedBytes, 0);
  },
);

t.test('what goes to several partitions at once leaves in one write', async (t) => {
  const [redis, observer] = [await connect(t, server.address), await connect(t, server.address)];
  const keys = freshKeys(8);
  const appender = new Appender({ redis, keys });
  const agents = Array.from({ length: 64 }, freshAgent);
  const used = new Set(agents.map(({ account, agent }) => keys.partitionOf(account, agent)));
  t.ok(used.size >= 6, 'nearly all partitions are written to');
  const reads = async () => Number(/total_reads_processed:(\d+)/.exec(await observer.info('stats'))![1]);
  for (const some of [agents, agents.slice(0, 16)]) {
    const before = await reads();
    await Promise.all(some.map((agent) => appender.append(appendOf(agent, [makeEvent(agent)]))));
    // Redis reads 16 KB at once; one read is the observer's own.
    const bytes = 1024 * some.length;
    const spent = (await reads()) - before - 1;
    t.ok(spent <= Math.ceil(bytes / 16_384) + 1, `${some.length} appends: ${spent} reads`);
  }
});

t.test('a little that comes while a write is on its way leaves as one, soon, answered or not', async (t) => {
  const observer = await connect(t, server.address);
  const proxy = await startTcpProxy(t, server.servers[0]!.port);
  // Once more where the machine stood still between two ticks for as long as an append waits.
  for (let tries = 1; ; tries++) {
    const redis = connectWriter({ url: `redis://127.0.0.1:${proxy.port}`, cluster: false });
    await waitUntilReady(redis, 60_000);
    const keys = freshKeys(1);
    const appender = new Appender({ redis, keys });
    const agent = freshAgent();
    const made = Array.from({ length: 4 }, () => makeEvent(agent));
    const told: Promise<unknown>[] = [];
    proxy.swallowAnswers();
    for (const event of made) {
      told.push(refusal(appender.append(appendOf(agent, [event]))));
      await tick();
    }
    await eventually(async () => (await idsIn(observer, keys)).flat().length === made.length);
    const entries = (await idsIn(observer, keys)).map((some) => some.length);
    proxy.cut();
    redis.disconnect();
    for (const one of await Promise.all(told)) t.match(one, { recorded: 'unknown' });
    if (tries < 20 && entries.length > 2) continue;
    t.strictSame(entries, [1, 3]);
    return;
  }
});

t.test('under load entries grow instead of queueing, none larger than its bound unless one request is', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const appender = new Appender({ redis, keys });
  const agent = freshAgent();
  const payload = JSON.stringify({ text: 'x'.repeat(10_000) });
  const made = Array.from({ length: 400 }, () => makeEvent(agent, { payload }));
  await Promise.all(made.map((event) => appender.append(appendOf(agent, [event]))));
  const large = makeEvent(agent, { payload: JSON.stringify({ text: 'x'.repeat(1_100_000) }) });
  await appender.append(appendOf(agent, [large]));
  const ids = await idsIn(redis, keys);
  t.same(
    ids.flat(),
    [...made, large].map(({ id }) => id),
    'each event once, in order',
  );
  t.ok(Math.max(...ids.map((some) => some.length)) <= ENTRY_BYTES_MAX / 10_000, 'bounded by bytes');
  t.ok(ids.length <= 18, `${ids.length} entries for 401 requests`);
});

t.test('what is worth it is packed, by either way in, and gives the very rows and summaries back', async (t) => {
  const redis = await connect(t, server.address);
  const agent = freshAgent();
  const text = (characters: number) => 'Zürich – the fare is refunded '.repeat(characters / 30);
  const payloads = [
    [text(30)],
    [text(PACKED_BYTES_MIN)],
    [randomBytes(PACKED_BYTES_MIN).toString('base64')],
    Array.from({ length: 100 }, (_, i) => `${i} ${text(PACKED_BYTES_MIN / 50)}`),
  ];
  // Around the border: a row and its summary are some 400 bytes longer than the text.
  for (let more = -600; more < 0; more += 20) payloads.push(['x'.repeat(PACKED_BYTES_MIN + more)]);
  const shares: number[] = [];
  const versions: string[] = [];
  for (const texts of payloads) {
    const made = texts.map((one) => makeEvent(agent, { payload: JSON.stringify({ text: one }) }));
    const append = appendOf(agent, made);
    const [keys, onceKeys] = [freshKeys(1), freshKeys(1)];
    await new Appender({ redis, keys }).append(append);
    const once = new AppendOnce({ redis, keys: onceKeys, bytesMax: () => 1024 ** 3 });
    const request = { partition: 0, account: agent.account, key: 'key' };
    const { token } = (await once.begin({ ...request, fingerprint: 'print' })) as { token: string };
    await once.append({ ...request, ...append, token, outcome: 'done' });
    const [[kept], [keptOnce]] = [await fieldsIn(redis, keys), await fieldsIn(redis, onceKeys)];
    t.strictSame(new Map(keptOnce), new Map([...kept!].sort()), 'the same by either way');
    const entry = decodeEntry(unpackFields(kept!));
    t.ok(entry.rows.equals(append.rows));
    t.strictSame(
      entry.summaries,
      made.map(({ summary }) => summary),
    );
    const bytes = append.rows.length + append.summaries.join(',').length;
    const lies = kept!.get('d')!.length + kept!.get('r')!.length;
    t.equal(kept!.get('v')!.toString(), bytes + 2 < PACKED_BYTES_MIN ? '2' : '3', `${bytes} bytes`);
    shares.push(lies / bytes);
    versions.push(kept!.get('v')!.toString());
  }
  t.same(new Set(versions.slice(4)), new Set(['2', '3']), 'there were some on either side of the border');
  t.ok(shares[1]! < 0.1 && shares[3]! < 0.1, `what repeats itself is a fraction: ${shares[1]}, ${shares[3]}`);
  t.ok(Math.max(...shares) < 1.02, 'and nothing is much longer');
});

t.test('a request without events is done at once; close lets what waits finish and refuses the rest', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys();
  const appender = new Appender({ redis, keys });
  const agent = freshAgent();
  await appender.append(appendOf(agent, []));
  const waiting = appender.append(appendOf(agent, [makeEvent(agent)]));
  await appender.close();
  await waiting;
  const error = await refusal(appender.append(appendOf(agent, [makeEvent(agent)])));
  t.match(error, { code: 'unavailable', recorded: false });
  t.equal((await idsIn(redis, keys)).length, 1);
});

t.test('over the bound of bytes that wait, an append is refused and nothing is recorded', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const appender = new Appender({ redis, keys, bytesMax: 10_000 });
  const agent = freshAgent();
  const payload = JSON.stringify({ text: 'x'.repeat(6_000) });
  const first = appender.append(appendOf(agent, [makeEvent(agent, { payload })]));
  const error = await refusal(appender.append(appendOf(agent, [makeEvent(agent, { payload })])));
  await first;
  t.match(error, { code: 'unavailable', recorded: false, retryAfterSeconds: 1 });
  t.equal((await idsIn(redis, keys)).length, 1);
  await appender.append(appendOf(agent, [makeEvent(agent, { payload: JSON.stringify({ text: 'x'.repeat(50_000) }) })]));
});

t.test('a full Redis refuses: recorded is false, and the backlog says so before', async (t) => {
  const full = await startRedis(t, { args: ['--maxmemory', '40mb'] });
  const redis = await connect(t, full.address);
  const keys = freshKeys(1);
  const appender = new Appender({ redis, keys });
  const backlog = new Backlog({
    redis,
    keys,
    entriesMax: 1_000_000,
    bytesMax: 1024 ** 3,
    idempotencyBytesMax: 1024 ** 2,
  });
  await backlog.start();
  t.teardown(() => backlog.stop());
  t.notOk(backlog.full());
  const agent = freshAgent();
  const payload = JSON.stringify({ text: randomBytes(375_000).toString('base64') });
  let warned = 0;
  let refused: ServiceError | undefined;
  for (let i = 0; i < 200 && refused === undefined; i++) {
    refused = await appender.append(appendOf(agent, [makeEvent(agent, { payload })])).then(
      () => undefined,
      (error: ServiceError) => error,
    );
    if (i % 10 === 0) await nextLook(backlog);
    if (backlog.full()) warned++;
  }
  t.match(refused, { code: 'unavailable', recorded: false });
  t.ok(warned > 3, 'the backlog was full before Redis was');
});

/**
 * The backlog is inspected again a few times a second: until that has happened twice, the second time from its
 * beginning.
 */
async function nextLook(backlog: Backlog): Promise<void> {
  for (let looks = 0; looks < 2; looks++) {
    const last = backlog.state();
    await eventually(() => backlog.state() !== last);
  }
}

t.test('a user that may not ask INFO: the bytes of the streams are the bound', async (t) => {
  const own = await startRedis(t, { single: true });
  const admin = await connect(t, own.address);
  await admin.call('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '&*', '+@all', '-info', '-config');
  const url = own.address.url.replace('redis://', 'redis://blind:secret@');
  const redis = await connect(t, { ...own.address, url });
  const keys = freshKeys(2);
  const backlog = new Backlog({ redis, keys, entriesMax: 5, bytesMax: 1024 ** 2, idempotencyBytesMax: 1024 ** 2 });
  await backlog.start();
  t.teardown(() => backlog.stop());
  t.notOk(backlog.full());
  await redis.xadd(keys.events(1), '*', 'v', 'x'.repeat(1_200_000));
  t.ok(await eventually(() => backlog.full()), 'in bytes');
  t.equal(backlog.state().entries, 1);
  await redis.xtrim(keys.events(1), 'MAXLEN', 0);
  t.ok(await eventually(() => !backlog.full()));
  for (let i = 0; i < 6; i++) await redis.xadd(keys.events(0), '*', 'v', '1');
  t.ok(await eventually(() => backlog.full()), 'in entries');
});

t.test('more entries than allowed fill the backlog, and trimming empties it', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(2);
  const backlog = new Backlog({ redis, keys, entriesMax: 5, bytesMax: 1024 ** 3, idempotencyBytesMax: 1024 ** 2 });
  await backlog.start();
  t.teardown(() => backlog.stop());
  for (let i = 0; i < 6; i++) await redis.xadd(keys.events(1), '*', 'v', '1');
  t.ok(await eventually(() => backlog.full()));
  t.equal(backlog.state().entries, 6);
  await redis.xtrim(keys.events(1), 'MAXLEN', 0);
  t.ok(await eventually(() => !backlog.full()));
});

t.test(
  'a Redis that is gone: certain refusals say false, lost answers say unknown, and service returns by itself',
  async (t) => {
    const own = await startRedis(t, { single: true });
    const redis = await connect(t, own.address);
    const keys = freshKeys(1);
    const appender = new Appender({ redis, keys });
    const agent = freshAgent();
    const process = own.servers[0]!;
    await appender.append(appendOf(agent, [makeEvent(agent)]));
    process.child.kill('SIGSTOP');
    const inFlight = refusal(appender.append(appendOf(agent, [makeEvent(agent)])));
    await new Promise((resolve) => setTimeout(resolve, 50));
    const exited = once(process.child, 'exit');
    process.child.kill('SIGKILL');
    await exited;
    t.match(await inFlight, { code: 'unavailable', recorded: 'unknown' });
    t.match(await refusal(appender.append(appendOf(agent, [makeEvent(agent)]))), {
      code: 'unavailable',
      recorded: false,
    });
    await process.restart();
    const came = await eventually(() =>
      appender.append(appendOf(agent, [makeEvent(agent)])).then(
        () => true,
        () => false,
      ),
    );
    t.ok(came, 'works again');
    t.equal((await idsIn(redis, keys)).length, 2, 'nothing was sent twice');
  },
);

t.test('an Idempotency-Key: the first outcome again, a conflict, still running, freed', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const once = new AppendOnce({ redis, keys, bytesMax: () => 1024 ** 3 });
  const { account, agent } = freshAgent();
  const at = { partition: 0, account, key: 'order 17' };
  const { summaries, rows } = appendOf({ account, agent }, [makeEvent({ account, agent })]);
  const begun = await once.begin({ ...at, fingerprint: 'f1' });
  if (begun.state !== 'new') throw new Error('not new');
  t.match(await refusal(once.begin({ ...at, fingerprint: 'f1' })), { code: 'idempotency_in_progress' });
  t.match(await refusal(once.begin({ ...at, fingerprint: 'f2' })), { code: 'idempotency_conflict' });
  const outcome = '{"id":"evt","text":"a:b\\u0000ü"}';
  const request = { ...at, token: begun.token, agent, summaries, rows, outcome };
  await once.append(request);
  await once.append(request);
  t.equal((await idsIn(redis, keys)).length, 1, 'sent twice, appended once');
  t.same(await once.begin({ ...at, fingerprint: 'f1' }), { state: 'replay', outcome });
  t.match(await refusal(once.begin({ ...at, fingerprint: 'f2' })), { code: 'idempotency_conflict' });
  t.ok((await redis.pttl(keys.idempotency(0, account, 'order 17'))) > 23 * 3600 * 1000, 'kept for a day');

  const other = { ...at, key: 'order 18' };
  const second = await once.begin({ ...other, fingerprint: 'f1' });
  if (second.state !== 'new') throw new Error('not new');
  await once.release({ ...other, token: second.token });
  const third = await once.begin({ ...other, fingerprint: 'f3' });
  t.equal(third.state, 'new', 'freed');
  const late = { ...other, token: second.token, agent, summaries, rows, outcome };
  t.match(
    await refusal(once.append(late)),
    { code: 'unavailable', recorded: false },
    'a holder that lost its marker appends nothing',
  );
  t.equal((await idsIn(redis, keys)).length, 1);
});

t.test('a caller whose answer was that nothing was recorded may begin again as soon as Redis answers', async (t) => {
  const redis = await opened(t, connectWriter(server.address));
  const admin = await connect(t, server.address);
  const keys = freshKeys(1);
  const once = new AppendOnce({ redis, keys, bytesMax: () => 1024 ** 3 });
  const at = { partition: 0, account: freshAgent().account, key: 'order 19', fingerprint: 'f1' };
  await admin.call('CLIENT', 'PAUSE', '5000', 'ALL');
  const during = refusal(once.begin(at));
  t.match(await during, { code: 'unavailable', recorded: false }, 'no answer while it is paused');
  const started = await pttlWhenAnswered(redis, keys.idempotency(0, at.account, at.key));
  t.ok(started < 0, 'Redis has done it since, and it is freed');
  t.match(await once.begin(at), { state: 'new' });
});

/** Once there is no marker, or so long later that it would end by itself soon. */
async function pttlWhenAnswered(redis: Commands, key: string): Promise<number> {
  const until = performance.now() + 8_000;
  for (;;) {
    const left = await redis.pttl(key).catch(() => Number.NaN);
    if (left < 0 || performance.now() > until) return left;
    await sleep(100);
  }
}

t.test('an append whose client has left is withdrawn before it is sent, and no other', async (t) => {
  const redis = await connect(t, server.address);
  const keys = freshKeys(1);
  const appender = new Appender({ redis, keys });
  const who = freshAgent();
  const told: string[] = [];
  const caller = (name: string) => ({
    appended: () => void told.push(name),
    refused: () => void told.push(`${name} refused`),
  });
  const [a, b, c] = [caller('a'), caller('b'), caller('c')];
  const [first, second, third] = [1, 2, 3].map(() => makeEvent(who));
  appender.appendFor(appendOf(who, [first!]), a);
  appender.appendFor(appendOf(who, [second!]), b);
  t.equal(appender.takeBack(who, a), false, 'something has followed it');
  t.equal(appender.takeBack(who, b), true);
  t.equal(appender.takeBack(who, b), false, 'once');
  t.equal(appender.takeBack(who, a), false, 'what stood before the last one stays');
  appender.appendFor(appendOf(who, [third!]), c);
  await appender.close();
  t.same(told, ['a', 'c']);
  t.same(await idsIn(redis, keys), [[first!.id, third!.id]]);
  t.equal(appender.unackedBytes, 0);
  t.equal(appender.takeBack(who, c), false, 'too late');
  const alone = new Appender({ redis, keys });
  alone.appendFor(appendOf(who, [second!]), b);
  t.equal(alone.takeBack(who, b), true);
  await alone.close();
  t.equal((await idsIn(redis, keys)).length, 1, 'an entry that is empty is not sent');
});
