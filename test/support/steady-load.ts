// Events and changes that come in while something else is tried, and the ids of what is stored in the end: all that was
// acknowledged has to be among them, once.
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from '@clickhouse/client';
import type { Api } from './api.ts';
import type { TestService } from './service.ts';

/** Batches without end, and policies that are changed, until it is stopped. Knows what was acknowledged. */
export class Load {
  readonly acknowledged: string[] = [];
  readonly #api: Api;
  readonly #agent: string;
  #isOver = false;
  #running: Promise<unknown> = Promise.resolve();
  changes = 0;

  constructor(api: Api, agent: string) {
    this.#api = api;
    this.#agent = agent;
  }

  start(): void {
    this.#running = Promise.all([this.#submit(), this.#submit(), this.#change()]);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #submit(): Promise<void> {
    const events = Array.from({ length: 100 }, (_, n) => ({
      type: 'prompt',
      payload: { n, text: 'some words of a prompt' },
    }));
    while (!this.#isOver) {
      const { status, json } = await this.#api.post(`/v1/agents/${this.#agent}/events/batch`, { events });
      if (status === 200) for (const { id } of json.results as { id: string }[]) this.acknowledged.push(id);
      await sleep(20);
    }
  }

  async #change(): Promise<void> {
    const policy = { type: 'block_action', conditions: { tool: 'rm' }, actions: ['block'] };
    const { json } = await this.#api.post('/v1/policies', { name: 'changes', ...policy });
    while (!this.#isOver) {
      const { status } = await this.#api.patch(`/v1/policies/${json.id}`, {
        conditions: { tool: `rm-${this.changes}` },
      });
      if (status === 200) this.changes++;
      await sleep(30);
    }
  }
}

export async function storedIds(service: TestService): Promise<string[]> {
  const { clickhouseUrl: url, clickhouseDatabase: database } = await service.addresses();
  const clickhouse = createClient({ url, database });
  try {
    const result = await clickhouse.query({ query: 'SELECT id FROM events', format: 'JSONEachRow' });
    return (await result.json<{ id: string }>()).map(({ id }) => id);
  } finally {
    await clickhouse.close();
  }
}
