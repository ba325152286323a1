// The pages of external checks and of connections, in a real browser against the whole service, real judges by https
// and a product that signs its hooks: what a person sees, makes and tries, on a wide and a narrow screen, by keys too,
// for everyone.
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { axeInBothSchemes } from '../support/axe.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { authorityFile } from '../support/certificate.ts';
import { InferenceSender, promptOf, text } from '../support/inference-sender.ts';
import { BAD_JUDGES, startJudges } from '../support/judge-servers.ts';
import { tabTo, told } from '../support/page-reading.ts';
import { startService } from '../support/service.ts';

const WIDTHS = [1280, 360];
/** Ends as base64 with one sign of padding, as 32 bytes do. */
const SECRET = /whsec_[A-Za-z0-9+/]{43}=/;

async function fits(t: Test, page: Page, what: string): Promise<void> {
  const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
  t.ok(wide <= 0, `${what}: nothing is outside of the page (${wide} px)`);
  await axeInBothSchemes(t, page, what);
}

async function pagesOfBoth(): Promise<void> {
  const judges = await startJudges(t, BAD_JUDGES);
  const service = await startService(t, {
    env: { GATEHOUSE_EGRESS_ALLOWED_HOSTS: `localhost:${judges.port}`, NODE_EXTRA_CA_CERTS: await authorityFile(t) },
  });
  const api = new Api(t, service);
  const go = (page: Page, place: string) => page.goto(`${service.url}/ui/${place}`);

  for (const width of WIDTHS)
    browserTest(`a check is made, tried, changed and deleted, ${width} px`, { mayFail: /400/ }, async (t, open) => {
      const { page } = await open({ viewport: { width, height: 800 } });
      await signIn(page, service);
      await go(page, 'policies');
      await page.getByRole('link', { name: 'Checks' }).click();
      await page.getByRole('heading', { name: 'Checks', level: 1 }).waitFor();
      await page.getByText('A check is a service of yours that judges texts').waitFor();
      await fits(t, page, `no checks, ${width} px`);
      await tabTo(page, 'New check');
      await page.keyboard.press('Enter');
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('textbox', { name: /^Name/ }).fill('guard');
      await dialog.getByLabel('Speaks').selectOption('openai_chat');
      await dialog.getByRole('textbox', { name: /^Address/ }).fill(`${judges.url}/chat`);
      await dialog.getByRole('textbox', { name: /^Secret/ }).fill('hush');
      await dialog.getByRole('textbox', { name: /^Model/ }).fill('llama-guard3');
      await fits(t, page, `a new check, ${width} px`);
      await page.keyboard.press('Enter');
      const row = page.getByRole('row', { name: /guard/ });
      await row.waitFor();
      t.match(await told(row), /openai_chat .*not asked in 24 h .*1,000 ms are given/);

      await row.getByRole('button', { name: 'Try' }).click();
      await dialog.getByLabel('Text').fill('an evil plan');
      await dialog.getByRole('button', { name: 'Ask' }).click();
      await dialog.getByText(/It matches, as S1, S9; \d+ ms/).waitFor();
      await fits(t, page, `a check that was tried, ${width} px`);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await row.getByText(/^1, /).waitFor();
      await row.getByText(/95 % at most \d+ ms/).waitFor();

      await row.getByRole('button', { name: 'Change' }).click();
      t.equal(await dialog.getByRole('textbox', { name: /^Secret/ }).inputValue(), '', 'it is never shown');
      await dialog.getByRole('textbox', { name: /^Address/ }).fill('http://elsewhere');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.getByRole('alert').first().waitFor();
      await dialog.getByRole('textbox', { name: /^Address/ }).fill(`${judges.url}/failing`);
      await dialog.getByRole('textbox', { name: /^Secret/ }).fill('hush');
      await dialog.getByRole('spinbutton', { name: /^Milliseconds/ }).fill('700');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
      const [check] = (await api.get('/v1/checks')).json.items;
      t.match(check, { name: 'guard', timeout_ms: 700, secret_set: true, model: 'llama-guard3' });
      t.match(check.url, '/failing');

      for (let i = 0; i < 40; i++) await api.post(`/v1/checks/${check.id}/try`, { text: 'x' });
      await row.getByText('not asked now').waitFor();
      t.match(await told(row), /\d+ error/);
      await fits(t, page, `a check that fails, ${width} px`);
      await row.getByRole('button', { name: 'Delete' }).click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await page.getByText('No checks yet').waitFor();
    });

  for (const width of WIDTHS)
    browserTest(
      `a connection is made, its first request seen, its secret rotated, ${width} px`,
      {},
      async (t, open) => {
        const { page } = await open({ viewport: { width, height: 800 } });
        await signIn(page, service);
        await go(page, 'agents');
        await page.getByRole('link', { name: 'Connections' }).click();
        await page.getByText('A product that runs elsewhere').waitFor();
        await fits(t, page, `no connections, ${width} px`);
        await page.getByRole('button', { name: 'New connection' }).click();
        const dialog = page.getByRole('dialog');
        await dialog.getByRole('textbox', { name: /^Name/ }).fill(`assistant ${width}`);
        await dialog.getByLabel('Mode').selectOption('watch');
        await dialog.getByRole('combobox', { name: /^Secret/ }).selectOption({ label: 'make one here' });
        await fits(t, page, `a new connection, ${width} px`);
        await dialog.getByRole('button', { name: 'Create' }).click();
        await dialog.getByText('Waiting for its first request').waitFor();
        const shown = await told(dialog);
        const [first] = SECRET.exec(shown)!;
        const [made] = (await api.get('/v1/connections')).json.items;
        t.match(made, { name: `assistant ${width}`, mode: 'watch', secrets_set: 1, last_request_at: null });
        t.ok(shown.includes(`${service.url}/v1/hooks/inference/${made.id}`), 'its address');
        await fits(t, page, `a connection to join, ${width} px`);
        const sender = new InferenceSender(service, made.id, first!);
        const said = await sender.send(promptOf(`s-${width}`, [text('Where is my order?')]));
        t.match(said.verdict, { action: 'allow' });
        await dialog.getByText(/^It asked/).waitFor();
        t.ok(await dialog.getByRole('link', { name: 'Events' }).isVisible());
        await page.keyboard.press('Escape');
        const row = page.getByRole('row', { name: `assistant ${width}` });
        await row.getByText(/ago|just now/).waitFor();
        t.match(await told(row), /one for each application .*watch .*deny .*1 /);

        await row.getByRole('button', { name: 'Secrets' }).click();
        t.notMatch(await told(dialog), SECRET, 'it is shown once');
        await dialog.getByRole('combobox', { name: /^Secret/ }).selectOption({ label: 'make one here' });
        await dialog.getByRole('textbox', { name: /^The present secret/ }).fill(first!);
        await fits(t, page, `secrets, ${width} px`);
        await dialog.getByRole('button', { name: 'Set' }).click();
        await dialog.getByText('This secret signs them.').waitFor();
        const second = (await told(dialog)).match(SECRET)![0];
        t.not(second, first);
        await page.keyboard.press('Escape');
        const judged = async (secret: string) => {
          const { verdict } = await sender.send(promptOf(`t-${width}`, [text(`now ${secret}`)]), { secret });
          return verdict.deny_reason === undefined;
        };
        await api.until(
          async () => ({
            ...(await api.get('/v1/connections')),
            isBoth: (await judged(first!)) && (await judged(second)),
          }),
          ({ isBoth }) => isBoth,
        );
        await row.getByRole('button', { name: 'Change' }).click();
        await dialog.getByLabel('Mode').selectOption('enforce');
        await dialog.getByRole('button', { name: 'Save' }).click();
        await row.getByText('enforce').waitFor();
        await row.getByRole('button', { name: 'Switch off' }).click();
        await dialog.getByRole('button', { name: 'Switch off' }).click();
        await row.getByText('inactive').waitFor();
        await fits(t, page, `connections, ${width} px`);
        await row.getByRole('button', { name: 'Delete' }).click();
        await dialog.getByRole('button', { name: 'Delete' }).click();
        await row.waitFor({ state: 'detached' });
      },
    );

  browserTest('who may not configure sees both, and no button that would be refused', {}, async (t, open) => {
    await api.post('/v1/connections', { name: 'seen' });
    await api.post('/v1/checks', { name: 'seen', speaks: 'gatehouse', url: `${judges.url}/own` });
    const { key } = (await api.post('/v1/api-keys', { label: 'reads', scope: 'read' })).json;
    const { page } = await open();
    await signIn(page, { url: service.url, key });
    for (const screen of ['checks', 'connections']) {
      await go(page, screen);
      await page.getByRole('row', { name: /seen/ }).waitFor();
      const buttons = await page.getByRole('main').getByRole('button').allInnerTexts();
      t.same(buttons, screen === 'checks' ? [] : ['Address']);
    }
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').fill('conn');
    await page.getByRole('option', { name: /Connections/ }).waitFor();
  });
}

if (skip !== false) t.plan(0, skip);
else await pagesOfBoth();
