// The recorded agent runs of ../shared/data, all of them, through the whole service: every event recorded once, every
// payload read back token by token, and each policy of the demo matches exactly the events that it must.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { HttpClient } from '../bench/http-client.ts';
import { POLICIES, replay } from '../bench/replay.ts';
import { parseMarked } from '../src/ingest/json.ts';
import { assetPath } from '../src/process/assets.ts';
import { pause } from './support/raw-http.ts';
import { startService } from './support/service.ts';

const FOLDER = assetPath('../shared/data');
const PAGE = 500;
t.test(
  'recorded agent runs are judged and kept as they are',
  { skip: existsSync(FOLDER) ? false : '../shared/data is not here' },
  async (t) => {
    const service = await startService(t);
    const client = new HttpClient({ ...service, connections: 4 });
    t.teardown(() => client.close());
    for (const { name, type, conditions } of POLICIES) {
      // A dry run for all but the approvals, which must come out pending.
      await client.json('POST', '/v1/policies', {
        name,
        type,
        conditions,
        actions: type === 'require_approval' ? ['alert'] : ['log'],
      });
    }
    const probes = await untilInForce(client);
    const files = readdirSync(FOLDER).filter((name) => name.endsWith('.ndjson'));
    const result = await replay(
      client,
      files.map((name) => path.join(FOLDER, name)),
    );

    for (const { name, matches } of POLICIES)
      t.equal(result.matches.get(name) ?? 0, matches, `${name}: ${matches} matches`);
    t.equal(result.interrupted, 69, 'only the approvals interrupt');
    const listed = await completeList(client, '/v1/events?limit=1');
    t.equal(listed.total, result.events + probes, `${result.events} events are listed`);

    let same = 0;
    for (const [name, recorded] of result.recorded) {
      const kept = await payloadsOf(client, result.agents.get(name)!);
      t.equal(kept.size, recorded.length, `${name}: ${recorded.length} events`);
      for (const { id, payloadText } of recorded) if (kept.get(id) === payloadText) same++;
    }
    t.equal(same, result.events, 'every payload is read back as it was sent');
  },
);

/** Sends events that the last policy matches until it does; answers how many. */
async function untilInForce(client: HttpClient): Promise<number> {
  await pause(1_000); // every front, not only the one that answers
  const { id } = await client.json<{ id: string }>('POST', '/v1/agents', { name: 'probe' });
  const event = { type: 'completion', payload: { tokens_used: 5_001 } };
  for (let sent = 1; sent < 600; sent++) {
    const answer = await client.send('POST', `/v1/agents/${id}/events`, JSON.stringify(event));
    if (answer.body.includes(POLICIES.at(-1)!.name)) return sent;
    await pause(100);
  }
  throw new Error('the policies do not come into force');
}

/** A list that is behind says so; on a slow machine it may be for a while. */
async function completeList(client: HttpClient, path: string): Promise<{ total: number }> {
  for (;;) {
    const { status, body, headers } = await client.send('GET', path);
    if (status !== 200) throw new Error(`${status} ${body}`);
    if (headers['gatehouse-incomplete'] === undefined) return JSON.parse(body) as { total: number };
  }
}

/** Event id -> payload text, over all pages of the agent's list. */
async function payloadsOf(client: HttpClient, agent: string): Promise<Map<string, string>> {
  const kept = new Map<string, string>();
  for (let offset = 0; ; offset += PAGE) {
    const { status, body } = await client.send('GET', `/v1/agents/${agent}/events?limit=${PAGE}&offset=${offset}`);
    if (status !== 200) throw new Error(`${status} ${body}`);
    const { value, text, payloads } = parseMarked(Buffer.from(body), 'many');
    const { items } = value as { items: { id: string }[] };
    for (const [i, { id }] of items.entries()) kept.set(id, text.slice(...payloads[i]!));
    if (items.length < PAGE) return kept;
  }
}
