// Question: what does a client cost the program that it is in, with the service there, away, or hanging?
// Method: for each client and state a program that records RATE events a second of 1 kB and asks a guard 20 times a
// second, for `--seconds`: TypeScript in this process, whose loop does nothing else, Python in a process of its own, in
// asyncio. The program's own delay is how late a beat of 10 ms comes; memory is what the process has grown by, threads
// the most that were there. Promised: at most MEMORY_MB_MAX and THREADS_MAX, whatever the service does.
import { readFileSync } from 'node:fs';
import net, { type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Gatehouse } from '../clients/typescript/src/index.ts';
import { runPython } from '../test/support/python.ts';
import { ended } from './ending.ts';
import { MB } from './memory-watch.ts';
import { beginLine, hand, type Row } from './report.ts';
import { startBenchService } from './service.ts';
import { percentile, sorted } from './statistics.ts';

const RATE = 1_000;
const BEAT_MS = 10;
const GUARD_EVERY_BEATS = 5;
const TEXT = 'x'.repeat(1_000);
/** The queue, the batch that is on its way, and what a collector leaves for later. */
const MEMORY_MB_MAX = 100;
/** Beside the program's own: a sender, and a thread for each guard that waits. */
const THREADS_MAX = 70;

type Measured = { late: number[]; memory: number; threads: number; counts: Record<string, number> };
type Target = { url: string; key: string; agent: string };

export async function clients({ seconds }: { seconds: number }): Promise<boolean> {
  const machine = beginLine('clients');
  const service = await startBenchService({ GATEHOUSE_FRONTS: '1' });
  const silent = net.createServer(() => undefined);
  const rows: Row[] = [];
  await ended(
    async () => {
      await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
      const states = {
        there: service.url,
        away: 'http://127.0.0.1:9',
        hangs: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
      };
      const agent = await agentOf(service);
      for (const [state, url] of Object.entries(states))
        for (const [client, measured] of Object.entries({ TypeScript: inTypeScript, Python: inPython }))
          rows.push(rowOf(client, state, await measured({ url, key: service.key, agent }, seconds)));
    },
    async () => {
      silent.close();
      await service.stop();
    },
  );
  hand(
    {
      line: 'clients',
      question: 'what does a client cost the program that it is in, with the service there, away, or hanging?',
      command: `npm run bench -- clients --seconds ${seconds}`,
      rows,
    },
    machine,
  );
  return rows.every((row) => Number(row['memory MB']) <= MEMORY_MB_MAX && Number(row['threads']) <= THREADS_MAX);
}

async function agentOf({ url, key }: { url: string; key: string }): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const response = await fetch(`${url}/v1/agents`, { method: 'POST', headers, body: '{"name":"clients"}' });
  return ((await response.json()) as { id: string }).id;
}

async function inTypeScript({ url, key, agent }: Target, seconds: number): Promise<Measured> {
  const gatehouse = new Gatehouse({ url, key, agent });
  const guarded = gatehouse.guard('look', (n: number) => n, { onUnavailable: 'allow' });
  const late: number[] = [];
  let [memory, threads] = [0, 0];
  const before = statusOf('VmRSS');
  const beats = (seconds * 1_000) / BEAT_MS;
  for (let beat = 0; beat < beats; beat++) {
    for (let n = 0; n < (RATE * BEAT_MS) / 1_000; n++) gatehouse.record({ type: 'custom', payload: { n, text: TEXT } });
    if (beat % GUARD_EVERY_BEATS === 0) guarded(beat).catch(() => undefined);
    const due = performance.now() + BEAT_MS;
    await sleep(BEAT_MS);
    late.push(performance.now() - due);
    memory = Math.max(memory, statusOf('VmRSS') - before);
    threads = Math.max(threads, statusOf('Threads'));
  }
  return { late, memory: memory * 1024, threads, counts: { ...(await gatehouse.close({ timeoutMs: 5_000 })) } };
}

async function inPython(target: Target, seconds: number): Promise<Measured> {
  const { lines, stderr } = await runPython(PROGRAM, { ...target, SECONDS: String(seconds) });
  if (lines.length !== 1) throw new Error(`the Python program ended early: ${stderr}`);
  return lines[0] as Measured;
}

function rowOf(client: string, state: string, { late, memory, threads, counts }: Measured): Row {
  const delays = sorted(late);
  return {
    ...{ client, 'the service': state, 'beats late p50 ms': percentile(delays, 0.5) },
    ...{ 'p99 ms': percentile(delays, 0.99), 'most ms': percentile(delays, 1) },
    ...{ 'memory MB': memory / MB, threads, ...counts },
  };
}

/** Reads a line of this process's status, as Linux has it: kB, or a number. */
function statusOf(name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
}

const PROGRAM = `
import asyncio, re
def status(name): return int(re.search(r"^%s:\\s+(\\d+)" % name, open("/proc/self/status").read(), re.M)[1])
gh = client(timeout=2.0)
@gh.guard("look", on_unavailable="allow")
async def look(n): return n
late, most, before = [], [0, 0], status("VmRSS")
async def main():
    asking = set()
    for beat in range(int(os.environ["SECONDS"]) * ${1_000 / BEAT_MS}):
        for n in range(${(RATE * BEAT_MS) / 1_000}): gh.record("custom", {"n": n, "text": "x" * ${TEXT.length}})
        if beat % ${GUARD_EVERY_BEATS} == 0:
            task = asyncio.create_task(look(beat)); asking.add(task); task.add_done_callback(asking.discard)
        due = time.monotonic() + ${BEAT_MS / 1_000}
        await asyncio.sleep(${BEAT_MS / 1_000})
        late.append((time.monotonic() - due) * 1000)
        most[:] = max(most[0], status("VmRSS") - before), max(most[1], threading.active_count())
import warnings; warnings.simplefilter("ignore", ResourceWarning)
asyncio.run(main())
say({"late": late, "memory": most[0] * 1024, "threads": most[1], "counts": gh.close(5)})
`;
