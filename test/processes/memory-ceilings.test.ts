// What the embedded engines may take of the memory that there is.
import { execFileSync } from 'node:child_process';
import os from 'node:os';
import t from 'tap';
import { memoryBytes, memoryCeilings } from '../../src/embedded/memory-ceilings.ts';
import { assetPath } from '../../src/process/assets.ts';

const MiB = 1024 * 1024;

t.test('both follow the memory, within bounds', (t) => {
  const of = (mib: number) => {
    const { redisBytes, clickhouseBytes } = memoryCeilings(mib * MiB);
    return [redisBytes / MiB, clickhouseBytes / MiB].map(Math.round);
  };
  t.same(of(64 * 1024), [2_048, 4_096], 'a large machine');
  t.same(of(4_096), [819, 1_843]);
  t.same(of(1_536), [307, 691]);
  t.same(of(900), [180, 512], 'below it the engine would not start');
  t.same(of(100), [64, 512]);
  for (let mib = 1_024; mib < 100_000; mib += 777) {
    const [redis, clickhouse] = of(mib) as [number, number];
    t.ok(redis + clickhouse <= (mib * 2) / 3 + 40, `${mib} MiB: ${redis} and ${clickhouse}`);
  }
  t.end();
});

t.test('a limit of the cgroup counts where it is lower', (t) => {
  t.ok(memoryBytes() > 0 && memoryBytes() <= os.totalmem());
  const asked = (limit: string) =>
    Number(
      execFileSync(
        process.execPath,
        [
          '--input-type=module',
          '-e',
          `process.constrainedMemory = () => ${limit};
           const { memoryBytes } = await import(${JSON.stringify(assetPath('build/src/embedded/memory-ceilings.js'))});
           console.log(memoryBytes());`,
        ],
        { encoding: 'utf8' },
      ),
    );
  t.equal(asked('900 * 1024 * 1024'), 900 * MiB);
  t.equal(asked('0'), os.totalmem(), 'none');
  t.equal(asked('2 ** 64'), os.totalmem(), 'as Node.js 20 says it');
  t.end();
});
