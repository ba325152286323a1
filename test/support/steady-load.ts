// Events and changes that come in while something else is tried, and the ids of what is stored in the end: all that was
// acknowledged has to be among them, once.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import type { Test } from 'tap';
import { eventually } from '../streams/harness.ts';
import type { Api } from './api.ts';
import type { TestService } from './service.ts';

const BATCH = 100;
/** Batches at a given rate that are not answered yet. Where so many wait, fewer are sent. */
const OPEN_MAX = 16;
const CHANGED = 'changes';

/** Batches without end, and policies that are changed, until it is stopped. Knows what was acknowledged. */
export class Load {
  readonly acknowledged: string[] = [];
  readonly #api: Api;
  readonly #agent: string;
  readonly #perSecond: number;
  readonly #events = Array.from({ length: BATCH }, (_, n) => ({
    type: 'prompt',
    payload: { n, text: 'some words of a prompt' },
  }));
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();
  changes = 0;

  /** `perSecond`: events. */
  constructor(api: Api, agent: string, perSecond = 1_000) {
    this.#api = api;
    this.#agent = agent;
    this.#perSecond = perSecond;
  }

  start(): void {
    this.#running = Promise.all([this.#submit(), this.#change()]);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #submit(): Promise<void> {
    const open = new Set<Promise<void>>();
    const stepMs = (1000 * BATCH) / this.#perSecond;
    for (let nextMs = performance.now(); !this.#isOver; nextMs += stepMs) {
      await sleep(Math.max(0, nextMs - performance.now()));
      const sent: Promise<void> = this.#batch().finally(() => open.delete(sent));
      open.add(sent);
      if (open.size >= OPEN_MAX) {
        await Promise.race(open);
        nextMs = Math.max(nextMs, performance.now() - stepMs);
      }
    }
    await Promise.all(open);
  }

  async #batch(): Promise<void> {
    const { status, json } = await this.#api.post(`/v1/agents/${this.#agent}/events/batch`, { events: this.#events });
    if (status === 200) for (const { id } of json.results as { id: string }[]) this.acknowledged.push(id);
  }

  async #change(): Promise<void> {
    const policy = { type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
    const { json } = await this.#api.post('/v1/policies', { name: `${CHANGED} of ${this.#agent}`, ...policy });
    while (!this.#isOver) {
      const { status } = await this.#api.patch(`/v1/policies/${json.id}`, {
        conditions: { tool: `rm-${this.changes}` },
      });
      if (status === 200) this.changes++;
      await sleep(30);
    }
  }
}

/**
 * Nothing that was acknowledged is missing and nothing is there twice, once the pipelines have stored their streams.
 * Returns how many events are stored.
 */
export async function isStoredOnce(t: Test, service: TestService, acknowledged: readonly string[]): Promise<number> {
  const missingOf = (ids: readonly string[]) => {
    const known = new Set(ids);
    return acknowledged.filter((id) => !known.has(id));
  };
  await eventually(async () => missingOf(await storedIds(service)).length === 0);
  const ids = await storedIds(service);
  t.equal(new Set(ids).size, ids.length, 'nothing is there twice');
  const missing = missingOf(ids);
  t.same(missing.slice(0, 10), [], `${missing.length} of ${acknowledged.length} are missing`);
  return ids.length;
}

/** The policy that a `Load` changes shows the last of so many changes, or one that was not counted yet. */
export async function hasChanges(t: Test, api: Api, changes: number): Promise<void> {
  const { items } = (await api.get('/v1/policies')).json as { items: { name: string; conditions: { tool: string } }[] };
  const { tool } = items.find(({ name }) => name.startsWith(CHANGED))!.conditions;
  t.ok(Number(tool.slice('rm-'.length)) >= changes - 1, `${tool} after ${changes}`);
}

async function storedIds(service: TestService): Promise<string[]> {
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = createClient({ url, database });
  try {
    const result = await clickhouse.query({ query: 'SELECT id FROM events', format: 'JSONEachRow' });
    return (await result.json<{ id: string }>()).map(({ id }) => id);
  } finally {
    await clickhouse.close();
  }
}
