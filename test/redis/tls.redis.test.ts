// Redis over TLS, with an authority of one's own and a certificate that we show: what is taken, and what is said at
// once of what is not. With a real redis-server.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import t, { type Test } from 'tap';
import { makeCommands, redisAddress, redisReady } from '../../src/composition/clients.ts';
import { freePort } from '../../src/embedded/free-port.ts';
import { type Config, readConfig } from '../../src/process/config.ts';
import { TrackedReads } from '../../src/redis/tracked-reads.ts';
import { certificate } from '../support/certificate.ts';
import { folderOf } from '../support/folder.ts';
import { startRedis } from '../support/redis.ts';

/** A wait that what is final must cut short. */
const WAIT_MS = 60_000;

async function tlsRedis(t: Test, names?: readonly string[]) {
  const { key, cert, ca } = await certificate(names);
  const folder = folderOf(t);
  const file = (name: string) => path.join(folder, name);
  for (const [name, text] of Object.entries({ key, cert, ca })) await writeFile(file(name), text);
  const port = await freePort();
  // biome-ignore format: a setting a line
  await startRedis(t, { single: true, args: [
    '--tls-port', String(port), '--tls-auth-clients', 'yes',
    '--tls-cert-file', file('cert'), '--tls-key-file', file('key'), '--tls-ca-cert-file', file('ca'),
  ] });
  const ours = { GATEHOUSE_REDIS_TLS_CA: file('ca') };
  const shown = { GATEHOUSE_REDIS_TLS_CERT: file('cert'), GATEHOUSE_REDIS_TLS_KEY: file('key') };
  return { url: `rediss://127.0.0.1:${port}`, ours, shown };
}

/** The error about a Redis with these settings; undefined: it is ready. */
async function saidOf(t: Test, env: Record<string, string>): Promise<string | undefined> {
  const config: Config = readConfig(env);
  const redis = makeCommands(config);
  t.teardown(() => redis.disconnect());
  const ready = redisReady(config, redis, { waitMs: WAIT_MS, say: (line) => t.fail(`it is waited for: ${line}`) });
  return ready.then(
    () => undefined,
    (error: Error) => error.message,
  );
}

t.test('commands and watched reads go by the given certificates', async (t) => {
  const { url, ours, shown } = await tlsRedis(t);
  const env = { GATEHOUSE_REDIS_URL: url, ...ours, ...shown };
  t.equal(await saidOf(t, env), undefined);
  const redis = makeCommands(readConfig(env));
  t.teardown(() => redis.disconnect());
  const reads = new TrackedReads(redisAddress(readConfig(env)), () => undefined);
  t.teardown(() => reads.close());
  t.equal(await reads.connect(WAIT_MS), true);
  t.equal(await reads.get('a'), null);
});

t.test('what will never be taken ends the wait at once', async (t) => {
  const { url, ours, shown } = await tlsRedis(t);
  const other = await tlsRedis(t, ['elsewhere.example']);
  const said = (given: Record<string, string>) => saidOf(t, { GATEHOUSE_REDIS_URL: url, ...given });
  t.match(await said(shown), /^Redis at rediss:\S+: its certificate is signed by an authority that is not known here/);
  t.match(await said(ours), /^Redis at rediss:\S+: it does not take our certificate, or there is none/);
  t.match(
    await said({ ...ours, ...shown, GATEHOUSE_REDIS_URL: other.url }),
    /its certificate is for another host \(ERR_TLS_CERT_ALTNAME_INVALID\)/,
  );
});

t.test('settings that do not go together are refused', (t) => {
  const refused = (env: Record<string, string>, message: RegExp) => t.throws(() => readConfig(env), { message });
  refused({ GATEHOUSE_REDIS_TLS_CERT: 'a', GATEHOUSE_REDIS_URL: 'rediss://a' }, /_CERT and .*_KEY: set both/);
  refused({ GATEHOUSE_REDIS_TLS_CA: 'a', GATEHOUSE_REDIS_URL: 'redis://a' }, /begins with rediss:/);
  const cluster = { GATEHOUSE_REDIS_CLUSTER: '1' };
  refused({ ...cluster, GATEHOUSE_REDIS_URL: 'redis://a:1,redis://b:1/3' }, /names a database or a socket/);
  t.ok(readConfig({ ...cluster, GATEHOUSE_REDIS_URL: 'redis://a:1/0' }), 'the first is what a Cluster has');
  const missing = { GATEHOUSE_REDIS_URL: 'rediss://a', GATEHOUSE_REDIS_TLS_CA: '/nowhere/ca.pem' };
  t.throws(() => redisAddress(readConfig(missing)), { message: /^GATEHOUSE_REDIS_TLS_CA: cannot read "\/nowhere/ });
  t.end();
});
