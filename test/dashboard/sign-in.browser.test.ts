// Who is signed in is a person's own choice, in a real browser against the whole service (docs/security.md: T8, T9):
// a link with a key asks first, and a cookie that another port of the host has written changes nothing.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { keyOfNewAccount } from '../support/accounts.ts';
import { Api } from '../support/api.ts';
import { browserTest, signIn, skip } from '../support/browser.ts';
import { startService } from '../support/service.ts';

async function signingIn(): Promise<void> {
  const service = await startService(t, { env: { GATEHOUSE_FRONTS: '1' } });
  const api = new Api(t, service);
  const theirs = await keyOfNewAccount(service, 'mallory');
  const link = (key: string) => `${service.url}/ui/#key=${key}`;
  const isIn = async (t: Test, page: Page, account: string, what: string) => {
    await page.getByRole('navigation', { name: 'Screens' }).waitFor();
    t.equal(await page.locator('.account').textContent(), account, what);
  };
  const sessions = async () => (await api.get('/v1/sessions?limit=100')).json.total;
  /** A link in a page of another site. */
  const lure = async (page: Page, key: string) => {
    await page.goto('about:blank');
    await page.goto(link(key));
  };

  browserTest('T8: a link with a key says whose account it is, and one Enter signs in', {}, async (t, open) => {
    const { page } = await open();
    const before = await sessions();
    await page.goto(link(service.key));
    const button = page.getByRole('button', { name: 'Sign in to default' });
    await button.waitFor();
    t.notMatch(page.url(), 'key=', 'the key is out of the address');
    t.match(await page.locator('main').textContent(), /account default \(acc_\w+\) with the key “.+” \(admin\)/);
    t.equal(await sessions(), before, 'nobody is signed in by it');
    t.same(await page.evaluate('Object.values(localStorage)'), [], 'and nothing is kept');
    await page.keyboard.press('Enter');
    await isIn(t, page, 'default', 'one Enter');

    const { page: other } = await open();
    await other.goto(link(theirs));
    await other.getByRole('button', { name: 'Do not sign in' }).click();
    await other.getByLabel('API key').waitFor();
    await other.reload();
    await other.getByLabel('API key').waitFor();
    t.pass('who says no is signed in to nothing');
  });

  browserTest('T8: no link replaces the session of a person without being asked', {}, async (t, open) => {
    const { page, context } = await open();
    await signIn(page, service);
    await lure(page, theirs);
    const stay = page.getByRole('button', { name: 'Stay in default' });
    await stay.waitFor();
    t.match(
      await page.locator('main').textContent(),
      /account mallory \(acc_\w+\).*signed in to the account default \(acc_\w+\)/,
    );
    await page.keyboard.press('Enter');
    await isIn(t, page, 'default', 'Enter stays');
    await page.reload();
    await isIn(t, page, 'default', 'and so does a reload');
    const second = await context.newPage();
    await second.goto(`${service.url}/ui/`);
    await isIn(t, second, 'default', 'in every tab');

    await page.evaluate(`location.hash = "#key=${theirs}"`);
    await page.getByRole('button', { name: 'Stay in default' }).waitFor();
    t.pass('the same in a page that is open');
    await page.reload();
    await isIn(t, page, 'default', 'no answer is no');

    await lure(page, service.key);
    await isIn(t, page, 'default', 'a key of the same account asks nothing');
    const { json: reader } = await api.post('/v1/api-keys', { label: 'reader', scope: 'read' });
    await lure(page, reader.key);
    await isIn(t, page, 'default', 'another key of it neither');
    await page.goto(`${service.url}/ui/settings`);
    await page.getByRole('heading', { name: 'API keys' }).waitFor();
    t.pass('and takes no rights away');

    await lure(page, theirs);
    await page.getByRole('button', { name: 'Sign in to mallory' }).click();
    await isIn(t, page, 'mallory', 'who wants to goes there');
    await second.getByLabel('API key').waitFor();
    t.equal(await second.getByRole('navigation').count(), 0, 'a tab of the account that was left stands still');
    await isIn(t, page, 'mallory', 'and ends nothing');
    await page.reload();
    await isIn(t, page, 'mallory', 'after a reload as well');
  });

  browserTest('T8: a link with a key of no use signs nobody out', { mayFail: /401/ }, async (t, open) => {
    const { page } = await open();
    await signIn(page, service);
    for (const key of ['gth_nothing', '%E0%A4%A', 'a%0Ab']) {
      await lure(page, key);
      await page.getByRole('alert').waitFor();
      await page.getByRole('button', { name: 'Stay in default' }).click();
      await isIn(t, page, 'default', key);
    }
    const { page: other } = await open();
    await lure(other, 'gth_nothing');
    await other.getByRole('alert').waitFor();
    await other.getByLabel('API key').waitFor();
  });

  browserTest('T9: a cookie that another port has written signs nobody in', { mayFail: /401/ }, async (t, open) => {
    const signedIn = await fetch(`${service.url}/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ key: theirs }),
    });
    const secret = /gatehouse=([^;]+)/.exec(signedIn.headers.get('set-cookie')!)![1]!;
    const cookies = [
      `gatehouse=${secret}; Path=/; SameSite=Strict`,
      `__Host-gatehouse=${secret}; Path=/; HttpOnly; SameSite=Strict; Secure`,
    ];
    const tossing = http.createServer((_req, res) => {
      res
        .writeHead(200, { 'Content-Type': 'text/html', 'Set-Cookie': cookies })
        .end('<link rel=icon href="data:,">tossed');
    });
    tossing.listen(0, '127.0.0.1');
    await once(tossing, 'listening');
    const elsewhere = `http://127.0.0.1:${(tossing.address() as AddressInfo).port}/`;
    try {
      const { page, context } = await open();
      await page.goto(elsewhere);
      t.equal((await context.cookies(service.url)).length, 2, 'the browser keeps them for this port, too');
      await page.goto(`${service.url}/ui/`);
      await page.getByLabel('API key').waitFor();
      await signIn(page, service);
      await page.goto(`${service.url}/ui/agents`);
      await isIn(t, page, 'default', 'who signs in is in the own account');
      const toss = await context.newPage();
      await toss.goto(elsewhere);
      await page.getByRole('link', { name: 'Policies' }).click();
      await page.getByLabel('API key').waitFor();
      t.pass('a page that is open notices it by its next call');
      await page.goto(`${service.url}/ui/agents`);
      await page.getByLabel('API key').waitFor();
      t.pass('and so does one that is opened');
    } finally {
      tossing.closeAllConnections();
      tossing.close();
    }
  });
}

if (skip !== false) t.plan(0, skip);
else await signingIn();
