// Lines of the log for the person at a terminal: sentences for what a start does, everything that is said of what is
// wrong, one line each whatever is in it; JSON wherever that is asked for or no one sits at a terminal.
import { spawnSync } from 'node:child_process';
import t from 'tap';
import { assetPath } from '../../src/process/assets.ts';
import { lineForPeople } from '../../src/process/log-for-people.ts';

const TIME = '2026-11-28T15:00:25.111Z';
const line = (level: string, msg: string, fields: object = {}, name = 'supervisor') =>
  lineForPeople(`${JSON.stringify({ level, time: TIME, process: name, pid: 7, ...fields, msg })}\n`);
const clock = new Date(TIME).toTimeString().slice(0, 8);

t.test('what a start does is said in sentences', async (t) => {
  const settings = { GATEHOUSE_DATA_DIR: '/data', GATEHOUSE_PORT: 8080 };
  t.equal(line('info', 'process.starting', { settings }), `${clock} supervisor: starting, data in /data\n`);
  t.equal(
    line('info', 'engines.starting', { engines: ['Redis', 'ClickHouse'] }),
    `${clock} supervisor: starting Redis and ClickHouse\n`,
  );
  t.equal(line('info', 'engines.starting', { engines: [] }), `${clock} supervisor: looking for Redis and ClickHouse\n`);
  t.equal(
    line('info', 'workers.starting', { fronts: 2, backtests: 1 }),
    `${clock} supervisor: starting 2 fronts, the pipelines and 1 process for backtests\n`,
  );
  t.equal(line('info', 'process.ready', {}, 'front-1'), `${clock} front-1: ready\n`);
  t.equal(line('info', 'streams.compared_from_their_start', { streams: 48 }, 'pipelines'), '', 'nothing to a person');
});

t.test('what is wrong is said with all that is known of it, in one line', async (t) => {
  t.equal(
    line('warn', 'redis.away', {
      part: 'store',
      err: { type: 'Error', message: 'refused', stack: 'Error: refused\n at x' },
    }),
    `${clock} warning supervisor: redis.away part=store err=refused\n`,
  );
  t.equal(
    line('error', 'disk.full', { freeBytes: 3, paths: ['a'] }),
    `${clock} error supervisor: disk.full freeBytes=3 paths=["a"]\n`,
  );
  t.equal(
    line('info', 'agents.down', { count: 2 }),
    `${clock} supervisor: agents.down count=2\n`,
    'of what there is no sentence for',
  );
  const odd = line('warn', 'odd', { text: 'a\u001b[31mb\r\nc\u202ed\u2028e', long: 'x'.repeat(5_000), none: null });
  t.equal(odd.indexOf('\n'), odd.length - 1);
  t.notMatch(odd.slice(0, -1), /[\p{Cc}\p{Cf}\u2028]/u);
  t.match(odd, /x{300}… none=null\n$/);
  t.equal(lineForPeople('no JSON\n'), 'no JSON\n');
});

t.test('JSON where standard error is no terminal, or where it is asked for', async (t) => {
  const log = assetPath('build/src/process/log.js');
  const logged = (format: string) => {
    const script = `import { createLog } from ${JSON.stringify(log)};
      createLog({ level: 'info', processName: 'p', format: ${JSON.stringify(format)} }).warn({ n: 1, key: 'gth_x' }, 'here');`;
    return spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }).stderr;
  };
  for (const format of ['auto', 'json'])
    t.match(JSON.parse(logged(format)), { level: 'warn', process: 'p', n: 1, key: '[masked]', msg: 'here' }, format);
  t.match(logged('text'), /^\d\d:\d\d:\d\d warning p: here n=1 key=\[masked\]\n$/);
});
