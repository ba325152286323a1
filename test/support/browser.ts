// A real browser for tests of the dashboard: Debian's chromium, driven by playwright-core. One browser a file, a
// context a test.
// Invariant: an error that the page reports fails the test: an error on its console, an uncaught error,
// a report of the content security policy, a request to another host, an answer of 500.
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { programOnPath } from './programs.ts';

const EXECUTABLE = programOnPath('chromium');
/** As a whole test file does without one. */
export const skip = EXECUTABLE === undefined ? 'there is no chromium on this machine' : false;

/** A name of the network that leads to this machine: over plain HTTP a browser trusts no page of it. */
export const NETWORK_NAME = 'gatehouse.test';

/**
 * Parts of a browser's own window that are pages, which no test sees: each context would start a renderer for them, and
 * take three times the processor time. The last switch of its name counts, so playwright's own list is in it.
 */
const OFF = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxFullPopup', 'WebUIOmniboxAimPopup', 'PreloadTopChromeWebUI', 'InitialWebUI'],
  ...['WebUIReloadButton', 'WebUIBackForwardButton', 'WebUIHomeButton', 'WebUIToolbar', 'WebUILocationBar'],
  ...['WebUISplitTabsButton', 'AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose'],
  ...['HttpsUpgrades', 'HttpsFirstBalancedModeAutoEnable', 'LensOverlay', 'MediaRouter', 'PaintHolding'],
  ...['ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect', 'OptimizationHints', 'AimEnabled'],
  ...['NetworkTimeServiceQuerying', 'PreconnectToSearch'],
];
/** The arguments of the browser: what sends requests by itself is switched off. */
const ARGUMENTS = [
  `--disable-features=${OFF.join()}`,
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
  `--host-resolver-rules=MAP ${NETWORK_NAME} 127.0.0.1`,
];
/** For what a busy machine does late; nothing waits for a time. */
const WAIT_MS = 60_000;

const CONTEXT: BrowserContextOptions = {
  ...{ viewport: { width: 1360, height: 860 }, locale: 'en-GB', timezoneId: 'Europe/Berlin', colorScheme: 'light' },
};

let running: Promise<Browser> | undefined;

function browser(): Promise<Browser> {
  if (running === undefined) {
    running = chromium.launch({ executablePath: EXECUTABLE!, args: ARGUMENTS });
    t.teardown(async () => (await running)?.close());
  }
  return running;
}

type Open = (options?: BrowserContextOptions) => Promise<{ page: Page; context: BrowserContext }>;
type Meant = {
  /** The complaints that the page may have: about calls that are meant to be refused. */
  mayFail?: RegExp;
};

/** A test with pages in contexts of their own; whatever one of them complained of fails it. */
export function browserTest(name: string, { mayFail }: Meant, run: (t: Test, open: Open) => Promise<void>): void {
  t.test(name, async (t) => {
    const contexts: BrowserContext[] = [];
    const faults: string[] = [];
    const note = (fault: string) => {
      if (mayFail?.test(fault) !== true) faults.push(fault);
    };
    try {
      await run(t, async (options = {}) => {
        const context = await (await browser()).newContext({ ...CONTEXT, ...options });
        contexts.push(context);
        context.setDefaultTimeout(WAIT_MS);
        context.on('page', (page) => watch(page, note));
        return { page: await context.newPage(), context };
      });
    } catch (error) {
      for (const context of contexts)
        for (const page of context.pages())
          t.comment(`${page.url()} shows\n${await page.locator('body').ariaSnapshot()}`);
      for (const fault of faults) t.comment(fault);
      throw error;
    } finally {
      for (const context of contexts) await context.close();
    }
    t.same(faults, [], 'the page has nothing to complain of');
  });
}

function watch(page: Page, note: (fault: string) => void): void {
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()))
      note(`console: ${message.text()} ${message.location().url ?? ''}`);
  });
  page.on('pageerror', (error) => note(`page: ${error.stack ?? error.message}`));
  page.on('request', (request) => {
    const { hostname, protocol } = new URL(request.url());
    if (protocol !== 'blob:' && !['127.0.0.1', 'localhost', NETWORK_NAME].includes(hostname))
      note(`request: ${request.url()}`);
  });
}

/**
 * Signs in by the link that `npm start` prints and one click, and waits until it is done. `screen`: where; '' is the
 * first one. Left out: events, from which most tests go on.
 */
export async function signIn(page: Page, service: { url: string; key: string }, screen = 'events'): Promise<void> {
  await page.goto(`${service.url}/ui/${screen}#key=${service.key}`);
  await page.getByRole('button', { name: /^Sign in to / }).click();
  await page.getByRole('navigation', { name: 'Screens' }).waitFor();
}
