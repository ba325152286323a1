// What tests of the dashboard read and press in a page.
import type { Locator, Page } from 'playwright-core';

/** Its text in one line. */
export async function told(of: Locator): Promise<string> {
  return (await of.allInnerTexts()).join(' ').replace(/\s+/g, ' ').trim();
}

/** Presses Tab until what has this name has the focus. */
export async function tabTo(page: Page, name: string): Promise<void> {
  for (let n = 0; n < 200; n++) {
    const focused = await page.evaluate<string>(
      '(document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent ?? "").trim()',
    );
    if (focused === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not come to ${name}`);
}

/** The text of the conditions in the editor of a policy, before which its tab is chosen. */
export async function conditionsText(dialog: Locator): Promise<Locator> {
  await dialog.getByRole('tab', { name: 'JSON' }).click();
  return dialog.getByLabel('Conditions (JSON)');
}
