// Pages that would pass 16 MiB: they end early, say so and go on, whatever is listed; exports hold every row.
import t from 'tap';
import { Api } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const EVENTS = 24;
const PAGE_BYTES_MAX = 16 * 1024 * 1024;

t.test('a list of what is large is answered in short pages, to its end', async (t) => {
  const service = await sharedService(t);
  const api = new Api(t, service);
  // Not held against the description: that takes seconds for each of these answers.
  const { json: agent } = await api.post('/v1/agents', { name: 'large' });
  const policy = { name: 'ask', type: 'require_approval', conditions: { type: 'tool_call' }, actions: 'block' };
  await api.post('/v1/policies', policy);
  const event = { type: 'tool_call', trace_id: 'run', payload: { text: 'x'.repeat(999_000) } };
  const send = () => api.post(`/v1/agents/${agent.id}/events/batch`, Array(8).fill(event));
  await api.until(send, ({ text }) => text.includes('"pending"'));
  for (let left = EVENTS / 8 - 1; left > 0; left--) await send();
  const { total } = (await api.get('/v1/events?limit=1')).json;

  /** All items, by cursor. */
  const walk = async (path: string, name: string) => {
    const items: { id: string }[] = [];
    let short = 0;
    for (let cursor = ''; ; ) {
      const answer = await api.get(`${path}${cursor === '' ? '' : `&cursor=${cursor}`}`);
      t.equal(answer.status, 200, path);
      t.ok(Buffer.byteLength(answer.text) <= PAGE_BYTES_MAX + 4_096, `${path}: ${answer.text.length} characters`);
      items.push(...answer.json[name]);
      const isShort = answer.headers.get('gatehouse-short-page') === 'true';
      if (isShort) short++;
      if (answer.json.next_cursor === null) {
        t.notOk(isShort, 'the last page is not short');
        break;
      }
      t.ok(isShort && answer.json[name].length > 0, `${answer.json[name].length} items, and more`);
      cursor = answer.json.next_cursor;
    }
    t.ok(short > 0, `${path}: ${short} short pages`);
    t.equal(new Set(items.map(({ id }) => id)).size, items.length, 'each once');
    return items;
  };
  t.equal((await walk(`/v1/agents/${agent.id}/events?limit=500`, 'items')).length, total);
  t.equal((await walk('/v1/events?limit=500', 'items')).length, total);
  t.equal((await walk('/v1/traces/run?limit=1000', 'events')).length, total);
  const approvals = (await walk('/v1/approvals?limit=500&expand=event', 'items')) as unknown as { event: object }[];
  t.ok(approvals.length >= EVENTS && approvals.every((one) => one.event !== null), 'approvals with their events');

  const small = await api.get('/v1/events?limit=500&payload=preview');
  t.equal(small.json.items.length, total);
  t.notOk(small.headers.has('gatehouse-short-page'));
  const offset = await api.get('/v1/events?limit=500&offset=5');
  t.equal(offset.headers.get('gatehouse-short-page'), 'true');
  const behind = await api.get(`/v1/events?limit=500&offset=${5 + offset.json.items.length}&payload=none`);
  t.equal(behind.json.items.length, total - 5 - offset.json.items.length, 'by offset: behind what was shown');

  for (const format of ['ndjson', 'csv']) {
    const response = await fetch(`${service.url}/v1/events/export?format=${format}`, {
      headers: { authorization: `Bearer ${service.key}` },
    });
    const text = await response.text();
    t.equal(text.trimEnd().split('\n').length, total + (format === 'csv' ? 1 : 0), `${format}: every row`);
  }

  const value = 'y'.repeat(2_000);
  for (let i = 0; i < 150; i++) {
    const metadata = Object.fromEntries(
      Array.from({ length: 30 }, (_, n) => [`k${n}`, `${i}${value}`.slice(0, 2_000)]),
    );
    t.equal((await api.patch(`/v1/agents/${agent.id}`, { metadata })).status, 200);
  }
  const stored = () => api.get('/v1/audit-logs?limit=1&action=agent.updated');
  await api.until(stored, ({ json }) => json.total === 150);
  const entries = await walk('/v1/audit-logs?limit=500&action=agent.updated', 'logs');
  t.equal(entries.length, 150, 'the audit log');
});
