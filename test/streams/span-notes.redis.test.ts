// What is remembered of spans: which part one is in, at whatever moment another request comes or the process ends;
// whose it is; and that notes take no more than their share. Needs redis-server.
import t from 'tap';
import type { Keys } from '../../src/redis/keys.ts';
import { AppendOnce, type OnceKey } from '../../src/streams/append-once.ts';
import { noteName, SEVERAL, SpanNotes, type SpansClaim } from '../../src/streams/span-notes.ts';
import { startRedis } from '../support/redis.ts';
import { appendOf, connect, freshAgent, freshKeys, makeEvent } from './harness.ts';

const server = await startRedis(t, { single: true });
const redis = await connect(t, server.address);
const nothing = () => undefined;

function stores(keys: Keys, bytesMax = 1 << 20, onEvicted: (notes: number) => void = nothing) {
  const options = { redis, keys, bytesMax: () => bytesMax, onEvicted };
  const notes = new SpanNotes(options);
  const who = freshAgent();
  const { account } = who;
  const name = (scope: string, ...of: string[]) => noteName(keys, account, { scope, of });
  const span = (spanId: string, agent = '', traceId = 'trace') => ({ note: name('', 'span', traceId, spanId), agent });
  const none = { part: { partition: 0, account, key: 'k' }, spans: [], traces: [], decisions: [] };
  const claim = (some: Partial<SpansClaim>) => notes.claim(account, { ...none, ...some });
  return { once: new AppendOnce(options), notes, who, account, name, span, claim };
}

t.test('a span is in one part, and in none that ended before it was recorded', async (t) => {
  const { once, who, account, name, span, claim } = stores(freshKeys(3));
  const part = (key: string, partition = 0): OnceKey => ({ partition, account, key });
  const states = async (of: OnceKey, ...ids: string[]) =>
    (await claim({ part: of, spans: ids.map((id) => span(id)) })).spans;
  const begin = async (of: OnceKey): Promise<string> => {
    const begun = await once.begin({ ...of, fingerprint: 'f' });
    if (begun.state !== 'new') throw new Error(begun.state);
    return begun.token;
  };
  const [a, b, c] = [part('a'), part('b', 1), part('c', 2)];
  const tokenOfA = await begin(a);
  t.same(await states(a, '1', '2'), ['own', 'own']);
  const tokenOfB = await begin(b);
  t.same(await states(b, '1', '3'), ['running', 'own'], 'the other has not ended');
  t.same(await states(a, '1'), ['own'], 'it may ask again');
  await once.release({ ...a, token: tokenOfA });
  t.same(await states(b, '1', '3'), ['own', 'own'], 'the other ended, and recorded nothing');
  await begin(a);
  t.same(await states(a, '1', '2'), ['running', 'own'], 'and has to wait in its turn');
  const { summaries, rows } = appendOf(who, [makeEvent(who)]);
  await once.append({ ...b, token: tokenOfB, agent: who.agent, summaries, rows, outcome: '1' });
  t.same(await states(a, '1', '2', '3'), ['recorded', 'own', 'recorded']);
  await begin(c);
  const rivals = Array.from({ length: 8 }, (_, i) => part(`rival ${i}`, i % 3));
  await Promise.all(rivals.map(begin));
  const found = (await Promise.all(rivals.map((rival) => states(rival, '4')))).flat();
  t.same(found.sort(), ['own', ...Array(7).fill('running')], 'of many at once one has it');
  const bound = { note: name('agt_bound', 'span', 'trace', '1'), agent: '' };
  t.same((await claim({ part: c, spans: [bound] })).spans, ['own'], 'a bound key knows its own spans alone');
});

t.test('whose spans and traces are, and whose a decision was', async (t) => {
  const { notes, account, name, span, claim } = stores(freshKeys(3));
  const trace = (traceId: string, agent: string) => ({ note: name('', 'trace', traceId), agent });
  const asked = ['trace/x', 'span/x/1', 'span/x/2', 'span/x/3', 'trace/y', 'span/y/1', 'trace/z'];
  const owners = (scope = '') =>
    notes.owners(
      account,
      asked.map((of) => name(scope, ...of.split('/'))),
    );
  await claim({
    spans: [span('1', 'agt_a', 'x'), span('2', '', 'x'), span('1', 'agt_b', 'y')],
    traces: [trace('x', 'agt_a'), trace('y', 'agt_b'), trace('z', SEVERAL)],
  });
  t.same(await owners(), ['agt_a', 'agt_a', null, null, 'agt_b', 'agt_b', null]);
  await claim({ traces: [trace('y', 'agt_b')] });
  await claim({ traces: [trace('x', 'agt_c')] });
  t.same(await owners(), [null, 'agt_a', null, null, 'agt_b', 'agt_b', null], 'a trace that names two names none');
  await claim({ traces: [trace('x', 'agt_a')] });
  t.equal((await owners())[0], null, 'for good');
  t.same(await owners('agt_bound'), Array(7).fill(null));

  const decide = async (...spans: string[]) =>
    (await claim({ decisions: spans.map((span) => ({ note: name('', 'decision', 'evt_1'), span })) })).decisions;
  t.same(await decide('1', '2'), [true, false]);
  t.same(await decide('2', '1', '1'), [false, true, true]);
});

t.test('notes have an even share of the bound beside the answers of their account', async (t) => {
  const keys = freshKeys(1);
  const bytesMax = 100 * 1024;
  let evicted = 0;
  const { once, who, account, span, claim } = stores(keys, bytesMax, (count) => (evicted += count));
  for (let i = 0; i < 20; i++) {
    const of = { partition: 0, account, key: `answer ${i}` };
    const begun = await once.begin({ ...of, fingerprint: 'f' });
    const empty = { agent: who.agent, summaries: [], rows: Buffer.alloc(0), outcome: '' };
    if (begun.state === 'new') await once.append({ ...of, ...empty, token: begun.token });
  }
  for (let i = 0; i < 40; i++) await claim({ spans: Array.from({ length: 50 }, (_, j) => span(`${i}-${j}`)) });
  const sums = await redis.hgetall(keys.idempotencyBytes(0));
  t.ok(evicted > 1_000, `${evicted} were let go`);
  t.ok(Number(sums['']) <= bytesMax + 50 * 400, `${sums['']} bytes`);
  t.equal(Number(sums['']), Number(sums[account]) + Number(sums[keys.spanNotesOf(account)]));
  const again = await once.begin({ partition: 0, account, key: 'answer 0', fingerprint: 'f' });
  t.equal(again.state, 'replay', 'the answers of the account stay');
});
