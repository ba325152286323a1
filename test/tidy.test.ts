// The habits of the house, checked: who may import whom, what every file has, what no file may have (CONTRIBUTING.md).
// Reads the sources as text. It relies on the formatter: a block ends on the first line that is indented like its
// first. A line that fails names the file; the sentence of the test says what is wanted instead.
import path from 'node:path';
import t, { type Test } from 'tap';
import { filesIn, read } from './support/sources.ts';

const CODE = ['schemas', 'src', 'pipelines', 'clickhouse', 'clients/typescript/src', 'bench', 'test', 'scripts'];
const SERVICE = ['schemas', 'src', 'pipelines', 'clickhouse'];
const SHARED = /^src\/(common|process|metrics)\//;

/**
 * The imports that files of a folder may have beside their own folder and the shared ground. First match wins.
 * Processes are composed in src/composition and src/commands, which may import everything.
 */
const ARROWS: [from: RegExp, to: RegExp][] = [
  [/^schemas\//, /^typebox/],
  [/^src\/policy\/quotas\//, /^(schemas|src\/policy|src\/redis)\//],
  [/^src\/policy\//, /^(schemas|src\/policy)\//],
  [/^src\/(common|process)\//, /^schemas\//],
  [/^src\/hooks\//, /^schemas\//],
  [/^src\/metrics\//, /^(schemas|src\/redis|src\/registry|clickhouse)\//],
  [/^src\/redis\//, /^schemas\//],
  [/^src\/streams\//, /^(schemas|src\/redis)\//],
  [/^src\/egress\//, /^schemas\//],
  [/^src\/checks\//, /^(schemas|src\/checks|src\/egress)\//],
  [/^src\/registry\//, /^(schemas|src\/registry|src\/redis|src\/policy|src\/egress)\//],
  [/^src\/otlp\//, /^(schemas|src\/otlp|src\/redis|src\/registry)\//],
  [
    /^src\/ingest\//,
    /^(schemas|src\/hooks|src\/otlp|src\/policy|src\/checks|src\/streams|src\/registry)\/|^src\/redis\/keys\.ts$/,
  ],
  [
    /^src\/http\//,
    /^(schemas|src\/http|src\/hooks|src\/checks|src\/otlp|src\/ingest|src\/registry|src\/audit|clickhouse\/queries)\/|^src\/streams\/(read-barrier|progress)\.ts$|^src\/redis\/keys\.ts$|^clickhouse\/(client|errors)\.ts$/,
  ],
  [/^src\/audit\//, /^(schemas|src\/redis|clickhouse)\/|^src\/streams\/lease\.ts$/],
  [/^src\/mcp\//, /^clients\/typescript\/src\//],
  [/^src\/embedded\//, /^src\/chdb-server\//],
  [/^src\/backup\//, /^(schemas|src\/redis|src\/egress|src\/embedded|src\/chdb-server|clickhouse)\//],
  [/^src\/stores\//, /^(schemas|src\/redis|src\/registry|clickhouse)\//],
  [/^clickhouse\//, /^(schemas|clickhouse)\//],
  [/^pipelines\/pipelines\.ts$/, /^(schemas|src\/streams|src\/redis|src\/registry|src\/audit|clickhouse|pipelines)\//],
  [
    /^pipelines\/(backtest|budgets|sequences)\//,
    /^(schemas|src\/policy|src\/streams|src\/redis|src\/registry|clickhouse)\//,
  ],
  [/^pipelines\/alert\/channels\//, /^(schemas|src\/registry|src\/egress)\/|^pipelines\/alert\/channel\.ts$/],
  [
    /^pipelines\//,
    /^(schemas|src\/streams|src\/redis|src\/registry|src\/audit|src\/egress|clickhouse)\/|^pipelines\/[^/]+$/,
  ],
  [/^src\/(composition|commands)\//, /^(schemas|src|pipelines|clickhouse|clients\/typescript\/src)\//],
  [/^clients\//, /^clients\//],
  [/^(bench|test|scripts)\//, /./],
];

/** A package of its own in all but name: its README.md says what for. It imports nothing else of ours. */
const ENGINE = 'src/chdb-server/';

/** As the formatter has it for code. */
const COLUMNS_MAX = 120;
/** Tightened from above, never loosened: the longest function there is, and what nine in ten stay under. */
const FUNCTION_LINES_MAX = 55;
const FUNCTION_LINES_P90 = 25;
const FILE_LINES_MAX = 540;
const HEADER_LINES_MAX = 12;
/**
 * Lines of a folder, tests and pages among them. A number is lowered when lines go; to raise one is to say in the
 * commit why nothing could go instead.
 */
const FOLDER_LINES_MAX: Readonly<Record<string, number>> = {
  bench: 9_170,
  clickhouse: 6_370,
  clients: 1_200,
  dashboard: 18_045,
  pipelines: 9_850,
  schemas: 6_000,
  scripts: 1_700,
  'src/audit': 2_600,
  'src/backup': 770,
  'src/chdb-server': 1_500,
  'src/checks': 630,
  'src/commands': 2_225,
  'src/common': 4_625,
  'src/composition': 1_840,
  'src/egress': 740,
  'src/embedded': 2_300,
  'src/hooks': 1_200,
  'src/http': 12_900,
  'src/ingest': 8_540,
  'src/mcp': 2_100,
  'src/metrics': 820,
  'src/otlp': 3_600,
  'src/policy': 16_905,
  'src/process': 950,
  'src/redis': 3_480,
  'src/registry': 9_090,
  'src/stores': 700,
  'src/streams': 2_760,
  test: 79_000,
};
/** A number that is more above what is there is lowered. */
const FOLDER_SLACK = 300;

const IMPORT = /^(?:import|export)\s[^;]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm;

type Source = { file: string; text: string; lines: string[]; imports: string[] };

/** Made of schemas, as a tool writes it. */
const GENERATED = ['clients/typescript/src/api.ts'];
const sources = CODE.flatMap((folder) => filesIn(folder, /\.(ts|mjs)$/))
  .filter((file) => !GENERATED.includes(file))
  .map(readSource);
const service = sources.filter(({ file }) => SERVICE.includes(file.split('/')[0]!));

t.test('imports run one way', async (t) => {
  const wrong = sources.flatMap(({ file, imports }) =>
    imports.filter((to) => !mayImport(file, to)).map((to) => `${file} imports ${to}`),
  );
  t.same(wrong, [], 'nothing is imported against the arrows');
  const unmatched = sources
    .filter(({ file }) => !file.startsWith(ENGINE) && !ARROWS.some(([from]) => from.test(file)))
    .map(({ file }) => file);
  t.same(unmatched, [], 'every folder has its arrows');
  t.same(circlesOf(service), [], 'no file imports itself by way of others, types among what is imported');
});

t.test('modules are imported by their file, named exports only', async (t) => {
  await none(t, sources, /^export default\b/m, 'no default exports');
  await none(t, sources, /^export \* from/m, 'no barrels');
  // AssemblyScript finds its modules by names without an ending, and by no others.
  const typescript = sources.filter(({ file }) => !file.startsWith('src/ingest/wasm/'));
  await none(t, typescript, /from '\.{1,2}\/[^']*(?<!\.(ts|mjs))'/, 'relative imports name the .ts file');
  await none(t, service, /\bgetInstance\(/, 'no singletons');
  await none(t, sources, /^ +(private|protected|public) (?!constructor\()/m, '#private instead of the keyword');
  const misnamed = sources.filter(({ file }) => !/^[a-z0-9]+([-.][a-z0-9]+)*\.(ts|mjs)$/.test(path.basename(file)));
  t.same(
    misnamed.map(({ file }) => file),
    [],
    'file names are kebab-case',
  );
});

t.test('the code map names every room', async (t) => {
  const map = read('ARCHITECTURE.md');
  const rooms = new Set(service.map(({ file }) => /^(src\/)?[^/]+/.exec(file)![0]));
  t.same(
    [...rooms].filter((room) => !map.includes(`\`${room}\``)),
    [],
    'a new folder is told in ARCHITECTURE.md',
  );
});

t.test('the environment is read in one file', async (t) => {
  const others = service.filter(({ file }) => file !== 'src/process/config.ts');
  await none(t, others, /\bprocess\.env\b/, 'settings come from src/process/config.ts, handed down');
});

t.test('a judgement has no ambient state', async (t) => {
  const pure = service.filter(({ file }) => file.startsWith('src/policy/'));
  await none(t, pure, /^let\b/m, 'what is needed below is handed down; what is remembered is a constant of its own');
});

t.test('every file says what it is', async (t) => {
  const silent = sources.filter(({ text }) => !/^(#!.*\n)?\/\/ \S.{30,}/.test(text)).map(({ file }) => file);
  t.same(silent, [], 'sources open with a header comment');
  const long = sources.filter(({ lines }) => headerOf(lines).length > HEADER_LINES_MAX).map(({ file }) => file);
  t.same(long, [], `of at most ${HEADER_LINES_MAX} lines: cases and reasons stand below the imports`);
  const scripts = ['src', 'clickhouse', 'pipelines'].flatMap((folder) => filesIn(folder, /\.(lua|sql)$/));
  const bare = scripts.filter((file) => !/^(#!.*\n)?-- \S/.test(read(file)));
  t.same(bare, [], 'Lua and SQL open with their contract');
});

t.test('files that a comment names are there', async (t) => {
  const known = filesIn('.', /\.(ts|tsx|mjs|lua|sql|md)$/);
  const ends = new Set(known.flatMap((file) => file.split('/').map((_, i, steps) => steps.slice(i).join('/'))));
  const places = [...CODE, 'dashboard'].flatMap((folder) => filesIn(folder, /\.(ts|tsx|mjs|lua|sql)$/));
  const gone = places.flatMap((file) =>
    commentsIn(file).flatMap(({ line, at }) =>
      [...line.matchAll(NAMED_FILE)]
        .filter(([name]) => name !== 'clickhouse/NNN_name.sql' && !ends.has(name.replace(/^(\.\.?\/)+/, '')))
        .map(([name]) => `${file}:${at}: ${name}`),
    ),
  );
  t.same(gone, []);
});

t.test('rows of a table in a comment begin at one column', async (t) => {
  const broken = sources.flatMap(({ file, lines }) => {
    const columns: number[] = [];
    return lines.flatMap((line, i) => {
      const row = /^(\/\/ {3}(?! )(?:\S+ ?){1,4}?)( {2,})(?=\S)/.exec(line);
      if (row === null && !/^\/\/ {4,}\S/.test(line)) columns.length = 0;
      // The first column may be empty: then what follows is far off.
      if (row === null || row[2]!.length > EMPTY_COLUMN) return [];
      columns.push(row[0].length);
      return row[0].length === columns[0] ? [] : [`${file}:${i + 1}`];
    });
  });
  t.same(broken, [], 'else a reflow has run two rows together');
});

t.test('comments and pages fit the page', async (t) => {
  const comments = sources.flatMap(({ file, lines }) =>
    lines.filter((line) => /^\s*(\/\/|\*(?!\*)|\/\*)/.test(line)).map((line) => ({ file, line })),
  );
  const pages = ['.', 'docs', 'docs/decisions', 'bench'].flatMap((folder) => pagesIn(folder)).flatMap(proseOf);
  const wide = [...comments, ...pages].filter(({ line }) => [...line].length > COLUMNS_MAX);
  t.same(
    wide.map(({ file, line }) => `${file}: ${line.slice(0, 60)}`),
    [],
    `none over ${COLUMNS_MAX} columns`,
  );
});

t.test('functions stay short', async (t) => {
  const all = sources.flatMap(functionsOf).sort((a, b) => b.lines - a.lines);
  const long = all
    .filter(({ lines }) => lines > FUNCTION_LINES_MAX)
    .map(({ where, lines }) => `${where}: ${lines} lines`);
  t.same(long, [], `none over ${FUNCTION_LINES_MAX} lines`);
  t.ok(all[Math.floor(all.length / 10)]!.lines <= FUNCTION_LINES_P90, `nine in ten within ${FUNCTION_LINES_P90} lines`);
  const longFiles = service.filter(({ lines }) => lines.length > FILE_LINES_MAX).map(({ file }) => file);
  t.same(longFiles, [], `no file over ${FILE_LINES_MAX} lines`);
});

t.test('folders do not grow', async (t) => {
  const sizes = new Map<string, { lines: number; file: string }[]>();
  for (const folder of [...CODE, 'dashboard'])
    for (const file of filesIn(folder, /\.(ts|tsx|mjs|lua|sql|css)$/).filter((one) => !GENERATED.includes(one))) {
      const room = /^(src\/)?[^/]+/.exec(file)![0];
      const known = sizes.get(room) ?? [];
      if (known.some((one) => one.file === file)) continue;
      sizes.set(room, [...known, { lines: read(file).split('\n').length - 1, file }]);
    }
  const advice = [...sizes].flatMap(([room, files]) => {
    const lines = files.reduce((sum, one) => sum + one.lines, 0);
    const max = FOLDER_LINES_MAX[room] ?? 0;
    if (lines < max - FOLDER_SLACK) return [`${room} has ${lines} lines: lower its number of ${max}`];
    if (lines <= max) return [];
    const largest = files.sort((a, b) => b.lines - a.lines).slice(0, 5);
    return [
      `${room} has ${lines} lines, ${lines - max} too many. Do not raise the number, take away: what one caller alone uses, ` +
        'a second way to do what another file does, a branch for what cannot be, a test of what another test holds. ' +
        `Its largest files: ${largest.map((one) => `${one.file} ${one.lines}`).join(', ')}`,
    ];
  });
  t.same(advice, []);
});

t.test('nothing is left lying about', async (t) => {
  const marks = new RegExp(
    `\\b(${['TO', 'FIX', 'XX'].map((w, i) => w + ['DO', 'ME', 'X'][i]).join('|')})\\b(?!\\(#\\d+\\))`,
  );
  await none(t, sources, marks, 'what is to be done names its issue');
  await none(
    t,
    service,
    /\bconsole\.(log|error|warn|info|debug)\(/,
    'the log is the log; the CLI writes to its streams',
  );
  await none(t, sources, /\b(test|t)\.only\(|\bdebugger;/, 'no debugging left');
});

t.test('the pages keep to one scale of distances and sizes of type', async (t) => {
  const set = /^\s*((?:padding|margin|gap|row-gap|column-gap|font-size)(?:-[a-z-]+)?): ([^;]+);/gm;
  const onScale =
    /^(0|auto|inherit|-?1px|[0-9]+vh|var\(--(space|type)-[a-z0-9]+\)|calc\(-1 \* var\(--space-[a-z0-9]+\)\))$/;
  const off = filesIn('dashboard', /\.css$/).flatMap((file) =>
    [...read(file).matchAll(set)]
      .filter(([, , value]) => value!.split(/\s+(?![^(]*\))/).some((part) => !onScale.test(part)))
      .map(([rule]) => `${file}: ${rule.trim()}`),
  );
  t.same(off, [], 'they are --space-* and --type-* of dashboard/style.css');
});

t.test('the repository names no machine and no registry', async (t) => {
  const files = [...filesIn('.', /\.(ts|mjs|md|json|lua|sql|yml|yaml|sh)$|^\.(npmrc|ci\/run)$/)];
  const paths = files.filter(
    (file) => file !== 'test/tidy.test.ts' && /(^|[\s"'`(=])\/(work|home|root|Users)\/[a-z]/m.test(read(file)),
  );
  t.same(paths, [], 'no absolute path of a machine');
  const lock = read('package-lock.json');
  t.notMatch(lock, /"resolved"\s*:/, 'the lock file is for every registry');
  t.notMatch(lock, /https?:\/\/[^"]*\.tgz/, 'and holds no address of a package');
});

t.test('a test says by its name what it needs', async (t) => {
  const needs: [RegExp, RegExp][] = [
    [/support\/service\.ts'/, /\.(path|browser)\.test\.ts$/],
    [/support\/redis\.ts'/, /\.(redis|path)\.test\.ts$/],
    [/support\/clickhouse\.ts'/, /\.(clickhouse|path)\.test\.ts$/],
  ];
  const tests = sources.filter(({ file }) => file.endsWith('.test.ts'));
  const wrong = tests.filter(({ file, text }) => {
    const needed = needs.filter(([use]) => use.test(text));
    // A test of several engines is named after one of them, or is a path test.
    return needed.length > 0 && !needed.some(([, name]) => name.test(file));
  });
  t.same(
    wrong.map(({ file }) => file),
    [],
    '.redis, .clickhouse or .path',
  );
});

const NAMED_TEST = /'([a-z-]+\/[a-z-]+\.(?:path|browser|redis|socket|process|clickhouse))'/g;

t.test('the tests that are named to run less often exist', async (t) => {
  const named = [...read('scripts/test-choice.mjs').matchAll(NAMED_TEST)].map(([, name]) => name);
  const tests = filesIn('test', /\.test\.ts$/);
  t.ok(named.length >= 10, `${named.length} names`);
  t.same(
    named.filter((name) => !tests.includes(`test/${name}.test.ts`)),
    [],
  );
});

function mayImport(file: string, to: string): boolean {
  if (file.startsWith(ENGINE)) return to.startsWith(ENGINE) || to.startsWith('node:') || to === 'chdb';
  if (to.startsWith('node:')) return !file.startsWith('schemas/');
  const [, allowed] = ARROWS.find(([from]) => from.test(file)) ?? [];
  if (!allowed) return false;
  if (/^(bench|test|scripts)\//.test(to)) return /^(bench|test|scripts)\//.test(file);
  const isLocal = CODE.some((folder) => to.startsWith(`${folder}/`));
  if (!isLocal) return !file.startsWith('schemas/') || allowed.test(to);
  const ownFolder =
    path.dirname(file) === path.dirname(to) && path.dirname(file) !== 'src' && path.dirname(file) !== 'pipelines';
  const below = to.startsWith(`${path.dirname(file)}/`) && path.dirname(file).split('/').length > 1;
  const isShared = SHARED.test(to) && !file.startsWith('schemas/');
  return ownFolder || below || isShared || to.startsWith('schemas/') || allowed.test(to);
}

/** The groups of files that import one another in a circle. */
function circlesOf(among: readonly Source[]): string[] {
  const importsOf = new Map(among.map(({ file, imports }) => [file, imports]));
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]) => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(' -> '));
    if (done.has(file)) return;
    done.add(file);
    for (const to of importsOf.get(file) ?? []) visit(to, [...way, file]);
  };
  for (const { file } of among) visit(file, []);
  return circles;
}

function readSource(file: string): Source {
  const text = read(file);
  const imports = [...text.matchAll(IMPORT)].map(([, from, bare, dynamic]) =>
    resolveImport(file, (from ?? bare ?? dynamic)!),
  );
  return { file, text, lines: text.split('\n'), imports };
}

/** A path from the root for our own files, the bare name for the rest. */
function resolveImport(file: string, to: string): string {
  return to.startsWith('.') ? path.posix.normalize(path.posix.join(path.posix.dirname(file), to)) : to;
}

/** Functions and methods with a name and a body of their own; short arrows count to what they are in. */
function functionsOf({ file, lines }: Source): { where: string; lines: number }[] {
  const head =
    /^(\s*)(?:(?:export |async |static )*(?:function\b.*|(?:#?[a-zA-Z]\w*|constructor)\(.*|(?:get|set) #?\w+\(.*))\{$/;
  const words = /^\s*(?:if|for|while|switch|catch|return|await|else|do|try)\b/;
  const isTest = file.startsWith('test/') || file.endsWith('.test.ts');
  return lines.flatMap((line, at) => {
    const match = words.test(line) || isTest ? null : head.exec(line);
    if (!match) return [];
    const end = lines.findIndex((other, i) => i > at && other.startsWith(`${match[1]}}`));
    return end < 0 ? [] : [{ where: `${file}:${at + 1}`, lines: end - at + 1 }];
  });
}

/** A file by its name, with folders in front or without. */
const NAMED_FILE = /(?<![\w/.*-])(?:(?:[\w-]+|\.\.?)\/)*[\w-]+(?:\.[a-z]+)*\.(?:ts|tsx|mjs|lua|sql|md)\b/g;
const EMPTY_COLUMN = 40;

function headerOf(lines: readonly string[]): string[] {
  const from = lines[0]!.startsWith('#!') ? 1 : 0;
  const end = lines.findIndex((line, i) => i >= from && !line.startsWith('//'));
  return lines.slice(from, end === -1 ? lines.length : end);
}

function commentsIn(file: string): { line: string; at: number }[] {
  return read(file)
    .split('\n')
    .map((line, i) => ({ line, at: i + 1 }))
    .filter(({ line }) => /^\s*(\/\/|\/?\*|--)/.test(line));
}

async function none(t: Test, among: readonly Source[], pattern: RegExp, sentence: string): Promise<void> {
  const found = among
    .filter(({ file, text }) => file !== 'test/tidy.test.ts' && pattern.test(text))
    .map(({ file }) => file);
  t.same(found, [], sentence);
}

function pagesIn(folder: string): string[] {
  return filesIn(folder, /\.md$/).filter((file) => path.dirname(file) === folder);
}

/** The lines of a document that are in no table, no heading and no block of code. */
function proseOf(file: string): { file: string; line: string }[] {
  let isCode = false;
  return read(file)
    .split('\n')
    .filter((line) => {
      if (line.startsWith('```')) isCode = !isCode;
      return !isCode && !line.startsWith('|') && !line.startsWith('#');
    })
    .map((line) => ({ file, line }));
}
