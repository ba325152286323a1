// From the description to a program: a kept generator makes types of what a real service serves without a key, a
// program against them (test/fixtures/openapi-program.ts) compiles as strictly as there is, and does its work on that
// service.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { clientTypes } from '../support/openapi-client.ts';
import { sharedService } from '../support/shared-service.ts';

const run = promisify(execFile);
/**
 * Node.js as from a shell. The test runner puts its module hooks into NODE_OPTIONS of every process that is spawned,
 * whatever environment it is given; with them the compiler's own modules do not load.
 */
const node = (args: string[], env: NodeJS.ProcessEnv = process.env) =>
  run('sh', ['-c', 'unset NODE_OPTIONS; exec "$0" "$@"', process.execPath, ...args], { env });
const service = await sharedService(t);
const document = (await (await fetch(`${service.url}/v1/openapi.json`)).json()) as object;
const types = await clientTypes(document);

await mkdir(assetPath('build'), { recursive: true });
const folder = await mkdtemp(path.join(assetPath('build'), 'client-'));
t.teardown(() => rm(folder, { recursive: true, force: true }));
await writeFile(path.join(folder, 'gatehouse.ts'), types);
await copyFile(assetPath('test/fixtures/openapi-program.ts'), path.join(folder, 'program.ts'));
await writeFile(
  path.join(folder, 'tsconfig.json'),
  JSON.stringify({
    compilerOptions: {
      target: 'es2023',
      lib: ['es2023', 'dom', 'dom.iterable'],
      module: 'nodenext',
      types: ['node'],
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      noUnusedLocals: true,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
      skipLibCheck: true,
      rootDir: '.',
      outDir: 'out',
    },
    files: ['program.ts'],
  }),
);

/** The messages of the compiler about the program; empty: it is sound. */
async function compile(): Promise<string> {
  try {
    return (await node([assetPath('node_modules/typescript/bin/tsc'), '-p', folder])).stdout;
  } catch (error) {
    const { stdout, stderr, message } = error as { stdout: string; stderr: string; message: string };
    return stdout || stderr || message;
  }
}

t.test('the generated types know what the description knows', async (t) => {
  t.notMatch(types, /\bany\b(?=[;[\]|>)])/, 'nothing is any');
  const free = types
    .split('\n')
    .filter((line) => /\bunknown\b/.test(line.replace(/\/\*.*?\*\/|^\s*\*.*|"unknown"|\bunknown\??(?=:)/g, '')));
  // Payloads, details of the audit log, the description itself, in a JSON Schema what may be any value, what differs
  // between revisions, further headers, and what tools of others send and take.
  const ofTools =
    /^\s*(updatedToolOutput\?: unknown|(structured_messages|tools|images)\?: unknown\[\] \| null|messages\?: unknown\[\]);$/;
  const ofOurs =
    /^\s*(\[key: string\]: unknown;|(enum|examples)\?: unknown\[\];|(const|default|before|after)\?: unknown;|\[name: string\]: unknown;)$/;
  t.same(
    free.filter((line) => !ofOurs.test(line) && !ofTools.test(line)),
    [],
    'and unknown only what is free',
  );
  t.equal(
    free.filter((line) => /\[key: string\]/.test(line)).length,
    6,
    'payload, details of an entry alone and in a list, the description, two kinds of hooks',
  );
});

t.test('a program against them compiles, and works on the service', async (t) => {
  const compiled = await compile();
  t.equal(compiled, '', 'without a mistake');
  const env = { ...process.env, GATEHOUSE_URL: service.url, GATEHOUSE_KEY: service.key };
  const { stdout } = await node([path.join(folder, 'out/program.js')], env);
  t.same(JSON.parse(stdout), {
    agent: 'client',
    created: ['block_action', 'rate_limit 1', 'data_filter email,api_key', 'require_approval'],
    said: [
      'blocked: matched',
      'allowed: nothing',
      'blocked: 1 in 3600 s by payload.customer of c-1',
      'allowed: email at /prompt',
      'pending: matched',
      'approved: allowed',
    ],
    listed: 5,
    code: 'validation_failed',
    status: 'ok',
  });
});
