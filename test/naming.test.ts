// One name, one thing: no word that was replaced by the field's term comes back, no two exported types share a name, no
// two files a base name, and nothing is exported that no other file imports. docs/glossary.md has the words that stay.
import path from 'node:path';
import t from 'tap';
import { filesIn, read } from './support/sources.ts';

const SERVICE = ['schemas', 'src', 'pipelines', 'clickhouse'];
const ALL = [...SERVICE, 'bench', 'test', 'scripts', 'dashboard', 'docs', 'ops'];
const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md'];

/** Retired word -> what to write instead. */
const RETIRED: [RegExp, string][] = [
  [/\b[Dd]oors?\b|\bOpenDoors\b/, 'admission, the HTTP server, ingest heartbeat'],
  [/\bstrained\b|\bcalm\b/i, 'overloaded, normal'],
  [/\bslabs?\b/i, 'buffer pool'],
  [/\bdoorbells?\b/i, 'stream poller'],
  [/\b[Hh]eld ?[Pp]laces?\b/, 'quota lease'],
  [/\b[Rr]ate ?[Gg]ate\b|\b[Aa]skers?\b/, 'rate limit batcher, waiter'],
  [/\bglides?\b/i, 'inner loop of an automaton'],
  [/\b([Pp]lain|[Oo]rdinary) path\b/, 'fast path, general path'],
  [/\b[Dd]epartures?\b|\bcompan(y|ies)\b/, 'insert coalescer, group'],
  [/\b[Jj]oints?\b/, 'commit barrier'],
  [/\bgiveBack\b/, 'release'],
  [/\b[Tt]ellers?\b/, 'dispatcher'],
  [/\bcrowds?\b|\bcrowded\b/i, 'queue depth, saturated'],
  [/\bnudged?\b/, 'wake'],
  [/\b[Kk]eepers?\b(?! path)/, 'child supervisor, baseline store'],
  [/\b[Pp]atien(ce|tly)\b/, 'adaptive priority, retry forever, long poll'],
  [/\bparked\b|\bparks?\b|\bparking\b/i, 'dead-lettered'],
  [/\btwins?\b/i, 'concurrent duplicate'],
  [/\bSurroundings\b|\bsentenceOf\b/, 'worker context, user-facing message'],
  [/\btype Asked\b|\b(limitTold|toldOfEvents|tellRoom|tellSummar\w+)\b/, 'the request or check that it is; notified'],
  [/\b(setApart|apartBy|onApart|makeSound|letGo|DoorOptions)\b/, 'offload, validate, release'],
];

test('words that were replaced stay away', (t) => {
  const texts = [...ALL.flatMap((folder) => filesIn(folder, /\.(ts|tsx|mjs|lua|sql|md|yaml)$/)), ...DOCUMENTS];
  const found = texts
    .filter((file) => !file.startsWith('test/naming.test.ts'))
    .flatMap((file) =>
      RETIRED.filter(([word]) => word.test(read(file))).map(([word, now]) => `${file}: ${word} is ${now}`),
    );
  t.same(found, []);
});

/** In comments and documents: a person, a caller, a process or an operator has a name. */
const PRONOUNS = /\b(nobody|whoever|somebody|anybody|everybody|he|his|him)\b(?!`)/i;
/** "Told apart", "is told": distinguished, notified, answered. */
const TOLD = /\b(told|tells?) (of|apart)\b|\b(is|are|was|were) told\b/i;
/** "Again", "so", "takes". */
const OLD_WORDS = /\b(anew|hence|bears?|upon|lest|heeds?)\b/i;

test('comments and documents use plain words', (t) => {
  const commented = ALL.flatMap((folder) => filesIn(folder, /\.(ts|tsx|mjs|lua|md)$/)).filter(
    (file) => !file.startsWith('docs/decisions/') && !file.startsWith('test/naming.test.ts'),
  );
  const found = [...commented, ...DOCUMENTS].flatMap((file) =>
    read(file)
      .split('\n')
      .flatMap((line, i) => {
        const prose = file.endsWith('.md') ? line : (/^\s*(?:\/\/|\/?\*|--)(.*)/.exec(line)?.[1] ?? '');
        return [PRONOUNS, TOLD, OLD_WORDS]
          .flatMap((word) => word.exec(prose)?.[0] ?? [])
          .map((word) => `${file}:${i + 1}: ${word}`);
      }),
  );
  t.same(found, []);
});

test('a doc comment begins with what it is about', (t) => {
  const found = [...ALL, 'clients'].flatMap((folder) =>
    filesIn(folder, /\.(ts|tsx|mjs)$/).flatMap((file) =>
      [...read(file).matchAll(/\/\*\*\s*(?:\*\s*)?(?:Of|What)\b.*/g)].map(([begin]) => `${file}: ${begin}`),
    ),
  );
  t.same(found, [], 'no "Of ...", no "What ...": name the thing, or say what it does');
});

test('no two exported types have one name', (t) => {
  const places = new Map<string, string[]>();
  for (const file of service())
    for (const [, name] of read(file).matchAll(/^export (?:abstract )?(?:type|class|interface) (\w+)/gm))
      places.set(name!, [...new Set([...(places.get(name!) ?? []), file])]);
  t.same(several(places), []);
});

test('no two files of the service have one base name', (t) => {
  const places = new Map<string, string[]>();
  for (const file of service().filter((file) => /^(src|pipelines)\//.test(file)))
    if (path.basename(file) !== 'pipeline.ts')
      places.set(path.basename(file), [...(places.get(path.basename(file)) ?? []), file]);
  // AssemblyScript's modules are a program of their own.
  t.same(
    several(places).filter((line) => !line.includes('src/ingest/wasm/')),
    [],
  );
});

test('nothing is exported for no one', (t) => {
  const used = new Set<string>();
  for (const file of [...SERVICE, 'bench', 'test', 'scripts', 'dashboard'].flatMap((one) => filesIn(one, CODE))) {
    const at = (to: string) => path.posix.join(path.posix.dirname(file), to);
    for (const [, names, to] of read(file).matchAll(NAMES_IMPORTED))
      for (const name of names!.split(','))
        used.add(
          `${at(to!)} ${
            name
              .trim()
              .replace(/^type /, '')
              .split(' as ')[0]
          }`,
        );
    for (const [, whole, later] of read(file).matchAll(FILE_IMPORTED)) used.add(at((whole ?? later)!));
  }
  const unused = service()
    .filter((file) => !file.startsWith('src/ingest/wasm/') && !used.has(file))
    .flatMap((file) =>
      [...read(file).matchAll(/^export (?:async )?(?:abstract )?(?:type|class|interface|const|function\*?) (\w+)/gm)]
        .filter(([, name]) => !used.has(`${file} ${name}`))
        .map(([, name]) => `${file}: ${name}`),
    );
  t.same(unused, []);
});

const CODE = /\.(ts|tsx|mjs)$/;
const NAMES_IMPORTED = /^(?:import|export) (?:type )?(?:\w+, )?\{([^}]*)\} from '(\.[^']+)'/gm;
/** As a whole, or later: then any of its exports may be used. */
const FILE_IMPORTED = /\* as \w+ from '(\.[^']+)'|\bimport\('(\.[^']+)'\)/g;

function test(name: string, run: (t: import('tap').Test) => void): void {
  t.test(name, async (t) => run(t));
}

function service(): string[] {
  return SERVICE.flatMap((folder) => filesIn(folder, /\.ts$/));
}

function several(places: ReadonlyMap<string, readonly string[]>): string[] {
  return [...places].filter(([, files]) => files.length > 1).map(([name, files]) => `${name}: ${files.join(', ')}`);
}
