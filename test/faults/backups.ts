// Backups that are taken while everything is killed, each restored beside the service at once (mixed-kills.ts): what
// was acknowledged before is in it, once, with a valid audit chain. A backup that cannot be taken, since a store is
// down or the disk is full, says so in a sentence and leaves nothing; the next one is tried.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import { assetPath } from '../../src/process/assets.ts';
import { eventually } from '../streams/harness.ts';
import { launchService, makeDataDir, runCli, serviceEnvironment, type TestService } from '../support/service.ts';

type BackupsOptions = {
  /** Whose mounts have the data folder. */
  holder: number;
  dataDir: string;
  /** Where they go: a folder on another disk. */
  to: string;
  key: string;
  acknowledged: ReadonlySet<string>;
  say: (line: string) => void;
};
type Counts = Map<string, number>;
type Ended = { code: number | null; stdout: string; stderr: string };

const PAUSE_MS = 5_000;
/** A command that hangs is a fault, too. */
const COMMAND_MS_MAX = 180_000;
/** How often each is stored. */
export const COUNTS = `SELECT JSONExtractString(payload, 'marker') AS marker, toUInt32(count()) AS n FROM events
  WHERE marker != '' GROUP BY marker`;

export class Backups {
  readonly #options: BackupsOptions;
  readonly #wrong: string[] = [];
  readonly #refused = new Map<string, number>();
  #restored = 0;

  constructor(options: BackupsOptions) {
    this.#options = options;
  }

  /** At least one: the last is tried until it is taken. */
  async run(isOver: () => boolean): Promise<void> {
    for (let isTaken = false; !isOver() || !isTaken; await sleep(PAUSE_MS)) {
      const before = [...this.#options.acknowledged];
      const { code, stdout, stderr } = await this.#inside(['backup', this.#options.to, '--keep', '2']);
      isTaken = code === 0;
      if (isTaken) await this.#restore(stdout.split('\n')[0]!, before);
      else this.#noteRefusal(code, stderr);
    }
  }

  verify(): { restored: number; refused: Record<string, number>; wrong: string[] } {
    return { restored: this.#restored, refused: Object.fromEntries(this.#refused), wrong: this.#wrong };
  }

  #noteRefusal(code: number | null, stderr: string): void {
    const [sentence = ''] = /^gatehouse: .*$/m.exec(stderr) ?? [];
    const words = sentence.replace(/\/\S+|\d+/g, '…').slice(0, 100);
    this.#refused.set(words, (this.#refused.get(words) ?? 0) + 1);
    if (sentence === '' || /^ {4}at /m.test(stderr)) this.#wrong.push(`a backup ended with ${code}: ${stderr}`);
  }

  async #restore(backup: string, before: readonly string[]): Promise<void> {
    const dataDir = await makeDataDir();
    const here = { GATEHOUSE_DATA_DIR: dataDir };
    const fail = (why: string) => this.#wrong.push(`${path.basename(backup)}: ${why}`);
    try {
      const { code, stderr } = await runCli(['restore', backup], here);
      if (code !== 0) return void fail(stderr);
      const env = { GATEHOUSE_BOOTSTRAP_KEY: this.#options.key, GATEHOUSE_FRONTS: '1' };
      const service = await launchService({ dataDir, env });
      try {
        const missingOf = (known: Counts) => before.filter((marker) => !known.has(marker)).length;
        // What the backup has in its streams is stored once the pipelines run.
        await eventually(async () => missingOf(await countsOf(service)) === 0);
        const known = await countsOf(service);
        const [missing, twice] = [missingOf(known), [...known.values()].filter((count) => count > 1).length];
        if (missing + twice > 0) fail(`${missing} of ${before.length} are missing, ${twice} are there twice`);
        const verified = await runCli(['audit', 'verify'], here);
        if (verified.code !== 0) fail(verified.stdout + verified.stderr);
      } finally {
        await service.stop();
      }
      this.#restored++;
      this.#options.say(`restored a backup of ${before.length} acknowledged events`);
    } catch (error) {
      fail((error as Error).message);
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  }

  /** Runs a command of ours where the service runs. */
  async #inside(args: string[]): Promise<Ended> {
    const { holder, dataDir } = this.#options;
    const enter = ['--preserve-credentials', '-U', '-m', '-t', String(holder)];
    const child = spawn('nsenter', [...enter, process.execPath, assetPath('build/service/cli.js'), ...args], {
      env: serviceEnvironment({ GATEHOUSE_DATA_DIR: dataDir }),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: COMMAND_MS_MAX,
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data: Buffer) => {
      stdout += data.toString();
    });
    child.stderr.on('data', (data: Buffer) => {
      stderr += data.toString();
    });
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, stdout, stderr };
  }
}

async function countsOf(service: TestService): Promise<Counts> {
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = createClient({ url, database, request_timeout: 60_000 });
  try {
    const rows = await clickhouse.query({ query: COUNTS, format: 'JSONEachRow' });
    return new Map((await rows.json<{ marker: string; n: number }>()).map(({ marker, n }) => [marker, Number(n)]));
  } finally {
    await clickhouse.close();
  }
}
