// What an MCP server said of its tools when they were last let through, and which were taken out (`gatehouse mcp`): a
// file of hashes and descriptions, so that a tool whose description changes after it was trusted is reported, and one
// that was taken out stays out when the command is started again.
// Invariant: servers are distinguished by what is started, not by their name. Only `keep` trusts a tool; a tool that is
// no longer listed stays known. The file is read again before it is written, under a lock, and replaced as a whole; a
// pin that another process wrote meanwhile stays.
// Failure: a file that cannot be read or is no file of ours ends the start. Taking it for an empty one would trust
// every changed tool. A lock that is not free after some seconds is an error; one that a killed process left is taken.
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exactJson, parseExact } from '../common/exact-json.ts';
import { LongNumber } from '../common/exact-number.ts';
import { UserFacingError } from '../common/user-facing-error.ts';

type Pin = { hash: string; description: string };
export type Standing = { hash: string; status: 'new' | 'changed' | 'known'; previous?: Pin };
type Known = { tools: Map<string, Pin>; removed: Map<string, string> };
type File = { servers: Record<string, { tools: Record<string, Pin>; removed: Record<string, string> }> };

/** The fields of a tool that a model reads. Hints of how to show it may change. */
const PINNED = ['title', 'description', 'inputSchema', 'outputSchema', 'annotations'];
/** A write takes some ms. */
const LOCK_WAIT_MS = 5_000;
const LOCK_STALE_MS = 10_000;
const LOCK_LOOK_MS = 20;
/** So many tools of a server are kept, let through or taken out: 2 MB of the file. */
const KEPT_MAX = 20_000;

export class ToolPins {
  readonly #file: string;
  readonly #server: string;
  #known: Known;
  /** Not yet in the file. `base`: the hash that was trusted before. */
  readonly #kept = new Map<string, Pin & { base: string | undefined }>();
  readonly #changes = new Map<string, string | undefined>();
  #saving: Promise<void> = Promise.resolve();

  /** `server`: what is started, by which its tools are kept. */
  constructor(file: string, server: string) {
    this.#file = file;
    this.#server = server;
    this.#known = knownOf(readPins(file), server);
  }

  /** Reads what other processes wrote. */
  refresh(): void {
    this.#known = knownOf(readPins(this.#file), this.#server);
  }

  standing(name: string, hash: string): Standing {
    const previous = this.#known.tools.get(name);
    if (previous === undefined) return { hash, status: 'new' };
    return previous.hash === hash ? { hash, status: 'known' } : { hash, status: 'changed', previous };
  }

  /** Why the tool is in no list; undefined: it is in, or was in none yet. */
  removed(name: string): string | undefined {
    return this.#changes.has(name) ? this.#changes.get(name) : this.#known.removed.get(name);
  }

  keep(name: string, description: string, { hash, status, previous }: Standing): void {
    if (this.removed(name) !== undefined) this.#changes.set(name, undefined);
    if (status !== 'known') this.#kept.set(name, { hash, description, base: previous?.hash });
  }

  remove(name: string, reason: string): void {
    if (this.removed(name) !== reason) this.#changes.set(name, reason);
  }

  save(): Promise<void> {
    this.#saving = this.#saving.catch(() => undefined).then(() => this.#save());
    return this.#saving;
  }

  async #save(): Promise<void> {
    if (this.#kept.size === 0 && this.#changes.size === 0) return;
    mkdirSync(path.dirname(this.#file), { recursive: true });
    await withLock(`${this.#file}.lock`, () => {
      const file = readPins(this.#file);
      const known = knownOf(file, this.#server);
      for (const [name, { base, ...pin }] of this.#kept)
        if (known.tools.get(name)?.hash === base) known.tools.set(name, pin);
      for (const [name, reason] of this.#changes)
        if (reason === undefined) known.removed.delete(name);
        else known.removed.set(name, reason);
      if (known.tools.size + known.removed.size > KEPT_MAX)
        throw new UserFacingError(
          `the server has had more than ${KEPT_MAX} tools. Delete ${this.#file} to begin again`,
        );
      const ours = { tools: Object.fromEntries(known.tools), removed: Object.fromEntries(known.removed) };
      const written = `${this.#file}.${process.pid}`;
      writeFileSync(written, `${exactJson({ servers: { ...file.servers, [this.#server]: ours } })}\n`, { flush: true });
      renameSync(written, this.#file);
      this.#known = known;
      this.#kept.clear();
      this.#changes.clear();
    });
  }
}

/** The hash of what a model reads of a tool, whatever the order of its keys. `tool`: its text. */
export function hashOfTool(tool: string): string {
  const read = parseExact(tool) as Record<string, unknown>;
  const said = exactJson(inOrder(Object.fromEntries(PINNED.map((key) => [key, read[key]]))));
  return createHash('sha256').update(said).digest('hex');
}

async function withLock(lock: string, work: () => void): Promise<void> {
  const until = Date.now() + LOCK_WAIT_MS;
  while (!isTaken(lock)) {
    if (Date.now() > until) throw new UserFacingError(`${lock} is held by another process. Delete it if there is none`);
    await sleep(LOCK_LOOK_MS);
  }
  try {
    work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function isTaken(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const { mtimeMs } = statSync(lock, { throwIfNoEntry: false }) ?? { mtimeMs: Number.NaN };
  if (Date.now() - mtimeMs > LOCK_STALE_MS) rmSync(lock, { force: true });
  return false;
}

function knownOf({ servers }: File, server: string): Known {
  const { tools = {}, removed = {} } = Object.hasOwn(servers, server) ? servers[server]! : {};
  return { tools: new Map(Object.entries(tools)), removed: new Map(Object.entries(removed)) };
}

function readPins(file: string): File {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { servers: {} };
    throw new UserFacingError(`${file} cannot be read: ${(error as Error).message}`);
  }
  const pins = pinsIn(text);
  if (pins === undefined)
    throw new UserFacingError(`${file} is not a file of pinned tools. Delete it to trust the tools as they are now`);
  return pins;
}

function pinsIn(text: string): File | undefined {
  try {
    const file = parseExact(text) as unknown as File;
    const isWhole = Object.values(file.servers).every(
      ({ tools, removed }) =>
        Object.values(tools).every(
          ({ hash, description }) => typeof hash === 'string' && typeof description === 'string',
        ) && Object.values(removed).every((reason) => typeof reason === 'string'),
    );
    return isWhole ? file : undefined;
  } catch {
    return undefined;
  }
}

/** With the keys of all objects in order: a server may list them in any. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inOrder);
  if (typeof value !== 'object' || value === null || value instanceof LongNumber) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, inOrder(item)]),
  );
}
