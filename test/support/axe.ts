// axe-core in a page: what would keep a person from reading or using what it shows (WCAG 2.2 AA), light and dark.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = JSON.stringify(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']);

type Violation = { id: string; nodes: { html: string; failureSummary: string }[] };

export async function axe(t: Test, page: Page, what: string): Promise<void> {
  await page.evaluate(AXE);
  const found = await page.evaluate<Violation[]>(
    `axe.run(document, { runOnly: { type: 'tag', values: ${TAGS} } }).then(({ violations }) => violations)`,
  );
  const told = found.map(
    ({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 200)} ${nodes[0]!.failureSummary.slice(0, 300)}`,
  );
  t.same(told, [], what);
}

export async function axeInBothSchemes(t: Test, page: Page, what: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await axe(t, page, `${what}, ${colorScheme}`);
  }
  await page.emulateMedia({ colorScheme: 'light' });
}
