// What a person sees is what is there, in a real browser against the whole service: long values whole, at any width, by
// pointer and by touch; characters that cannot be seen by their names, on every screen; numbers with all their digits;
// escapes as what they say, and as they were sent; phones and large zooms; a command that runs as it was copied. Things
// are found by role, label and text, and looked for where they are drawn.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import t from 'tap';
import { type Answer, Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { told } from '../support/page-reading.ts';
import { programEnvironment } from '../support/programs.ts';
import { startService } from '../support/service.ts';

const RLO = '\u202e';
const TURNED = `ops${RLO}tob-nimda`;
/** Draw nothing, or turn the order of others; none of them may be in what a page shows. */
const UNSEEN = String.raw`/[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]|[\u{e0001}-\u{e007f}]/u`;
const PHONES = [
  { width: 375, height: 740 },
  { width: 360, height: 740 },
  { width: 640, height: 360 },
  { width: 320, height: 256 },
];

async function seenAsItIs(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const agent = (await api.post('/v1/agents', { name: 'builder' })).json.id as string;
  const send: Send = (payload, more = {}, of = agent) => {
    const fields = JSON.stringify({ type: 'tool_call', ...more });
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    return api.post(`/v1/agents/${of}/events`, `${fields.slice(0, -1)},"payload":${text}}`);
  };
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);
  const stored = (id: string, of = agent) =>
    api.until(
      () => api.get(`/v1/agents/${of}/events/${id}`),
      ({ status }) => status === 200,
    );
  const openEvent = async (page: Page, id: string) => {
    await stored(id);
    await go(page, `event?agent_id=${agent}&id=${id}`);
    await payloadOf(page).locator('code').first().waitFor();
  };
  const hold = { type: 'require_approval', agent_id: agent, conditions: { tool: 'shell' }, actions: ['block'] };
  await api.post('/v1/policies', { name: 'a person looks', ...hold });
  const wait = async (payload: object) =>
    api.until(
      () => send({ tool: 'shell', ...payload }),
      ({ json }) => json.policy_result.outcome === 'pending',
    );

  browserTest('a value of any length can be seen whole, at any width', { mayFail: /503/ }, async (t, open) => {
    const command = `npm run build -- --mode production --out-dir /srv/www/site/releases/${'c'.repeat(12)}; rm -rf /srv/www`;
    const held = (await wait({ command })).json.policy_result.approval_id as string;
    const long = (characters: number) => `${'x'.repeat(characters - 10)}THE END ${characters}`.slice(-characters);
    const { id: several } = (await send({ a: long(120), b: long(300), c: long(3_000) })).json;
    const { id: one } = (await send({ value: long(263_000) })).json;
    for (const id of [several, one]) await stored(id);
    const expression = `event.payload.command.startsWith("${'a'.repeat(60)}") || event.payload.command.contains("${'b'.repeat(40)} the end")`;
    const policy = (
      await api.post('/v1/policies', {
        ...{ name: 'by expression', type: 'block_action', actions: ['log'] },
        conditions: { expression },
      })
    ).json.id;
    for (const { width, height, hasTouch } of [
      { width: 1024, height: 860, hasTouch: false },
      { width: 375, height: 740, hasTouch: true },
      { width: 320, height: 256, hasTouch: true },
    ]) {
      const { page } = await open({ viewport: { width, height }, hasTouch });
      await signIn(page, service);
      const at = `at ${width} px`;
      await go(page, `approvals?id=${held}`);
      await payloadOf(page).getByText('rm -rf').waitFor();
      t.ok(await canBeSeen(page, 'rm -rf /srv/www'), `the end of a command that is to be approved, ${at}`);
      await go(page, `policies?id=${policy}`);
      await payloadOf(page).getByText('expression').waitFor();
      t.ok(await canBeSeen(page, 'the end'), `the end of an expression, ${at}`);
      for (const [place, ends] of [
        [`event?agent_id=${agent}&id=${several}`, ['120', '300', '3000']],
        [`events?id=${several}&of=${agent}`, ['120', '300', '3000']],
        [`event?agent_id=${agent}&id=${one}`, ['263000']],
      ] as [string, string[]][]) {
        await go(page, place);
        await payloadOf(page)
          .getByText(`THE END ${ends.at(-1)}`)
          .waitFor();
        for (const end of ends) t.ok(await canBeSeen(page, `THE END ${end}`), `the end of ${end} characters, ${at}`);
        const button = page.getByRole('button', { name: /whole/ });
        await (hasTouch ? button.tap() : button.click());
        const whole = page.getByRole('region', { name: 'Whole value' });
        const more = whole.getByRole('button', { name: /^Show / });
        while ((await more.count()) > 0) await (hasTouch ? more.tap() : more.click());
        const [text] = /x+THE END \d+/.exec(await told(whole))!;
        t.equal(text.length, Number(ends.at(-1)), `and all of it, ${at}`);
      }
      await page.context().close();
    }
  });

  browserTest('characters that cannot be seen have names, on every screen', { mayFail: /503/ }, async (t, open) => {
    const places = await writeUnseen(api, send);
    const { page } = await open();
    await signIn(page, service);
    for (const [place, marks] of places) {
      await go(page, place);
      if (place.startsWith('audit'))
        await page.getByRole('region', { name: 'Entries, newest first' }).getByRole('link').first().click();
      await page.getByRole('main').getByText('U+202E').filter({ visible: true }).first().waitFor();
      // The last first: a menu opens over those behind it.
      for (const menu of (await page.getByRole('main').locator('summary').all()).reverse()) await menu.click();
      for (const mark of marks)
        await page.getByRole('main').getByText(mark).filter({ visible: true }).first().waitFor();
      t.same(await unseenOn(page), [], place);
    }
    await go(page, 'agents');
    await page.getByRole('button', { name: 'Switch off ops[U+202E]tob-nimda' }).click();
    await page.getByRole('dialog').getByRole('heading').getByText('U+202E').waitFor();
    t.same(await unseenOn(page), [], 'a dialog');
    await page.getByRole('dialog').getByRole('button', { name: 'Switch off' }).click();
    await page.getByRole('status').getByText('U+202E').waitFor();
    t.same(await unseenOn(page), [], 'what is announced');
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('ops');
    await page.getByRole('option').getByText('U+202E').first().waitFor();
    t.same(await unseenOn(page), [], 'the palette');
  });

  browserTest('what is stored is read in its order, and scripts stay right', {}, async (t, open) => {
    const command = `rm -rf /tmp/x ${RLO}tset-yrd--\u202c`;
    const texts = ['שלום עולם', 'مرحبا بالعالم', 'می‌خواهم', 'हिन्दी क्‍ष', '👨‍👩‍👧‍👦', '🏳️‍🌈', '1️⃣', '日本語'];
    const { id } = (await send({ command, to: `acme${RLO}EVIL-1234`, user: 'ad\u200bmin', hebrew: 'שלום!', texts }))
      .json;
    const { page } = await open();
    await signIn(page, service);
    await openEvent(page, id);
    const shown = await payloadOf(page).locator('code').allInnerTexts();
    t.match(shown.join('\n'), 'rm -rf /tmp/x U+202Etset-yrd--U+202C');
    t.match(shown.join('\n'), '"acmeU+202EEVIL-1234",');
    t.match(shown.join('\n'), '"adU+200Bmin"');
    for (const text of texts) t.ok(shown.join('\n').includes(text), text);
    const across = await page.evaluate<number[]>(
      `(${placesOf})(${JSON.stringify(['"command"', 'rm -rf', 'tset', 'yrd', ','])}, 'tset')`,
    );
    t.same(
      across,
      [...across].sort((a, b) => a - b),
      'from left to right as it is stored',
    );
    const around = await page.evaluate<number[]>(
      `(${placesOf})(${JSON.stringify(['"hebrew"', ': ', 'שלום', ','])}, 'שלום!')`,
    );
    t.same(
      around,
      [...around].sort((a, b) => a - b),
      'a right-to-left value moves nothing around it',
    );
  });

  browserTest('numbers keep their digits, in the audit log and in differences', {}, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service);
    const policy = async (name: string, before: string, after: string) => {
      const fields = `"name":"${name}","type":"block_action","actions":["log"]`;
      const made = await api.post('/v1/policies', `{${fields},"conditions":${before}}`);
      await api.patch(`/v1/policies/${made.json.id}`, `{"conditions":${after}}`);
      return made.json.id as string;
    };
    const exact = await policy(
      'exact',
      '{"payload.user_id":653247040368672769,"payload.rate":{"gt":1.0}}',
      '{"payload.user_id":653247040368672771,"payload.rate":{"gt":1.50}}',
    );
    await go(page, `audit?resource_id=${exact}&action=policy.updated`);
    await page.getByRole('region', { name: 'Entries, newest first' }).getByRole('link').first().click();
    await payloadOf(page).getByText('653247040368672771').waitFor();
    const shown = await told(payloadOf(page));
    for (const digits of ['653247040368672769', '653247040368672771', '1.5']) t.match(shown, digits);
    const { text } = await api.get(`/v1/audit-logs?resource_id=${exact}&action=policy.updated`);
    const copied = await copy(page, context, 'Copy details');
    t.ok(copied.length > 100 && text.includes(copied), 'and so does what is copied');
    const [old, now] = ['7'.repeat(70), '8'.repeat(71)];
    const long = await policy('long numbers', `{"payload.user_id":${old}}`, `{"payload.user_id":${now}}`);
    await go(page, `policies?id=${long}&tab=revisions`);
    const list = page.getByRole('list', { name: 'Revisions, newest first' });
    await list.getByText('Revision 2').waitFor();
    t.match(await told(list), `before: ${old} after: ${now}`);
  });

  browserTest('escapes are read as what they say, found so, and copied as they were sent', {}, async (t, open) => {
    const sent =
      '{"prompt":"\\u8bf7\\u67e5\\u8be2\\u8ba2\\u5355","name":"M\\u00fcller","note":"line one\\nsay \\"hi\\"","n":1.50,' +
      '"arguments":"{\\"amount\\": 5000.10, \\"to\\": \\"M\\\\u00fcller\\"}","city":"\u0130stanbul"}';
    const { id } = (await send(sent, { type: 'custom' })).json;
    const { page, context } = await open();
    await signIn(page, service);
    await page
      .getByRole('region', { name: 'Events, newest first' })
      .getByText(/Müller.*请查询订单/)
      .waitFor();
    await openEvent(page, id);
    const lines = async () => (await payloadOf(page).locator('code').allInnerTexts()).join('\n');
    for (const text of [
      '"请查询订单"',
      '"Müller"',
      'line one\nsay "hi"',
      '1.50',
      '"amount": 5000.10',
      '"to": "Müller"',
    ])
      t.ok((await lines()).includes(text), text);
    t.notMatch(await lines(), /\\/);
    const search = page.getByLabel('Search in the payload');
    for (const words of ['请查询', '\\u8bf7', 'Müller', 'say "hi"', '"amount": 5000', 'istanbul', '1.50']) {
      await search.fill(words);
      await page.getByText(words === 'Müller' ? '2 lines' : '1 line', { exact: true }).waitFor();
    }
    await search.fill('nothing of it');
    await page.getByText('0 lines').waitFor();
    t.equal(await copy(page, context, 'Copy payload'), sent);
    await page.getByRole('button', { name: 'As sent' }).click();
    await payloadOf(page).getByText('\\u8bf7').waitFor();
    for (const text of ['"M\\u00fcller"', '"line one\\nsay \\"hi\\""', '"{\\"amount\\": 5000.10'])
      t.ok((await lines()).includes(text), text);
    t.equal(await copy(page, context, 'Copy payload'), sent);
    await page.reload();
    await payloadOf(page).getByText('\\u8bf7').waitFor();
  });

  browserTest('a string with breaks of lines cannot pass for lines of the payload', {}, async (t, open) => {
    const { id } = (await send({ note: 'x",\n  "approved": true,\n  "by": "admin', n: 1 })).json;
    const { page } = await open();
    await signIn(page, service);
    await openEvent(page, id);
    t.equal(await payloadOf(page).locator('code').count(), 4, 'of two members are four lines');
    const [real, inside] = await page.evaluate<[number, number]>(
      `['"n"', '"approved"'].map((text) => (${placesOf})([text], text)[0])`,
    );
    t.ok(inside > real + 4, 'what it says stands further in');
  });

  browserTest('on a phone and at a large zoom every screen is one column', { mayFail: /503/ }, async (t, open) => {
    const name = `agent-${'w'.repeat(194)}`;
    const wide = (await api.post('/v1/agents', { name })).json.id as string;
    const { id } = (await send({ tool: 'look', note: 'the value of it' }, { trace_id: 't'.repeat(128) }, wide)).json;
    await stored(id, wide);
    await api.post('/v1/policies', {
      ...{ name: `policy-${'v'.repeat(190)}`, type: 'block_action', actions: ['log'], description: 'd'.repeat(500) },
      conditions: { 'payload.x': 'y'.repeat(300) },
    });
    await api.get('/v1/events?limit=1');
    for (const viewport of [...PHONES, { width: 1360, height: 860 }]) {
      const { page } = await open({ viewport, hasTouch: viewport.width < 1000 });
      const size = `${viewport.width}×${viewport.height}`;
      await signIn(page, service);
      for (const place of viewport.width < 360 || viewport.width === 375 ? screensOf(wide, id) : ['agents', 'events']) {
        await go(page, place);
        await page.getByRole('main').getByRole('heading').first().waitFor();
        await page.locator('main .waiting').first().waitFor({ state: 'detached' });
        const [scrolls, has] = await page.evaluate<[number, number]>(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        t.ok(scrolls <= has, `${place} ${size}: ${scrolls} of ${has} px`);
      }
      const navigation = await page.getByRole('navigation', { name: 'Screens' }).boundingBox();
      const across = viewport.width < 1000 ? navigation!.height : navigation!.width / 4;
      t.ok(across < 48, `one line of navigation, or one column: ${across} px, ${size}`);
      await page.getByRole('navigation').getByRole('link', { name: 'Settings' }).click();
      await page.getByRole('heading', { name: 'Settings' }).waitFor();

      await go(page, `events?id=${id}&of=${wide}`);
      await payloadOf(page).getByText('the value of it').waitFor();
      await page.getByRole('region', { name: 'Events, newest first' }).getByRole('link').first().waitFor();
      t.ok(await canBeSeen(page, 'the value of it'), `the payload of an open event, ${size}`);
      const apart = await page.evaluate<boolean>(`(() => {
        const [list, event] = ['[aria-label="Events, newest first"]', 'article[aria-label="Event"]'].map((one) =>
          document.querySelector(one).getBoundingClientRect());
        return list.bottom <= event.top || event.bottom <= list.top || list.right <= event.left;
      })()`);
      t.ok(apart, `the event lies over nothing, ${size}`);
      await payloadOf(page).scrollIntoViewIfNeeded();

      await go(page, 'agents');
      const off = page.getByRole('button', { name: `Switch off ${name}` });
      const box = (await off.boundingBox())!;
      t.ok(box.x >= 0 && box.x + box.width <= viewport.width, `the switch is on the page, ${size}`);
      await off.click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      if (viewport.width === 375)
        for (const place of ['agents', `events?id=${id}&of=${wide}`, 'approvals', 'policies']) {
          await go(page, place);
          await page.locator('main .waiting').first().waitFor({ state: 'detached' });
          await axeInBothSchemes(t, page, `${place} on a phone`);
        }
      await page.context().close();
    }
  });

  browserTest('a decision on a phone', { mayFail: /503/ }, async (t, open) => {
    const held = (await wait({ command: 'ls' })).json.policy_result.approval_id as string;
    const { page } = await open({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
    await signIn(page, service);
    await go(page, `approvals?id=${held}`);
    await page.getByRole('button', { name: /^Deny/ }).tap();
    await page.getByRole('button', { name: /^Yes, deny/ }).tap();
    await api.until(
      () => api.get(`/v1/approvals/${held}`),
      ({ json }) => json.status === 'denied',
    );
    t.pass('by touch');
  });

  browserTest('a command that was copied runs in bash as it is', {}, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service);
    const folder = mkdtempSync(path.join(os.tmpdir(), 'gatehouse-copied-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    for (const payload of [
      `{"long":"${'x'.repeat(200_000)}","n":1.50}`,
      `{"wide":"${'請'.repeat(45_000)}'"}`,
      `{"quotes":"${"it's "}\\"$HOME\\" \`id\` $(id) \\\\ !!","nul":"\\u0000","lines":"EOF\\nEOF",\n"n": 1.0}`,
    ]) {
      const { id } = (await send(payload, { type: 'custom', trace_id: "it's one" })).json;
      await openEvent(page, id);
      const script = path.join(folder, 'copied.sh');
      writeFileSync(script, await copy(page, context, 'Copy as curl'));
      const ran = spawnSync('bash', [script], { env: programEnvironment({ GATEHOUSE_KEY: service.key }) });
      t.equal(ran.status, 0, String(ran.stderr).slice(-300));
      const again = JSON.parse(String(ran.stdout)) as { id: string };
      const { text } = await stored(again.id);
      t.ok(text.includes(`"payload":${payload}`), `${payload.length} characters, sent again as they were`);
    }
  });

  browserTest('nothing is shown that says nothing, and nothing lies over anything', {}, async (t, open) => {
    await send({ tool: 'look' }, { trace_id: 'a-trace-of-one' });
    await api.post('/v1/agents', { name: `another ${'long name '.repeat(12)}`.trim() });
    const { page } = await open();
    await signIn(page, service);
    await go(page, 'traces?columns=id&columns=duration');
    const rows = page.getByRole('region', { name: 'Traces, newest first' });
    await rows.getByText('a-trace-of-one').waitFor();
    t.notMatch(await told(rows), /\b0 ms/);
    await rows.getByText('a-trace-of-one').click();
    await page.getByText('Began').waitFor();
    t.notMatch(await told(page.getByRole('main')), /not said|\b0 ms/);
    for (const width of [1360, 375]) {
      await page.setViewportSize({ width, height: 800 });
      await go(page, 'policies?new=1');
      const fields = page.getByRole('dialog').getByRole('combobox');
      await page.locator('dialog option[value*="long name"]').first().waitFor({ state: 'attached' });
      const boxes = (await Promise.all((await fields.all()).map((one) => one.boundingBox()))).filter(
        (box) => box !== null,
      );
      const over = boxes.flatMap((a, i) =>
        boxes
          .slice(i + 1)
          .filter((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height),
      );
      t.same(over, [], `no field lies over another at ${width} px`);
    }
  });
}

const screensOf = (agent: string, event: string): string[] => [
  ...['events', 'traces', 'agents', 'approvals', 'approvals?status=all', 'policies', 'anomalies', 'alerts'],
  ...['deliveries', 'audit', 'settings', `events?id=${event}&of=${agent}`, `event?id=${event}&agent_id=${agent}`],
  ...[`trace?id=${'t'.repeat(128)}&event=${event}&of=${agent}`, `events?agent_id=${agent}&by=type`],
];

const payloadOf = (page: Page) => page.getByRole('region', { name: 'Payload' });

async function copy(page: Page, context: BrowserContext, button: string): Promise<string> {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.evaluate("navigator.clipboard.writeText('')");
  await page.getByRole('button', { name: button }).click();
  for (;;) {
    const text = await page.evaluate<string>('navigator.clipboard.readText()');
    if (text !== '') return text;
  }
}

/** Is a text drawn where it can be read: not cut by what is around it, and inside of the window's width? */
function canBeSeen(page: Page, text: string): Promise<boolean> {
  return page.evaluate<boolean>(`(${canBeSeenHere})(${JSON.stringify(text)})`);
}

const canBeSeenHere = `(text) => {
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.lastIndexOf(text);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + text.length);
    const isInside = [...range.getClientRects()].every((rect) => {
      if (rect.left < 0 || rect.right > document.documentElement.clientWidth + 1) return false;
      let scrolls = false;
      for (let box = walker.currentNode.parentElement; box !== null; box = box.parentElement) {
        const { overflowX, overflowY, display } = getComputedStyle(box);
        const around = box.getBoundingClientRect();
        if (display === 'inline') continue;
        if (overflowX !== 'visible' && (rect.left < around.left - 1 || rect.right > around.right + 1)) return false;
        if (!scrolls && /hidden|clip/.test(overflowY) && (rect.top < around.top - 1 || rect.bottom > around.bottom + 1)) return false;
        scrolls ||= /auto|scroll/.test(overflowY);
      }
      return true;
    });
    if (isInside && range.getClientRects().length > 0) return true;
  }
  return false;
}`;

/** Where the beginnings of these texts are drawn, of the line that has \`within\`. */
const placesOf = `(texts, within) => {
  const line = [...document.querySelectorAll('[aria-label="Payload"] code')].find((one) => one.textContent.includes(within));
  return texts.map((text) => {
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    const at = text === ',' ? line.textContent.trimEnd().lastIndexOf(',') : line.textContent.indexOf(text);
    let from = at;
    const node = nodes.find((one) => from < one.length || ((from -= one.length), false));
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, from + 1);
    return range.getBoundingClientRect().left;
  });
}`;

/** Texts, tips, labels and titles of the page that hold what cannot be seen. */
function unseenOn(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const all = [document.title];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) all.push(walker.currentNode.data);
    for (const one of document.querySelectorAll('[title], [aria-label], [placeholder], [alt]'))
      for (const name of ['title', 'aria-label', 'placeholder', 'alt']) all.push(one.getAttribute(name) ?? '');
    return all.filter((text) => ${UNSEEN}.test(text));
  })()`);
}

type Send = (payload: object | string, more?: object, of?: string) => Promise<Answer>;

/** Into every field that a caller has a hand in; answers the screens, and what each must name. */
async function writeUnseen(api: Api, send: Send): Promise<[string, string[]][]> {
  const agent = (await api.post('/v1/agents', { name: TURNED })).json.id as string;
  const trace = `run-${RLO}1-\u200b2`;
  const payload = {
    command: `rm -rf /tmp/x ${RLO}tset-yrd--\u202c`,
    ...{ user: 'ad\u200bmin', tag: 'a\u{e0041}b', soft: 'pay\u00adpal', [`key${RLO}`]: '\u2066x\u2069' },
  };
  const held = {
    type: 'require_approval',
    agent_id: agent,
    conditions: { tool: 'shell' },
    actions: ['block', 'alert'],
  };
  const name = `watch${RLO}gnihton`;
  const policy = (await api.post('/v1/policies', { name, description: `for${RLO}nobody`, ...held })).json.id as string;
  await api.patch(`/v1/policies/${policy}`, { conditions: { tool: ['shell', `sh${RLO}`] } });
  await api.post('/v1/alerts', {
    ...{ name: `tell${RLO}eno`, trigger: 'policy_violation', channel: 'email', target: 'a@example.com' },
  });
  await api.post('/v1/api-keys', { label: `key${RLO}yek`, scope: 'read', agent_id: agent });
  const wait = async () =>
    (
      await api.until(
        () => send({ ...payload, tool: 'shell', model: `m${RLO}x` }, { trace_id: trace }, agent),
        ({ json }) => json.policy_result.outcome === 'pending',
      )
    ).json;
  const stop = { type: 'block_action', conditions: { tool: 'wipe' }, actions: ['block', 'alert'], severity: 'high' };
  await api.post('/v1/policies', { name: `stop${RLO}pots`, agent_id: agent, ...stop });
  await api.until(
    () => send({ tool: 'wipe' }, {}, agent),
    ({ json }) => json.policy_result.outcome === 'blocked',
  );
  const decided = await wait();
  await api.post(`/v1/approvals/${decided.policy_result.approval_id}`, { decision: 'deny', comment: `no${RLO}sey` });
  const open = await wait();
  const approval = open.policy_result.approval_id as string;
  await api.get('/v1/events?limit=1');
  for (const list of ['anomalies', 'deliveries'])
    await api.until(
      () => api.get(`/v1/${list}?limit=1`),
      ({ json }) => json.total > 0,
    );
  const all = ['U+200B', 'U+E0041', 'U+00AD', 'U+2066', 'U+2069', 'U+202C'];
  return [
    ['events', ['ops', 'U+202E']],
    ['events?by=model', ['U+202E']],
    [`event?agent_id=${agent}&id=${open.id}`, all],
    [`event?agent_id=${agent}&id=${open.id}&text=sent`, all],
    [`events?agent_id=${agent}&id=${open.id}&of=${agent}&trace_id=${encodeURIComponent(trace)}`, all],
    ['traces', ['U+200B']],
    [`trace?id=${encodeURIComponent(trace)}`, ['U+200B']],
    ['agents', []],
    ['agents?q=%E2%80%AEx', []],
    ['approvals', all],
    [`approvals?id=${approval}`, all],
    ['approvals?status=denied', ['sey']],
    ['policies', ['gnihton']],
    [`policies?id=${policy}`, ['nobody', 'sh']],
    [`policies?id=${policy}&tab=revisions`, ['sh']],
    ['anomalies', []],
    ['alerts', ['eno']],
    ['deliveries', ['eno']],
    [`audit?resource_id=${policy}`, ['sh']],
    ['settings', ['yek']],
  ];
}

if (skip !== false) t.plan(0, skip);
else await seenAsItIs();
