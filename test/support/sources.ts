// The project's files as text, for tests that hold its habits (tidy, naming).
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/process/assets.ts';

const NOT_OURS = new Set(['node_modules', 'build', 'dist', 'data', '.git', '.tap']);

/** Paths from the root, sorted. */
export function filesIn(folder: string, pattern: RegExp): string[] {
  const entries = readdirSync(path.join(PROJECT_ROOT, folder), { withFileTypes: true });
  const found = entries.flatMap((entry) => {
    const file = path.posix.join(folder, entry.name);
    if (entry.isDirectory()) return NOT_OURS.has(entry.name) ? [] : filesIn(file, pattern);
    return pattern.test(file) ? [file] : [];
  });
  return found.sort();
}

/** `file`: from the root. */
export function read(file: string): string {
  return readFileSync(path.join(PROJECT_ROOT, file), 'utf8');
}
