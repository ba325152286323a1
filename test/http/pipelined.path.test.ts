// A second request on a connection before the first is answered, against the whole service: both are answered, or
// neither is recorded.
import t from 'tap';
import { Api } from '../support/api.ts';
import { RawConnection } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

for (const server of ['uws', 'node']) {
  t.test(`by ${server}`, async (t) => {
    const service = await startService(t, { env: { GATEHOUSE_HTTP_SERVER: server, GATEHOUSE_FRONTS: '1' } });
    const api = new Api(t, service);
    const { id } = (await api.post('/v1/agents', { name: 'hasty' })).json;
    const limited = {
      name: 'limit',
      type: 'rate_limit',
      conditions: { threshold: 1_000, window: '1m' },
      actions: ['block'],
    };
    const port = Number(new URL(service.url).port);
    const post = (path: string, body: string) =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const event = post(`/v1/agents/${id}/events`, '{"type":"prompt","payload":{"a":1}}');
    // What is not plain is parsed, and takes the other way.
    const odd = post(`/v1/agents/${id}/events/batch`, '[{"type":"prompt","payload":{"a":"\\u00e9"}},{"type":"no"}]');
    let [answered, sent] = [0, 0];
    for (const isCounted of [false, true]) {
      if (isCounted) await api.post('/v1/policies', limited);
      for (const text of [event.repeat(2), event.repeat(7), odd.repeat(2), `${odd}${event}`]) {
        const requests = text.split('POST ').length - 1;
        const connection = await RawConnection.open(port);
        connection.write(text);
        await connection.waitForAnswers(requests, 20_000);
        const { answers } = connection;
        t.ok(answers.length === 0 || answers.length === requests, `${answers.length} of ${requests} answered`);
        if (server === 'node') t.equal(answers.length, requests);
        answered += answers.length;
        sent += requests;
        connection.destroy();
      }
    }
    const { json } = await api.get(`/v1/agents/${id}/events?limit=1`);
    t.equal(json.total, answered, `recorded is what was answered, of ${sent} requests`);
  });
}
