// Moves torn parts out of the embedded engine's way before it starts (called by data-directory.ts).
// A full disk or a power cut may leave a part whose marks or lists are files without a byte. The engine notices most of
// them, but loads one that has a damaged projection as well as an empty part, and then removes the parts that it was
// merged from (ClickHouse issue 116589).
// Invariant: a part of a merge or a mutation goes to `detached/broken-on-start_NAME`, where data-directory.ts asks
// whether its rows are in other parts. A part of a single insert goes to `detached/ignored_NAME`: no insert is answered
// before its part was synced and the disk had room (clickhouse-server.ts), so the rows are still where they came from.
// Failure: a folder that cannot be read is left to the engine.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { parsePartName } from './part-name.ts';

/**
 * The engine begins no part with less space free, in bytes. What it is writing below it may not be whole, although it
 * answers.
 */
export const EXHAUSTED_BYTES = 1024 ** 2;

const NEVER_EMPTY = /^(?:checksums\.txt|columns\.txt|count\.txt|.+\.c?mrk\d?)$/;

/** `enginePath`: the engine's own folder. Returns the folders that were moved. */
export function setAsideTornParts(enginePath: string): string[] {
  const moved: string[] = [];
  for (const table of tableFolders(path.join(enginePath, 'store'))) {
    for (const name of namesIn(table)) {
      const part = parsePartName(name);
      if (part === undefined || !isTorn(path.join(table, name))) continue;
      const to = path.join(table, 'detached', `${part.isSingleInsert ? 'ignored' : 'broken-on-start'}_${name}`);
      mkdirSync(path.dirname(to), { recursive: true });
      if (existsSync(to)) continue;
      renameSync(path.join(table, name), to);
      moved.push(to);
    }
  }
  return moved;
}

/** `store/abc/abcdef…` */
function tableFolders(store: string): string[] {
  return namesIn(store).flatMap((prefix) =>
    namesIn(path.join(store, prefix)).map((id) => path.join(store, prefix, id)),
  );
}

/**
 * Projections aside: the engine leaves out those that it cannot read. A part of which every row was deleted is whole
 * with marks of no byte: set aside, it would be taken for lost as soon as what it replaced has left the disk.
 */
function isTorn(part: string): boolean {
  const names = namesIn(part);
  if (names.includes('count.txt') && readFileSync(path.join(part, 'count.txt'), 'utf8') === '0') return false;
  return names.some((name) => NEVER_EMPTY.test(name) && statSync(path.join(part, name)).size === 0);
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
