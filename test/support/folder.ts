// A folder for one test, that goes with it.
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';

/** `name`: a word in its name. */
export function folderOf(t: Pick<Test, 'teardown'>, name = 'test'): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), `gatehouse-${name}-`));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
