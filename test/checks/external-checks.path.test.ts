// Policies of the type external_check on the path of events: the whole service and real services outside, good and bad.
// Each complaint about such calls elsewhere is a case, by its number in the name of the test: no deadline
// (agentgateway#2387), failing open unasked (agentgateway#1832), an audit mode that refuses, checks one after the other
// (litellm#33770), a skip recorded as success (litellm#35257), one dead service that stops all (litellm#19779), and an
// event that went ahead where its check was cut off.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { Api } from '../support/api.ts';
import { authorityFile } from '../support/certificate.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { BAD_JUDGES, startJudges } from '../support/judge-servers.ts';
import { pause } from '../support/raw-http.ts';
import { startService } from '../support/service.ts';

const MARGIN_MS = 5_000;
const held: (() => void)[] = [];
const judges = await startJudges(t, {
  ...BAD_JUDGES,
  held: (_request, response) => void held.push(() => response.end('{"match":false}')),
});
const service = await startService(t, {
  env: {
    GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${judges.port}`,
    NODE_EXTRA_CA_CERTS: await authorityFile(t),
    GATEHOUSE_BACKTESTS: '1',
  },
});
const api = await Api.described(t, service);
const agent = (await api.post('/v1/agents', { name: 'asked about', framework: 'custom' })).json.id as string;
const events = `/v1/agents/${agent}/events`;
const SAID = { on_timeout: 'match', on_error: 'match', on_overload: 'match' };
const askedAt = (path: string) => judges.received.filter((one) => one.path.startsWith(`/${path}`));

async function check(name: string, path: string, more: object = {}): Promise<string> {
  const body = { name, speaks: 'gatehouse', url: `${judges.url}/${path}`, timeout_ms: 3_000, ...more };
  const { status, json } = await api.post('/v1/checks', body);
  t.equal(status, 201, JSON.stringify(json));
  return json.id;
}

/** In force when it returns. */
async function policy(conditions: object, more: object = {}): Promise<string> {
  const body = { name: `p${Math.random()}`, type: 'external_check', actions: ['block'], conditions, ...more };
  const { status, json } = await api.post('/v1/policies', body);
  t.equal(status, 201, JSON.stringify(json));
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  return json.id;
}

const send = async (payload: object, more: object = {}) =>
  (await api.post(events, { type: 'prompt', payload, ...more })).json;
const stored = async (id: string) => (await api.get(`${events}/${id}`)).json.policy_result;

t.test('what a check finds blocks, and what it said is kept with the event', async (t) => {
  await check('guard', 'own');
  const id = await policy({ type: 'prompt', check: 'guard', fields: ['payload.text'], ...SAID });
  const evil = await send({ kind: 'plain', text: 'an evil plan', n: 1 });
  const detail = { check: 'guard', score: 1, labels: ['evil'], conditions: [{ condition: 'type', operator: 'eq' }] };
  t.match(evil.policy_result, { outcome: 'blocked', reason: 'policy', policy_id: id, matches: [{ detail }] });
  t.match(evil.policy_result.checks, [{ check: 'guard', fields: ['payload.text'], match: true, score: 1 }]);
  t.type(evil.policy_result.matches[0].detail.ms, 'number');
  const good = await send({ text: 'a good plan' });
  t.match(good.policy_result, {
    outcome: 'allowed',
    matches: [],
    checks: [{ check: 'guard', match: false, score: 0 }],
  });
  t.same(await stored(evil.id), evil.policy_result);
  t.same(await stored(good.id), good.policy_result);
  const sent = JSON.parse(askedAt('own')[0]!.body);
  t.match(sent, { texts: ['an evil plan'], policy: { id }, event: { agent_id: agent, payload: undefined } });
  const asked = askedAt('own').length;
  t.equal((await send({ other: 'an evil plan' })).policy_result.checks, undefined, 'there is no such text');
  t.equal((await api.post(events, { type: 'error', payload: { text: 'evil' } })).json.policy_result.outcome, 'allowed');
  t.equal(askedAt('own').length, asked, 'of other events nothing is sent');
  await api.delete(`/v1/policies/${id}`);
});

t.test('a check is deleted once no policy names it', async (t) => {
  const checkId = await check('named', 'own');
  const id = await policy({ check: 'named', ...SAID }, { status: 'inactive' });
  t.match(await api.delete(`/v1/checks/${checkId}`), { status: 409, json: { error: { code: 'check_in_use' } } });
  await api.delete(`/v1/policies/${id}`);
  t.equal((await api.delete(`/v1/checks/${checkId}`)).status, 204);
  const gone = await api.post('/v1/policies', {
    ...{ name: 'late', type: 'external_check', actions: ['block'], conditions: { check: 'named', ...SAID } },
  });
  t.match([gone.status, gone.json], [400, { error: { details: [{ path: '/conditions/check' }] } }]);
});

t.test('every word for every failure, in time and asked once: agentgateway#1832, litellm#35257', async (t) => {
  const failures = { timeout: 'silent', error: 'failing', overload: 'held' };
  for (const [failure, path] of Object.entries(failures)) {
    const name = `fails by ${failure}`;
    await check(name, path, { timeout_ms: failure === 'timeout' ? 200 : 5_000, at_once: 1 });
    for (const word of ['match', 'skip', 'pending']) {
      const conditions = { check: name, fields: ['payload.text'], ...SAID, [`on_${failure}`]: word };
      const id = await policy({ type: 'prompt', ...conditions });
      const first = failure === 'overload' ? send({ text: 'the one that takes the room' }) : undefined;
      while (failure === 'overload' && held.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      const startMs = performance.now();
      const { id: event, policy_result: result } = await send({ text: 'x' });
      t.ok(performance.now() - startMs < 200 + MARGIN_MS, `${failure} ${word}`);
      const outcome = { match: 'blocked', skip: 'allowed', pending: 'pending' }[word];
      t.equal(result.outcome, outcome, `${failure} ${word}`);
      t.match(result.checks, [{ check: name, reason: failure, match: undefined }], 'a skip is no success');
      if (word !== 'skip') t.match(result.matches, [{ policy_id: id, detail: { check: name, reason: failure } }]);
      if (word === 'pending') {
        t.match((await api.get(`/v1/approvals/${result.approval_id}`)).json, { status: 'pending', event_id: event });
      }
      t.match(await stored(event), { outcome, checks: [{ reason: failure }] });
      for (const answer of held.splice(0)) answer();
      await first;
      await api.delete(`/v1/policies/${id}`);
    }
  }
});

t.test('whatever a service does, the event is answered in time as the policy says: agentgateway#2387', async (t) => {
  for (const path of Object.keys(BAD_JUDGES)) {
    await check(`bad ${path}`, path, { timeout_ms: 500 });
    const id = await policy({ check: `bad ${path}`, ...SAID });
    const startMs = performance.now();
    const { policy_result: result } = await send({ text: 'x' });
    t.ok(performance.now() - startMs < 500 + MARGIN_MS, path);
    t.match(result, { outcome: 'blocked', checks: [{ reason: /^(timeout|error)$/ }] }, path);
    await api.delete(`/v1/policies/${id}`);
  }
});

t.test('a hook that waits less than its check takes gets the word of its connection, in time', async (t) => {
  await check('slower', 'held', { timeout_ms: 5_000 });
  const id = await policy({ type: 'prompt', check: 'slower', ...SAID });
  for (const word of ['deny', 'allow'] as const) {
    const secret = `whsec_${randomBytes(32).toString('base64')}`;
    const more = { agent_id: agent, on_failure: word, timeout_ms: 500 };
    const made = await api.post('/v1/connections', { name: `waits little, ${word}`, secrets: [secret], ...more });
    t.equal(made.status, 201, made.text);
    const sender = new InferenceSender(service, made.json.id, secret);
    const asked = await api.until(
      () => sender.send(promptOf(`s-slow-${word}`, [text('hello')])),
      () => held.length > 0,
    );
    t.match(asked, { status: 200, verdict: { action: word } });
    if (word === 'deny') t.match(asked.verdict.deny_reason, /could not be judged/, 'and not what the check would say');
    t.ok(held.length > 0, 'the service has not answered yet');
    for (const answer of held.splice(0)) answer();
    t.equal((await api.get(`/v1/traces/s-slow-${word}`)).status, 404, 'who has left is not recorded');
  }
  await api.delete(`/v1/policies/${id}`);
});

t.test('a block of its own ends it: nothing leaves; what filters find is redacted in what is sent', async (t) => {
  await check('order', 'own');
  const ids = [
    await policy({ check: 'order', ...SAID }),
    await policy({ 'payload.kind': 'forbidden' }, { type: 'block_action' }),
    await policy({ detectors: ['email'], redact: true }, { type: 'data_filter', actions: ['log'] }),
    await policy({ threshold: 1, window: '1m', 'payload.kind': 'limited' }, { type: 'rate_limit' }),
  ];
  judges.received.length = 0;
  t.equal((await send({ kind: 'forbidden', text: 'evil' })).policy_result.checks, undefined);
  t.equal(judges.received.length, 0, 'nothing was sent');
  await send({ kind: 'limited', text: 'first' });
  t.match((await send({ kind: 'limited', text: 'second' })).policy_result, { outcome: 'blocked', checks: undefined });
  await send({ text: 'write to jane.doe@example.com about it' });
  const bodies = judges.received.map(({ body }) => body).join('\n');
  t.notMatch(bodies, /jane|second/);
  t.match(bodies, /write to \[redacted:email\] about it/);
  for (const id of ids) await api.delete(`/v1/policies/${id}`);
});

t.test('what a check finds is redacted in what is kept, in its place, also where it says nothing', async (t) => {
  await check('redacts', 'presidio/analyze', { speaks: 'presidio' });
  const id = await policy(
    { type: 'prompt', check: 'redacts', fields: ['payload.text', 'payload.more'], redact: true, ...SAID },
    { actions: ['log'] },
  );
  const payload = { text: '\u{1f600} an evil plan', more: ['fine', 'an evil one'], kept: 'evil' };
  // Of two findings the judge names the first.
  const left = { text: '\u{1f600} an [redacted:check] plan', more: ['fine', 'an evil one'], kept: 'evil' };
  const one = await send(payload);
  t.match(one.policy_result, { outcome: 'allowed', matches: [{ policy_id: id, detail: { redacted: true } }] });
  t.same(one.redacted_payload, left);
  const stays = (event: string) => api.get(`${events}/${event}`).then(({ json }) => json.payload);
  t.same(await stays(one.id), left);
  const { json } = await api.post(`${events}/batch`, {
    events: [payload, { text: 'good' }, { text: `evil ${'x'.repeat(20)}` }].map((of) => ({
      type: 'prompt',
      payload: of,
    })),
  });
  t.same(
    json.results.map((result: { redacted_payload?: object }) => result.redacted_payload),
    [left, undefined, { text: `[redacted:check] ${'x'.repeat(20)}` }],
  );
  const large = await send({ text: 'an evil plan', filling: 'x'.repeat(600_000) });
  t.equal((await stays(large.id)).text, 'an [redacted:check] plan', 'from its thread');
  await api.patch(`/v1/checks/${(await api.get('/v1/checks?q=redacts')).json.items[0].id}`, {
    url: `${judges.url}/failing`,
  });
  const failed = await api.until(
    () => send(payload),
    ({ policy_result: { checks } }) => checks[0].reason === 'error',
  );
  const whole = { text: '[redacted:check]', more: ['[redacted:check]', '[redacted:check]'], kept: 'evil' };
  t.same(await stays(failed.id), whole);
  const headers = { 'Idempotency-Key': 'redacted once' };
  const twice = [1, 2].map(() => () => api.post(events, { type: 'prompt', payload }, { headers }));
  const first = await twice[0]!();
  t.equal((await twice[1]!()).text, first.text, 'a retry is answered alike');
  await api.delete(`/v1/policies/${id}`);
});

t.test(
  'policies that ask the same share a call, others ask at once, and a fourth finds no room: litellm#33770',
  async (t) => {
    await check('shared', 'own');
    const names = ['held one', 'held two'];
    for (const name of names) await check(name, 'held', { timeout_ms: 5_000 });
    const ids = [
      await policy({ check: 'shared', when: { score: { gte: 0.9 } }, ...SAID }, { actions: ['alert'] }),
      await policy({ check: 'shared', when: { labels: ['other'] }, ...SAID }),
      await policy({ check: 'shared', when: { score: { lt: 0.5 } }, ...SAID }),
      ...(await Promise.all(names.map((name) => policy({ check: name, ...SAID })))),
      await policy({ check: 'shared', fields: ['payload.text'], ...SAID }, { actions: ['alert'] }),
    ];
    judges.received.length = 0;
    const answer = send({ text: 'evil' });
    while (held.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    t.equal(judges.received.length, 3, 'all at once, the shared one once');
    for (const one of held.splice(0)) one();
    const { policy_result: result } = await answer;
    t.equal(result.outcome, 'allowed');
    t.same(
      result.matches.map((match: { policy_id: string; detail: { reason?: string } }) => [
        match.policy_id,
        match.detail.reason,
      ]),
      [
        [ids[0], undefined],
        [ids[5], 'overload'],
      ],
    );
    t.equal(result.checks.length, 4);
    for (const id of ids) await api.delete(`/v1/policies/${id}`);
  },
);

t.test('a batch asks about each event, and large events are asked about from their thread', async (t) => {
  await check('batch', 'own');
  const id = await policy({ check: 'batch', fields: ['payload.text'], ...SAID });
  judges.received.length = 0;
  const texts = Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? `evil ${i}` : `good ${i}`));
  const { json } = await api.post(`${events}/batch`, {
    events: texts.map((text) => ({ type: 'prompt', payload: { text } })),
  });
  const outcomes = json.results.map((one: { policy_result: { outcome: string } }) => one.policy_result.outcome);
  t.same(
    outcomes,
    texts.map((text) => (text.startsWith('evil') ? 'blocked' : 'allowed')),
  );
  t.equal(judges.received.length, 30);
  const large = { text: 'evil', filling: 'x'.repeat(600_000) };
  t.match((await send(large)).policy_result, { outcome: 'blocked', checks: [{ match: true }] });
  t.match((await send({ text: 'x'.repeat(70_000) })).policy_result, {
    ...{ outcome: 'blocked', matches: [{ detail: { reason: 'too_large' } }], checks: [{ reason: 'too_large' }] },
  });
  await api.delete(`/v1/policies/${id}`);
});

t.test('a retry under its key is answered as before, and nothing is asked again', async (t) => {
  await check('once', 'own');
  const id = await policy({ check: 'once', ...SAID });
  judges.received.length = 0;
  const headers = { 'Idempotency-Key': 'asked once' };
  const body = { type: 'prompt', payload: { text: 'evil' } };
  const [first, second] = [await api.post(events, body, { headers }), await api.post(events, body, { headers })];
  t.equal(second.text, first.text);
  t.equal(judges.received.length, 1);
  await api.delete(`/v1/policies/${id}`);
});

t.test('shadows, previews and backtests read what was said, and ask no one', async (t) => {
  await check('replayed', 'own');
  const fields = ['payload.text'];
  const inForce = await policy(
    { 'payload.kind': 'replayed', check: 'replayed', fields, ...SAID },
    { actions: ['log'] },
  );
  const strict = { 'payload.kind': 'replayed', check: 'replayed', fields, when: { score: { gte: 0.9 } }, ...SAID };
  const other = { 'payload.kind': 'replayed', check: 'replayed', fields: ['payload.other'], ...SAID };
  const shadow = await policy(strict, { mode: 'shadow' });
  const unknown = await policy(other, { mode: 'shadow' });
  judges.received.length = 0;
  const sent = [];
  for (const text of ['evil', 'good']) sent.push((await send({ kind: 'replayed', text, other: 'x' })).id);
  t.equal(judges.received.length, 2, 'by the policy in force alone');
  const said = await Promise.all(sent.map(async (id) => (await stored(id)).shadow));
  t.match(said[0], [
    { policy_id: shadow, would: 'blocked' },
    { policy_id: unknown, would: 'skipped' },
  ]);
  t.match(said[1], [{ policy_id: unknown, would: 'skipped' }]);
  const draft = (conditions: object) => ({ name: 'draft', type: 'external_check', actions: ['block'], conditions });
  const preview = await api.post('/v1/policies/preview', draft(strict));
  t.match(preview.json, { matched: 1, unknown: 0 });
  t.match((await api.post('/v1/policies/preview', draft(other))).json, { matched: 0, unknown: 2 });
  const from = new Date(Date.now() - 3_600_000).toISOString();
  const made = await api.post('/v1/backtests', { policy: draft(strict), from });
  t.equal(made.status, 202, JSON.stringify(made.json));
  let backtest = made.json;
  while (backtest.status === 'waiting' || backtest.status === 'running') {
    await new Promise((resolve) => setTimeout(resolve, 300));
    backtest = (await api.get(`/v1/backtests/${made.json.id}`)).json;
  }
  t.match(backtest, { status: 'done', result: { matched: 1 } });
  t.equal(judges.received.length, 2, 'no one was asked');
  for (const id of [inForce, shadow, unknown]) await api.delete(`/v1/policies/${id}`);
});

t.test('a step that a check may block yet is no `unless` for its own batch', async (t) => {
  await check('approves', 'own');
  const conditions = { type: 'tool_call', tool: 'approve', check: 'approves', fields: ['payload.note'], ...SAID };
  const asked = await policy(conditions);
  const paid = await policy(
    { type: 'tool_call', tool: 'pay', unless: { tool: 'approve' }, within: '1h' },
    { type: 'sequence' },
  );
  const call = (tool: string, note: string) => ({ type: 'tool_call', payload: { tool, note } });
  const sent = async (...batch: object[]) => {
    const { id } = (await api.post('/v1/agents', { name: `pays ${Math.random()}` })).json;
    const { results } = (await api.post(`/v1/agents/${id}/events/batch`, { events: batch })).json;
    const pays = async () => (await api.post(`/v1/agents/${id}/events`, call('pay', ''))).json.policy_result.outcome;
    return { outcomes: results.map((one: { policy_result: { outcome: string } }) => one.policy_result), pays };
  };
  // What occurred before the sequence was made is read first.
  const known = async () => (await sent(call('approve', 'good'))).pays();
  t.equal(await api.until(known, (outcome) => outcome === 'allowed'), 'allowed', 'approved before, and recorded');
  const evil = await sent(call('approve', 'evil'), call('pay', ''));
  t.match(evil.outcomes, [{ outcome: 'blocked' }, { outcome: 'blocked', matches: [{ type: 'sequence' }] }]);
  t.match(evil.outcomes[1].matches[0].detail, { reason: 'not_finished' });
  t.equal(await evil.pays(), 'blocked', 'and what was blocked was no approval');
  for (const id of [paid, asked]) await api.delete(`/v1/policies/${id}`);
});

t.test('a check that watches keeps no one waiting, and what it says is an event that its policy matches', async (t) => {
  await check('slow', 'held', { timeout_ms: 5_000 });
  const conditions = { type: 'prompt', check: 'slow', fields: ['payload.text'], mode: 'watch', ...SAID };
  const id = await policy(conditions, { actions: ['block', 'alert'] });
  const pays = await policy(
    {
      type: 'tool_call',
      tool: 'pay',
      after: [{ type: 'custom', 'payload.kind': 'check_verdict', 'payload.match': true }],
      within: '1h',
    },
    { type: 'sequence' },
  );
  const pay = async (trace_id: string) => (await send({ tool: 'pay' }, { type: 'tool_call', trace_id })).policy_result;
  await api.until(
    () => pay('known'),
    ({ matches }) => matches.length === 0,
  );
  const before = held.length;
  const asked = await send({ text: 'x' }, { trace_id: 'watched' });
  t.match(asked.policy_result, { outcome: 'allowed', matches: [], checks: undefined });
  while (held.length === before) await pause(5);
  t.match(await pay('watched'), { outcome: 'allowed' }, 'it has said nothing yet');
  for (const answer of held.splice(0)) answer();
  const verdicts = async () => (await api.get('/v1/events?trace_id=watched&type=custom')).json;
  const { items } = await api.until(verdicts, ({ total }) => total > 0);
  t.match(items, [
    {
      payload: {
        kind: 'check_verdict',
        event_id: asked.id,
        event_type: 'prompt',
        check: 'slow',
        match: false,
        policy_ids: [id],
      },
      policy_result: { outcome: 'allowed', matches: [], checks: [{ check: 'slow', match: false }] },
    },
  ]);
  await api.patch(`/v1/checks/${(await api.get('/v1/checks?q=slow')).json.items[0].id}`, { url: `${judges.url}/own` });
  const evil = await api.until(
    async () => {
      await send({ text: 'evil' }, { trace_id: 'watched' });
      await pause(300);
      return verdicts();
    },
    ({ items: all }) => all.some(({ payload }: { payload: { match?: boolean } }) => payload.match === true),
  );
  const [matched] = evil.items.filter(({ payload }: { payload: { match?: boolean } }) => payload.match === true);
  t.match(matched.policy_result, {
    outcome: 'allowed',
    matches: [{ policy_id: id, detail: { score: 1, labels: ['evil'] } }],
  });
  t.match(await pay('watched'), { outcome: 'blocked', policy_id: pays }, 'and a sequence can have it as a step');
  const large = { text: 'evil', filling: 'x'.repeat(600_000) };
  const sent = await send(large, { trace_id: 'watched from its thread' });
  const ofLarge = async () =>
    (await api.get(`/v1/events?trace_id=${encodeURIComponent('watched from its thread')}`)).json;
  const { items: two } = await api.until(ofLarge, ({ total }) => total === 2);
  t.same(
    two.map(({ payload }: { payload: { event_id?: string } }) => payload.event_id),
    [sent.id, undefined],
  );
  for (const one of [id, pays]) await api.delete(`/v1/policies/${one}`);
});

t.test(
  'a check that watches refuses nothing whatever the service does, and a dead one stops no other: litellm#19779',
  async (t) => {
    const ids = [];
    for (const path of ['silent', 'failing', 'closes']) {
      await check(`watched ${path}`, path, { timeout_ms: 500 });
      ids.push(await policy({ check: `watched ${path}`, type: 'prompt', mode: 'watch', ...SAID }));
    }
    await check('alive', 'own');
    ids.push(await policy({ check: 'alive', type: 'prompt', ...SAID }));
    const trace_id = 'audited';
    const alive = (match: boolean) => [{ check: 'alive', match }];
    t.match((await send({ text: 'good' }, { trace_id })).policy_result, { outcome: 'allowed', checks: alive(false) });
    const verdicts = async () => (await api.get(`/v1/events?trace_id=${trace_id}&type=custom`)).json;
    const { items } = await api.until(verdicts, ({ total }) => total === 3);
    const reasons = items.map(({ payload }: { payload: { check: string; reason: string } }) => payload.reason);
    t.same(reasons.sort(), ['error', 'error', 'timeout'], 'what they did not say is on record');
    for (let i = 0; i < 25; i++) await send({ text: 'good' });
    t.match((await send({ text: 'evil' })).policy_result, { outcome: 'blocked', checks: alive(true) });
    for (const id of ids) await api.delete(`/v1/policies/${id}`);
  },
);

t.test('with an agent all is erased that checks said about it', async (t) => {
  const leaver = (await api.post('/v1/agents', { name: 'leaver' })).json.id as string;
  await check('of leavers', 'own');
  const ids = [
    await policy({ type: 'prompt', check: 'of leavers', fields: ['payload.text'], ...SAID }),
    await policy({ type: 'prompt', check: 'of leavers', mode: 'watch', fields: ['payload.more'], ...SAID }),
  ];
  const payload = { text: 'good', more: 'evil' };
  await api.post(`/v1/agents/${leaver}/events`, { type: 'prompt', payload, trace_id: 'of the leaver' });
  const found = async () => (await api.get('/v1/events?trace_id=of%20the%20leaver')).json;
  const { items } = await api.until(found, ({ total }) => total === 2);
  t.match(items, [
    { payload: { kind: 'check_verdict', match: true } },
    { policy_result: { checks: [{ match: false }] } },
  ]);
  t.equal((await api.delete(`/v1/agents/${leaver}`)).status, 204);
  t.match(await api.until(found, ({ total }) => total === 0), { total: 0, items: [] });
  t.equal((await api.get('/v1/traces/of%20the%20leaver')).status, 404);
  const { json } = await api.get('/v1/checks?q=of%20leavers&activity=true');
  t.notMatch(JSON.stringify(json), leaver, 'what is kept of its calls names no one');
  for (const id of ids) await api.delete(`/v1/policies/${id}`);
});

t.test('people are told of a check that fails', async (t) => {
  await check('dead', 'failing');
  const id = await policy({ check: 'dead', ...SAID });
  const made = await api.post('/v1/alerts', {
    ...{ name: 'checks', trigger: 'check_failing', channel: 'webhook', target: `${judges.url}/told` },
  });
  t.equal(made.status, 201, made.text);
  for (let i = 0; i < 21; i++) await send({ text: 'x' });
  // Others fail in this file, too.
  const ofDead = ({ body }: { body: string }) => JSON.parse(body).data.signal.check.name === 'dead';
  const told = await api.until(
    async () => askedAt('told'),
    (all) => all.some(ofDead),
  );
  t.match(JSON.parse(told.find(ofDead)!.body), {
    ...{ type: 'check_failing', data: { signal: { agent_id: null }, event: undefined } },
  });
  await api.delete(`/v1/policies/${id}`);
});

t.test('a secret in the query of an address is not shown', async (t) => {
  const url = `${judges.url}/own?code=sesame`;
  const made = await api.post('/v1/checks', { name: 'with a query', speaks: 'gatehouse', url });
  t.equal(made.json.url, `${judges.url}/own?…`);
  const { id } = made.json;
  t.match(await api.patch(`/v1/checks/${id}`, { url: made.json.url }), { status: 400 });
  t.equal((await api.patch(`/v1/checks/${id}`, { url: `${url}2` })).status, 200);
  const { logs } = (await api.get('/v1/audit-logs?resource_type=check')).json;
  t.ok(logs.length > 1 && !JSON.stringify([logs, (await api.get('/v1/checks')).json]).includes('sesame'));
  await api.post(`/v1/checks/${id}/try`, { text: 'evil' });
  t.equal(askedAt('own?code=sesame2').length, 1, 'it is sent');
});

t.test('a check is tried', async (t) => {
  const id = await check('tried', 'presidio/analyze', { speaks: 'presidio' });
  t.match((await api.post(`/v1/checks/${id}/try`, { text: 'evil' })).json, {
    ...{ match: true, score: 0.85, labels: ['EVIL'], found: ['evil'], reason: null },
  });
  await api.patch(`/v1/checks/${id}`, { url: `${judges.url}/nonsense` });
  t.match((await api.post(`/v1/checks/${id}/try`, { text: 'evil' })).json, { match: null, reason: 'error' });
});

t.test('an evaluation says that it would be asked, and asks no one', async (t) => {
  await check('evaluated', 'own');
  const conditions = { type: 'prompt', check: 'evaluated', ...SAID };
  const id = await policy(conditions, { status: 'inactive' });
  judges.received.length = 0;
  const { status, json } = await api.post('/v1/policies/evaluate', {
    event: { agent_id: agent, type: 'prompt', payload: { text: 'evil' } },
    policies: [{ name: 'draft', type: 'external_check', actions: ['block'], conditions }],
  });
  t.equal(status, 200, JSON.stringify(json));
  t.match(json.judged, [{ result: 'asked' }]);
  t.equal(judges.received.length, 0);
  await api.delete(`/v1/policies/${id}`);
});

/** The event of `agent` waits for a check in the meantime, longer than a new policy takes to be in force. */
async function whileChecked<T>(of: string, event: object, meanwhile: () => Promise<T>): Promise<[string, T]> {
  const sent = api.post(`/v1/agents/${of}/events`, event);
  while (held.length === 0) await pause(5);
  const made = await meanwhile();
  await pause(3_900);
  for (const answer of held.splice(0)) answer();
  const { json } = await sent;
  t.equal(json.policy_result.outcome, 'allowed', JSON.stringify(json));
  return [json.id, made];
}

t.test(
  'a check whose secret and address change, or that is deleted, in the middle of a call ends that call as it began',
  async (t) => {
    const id = await check('in flight', 'held', { secret: 'before', timeout_ms: 5_000 });
    const conditions = { type: 'prompt', check: 'in flight', fields: ['payload.text'], ...SAID };
    const asks = await policy(conditions);
    /** An event waits for its check, something is done to the check, and then the service answers. */
    const meanwhile = async (change: () => Promise<unknown>) => {
      const began = held.length;
      const sent = send({ text: 'x' });
      while (held.length === began) await pause(5);
      await change();
      for (const answer of held.splice(0)) answer();
      return (await sent).policy_result;
    };
    judges.received.length = 0;
    const rotated = await meanwhile(() => api.patch(`/v1/checks/${id}`, { secret: 'after' }));
    t.match(rotated, { outcome: 'allowed', checks: [{ check: 'in flight', match: false }] });
    t.equal(judges.received.at(-1)!.headers.authorization, 'Bearer before');
    const secretSent = async () => {
      await meanwhile(async () => undefined);
      return judges.received.at(-1)!.headers.authorization;
    };
    t.equal(
      await api.until(secretSent, (header) => header === 'Bearer after'),
      'Bearer after',
      'the next one has the new',
    );
    t.match(
      await api.patch(`/v1/checks/${id}`, { url: `${judges.url}/own` }),
      { status: 400 },
      'and it stays where it is',
    );

    const deleted = await meanwhile(async () => {
      t.equal((await api.delete(`/v1/policies/${asks}`)).status, 204);
      t.equal((await api.delete(`/v1/checks/${id}`)).status, 204);
    });
    t.match(deleted, { outcome: 'allowed', checks: [{ check: 'in flight', match: false }] });
    const asked = judges.received.length;
    await api.until(
      () => send({ text: 'x' }),
      ({ policy_result: { checks } }) => checks === undefined,
    );
    t.equal(judges.received.length, asked, 'it is asked no more');
    // One of the same name is another one.
    await check('in flight', 'own', { secret: 'third' });
    const again = await policy(conditions);
    t.match((await send({ text: 'evil' })).policy_result, {
      outcome: 'blocked',
      policy_id: again,
      checks: [{ match: true }],
    });
    t.equal(judges.received.at(-1)!.headers.authorization, 'Bearer third');
    await api.delete(`/v1/policies/${again}`);
  },
);

t.test('a sequence that is made while an event waits for a check knows of it', async (t) => {
  const [busy, idle] = await Promise.all(
    ['read while checked', 'idle'].map(async (name) => (await api.post('/v1/agents', { name })).json.id as string),
  );
  await check('slow for sequences', 'held', { timeout_ms: 5_000 });
  const id = await policy({ check: 'slow for sequences', tool: 'read_late', ...SAID });
  const conditions = { tool: 'send_late', after: [{ tool: 'read_late' }], within: '1h' };
  const body = { name: 'sent late', type: 'sequence', actions: ['block'], conditions };
  const [event, made] = await whileChecked(busy!, { type: 'tool_call', payload: { tool: 'read_late' } }, () =>
    api.post('/v1/policies', body),
  );
  t.equal(made.status, 201, made.text);
  const sentBy = async (of: string) =>
    (await api.post(`/v1/agents/${of}/events`, { type: 'tool_call', payload: { tool: 'send_late' } })).json;
  await api.until(
    () => sentBy(idle!),
    ({ policy_result: { outcome } }) => outcome === 'allowed',
  );
  t.match(await sentBy(busy!), {
    policy_result: { outcome: 'blocked', matches: [{ detail: { after: [{ event_id: event }] } }] },
  });
  for (const one of [id, made.json.id]) await api.delete(`/v1/policies/${one}`);
});

t.test('a budget that is made while a completion waits for a check is charged for it', async () => {
  const busy = (await api.post('/v1/agents', { name: 'spends while checked' })).json.id as string;
  await check('slow for budgets', 'held', { timeout_ms: 5_000 });
  const id = await policy({ check: 'slow for budgets', type: 'completion', ...SAID });
  const payload = { model: 'm-1', usage: { prompt_tokens: 600, completion_tokens: 300 } };
  const conditions = { limit: { tokens: 1_000 }, window: '1h' };
  const body = { name: 'made late', type: 'budget', agent_id: busy, actions: ['block'], conditions };
  const [, made] = await whileChecked(busy, { type: 'completion', payload }, () => api.post('/v1/policies', body));
  await api.until(
    () => api.get(`/v1/budgets?policy_id=${made.json.id}`),
    ({ json }) => json.items[0]?.known === true && json.items[0].spent === 900,
  );
  for (const one of [id, made.json.id]) await api.delete(`/v1/policies/${one}`);
});

t.test('a front that is killed in the middle of a call has recorded and acknowledged nothing', async (t) => {
  await check('interrupted', 'held', { timeout_ms: 5_000 });
  const id = await policy({ check: 'interrupted', ...SAID });
  const trace = 'killed in mid-call';
  const sent = fetch(service.url + events, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'prompt', payload: { text: 'x' }, trace_id: trace }),
  }).then(
    ({ status }) => status,
    () => 'no answer',
  );
  while (held.length === 0) await pause(5);
  const front = (await service.children()).find(({ name }) => name.startsWith('front'));
  process.kill(front!.pid, 'SIGKILL');
  t.equal(await sent, 'no answer');
  held.splice(0);
  const isUp = () =>
    fetch(`${service.url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isUp())) await pause(100);
  await api.delete(`/v1/policies/${id}`);
  await pause(1_000);
  const after = await send({ text: 'x' }, { trace_id: trace });
  t.match((await api.get(`/v1/events?trace_id=${encodeURIComponent(trace)}`)).json, {
    ...{ total: 1, items: [{ id: after.id }] },
  });
});
