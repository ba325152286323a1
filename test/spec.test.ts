// Documents against code: what pages say is what the code has (settings, errors), and what they promise to show is
// there. `npm run docs` mends the tables.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { CHANNELS, DETECTOR_NAMES, POLICY_TYPES } from '../schemas/closed-sets.ts';
import { CLIENT_TYPES, clientApi } from '../scripts/client-types.ts';
import { TABLES_OF, withTables } from '../scripts/docs.ts';
import { ERRORS } from '../src/common/errors.ts';
import { makeRoutes } from '../src/http/routes.ts';
import { assetPath } from '../src/process/assets.ts';
import { describeConfig, readConfig, SETTINGS } from '../src/process/config.ts';
import { filesIn, read } from './support/sources.ts';

t.test('pages show every endpoint, setting and error as the code has them', async (t) => {
  const texts = new Map(Object.keys(TABLES_OF).map((page) => [page, readFileSync(assetPath(page), 'utf8')]));
  for (const [page, names] of Object.entries(TABLES_OF)) {
    const text = texts.get(page)!;
    for (const name of names)
      t.equal(text.split(`<!-- ${name}:begin -->`).length, 2, `${page} has one table of ${name}`);
    t.equal(withTables(text), text, `${page}: its tables are those that npm run docs writes`);
  }
  for (const code of Object.keys(ERRORS)) t.ok(texts.get('docs/api.md')!.includes(`\`${code}\``), `error ${code}`);
  for (const { env } of Object.values(SETTINGS))
    t.ok(texts.get('docs/settings.md')!.includes(`\`${env}\``), `setting ${env}`);
});

t.test("the client's types are those of the schemas", async (t) => {
  t.equal(readFileSync(assetPath(CLIENT_TYPES), 'utf8'), await clientApi(), 'npm run docs writes them');
});

t.test('links between documents and to files lead somewhere', async (t) => {
  const docs = assetPath('docs');
  const pages = !existsSync(docs) ? [] : readdirSync(docs, { recursive: true, encoding: 'utf8' });
  const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...pages.map((page) => `docs/${page}`)];
  for (const document of documents.filter((name) => name.endsWith('.md') && existsSync(assetPath(name)))) {
    const text = readFileSync(assetPath(document), 'utf8');
    const links = [...text.matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)/g)].map(([, to]) => to!);
    const broken = links.filter((link) => !existsSync(assetPath(path.join(path.dirname(document), link))));
    t.same(broken, [], `${document}: ${links.length} links`);
  }
});

/** The kinds of things that can be added -> their names, and files that hold all of them for another reason. */
const EXTENSIBLE: [item: string, names: readonly string[], others: readonly string[]][] = [
  ['a detector', DETECTOR_NAMES, []],
  ['a policy type', POLICY_TYPES, []],
  ['a channel', CHANNELS, ['clickhouse/006_deliveries.sql']], // a migration is never changed; the column takes any text
];

t.test('CONTRIBUTING lists every file that a new detector, policy type or channel touches', async (t) => {
  const text = readFileSync(assetPath('CONTRIBUTING.md'), 'utf8');
  const sources = ['schemas', 'src', 'pipelines', 'clickhouse', 'dashboard', 'docs'].flatMap((folder) =>
    filesIn(folder, /\.(ts|tsx|sql|md)$/),
  );
  for (const [item, names, others] of EXTENSIBLE) {
    const listed = new RegExp(`^- ${item}:([^]*?)^- `, 'm').exec(text)?.[1] ?? '';
    const touched = sources.filter((file) => names.every((name) => new RegExp(`\\b${name}\\b`).test(read(file))));
    t.ok(touched.length >= 3, `${item}: ${touched.join(', ')}`);
    const missing = touched.filter((file) => !others.includes(file) && !listed.includes(`(${file})`));
    t.same(missing, [], `${item}: the list is whole`);
  }
});

t.test('every command of package.json that a document names exists', async (t) => {
  const { scripts } = JSON.parse(readFileSync(assetPath('package.json'), 'utf8')) as { scripts: object };
  for (const document of ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md']) {
    const file = assetPath(document);
    if (!existsSync(file)) continue;
    const named = [...readFileSync(file, 'utf8').matchAll(/(?:`|^)npm (?:run )?([a-z][a-z:-]*)/gm)].map(
      ([, name]) => name!,
    );
    const unknown = named.filter((name) => !(name in scripts) && !['ci', 'install', 'i'].includes(name));
    t.same(unknown, [], document);
  }
});

t.test('every endpoint of the contract has a route', async (t) => {
  const contract = [
    ...['POST /v1/agents', 'GET /v1/agents', 'GET /v1/agents/{}', 'DELETE /v1/agents/{}', 'POST /v1/agents/{}/events'],
    ...['GET /v1/agents/{}/events', 'POST /v1/agents/{}/events/batch', 'POST /v1/alerts', 'GET /v1/alerts'],
    ...[
      'DELETE /v1/alerts/{}',
      'POST /v1/policies',
      'GET /v1/policies',
      'DELETE /v1/policies/{}',
      'GET /v1/audit-logs',
    ],
  ];
  const routes = makeRoutes({ metrics: true }).map(({ method, path }) => `${method} ${path.replace(/\{\w+\}/g, '{}')}`);
  t.same(
    contract.filter((endpoint) => !routes.includes(endpoint)),
    [],
    'each of the contract',
  );
  t.equal(new Set(routes).size, routes.length, 'each once');
});

t.test('settings are read from the environment alone, and a bad one is named', async (t) => {
  const defaults = readConfig({});
  t.equal(defaults.port, 8080);
  t.equal(defaults.host, '127.0.0.1');
  t.equal(defaults.redisUrl, undefined);
  t.ok(Object.isFrozen(defaults));
  t.throws(() => readConfig({ GATEHOUSE_PORT: '99999' }), /^GATEHOUSE_PORT: "99999"/);
  t.throws(() => readConfig({ GATEHOUSE_PORT: '80.5' }), /^GATEHOUSE_PORT/);
  t.throws(() => readConfig({ GATEHOUSE_PROT: '80' }), /^GATEHOUSE_PROT: no such setting/);
  t.throws(() => readConfig({ GATEHOUSE_BOOTSTRAP_KEY: 'short-secret' }), {
    message: /^(?!.*short-secret).*GATEHOUSE_BOOTSTRAP_KEY/,
  });
  const shown = JSON.stringify(describeConfig(readConfig({ GATEHOUSE_REDIS_URL: 'redis://:hush@127.0.0.1' })));
  t.notMatch(shown, 'hush', 'what is logged at start holds no secret');
});
