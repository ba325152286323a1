// A trace as a conversation and as a tree, in a real browser against the whole service: who said what, what was blocked
// with its reason, history once, everything by keys, at 1280 and 360 pixels, light and dark, with hostile texts and
// 1 MiB, and with recorded runs where they are there.
import type { Page } from 'playwright-core';
import t from 'tap';
import { HttpClient } from '../../bench/http-client.ts';
import { recordedRuns, replay } from '../../bench/replay.ts';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { noLongTask } from '../support/long-tasks.ts';
import { told } from '../support/page-reading.ts';
import { sharedService } from '../support/shared-service.ts';

const WIDTHS = [
  { width: 1280, height: 800 },
  { width: 360, height: 740 },
];
const BEGAN = Date.parse('2026-11-20T10:00:00Z');

async function conversation(): Promise<void> {
  const service = await sharedService(t);
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'clerk' })).json.id as string;
  const go = async (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  /** `payload`: as text. */
  const send = async (trace: string, atMs: number, type: string, payload: string) => {
    const timestamp = new Date(BEGAN + atMs).toISOString();
    const head = JSON.stringify({ type, trace_id: trace, timestamp }).slice(0, -1);
    const sent = await api.post(`/v1/agents/${agent}/events`, `${head},"payload":${payload}}`);
    return sent.json.id as string;
  };
  const turns = (page: Page) => page.getByRole('region', { name: 'Conversation' });
  const turn = (page: Page, name: string) => turns(page).getByRole('article', { name });
  await api.post('/v1/policies', {
    ...{ name: 'no large payments', type: 'block_action', severity: 'high', actions: ['block'] },
    conditions: { type: 'tool_call', tool: 'send_money' },
  });
  await sendRun(send);
  await api.get('/v1/events?limit=1');

  for (const viewport of WIDTHS)
    browserTest(`it is read at ${viewport.width} px, light and dark`, {}, async (t, open) => {
      const { page } = await open({ viewport });
      await signIn(page, service);
      await go(page, 'trace?id=run');
      await turn(page, '3. tool_call').getByText('no large payments').waitFor();
      const blocked = await told(turn(page, '3. tool_call'));
      for (const said of ['blocked', 'no large payments', 'send_money', '/tool', '100.00'])
        t.ok(blocked.includes(said), `${said} in ${blocked}`);
      await axeInBothSchemes(t, page, 'conversation');
      const last = turn(page, '4. prompt');
      await last.scrollIntoViewIfNeeded();
      await last.getByRole('button', { name: '3 messages as before' }).waitFor();
      t.match(await told(last), /user And the balance\?/);
      for (let n = 1; n < 7; n++) await page.keyboard.press('j');
      await turn(page, '7. tool_call').locator('details.call').waitFor();
      t.pass('the same call again is a call, no history');
      const wide = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
      t.ok((wide as number) <= 0, 'nothing is wider than the page');
      await go(page, 'trace?id=run&view=tree');
      await page.getByText('5 rows, 4 of them in a tree.').waitFor();
      await axeInBothSchemes(t, page, 'tree');
    });

  browserTest('it is gone through by keys', {}, async (t, open) => {
    const { page, context } = await open({ viewport: WIDTHS[0]! });
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await signIn(page, service);
    await go(page, 'trace?id=run');
    await turn(page, '2. completion').getByText('transfer').waitFor();
    await page.keyboard.press('j');
    await hasFocus(page, '2. completion');
    const call = turn(page, '2. completion').locator('details.call');
    t.equal(await call.getAttribute('open'), null, 'folded');
    await page.keyboard.press('f');
    await call.getByRole('region', { name: 'Arguments' }).waitFor();
    t.match(await told(call), /"amount": 100\.00/, 'as it was sent');
    await page.keyboard.press('f');
    await call.getByRole('region', { name: 'Arguments' }).waitFor({ state: 'detached' });
    await page.keyboard.press('j');
    await page.keyboard.press('r');
    const raw = turn(page, '3. tool_call');
    await raw.getByRole('button', { name: 'Copy payload' }).click();
    await page.getByText('Copied').first().waitFor();
    t.equal(await page.evaluate('navigator.clipboard.readText()'), TOOL_CALL, 'to the character');
    await page.keyboard.press('k');
    await hasFocus(page, '2. completion');
    await page.keyboard.press('o');
    await page.getByRole('complementary', { name: 'Open event' }).waitFor();
    await page.waitForURL((url) => url.searchParams.has('event'));
    await page.keyboard.press('Escape');
    await page.waitForURL((url) => !url.searchParams.has('event'));
    await page.getByRole('button', { name: 'Tree' }).click();
    await page.waitForURL((url) => url.searchParams.get('view') === 'tree');
    await page.getByText('5 rows, 4 of them in a tree.').waitFor();
    const rows = page.getByRole('region', { name: 'Tree of the trace' });
    await page.keyboard.press('ArrowLeft');
    await rows.getByText('folded').waitFor();
    t.equal(await rows.getByRole('link').count(), 2, 'what is folded is not there');
    await page.keyboard.press('ArrowRight');
    await rows.getByRole('link').nth(4).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Open event' }).waitFor();
    await page.getByRole('button', { name: 'List' }).click();
    await page.getByRole('region', { name: 'Events of the trace, in order' }).getByRole('link').first().waitFor();
    await page.reload();
    await page.getByRole('region', { name: 'Events of the trace, in order' }).getByRole('link').first().waitFor();
    t.pass('the address has the view');
  });

  browserTest('what would act is text', {}, async (t, open) => {
    const text = [
      '[click](javascript:alert(1)) ![cat](https://elsewhere.test/p.png) <img src=x onerror=alert(1)>',
      '<script>alert(1)</script>',
      '<svg onload=alert(1)></svg>',
      '\u202etxt.exe',
    ].join('\n\n');
    await send('hostile', 0, 'prompt', JSON.stringify({ messages: [{ role: '<b>\u202euser', content: text }] }));
    await send('hostile', 1, 'custom', `{"matrix":${'['.repeat(50)}1.0${']'.repeat(50)}}`);
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    page.on('dialog', () => t.fail('a script ran'));
    await signIn(page, service);
    await go(page, 'trace?id=hostile');
    await turn(page, '1. prompt').getByText('(javascript:alert(1))').waitFor();
    const shown = await told(turn(page, '1. prompt'));
    for (const said of ['<script>alert(1)</script>', '<svg onload=alert(1)></svg>', 'U+202E', '<b>', 'elsewhere.test'])
      t.ok(shown.includes(said), said);
    t.equal(await turns(page).locator('img, svg, script, iframe, a[href*=":"]').count(), 0);
    await turn(page, '2. custom').getByText('matrix').waitFor();
    t.pass('what no form knows is shown as it is');
  });

  browserTest('a long answer is read to its end, and shortened again', {}, async (t, open) => {
    const paragraphs = Array.from({ length: 60 }, (_, n) => `Paragraph ${n} has **words** of its own to read.`);
    const text = paragraphs.join('\n\n');
    const line = `${'word '.repeat(5_999)}the end`;
    await send('long', 0, 'completion', JSON.stringify({ response: text }));
    await send('long', 1, 'completion', JSON.stringify({ response: line }));
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'trace?id=long');
    const answer = turn(page, '1. completion');
    const all = `Show all ${text.length.toLocaleString('en')} characters`;
    await answer.getByText('Paragraph 0').waitFor();
    t.equal(await answer.getByText('Paragraph 59').count(), 0, 'its beginning first');
    await answer.getByRole('button', { name: all }).click();
    await answer.getByText('Paragraph 59').waitFor();
    t.equal(await answer.locator('strong').count(), 60, 'as Markdown, all of it');
    await answer.getByRole('button', { name: 'Show less' }).click();
    await answer.getByText('Paragraph 59').waitFor({ state: 'detached' });
    const plain = turn(page, '2. completion');
    await plain.scrollIntoViewIfNeeded();
    await plain.getByRole('button', { name: 'Show 20,000 more characters' }).click();
    await plain.getByRole('button', { name: /^Show [\d,]+ more characters$/ }).click();
    await plain.getByText('the end').waitFor();
    t.equal(await plain.getByRole('button', { name: /^Show/ }).count(), 0, 'piece by piece, to its end');
  });

  browserTest('what was redacted stands in its place', { mayFail: /40[34]/ }, async (t, open) => {
    await api.post('/v1/policies', {
      ...{ name: 'addresses are kept out', type: 'data_filter', actions: ['log'] },
      conditions: { detectors: ['email'], redact: true },
    });
    const payload = '{"messages":[{"role":"user","content":"Write to ana@example.com, please."}]}';
    const kept = await api.until(
      async () => api.get(`/v1/agents/${agent}/events/${await send('redacted', 0, 'prompt', payload)}`),
      ({ json }) => !JSON.stringify(json.payload).includes('ana@'),
    );
    const said = kept.json.payload.messages[0].content as string;
    const { page } = await open();
    await signIn(page, service);
    await go(page, `trace?id=redacted&event=${kept.json.id}&of=${agent}`);
    const last = turns(page).getByRole('article').last();
    await last.getByText(said).waitFor();
    t.match(said, /^Write to .+, please\.$/, 'the words around it are there');
    const reason = /Redacted by addresses are kept out, which found email at \/messages\/0\/content/;
    await last.getByText('Redacted by').waitFor();
    t.match(await told(last), reason, 'which policy did it, why and where, without unfolding anything');
    await axeInBothSchemes(t, page, 'a redaction in a conversation');
    const id = kept.json.policy_result.matches[0].policy_id;
    await api.patch(`/v1/policies/${id}`, { conditions: { detectors: ['email'] } });
    await page.reload();
    await last.getByText('Redacted by').waitFor();
    t.match(await told(last), reason, 'as the revision that judged has it');
    const found = await api.until(
      async () => api.get(`/v1/agents/${agent}/events/${await send('found', 0, 'prompt', payload)}`),
      ({ json }) => JSON.stringify(json.payload).includes('ana@'),
    );
    await go(page, `trace?id=found&event=${found.json.id}&of=${agent}`);
    await last.getByText('A policy matched').click();
    await last.getByText('Found: email').waitFor();
    t.notMatch(await told(last), /[Rr]edacted/, 'what was found and left as it is');
    await api.delete(`/v1/policies/${id}`);
    const bound = await api.post('/v1/api-keys', { label: 'clerk', scope: 'read', agent_id: agent });
    const other = await open({ viewport: WIDTHS[1]! });
    await signIn(other.page, { ...service, key: bound.json.key });
    await go(other.page, 'trace?id=redacted');
    await turns(other.page).getByText('Redacted by').waitFor();
    t.match(await told(turns(other.page)), reason, 'also for who may not read the policy');
  });

  browserTest('a table or a list beyond measure is text', {}, async (t, open) => {
    const table = (rows: number) => `|a|b|\n|-|-|\n${Array.from({ length: rows }, (_, n) => `|${n}|x|`).join('\n')}`;
    const nested = (levels: number) =>
      Array.from({ length: levels }, (_, n) => `${'  '.repeat(n)}- level ${n}`).join('\n');
    const texts = [table(5), table(1_500), nested(5), nested(60), `${'- '.repeat(100_000)}deepest`];
    for (const [n, response] of texts.entries()) await send('measure', n, 'completion', JSON.stringify({ response }));
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'trace?id=measure');
    const drawn: number[][] = [];
    for (const [n, shown] of ['b', '|a|b|', 'level 4', '- level 2', '- - - - -'].entries()) {
      const one = turn(page, `${n + 1}. completion`);
      await one.scrollIntoViewIfNeeded();
      await one.getByText(shown).first().waitFor();
      drawn.push([await one.locator('table').count(), await one.locator('.message li').count()]);
    }
    t.same(
      drawn,
      [
        [1, 0],
        [0, 0],
        [0, 5],
        [0, 0],
        [0, 0],
      ],
      'what is small is drawn',
    );
    t.ok((await page.locator('.turn *').count()) < 1_000, 'the page is small');
  });

  browserTest('a MiB is read without holding the page', {}, async (t, open) => {
    const message = (n: number) => `{"role":"user","content":"number ${n} ${'word '.repeat(200)}"}`;
    const messages = Array.from({ length: 950 }, (_, n) => message(n)).join();
    await send('large', 0, 'prompt', `{"messages":[${messages}],"n":1.50}`);
    await api.get('/v1/events?limit=1');
    const { page } = await open();
    await signIn(page, service);
    await page.goto(`${service.url}/ui/trace?id=large`);
    await turn(page, '1. prompt').getByText('number 949').waitFor();
    t.match(await told(turn(page, '1. prompt')), /messages before these/);
    t.ok((await turn(page, '1. prompt').locator('.message').count()) <= 20, 'of 950 messages the last 20');
    t.ok((await page.locator('.turn *').count()) < 500, 'the page is small');
    await page.keyboard.press('r');
    await turn(page, '1. prompt').getByRole('region', { name: 'Payload' }).getByText('"messages"').waitFor();

    await noLongTask(t, page, async () => {
      await page.goto(`${service.url}/ui/trace?id=large`);
      await turn(page, '1. prompt').getByText('number 949').waitFor();
      await page.keyboard.press('r');
      await turn(page, '1. prompt').getByRole('region', { name: 'Payload' }).getByText('"messages"').waitFor();
    });
  });

  const runs = recordedRuns().filter((file) => /tau-bench|who-and-when/.test(file));
  browserTest('recorded runs are read', {}, async (t, open) => {
    if (runs.length === 0) return t.comment('there are none');
    const client = new HttpClient({ ...service, connections: 2 });
    t.teardown(() => client.close());
    await replay(client, runs);
    await api.get('/v1/events?limit=1');
    const traces = (await api.get('/v1/traces?limit=200')).json.items as { trace_id: string; event_count: number }[];
    const longest = traces.sort((a, b) => b.event_count - a.event_count)[0]!;
    const { page } = await open({ viewport: WIDTHS[1]! });
    await signIn(page, service);
    await go(page, `trace?id=${longest.trace_id}`);
    await turns(page).locator('.message').first().waitFor();
    for (let n = 1; n < longest.event_count; n++) {
      await page.keyboard.press('j');
      await turns(page)
        .locator(`article[aria-current][aria-label^="${n + 1}. "]`)
        .waitFor();
    }
    await turns(page).locator('article[aria-current] .message').first().waitFor();
    t.pass(`${longest.event_count} events, to the last`);
    await axeInBothSchemes(t, page, 'the end of a long run');
  });
}

const HISTORY = [
  { role: 'system', content: 'You are a bank.' },
  { role: 'user', content: 'Send 100 to Ana.' },
];
const TOOL_CALL =
  '{"tool":"send_money", "call_id":"c1","arguments":{"amount":100.00,"to":"Ana"},"duration_ms":700,"otel":{"span_id":"t","parent_span_id":"r"}}';

type Send = (trace: string, atMs: number, type: string, payload: string) => Promise<string>;

/** An agent's span with two calls of a model and a tool that is blocked. */
async function sendRun(send: Send): Promise<void> {
  const otel = (span: string) => ({ otel: { span_id: span, parent_span_id: 'r' } });
  const call = '[{"id":"c1","type":"function","function":{"name":"send_money","arguments":"{\\"amount\\":100.00}"}}]';
  const answer = `{"role":"assistant","content":"I will **transfer** it.","tool_calls":${call}}`;
  const history = JSON.stringify(HISTORY).slice(1, -1);
  const place = (span: string) => JSON.stringify(otel(span)).slice(1);
  await send('run', 0, 'prompt', `{"messages":[${history}],${place('m1')}`);
  await send('run', 900, 'completion', `{"model":"m","choices":[{"message":${answer}}],${place('m1')}`);
  await send('run', 1_000, 'tool_call', TOOL_CALL);
  const asked = '{"role":"user","content":"And the balance?"}';
  await send('run', 2_000, 'prompt', `{"messages":[${history},${answer},${asked}],${place('m2')}`);
  await send('run', 2_900, 'completion', `{"response":"${'It is 900. '.repeat(300)}",${place('m2')}`);
  await send('run', 3_000, 'custom', '{"kind":"agent","name":"clerk","duration_ms":1,"otel":{"span_id":"r"}}');
  await send('run', 3_100, 'tool_call', TOOL_CALL);
  await send('run', 3_200, 'custom', '{"anything":[1.0]}');
}

/** It is given with the next picture. */
async function hasFocus(page: Page, name: string): Promise<void> {
  await page.locator(`article:focus[aria-label="${name}"]`).waitFor();
}

if (skip !== false) t.plan(0, skip);
else await conversation();
