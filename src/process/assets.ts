// Finds files that are read at run time (SQL, Lua, package.json), from the sources as well as from the build.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder that holds package.json. */
export const PROJECT_ROOT = findRoot(path.dirname(fileURLToPath(import.meta.url)));

/** Absolute path of a file of the project, named from its root. */
export function assetPath(name: string): string {
  return path.join(PROJECT_ROOT, name);
}

export function readAsset(name: string): string {
  return readFileSync(assetPath(name), 'utf8');
}

function findRoot(from: string): string {
  for (let folder = from; ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) throw new Error(`no package.json above ${from}`);
  }
}
