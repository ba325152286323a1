// What a user of Redis may do, against real users of a redis-server: the documented rules are enough, and each start
// says what is missing from others, before it does anything.
import { readFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { aclRules, refusedAccess } from '../../src/redis/access.ts';
import { type Commands, connectCommands, redisError } from '../../src/redis/client.ts';
import { opened, startRedis } from '../support/redis.ts';
import { runCli } from '../support/service.ts';
import { filesIn, read } from '../support/sources.ts';

const RULES = aclRules('gh-');

/** Redis with a user of these rules: its address as that user, and a connection that may do anything. */
async function withUser(t: Test, rules: readonly string[]): Promise<{ url: string; admin: Commands }> {
  const { address } = await startRedis(t, { single: true });
  const admin = await opened(t, connectCommands(address));
  await (admin as Extract<Commands, { acl: unknown }>).acl('SETUSER', 'limited', 'on', '>secret', ...rules);
  return { url: address.url.replace('redis://', 'redis://limited:secret@'), admin };
}

async function refusedTo(t: Test, rules: readonly string[], replicas?: number): Promise<string[]> {
  const { url, admin } = await withUser(t, rules);
  const address = { url, cluster: false, ...(replicas === undefined ? {} : { replicas }) };
  const client = await opened(t, connectCommands({ url, cluster: false }));
  const refused = await refusedAccess(client, address, 'gh-');
  t.same(await admin.keys('*'), [], 'asking has no effect');
  return refused;
}

t.test('the rules of the documentation are enough, and those that the code has', async (t) => {
  t.same(await refusedTo(t, RULES), []);
  t.same(await refusedTo(t, RULES, 1), []);
  const page = readFileSync('docs/own-stores.md', 'utf8');
  const documented = /ACL SETUSER gatehouse on '>\S+' ([\s\S]*?)\n```/.exec(page)![1]!;
  t.same(documented.replaceAll(/['\\]/g, '').trim().split(/\s+/), RULES);
});

t.test('every command that a script calls is among the rules', async (t) => {
  const allowed = new Set(RULES.map((rule) => rule.slice(1).split('|')[0]!));
  const called = filesIn('src/redis', /\.lua$/).flatMap((file) =>
    [...read(file).matchAll(/redis\.p?call\(\s*'(\w+)'/g)].map(([, name]) => ({ file, name: name!.toLowerCase() })),
  );
  t.ok(called.length > 100, `${called.length} calls`);
  t.same(
    called.filter(({ name }) => !allowed.has(name)),
    [],
  );
});

t.test('what is missing is named', async (t) => {
  const without = (...rules: string[]) => RULES.filter((rule) => !rules.includes(rule));
  t.match(await refusedTo(t, without('+xadd', '+hset')), [/does not let this user send HSET, XADD$/]);
  t.match(await refusedTo(t, without('+xinfo|groups')), [/send XINFO GROUPS$/]);
  t.match(await refusedTo(t, without('+client|tracking')), [/send CLIENT TRACKING$/]);
  t.match(await refusedTo(t, without('+multi')), [/refuses MULTI and DISCARD/]);
  t.match(await refusedTo(t, [...without(RULES[0]!), '~{other-*']), [/keys that begin with "\{gh-"/]);
  t.match(await refusedTo(t, without('&{gh-*')), [/send PUBLISH$/]);
  t.same(await refusedTo(t, without('+wait')), [], 'alone nothing waits for replicas');
  t.match(await refusedTo(t, without('+wait'), 1), [/send WAIT$/]);
  t.same(await refusedTo(t, without('+info', '+config|get', '+bgrewriteaof', '+subscribe')), []);
});

t.test('what a script may not do is a refusal, not a fault of ours', async (t) => {
  const { url } = await withUser(
    t,
    RULES.filter((rule) => rule !== '+hset'),
  );
  const client = await opened(t, connectCommands({ url, cluster: false }));
  const refused = await client.eval("return redis.call('HSET', KEYS[1], 'f', 0)", 1, '{gh-g}:a').catch(redisError);
  t.match(refused, { name: 'RedisUnavailable', sent: false, canRetry: false });
});

t.test('a start with such a user ends at once with what is missing', async (t) => {
  const { url } = await withUser(
    t,
    RULES.filter((rule) => rule !== '+evalsha'),
  );
  const began = performance.now();
  const { code, stderr } = await runCli(['account', 'list'], {
    GATEHOUSE_REDIS_URL: url,
    GATEHOUSE_CLICKHOUSE_URL: 'http://127.0.0.1:9',
  });
  t.equal(code, 1);
  t.match(stderr, /does not let this user send EVALSHA\. docs\/own-stores\.md has the rules/);
  t.ok(performance.now() - began < 15_000, 'it does not wait for what will not change');
});
