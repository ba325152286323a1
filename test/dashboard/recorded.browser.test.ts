// What a person sees of recorded runs, in a real browser against one service, on a wide and a narrow screen, light and
// dark: the words that were asked, the tool's name, what it cost, what waits, what a draft would have matched.
// Beside the project lie the recordings; without them there is nothing to see, and the file says so.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import t from 'tap';
import { HttpClient } from '../../bench/http-client.ts';
import { replay } from '../../bench/replay.ts';
import { assetPath } from '../../src/process/assets.ts';
import { Api } from '../support/api.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

const [SPANS, SUPPORT] = ['openllmetry', 'tau-bench'].map((name) => assetPath(`../shared/data/${name}.ndjson`));
const LOOKS = [1280, 360].flatMap((width) =>
  (['light', 'dark'] as const).map((colorScheme) => ({ width, colorScheme })),
);
/** One run of SPANS: it is moved to now, since the first page is of today. */
const ASKED = "What's the weather in Paris?";
const [TOOL, MODEL] = ['get_weather', 'gpt-4.1-nano-2025-04-14'];
/** A tool of SUPPORT, and another by which it is seen that the policy holds. */
const [HELD_TOOL, PROBED_TOOL] = ['book_reservation', 'probe'];

async function recorded(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const probe = (await api.post('/v1/agents', { name: 'probe' })).json.id as string;
  await api.post('/v1/policies', {
    ...{ name: 'bookings need a person', type: 'require_approval', actions: ['block'] },
    conditions: { type: 'tool_call', tool: [HELD_TOOL, PROBED_TOOL], timeout: '6h' },
  });
  const { revision } = (
    await api.post('/v1/prices', { prices: [{ model: MODEL, input: '0.10 USD', output: '0.40 USD' }] })
  ).json;
  await api.until(
    () => api.post(`/v1/agents/${probe}/events`, { type: 'tool_call', payload: { tool: PROBED_TOOL } }),
    ({ json }) => json.policy_result.outcome === 'pending',
  );
  const said = { type: 'completion', payload: { model: MODEL, tokens_used: 0 }, timestamp: '2020-01-01T00:00:00Z' };
  await api.until(
    async () => api.get(`/v1/agents/${probe}/events/${(await api.post(`/v1/agents/${probe}/events`, said)).json.id}`),
    ({ json }) => json.price_revision === revision,
  );
  const run = await replayed(service);
  await api.get('/v1/events?limit=1');
  const agent = (await api.get(`/v1/traces/${run}`)).json.agents[0] as string;
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);

  for (const { width, colorScheme } of LOOKS) {
    const look = `${width} px, ${colorScheme}`;
    const options = { viewport: { width, height: 800 }, colorScheme };

    browserTest(`what was asked, which tool was called, and what it cost: ${look}`, {}, async (t, open) => {
      const { page } = await open(options);
      await signIn(page, service, '');
      const figure = page.locator('.figures > div', { hasText: 'Cost' });
      await figure.getByRole('link').waitFor();
      t.match(await told(figure), /\$0\.0*[1-9]/, 'the overview says what today has cost');

      await go(page, 'traces');
      const traces = page.getByRole('region', { name: 'Traces, newest first' });
      const line = traces.getByRole('link').filter({ hasText: ASKED });
      await line.first().waitFor();
      t.match(await told(line.first()), /\$0\.0*[1-9]/, 'and the trace');
      await line.first().click();
      const turns = page.getByRole('region', { name: 'Conversation' });
      await turns.getByRole('article', { name: '1. prompt' }).getByText(ASKED).waitFor();
      await turns.getByText(TOOL).first().waitFor();

      await go(page, `events?trace_id=${run}`);
      const events = page.getByRole('region', { name: 'Events, newest first' });
      await events.getByText(`${TOOL}(`).first().waitFor();
      await events.getByText(ASKED).first().waitFor();

      await go(page, `agent?id=${agent}`);
      await page.getByRole('heading', { name: 'svc-openai', level: 1 }).waitFor();
      const last = page.getByRole('link').filter({ hasText: ASKED }).first();
      await last.waitFor();
      t.match(await last.getAttribute('href'), run, 'the page of the agent leads to its trace');
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing is beside the page');
    });

    browserTest(`what waits, and what a draft would have matched: ${look}`, {}, async (t, open) => {
      const { page } = await open(options);
      await signIn(page, service, 'approvals');
      const inbox = page.getByRole('region', { name: 'Approvals', exact: true });
      await inbox.getByText(`${HELD_TOOL}(`).first().click();
      const side = page.getByRole('complementary', { name: 'What is to be decided' });
      await side.getByRole('region', { name: 'Payload' }).getByText(HELD_TOOL).first().waitFor();

      await go(page, 'policies?new=1');
      await page.getByRole('dialog').getByLabel('Value of condition 2').fill(TOOL);
      const preview = page.getByRole('region', { name: 'What it would have matched' });
      await preview.getByText(/Would have matched [1-9]\d* of the last [\d,]+ events/).waitFor();
      await preview.getByRole('link').filter({ hasText: TOOL }).first().waitFor();
      t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'nothing is beside the page');
    });
  }
}

/** Both recordings at their own times, and the one run as if it had ended now; answers its trace. */
async function replayed(service: { url: string; key: string }): Promise<string> {
  const lines = readFileSync(SPANS!, 'utf8').split('\n').filter(Boolean);
  const traceOf = (line: string) => (JSON.parse(line) as { trace_id: string }).trace_id;
  const run = traceOf(lines.find((line) => line.includes(JSON.stringify(ASKED)))!);
  const folder = t.testdir({});
  const write = (name: string, kept: string[]) => {
    writeFileSync(path.join(folder, name), kept.join('\n'));
    return path.join(folder, name);
  };
  const client = new HttpClient({ ...service, connections: 2 });
  t.teardown(() => client.close());
  const others = write(
    'others.ndjson',
    lines.filter((line) => traceOf(line) !== run),
  );
  await replay(client, [SUPPORT!, others]);
  await replay(
    client,
    [
      write(
        'run.ndjson',
        lines.filter((line) => traceOf(line) === run),
      ),
    ],
    { endMs: Date.now() },
  );
  return run;
}

const isThere = existsSync(SPANS!) && existsSync(SUPPORT!);
if (skip !== false) t.plan(0, skip);
else if (!isThere) t.plan(0, 'the recorded runs are not beside the project: ../shared/data');
else await recorded();
