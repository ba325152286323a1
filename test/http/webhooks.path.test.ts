// What webhooks are really sent, against the description: a notification of each trigger and its test, out of the whole
// service, fits the form that the description's `webhooks` has for it, closed, with the headers that it names and a
// signature that verifies.

import { Webhook } from 'standardwebhooks';
import t, { type Test } from 'tap';
import { webhookBody } from '../../pipelines/alert/channels/webhook.ts';
import { TRIGGERS, type Trigger } from '../../schemas/closed-sets.ts';

import { mintId } from '../../src/common/ids.ts';
import { aNotification, aSignal } from '../pipelines/notification.ts';
import { type Answer, Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { type Received, startReceiver } from '../support/https-receiver.ts';
import { at, OpenApiChecker } from '../support/openapi.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const hook = await startReceiver(t);
const service = await startService(t, {
  env: { GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${hook.port}`, NODE_EXTRA_CA_CERTS: await authorityFile(t) },
});
const api = new Api(t, service);
const document = await api.describe();
const checker = new OpenApiChecker(document, { closed: true });

type Header = { name: string; in: string; schema: object };
const bodyOf = (trigger: Trigger) => `#/webhooks/${trigger}/post/requestBody/content/application~1json/schema`;
const isTest = ({ body }: Received) => JSON.parse(body).data.test === true;
const sentTo = (trigger: Trigger, test: boolean) =>
  hook.received.filter((one) => one.path === `/${trigger}` && isTest(one) === test);

function fits(t: Test, trigger: Trigger, body: unknown): void {
  const check = checker.schema(bodyOf(trigger));
  t.ok(check(body), `${trigger}: ${JSON.stringify(check.errors?.slice(0, 3))} ${JSON.stringify(body)}`);
}

t.test('each trigger sends what the description says', async (t) => {
  const secrets = new Map<Trigger, string>();
  for (const trigger of TRIGGERS) {
    const alert = { name: trigger, trigger, channel: 'webhook', target: `${hook.url}/${trigger}` };
    const { json } = await api.post('/v1/alerts', alert);
    secrets.set(trigger, json.secret);
    t.equal((await api.post(`/v1/alerts/${json.id}/test`, undefined)).status, 201);
  }
  const { json: agent } = await api.post('/v1/agents', { name: 'noisy', metadata: { heartbeat_seconds: '5' } });
  const policy = (name: string, type: string, conditions: object) =>
    api.post('/v1/policies', { name, type, conditions, actions: ['block', 'alert'] });
  await policy('no payments', 'block_action', { tool: 'pay' });
  await policy('not too often', 'rate_limit', { tool: 'look_up', threshold: 1, window: '1h' });
  const send = (tool: string) => () =>
    api.post(`/v1/agents/${agent.id}/events`, { type: 'tool_call', trace_id: 'run-1', payload: { tool } });
  for (const tool of ['pay', 'look_up']) {
    await api.untilOutcome('blocked', send(tool));
  }
  await policy('not too many', 'budget', { limit: { tokens: 10 }, window: '1h', warn_at: [0.5] });
  const call = (type: string, payload: object) => () => api.post(`/v1/agents/${agent.id}/events`, { type, payload });
  // Once it is known what was spent before.
  await api.until(
    call('prompt', { token_count: 11, max_tokens: 1 }),
    ({ json }) => json.policy_result.matches[0]?.detail.needed === 12,
  );
  await call('completion', { tokens_used: 6 })();
  // An answer without a verdict is an error.
  await api.post('/v1/checks', { name: 'dead', speaks: 'gatehouse', url: `${hook.url}/dead` });
  const [said, ask] = ['skip', { type: 'custom', check: 'dead' }];
  await policy('asked', 'external_check', { ...ask, on_timeout: said, on_error: said, on_overload: said });
  const isAsked = ({ json }: Answer) => json.policy_result.checks?.[0]?.reason === 'overload';
  await api.until(call('custom', { text: 'x' }), isAsked);
  // Then the agent falls silent.
  const deadline = performance.now() + 90_000;
  const isMissing = (trigger: Trigger) => sentTo(trigger, false).length === 0 || sentTo(trigger, true).length === 0;
  while (TRIGGERS.some(isMissing) && performance.now() < deadline) await pause(100);
  for (const trigger of TRIGGERS) {
    for (const test of [false, true]) {
      const [received] = sentTo(trigger, test);
      if (!t.ok(received, `${trigger} came${test ? ' as a test' : ''}`)) continue;
      fits(t, trigger, JSON.parse(received!.body));
      const { parameters } = at(document, `#/webhooks/${trigger}/post`) as { parameters: Header[] };
      t.same(
        parameters.map(({ name }) => name),
        ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
      );
      for (const { name, schema } of parameters) {
        t.ok(checker.schemaOf(schema)(received!.headers[name]), `${trigger}: ${name} ${received!.headers[name]}`);
      }
      const content = new Webhook(secrets.get(trigger)!).verify(
        received!.body,
        received!.headers as Record<string, string>,
      );
      t.match(content, { type: trigger });
    }
  }
  const wrong = JSON.parse(sentTo('agent_down', false)[0]!.body);
  t.notOk(checker.schema(bodyOf('policy_violation'))(wrong), 'the form of one trigger is not that of another');
  t.notOk(checker.schema(bodyOf('agent_down'))({ ...wrong, more: 1 }), 'nor is one with a field more');
});

t.test('what comes seldom fits as well', async (t) => {
  const { policies: _policies, event: _event, ...bare } = aSignal();
  const key = {
    ...bare,
    trigger: 'rate_limit_exceeded',
    agent: null,
    apiKey: { id: mintId('apiKey', bare.at) },
  } as const;
  fits(t, 'rate_limit_exceeded', JSON.parse(webhookBody(aNotification({ signal: key }))));
  const check = { id: mintId('check', bare.at), name: 'guard' };
  const failing = { ...bare, trigger: 'check_failing', agent: null, check } as const;
  fits(t, 'check_failing', JSON.parse(webhookBody(aNotification({ signal: failing }))));
  // The newest of a summary was of an agent that was deleted since.
  for (const trigger of TRIGGERS) {
    const signal = { ...bare, trigger, agent: null };
    fits(t, trigger, JSON.parse(webhookBody(aNotification({ signal, count: 7 }))));
  }
  const anomaly = { id: mintId('anomaly', bare.at), kind: 'error_rate', observed: 0.4, baseline: 0.01, score: 9.5 };
  const rate = { ...bare, trigger: 'anomaly_detected', anomaly } as const;
  fits(t, 'anomaly_detected', JSON.parse(webhookBody(aNotification({ signal: rate }))));
});
