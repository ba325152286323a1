// The command line of the suite as load-testers call it: help, and a sentence for whatever is wrong. No line is run.
import { execFile } from 'node:child_process';
import t from 'tap';
import { LINES, readCall } from '../../bench/command-line.ts';
import { assetPath } from '../../src/process/assets.ts';

function bench(...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [assetPath('build/bench/main.js'), ...args],
      { timeout: 60_000 },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : error.code, stdout, stderr }),
    );
  });
}

t.test('help says which lines there are, and which options each takes', async (t) => {
  const all = await bench('--help');
  t.equal(all.code, 0);
  for (const name of Object.keys(LINES)) t.match(all.stdout, new RegExp(`^  ${name} `, 'm'));
  const helpOf = (name: string) => {
    let said = '';
    t.equal(
      readCall([name, '--help'], (text) => {
        said = text;
      }),
      undefined,
    );
    return said;
  };
  const ingest = helpOf('ingest');
  t.match(ingest, /^npm run bench -- ingest: events a second/);
  t.match(ingest, /^ {2}--seconds +length of a turn, or of the line, in s \(left out: 5\)$/m);
  t.notMatch(ingest, /--kills/);
  t.match(helpOf('real'), /real \[NDJSON files\]/);
});

t.test('what is wrong is a sentence and status 2, before anything starts', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /^which line\? One of ingest, /],
    [['ingets'], /^there is no line "ingets"; there are ingest, /],
    [['ingest', '--colour', 'red'], /^Unknown option '--colour'; npm run bench -- --help/],
    [['ingest', '--uri', 'http://127.0.0.1:1'], /^Unknown option '--uri'/],
    [['ingest', '--kills', '3'], /^ingest takes no --kills; it takes --turns, --keep, --seconds, --out/],
    [['ingest', '--seconds', 'five'], /^--seconds takes a whole number above 0/],
    [['ingest', '--seconds', '0'], /^--seconds takes a whole number above 0/],
    [['ingest', 'now'], /^what is "now" meant to be\?/],
  ];
  for (const [args, sentence] of wrong) {
    t.throws(() => readCall(args, () => t.fail('nothing is printed')), { name: 'CallError', message: sentence });
  }
  const { code, stdout, stderr } = await bench('ingest', '--kills', '3');
  t.equal(code, 2);
  t.match(stderr, /^bench: ingest takes no --kills[^\n]+\n$/, 'one line');
  t.equal(stdout, '');
});
